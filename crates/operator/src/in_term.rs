//! The term that a leader writes in.

use std::sync::Arc;

use rekindle_types::Term;
use rekindle_types::term::LEADER_TERM;

/// A term, and whether it still lasts as far as its leader knows.
#[derive(Clone)]
pub struct InTerm {
    term: Term,
    lasts: Arc<dyn Fn() -> bool + Send + Sync>,
}

impl InTerm {
    /// This term; `lasts` is asked before each write.
    pub fn new(term: Term, lasts: impl Fn() -> bool + Send + Sync + 'static) -> Self {
        Self { term, lasts: Arc::new(lasts) }
    }

    /// The path of a write with the term named in it; none when it does not last any more.
    pub(crate) fn named_in(&self, path: &str) -> Option<String> {
        let joint = if path.contains('?') { '&' } else { '?' };
        (self.lasts)().then(|| format!("{path}{joint}{LEADER_TERM}={}", self.term))
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicBool, Ordering};

    use super::*;

    #[test]
    fn a_write_names_its_term_as_long_as_it_lasts() {
        let lasts = Arc::new(AtomicBool::new(true));
        let asked = Arc::clone(&lasts);
        let term: Term = "ns/lease/uid/2".parse().expect("a term");
        let in_term = InTerm::new(term, move || asked.load(Ordering::Relaxed));
        let named = |path| in_term.named_in(path);
        assert_eq!(named("/api").as_deref(), Some("/api?leaderTerm=ns/lease/uid/2"));
        assert_eq!(named("/api?a=b").as_deref(), Some("/api?a=b&leaderTerm=ns/lease/uid/2"));
        lasts.store(false, Ordering::Relaxed);
        assert_eq!(named("/api"), None);
    }
}
