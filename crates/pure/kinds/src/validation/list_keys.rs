//! The keys of a list's entries, to tell which come twice and which are there. A list may be as
//! long as a request allows, so that a search of it for each entry of another list, or of itself,
//! is never made: that would take a minute for one request.

use std::borrow::Borrow;
use std::collections::BTreeMap;

/// The keys of the entries of a list, each with the place where it stands first.
#[derive(Clone, Debug)]
pub struct ListKeys<K> {
    places: BTreeMap<K, usize>,
    entries: usize,
}

impl<K: Ord> ListKeys<K> {
    /// Of no entries.
    pub(crate) const fn new() -> Self {
        Self { places: BTreeMap::new(), entries: 0 }
    }

    /// Adds the key of the next entry. Gives the place of the first one that has the same key, if
    /// there is one.
    pub(crate) fn add(&mut self, key: K) -> Option<usize> {
        steps::count(1);
        let place = self.entries;
        self.entries += 1;
        let first = *self.places.entry(key).or_insert(place);
        (first != place).then_some(first)
    }

    /// The place of the first entry with this key.
    pub fn place<Q: Ord + ?Sized>(&self, key: &Q) -> Option<usize>
    where
        K: Borrow<Q>,
    {
        steps::count(1);
        self.places.get(key).copied()
    }

    /// Whether an entry has this key.
    pub fn has<Q: Ord + ?Sized>(&self, key: &Q) -> bool
    where
        K: Borrow<Q>,
    {
        self.place(key).is_some()
    }

    /// The keys in their order, each once.
    pub(crate) fn keys(&self) -> impl Iterator<Item = &K> {
        self.places.keys()
    }
}

impl<K: Ord> FromIterator<K> for ListKeys<K> {
    fn from_iter<I: IntoIterator<Item = K>>(keys: I) -> Self {
        let mut list = Self::new();
        for key in keys {
            list.add(key);
        }
        list
    }
}

/// How many keys were added and looked up: the work of the checks, which tests bound (ADR 0041).
pub(crate) mod steps {
    #[cfg(test)]
    std::thread_local! {
        static TAKEN: std::cell::Cell<u64> = const { std::cell::Cell::new(0) };
    }

    /// Notes steps that a check takes.
    #[cfg(test)]
    pub(crate) fn count(steps: u64) {
        TAKEN.set(TAKEN.get() + steps);
    }

    /// Notes nothing outside of tests.
    #[cfg(not(test))]
    pub(crate) const fn count(_steps: u64) {}

    /// The steps that this thread has taken so far.
    #[cfg(test)]
    pub(crate) fn taken() -> u64 {
        TAKEN.get()
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn keys_are_found_where_a_search_finds_them(list in proptest::collection::vec(0..6, 0..12)) {
            let mut keys = ListKeys::new();
            for (index, key) in list.iter().enumerate() {
                let first = list[..index].iter().position(|earlier| earlier == key);
                prop_assert_eq!(keys.add(*key), first);
            }
            for key in 0..6 {
                prop_assert_eq!(keys.place(&key), list.iter().position(|own| *own == key));
            }
        }
    }
}
