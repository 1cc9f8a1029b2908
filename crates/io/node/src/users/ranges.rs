//! Who has which range: no two pods an id in common. Pure.

use std::collections::BTreeMap;

use rekindle_runtime::UserRange;
use rekindle_types::PodUid;

use super::ids::UserIdRanges;

/// The ranges of one node.
#[derive(Debug)]
pub(crate) struct Ranges {
    ids: UserIdRanges,
    taken: BTreeMap<PodUid, UserRange>,
}

impl Ranges {
    /// Nobody has any.
    pub(crate) fn new(ids: UserIdRanges) -> Self {
        Self { ids, taken: BTreeMap::new() }
    }

    /// A pod has this one already, from an earlier agent, which may have given from other ids.
    pub(crate) fn restore(&mut self, pod: PodUid, range: UserRange) {
        self.taken.insert(pod, range);
    }

    /// The pod's range, if it has one.
    pub(crate) fn of(&self, pod: &PodUid) -> Option<UserRange> {
        self.taken.get(pod).copied()
    }

    /// The pod's range: the one that it has, or else the first that is free. `None` when all are
    /// taken.
    pub(crate) fn take(&mut self, pod: &PodUid) -> Option<UserRange> {
        if let Some(range) = self.of(pod) {
            return Some(range);
        }
        let is_free = |range: &UserRange| !self.taken.values().any(|other| overlap(*range, *other));
        let range = self.ids.ranges().find(is_free)?;
        self.taken.insert(pod.clone(), range);
        Some(range)
    }

    /// The pod is gone.
    pub(crate) fn release(&mut self, pod: &PodUid) {
        self.taken.remove(pod);
    }
}

fn overlap(one: UserRange, other: UserRange) -> bool {
    let end = |range: UserRange| u64::from(range.first) + u64::from(range.length);
    u64::from(one.first) < end(other) && u64::from(other.first) < end(one)
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use proptest::prelude::*;

    use super::*;

    fn pod(number: u8) -> PodUid {
        PodUid(format!("pod-{number}"))
    }

    /// Ids for this many pods.
    fn ids(pods: i64) -> UserIdRanges {
        UserIdRanges::new(Some(1 << 20), Some(126 / pods * 65_536)).unwrap()
    }

    #[test]
    fn a_pod_keeps_its_range_and_another_gets_it_when_it_is_gone() {
        let mut ranges = Ranges::new(ids(2));
        let first = ranges.take(&pod(1)).unwrap();
        let second = ranges.take(&pod(2)).unwrap();
        assert_eq!(ranges.take(&pod(1)), Some(first));
        assert_eq!(ranges.take(&pod(3)), None, "both are taken");
        ranges.release(&pod(1));
        assert_eq!(ranges.take(&pod(3)), Some(first));
        assert_eq!(ranges.take(&pod(2)), Some(second));
    }

    #[test]
    fn what_an_earlier_agent_gave_is_kept_and_met_by_no_other() {
        let mut ranges = Ranges::new(UserIdRanges::default());
        let first = UserIdRanges::default().ranges().next().unwrap();
        // it gave others: they reach into the first two of this one
        let old = UserRange { first: first.first + 65_535, length: 10 };
        ranges.restore(pod(1), old);
        assert_eq!(ranges.take(&pod(1)), Some(old));
        assert_eq!(ranges.take(&pod(2)).unwrap().first, first.first + 2 * 65_536);
    }

    #[derive(Clone, Debug)]
    enum Step {
        Take(u8),
        Release(u8),
        /// Another agent, which reads what was kept; its ids may be others.
        Restart(i64),
    }

    fn step() -> impl Strategy<Value = Step> {
        prop_oneof![
            4 => (0u8..12).prop_map(Step::Take),
            2 => (0u8..12).prop_map(Step::Release),
            1 => (1i64..8).prop_map(Step::Restart),
        ]
    }

    proptest! {
        #[test]
        fn no_two_pods_have_an_id_in_common(steps in prop::collection::vec(step(), 1..60)) {
            let mut ranges = Ranges::new(ids(6));
            let mut alive: BTreeMap<PodUid, UserRange> = BTreeMap::new();
            for step in steps {
                match step {
                    Step::Take(number) => {
                        let taken = ranges.take(&pod(number));
                        if let Some(before) = alive.get(&pod(number)) {
                            prop_assert_eq!(taken, Some(*before), "a pod keeps its range");
                        }
                        if let Some(range) = taken {
                            alive.insert(pod(number), range);
                        }
                    }
                    Step::Release(number) => {
                        ranges.release(&pod(number));
                        alive.remove(&pod(number));
                    }
                    Step::Restart(pods) => {
                        ranges = Ranges::new(ids(pods));
                        for (pod, range) in &alive {
                            ranges.restore(pod.clone(), *range);
                        }
                    }
                }
                let mut bounds: Vec<(u32, u32)> =
                    alive.values().map(|range| (range.first, range.length)).collect();
                bounds.sort_unstable();
                prop_assert!(bounds.windows(2).all(|pair| pair[0].0 + pair[0].1 <= pair[1].0));
                let known: BTreeSet<_> = ranges.taken.keys().collect();
                prop_assert_eq!(known, alive.keys().collect::<BTreeSet<_>>());
            }
        }
    }
}
