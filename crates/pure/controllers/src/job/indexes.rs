//! Sets of completion indexes as a status shows them: `1,3-5,7`.
//!
//! Source: API reference, `JobStatus.completedIndexes`: decimal numbers in order; three or more in
//! a row are written as the first and the last with a hyphen between.

use std::collections::BTreeMap;
use std::fmt;

/// A set of indexes. It is kept as its runs, never one by one: a user's twelve letters can name two
/// thousand million.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct IndexSet {
    /// The first of each run and its last; between two runs one is missing at least.
    runs: BTreeMap<u32, u32>,
}

impl IndexSet {
    /// The indexes in the text that are below `end`. What is no number is left out: only this
    /// controller writes the field of the status, and that of a rule is validated.
    pub(super) fn parse(text: &str, end: u32) -> Self {
        let mut indexes = Self::default();
        let Some(highest) = end.checked_sub(1) else { return indexes };
        for part in text.split(',') {
            let (first, last) = part.split_once('-').unwrap_or((part, part));
            if let (Ok(first), Ok(last)) = (first.parse::<u32>(), last.parse::<u32>()) {
                indexes.insert_run(first, last.min(highest));
            }
        }
        indexes
    }

    /// Adds one.
    pub(super) fn insert(&mut self, index: u32) {
        self.insert_run(index, index);
    }

    /// Adds all of another set.
    pub(super) fn insert_all(&mut self, others: &Self) {
        others.runs.iter().for_each(|(first, last)| self.insert_run(*first, *last));
    }

    fn insert_run(&mut self, mut first: u32, mut last: u32) {
        if first > last {
            return;
        }
        while let Some((&other_first, &other_last)) =
            self.runs.range(..=last.saturating_add(1)).next_back()
        {
            if other_last.saturating_add(1) < first {
                break;
            }
            self.runs.remove(&other_first);
            first = first.min(other_first);
            last = last.max(other_last);
        }
        self.runs.insert(first, last);
    }

    /// True when it is among them.
    pub(super) fn contains(&self, index: u32) -> bool {
        self.runs.range(..=index).next_back().is_some_and(|(_, last)| index <= *last)
    }

    /// True when there is none.
    pub(super) fn is_empty(&self) -> bool {
        self.runs.is_empty()
    }

    /// How many there are.
    pub(super) fn count(&self) -> i32 {
        sum(self.runs.iter().map(|(first, last)| (*first, *last)))
    }

    /// How many of them are in another set, too.
    pub(super) fn count_in(&self, other: &Self) -> i32 {
        sum(self.runs.iter().flat_map(|(&first, &last)| {
            let before = other.runs.range(..first).next_back();
            let shared = before.into_iter().chain(other.runs.range(first..=last));
            shared
                .map(move |(&other_first, &other_last)| {
                    (first.max(other_first), last.min(other_last))
                })
                .filter(|(first, last)| first <= last)
        }))
    }

    /// Those below `end` that are missing, in order.
    pub(super) fn missing(&self, end: u32) -> impl Iterator<Item = u32> {
        let runs = self.runs.iter().map(|(first, last)| (*first, last.saturating_add(1)));
        let mut from = 0;
        runs.chain([(end, end)]).flat_map(move |(first, next)| {
            let gap = from..first.min(end);
            from = next;
            gap
        })
    }
}

/// How many indexes these runs have.
fn sum(runs: impl Iterator<Item = (u32, u32)>) -> i32 {
    let count: u64 = runs.map(|(first, last)| u64::from(last - first) + 1).sum();
    i32::try_from(count).unwrap_or(i32::MAX)
}

impl Extend<u32> for IndexSet {
    fn extend<T: IntoIterator<Item = u32>>(&mut self, indexes: T) {
        indexes.into_iter().for_each(|index| self.insert(index));
    }
}

impl FromIterator<u32> for IndexSet {
    fn from_iter<T: IntoIterator<Item = u32>>(indexes: T) -> Self {
        let mut all = Self::default();
        all.extend(indexes);
        all
    }
}

impl fmt::Display for IndexSet {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (number, (first, last)) in self.runs.iter().enumerate() {
            let comma = if number == 0 { "" } else { "," };
            match last - first {
                0 => write!(f, "{comma}{first}")?,
                1 => write!(f, "{comma}{first},{last}")?,
                _ => write!(f, "{comma}{first}-{last}")?,
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use proptest::prelude::*;

    use super::*;

    #[test]
    fn sets_are_written_as_upstream_writes_them_and_read_back() {
        let cases: &[(&[u32], &str)] = &[
            (&[], ""),
            (&[0], "0"),
            (&[0, 1], "0,1"),
            (&[0, 1, 2], "0-2"),
            (&[1, 3, 4, 5, 7], "1,3-5,7"),
            (&[8, 9, 20, 21, 22], "8,9,20-22"),
        ];
        for (set, text) in cases {
            let set: IndexSet = set.iter().copied().collect();
            assert_eq!(set.to_string(), *text);
            assert_eq!(IndexSet::parse(text, 100), set);
        }
    }

    #[test]
    fn indexes_beyond_the_completions_do_not_count() {
        assert_eq!(IndexSet::parse("0-4,7", 3).to_string(), "0-2");
        assert_eq!(IndexSet::parse("x,-3,2,5-4", 9).to_string(), "2");
        assert!(IndexSet::parse("0-4", 0).is_empty());
    }

    #[test]
    fn a_set_of_any_number_of_indexes_is_no_larger_than_its_text() {
        let most = IndexSet::parse("0-9,11-4294967295", 2_147_483_647);
        assert_eq!(most.to_string(), "0-9,11-2147483646");
        assert_eq!(most.count(), 2_147_483_646);
        assert_eq!(most.count_in(&IndexSet::parse("5-2000000000", 2_147_483_647)), 1_999_999_995);
        assert_eq!(most.missing(2_147_483_647).collect::<Vec<_>>(), [10]);
        assert!(most.contains(2_000_000_000) && !most.contains(10));
    }

    proptest! {
        #[test]
        fn a_set_of_runs_is_a_set(
            ours in prop::collection::vec((0..40u32, 0..6u32), 0..12),
            theirs in prop::collection::vec((0..40u32, 0..6u32), 0..12),
            end in 0..50u32,
        ) {
            let text = |runs: &[(u32, u32)]| {
                let shown = runs.iter().map(|(first, length)| format!("{first}-{}", first + length));
                shown.collect::<Vec<_>>().join(",")
            };
            let each = |runs: &[(u32, u32)]| -> BTreeSet<u32> {
                let all = runs.iter().flat_map(|(first, length)| *first..=first + length);
                all.filter(|index| *index < end).collect()
            };
            let (one, other) = (IndexSet::parse(&text(&ours), end), IndexSet::parse(&text(&theirs), end));
            let (of_one, of_other) = (each(&ours), each(&theirs));
            prop_assert_eq!(&one, &of_one.iter().copied().collect());
            prop_assert_eq!(usize::try_from(one.count()).unwrap(), of_one.len());
            prop_assert_eq!(one.is_empty(), of_one.is_empty());
            prop_assert!((0..60).all(|index| one.contains(index) == of_one.contains(&index)));
            prop_assert_eq!(
                usize::try_from(one.count_in(&other)).unwrap(),
                of_one.intersection(&of_other).count()
            );
            let missing: Vec<u32> = (0..end).filter(|index| !of_one.contains(index)).collect();
            prop_assert_eq!(one.missing(end).collect::<Vec<_>>(), missing);
            let mut both = one;
            both.insert_all(&other);
            prop_assert_eq!(both, of_one.union(&of_other).copied().collect());
        }
    }
}
