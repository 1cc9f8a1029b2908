//! What readers found in a value. A range leaves out objects that cannot have what is wanted, and
//! no reader looks for it in the same version twice.

use std::hash::{DefaultHasher, Hash, Hasher};

use crate::memo::Memo;

/// Bits that each term sets. With eight terms of an object one of 400 others passes by chance.
const BITS_PER_TERM: u32 = 4;
const WORD_BITS: u64 = u64::BITS as u64;

/// A set of terms as a Bloom filter: it may seem to have a term that it has not, never the other
/// way round. The store does not know what a term means.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TermFilter([u64; 2]);

impl TermFilter {
    /// Adds a term.
    pub fn insert(&mut self, term: &(impl Hash + ?Sized)) {
        let mut hasher = DefaultHasher::new();
        term.hash(&mut hasher);
        let mut hash = hasher.finish();
        for _ in 0..BITS_PER_TERM {
            let [low, high] = &mut self.0;
            let word = if hash & WORD_BITS == 0 { low } else { high };
            *word |= 1 << (hash % WORD_BITS);
            hash >>= 2 * WORD_BITS.ilog2();
        }
    }

    /// Whether it may have all terms of another set. If not, it lacks at least one.
    pub fn may_have_all(&self, wanted: &Self) -> bool {
        self.0.iter().zip(wanted.0).all(|(found, wanted)| found & wanted == wanted)
    }
}

/// The terms of one version of an object, as soon as a reader has looked.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct KnownTerms(Memo<TermFilter>);

impl KnownTerms {
    /// Remembers what is in the value. All readers have to find the same.
    pub fn learn(&self, terms: TermFilter) {
        let known = self.0.get_or_init(|| terms);
        debug_assert_eq!(*known, terms, "two readers find the same");
    }

    /// Whether the object may have all these terms. True as long as no reader has looked.
    pub fn may_have_all(&self, wanted: &TermFilter) -> bool {
        self.0.get().is_none_or(|known| known.may_have_all(wanted))
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn filter<T: Hash>(terms: &[T]) -> TermFilter {
        let mut filter = TermFilter::default();
        terms.iter().for_each(|term| filter.insert(term));
        filter
    }

    #[test]
    fn few_of_many_objects_pass_by_chance() {
        let wanted = filter(&[("app", "wanted")]);
        let passed = (0..10_000).filter(|object| {
            let labels: Vec<_> = (0..8).map(|label| (label, object)).collect();
            filter(&labels).may_have_all(&wanted)
        });
        let passed = passed.count();
        assert!(passed < 60, "{passed} of 10,000");
    }

    #[test]
    fn a_clone_has_to_be_looked_at_again() {
        let known = KnownTerms::default();
        let wanted = filter(&["b"]);
        assert!(known.may_have_all(&wanted), "it may, as long as it is not known");
        known.learn(filter(&["a"]));
        assert!(!known.may_have_all(&wanted));
        assert!(known.clone().may_have_all(&wanted));
    }

    proptest! {
        #[test]
        fn what_has_a_term_is_never_left_out(
            terms in prop::collection::vec(".{0,3}", 0..40),
            picked in prop::collection::vec(any::<prop::sample::Index>(), 0..4),
        ) {
            let wanted: Vec<_> = picked
                .iter()
                .filter(|_| !terms.is_empty())
                .map(|at| at.get(&terms))
                .collect();
            let known = KnownTerms::default();
            known.learn(filter(&terms));
            prop_assert!(known.may_have_all(&filter(&wanted)));
        }
    }
}
