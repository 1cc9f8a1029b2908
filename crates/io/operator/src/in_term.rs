//! The term that a leader writes in.

use std::sync::Arc;

use rekindle_types::Term;

/// A term, and whether it still lasts as far as its leader knows.
#[derive(Clone)]
pub(crate) struct LeaderTerm {
    term: Term,
    lasts: Arc<dyn Fn() -> bool + Send + Sync>,
}

impl LeaderTerm {
    /// This term; `lasts` is asked before each write.
    pub(crate) fn new(term: Term, lasts: impl Fn() -> bool + Send + Sync + 'static) -> Self {
        Self { term, lasts: Arc::new(lasts) }
    }

    /// The term.
    pub(crate) fn term(&self) -> &Term {
        &self.term
    }

    /// False when it may be over, as far as its leader knows.
    pub(crate) fn lasts(&self) -> bool {
        (self.lasts)()
    }
}
