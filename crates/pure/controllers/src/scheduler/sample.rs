//! How many nodes are looked at: as upstream's default profile does it, not all of many
//! [percentageOfNodesToScore unset].
//!
//! Among a hundred nodes the best of all that fit is taken. Of more, the best of so many that fit:
//! half of all, less one in a hundred for each 125 nodes, and 5 % at least. Upstream goes on where
//! it stopped for the pod before, and takes its nodes from zones in turn. A pure function knows
//! neither; here each pod begins with a part of the nodes that its UID chooses, a little more than
//! will do if all of them fit, from everywhere among their names, and so from all zones.

use rekindle_types::held::HeldPod;

use crate::cluster::{ClusterIndex, NodeEntry};
use crate::names;

/// Among so many nodes, all are looked at [kube-scheduler, minFeasibleNodesToFind].
const ALL_UP_TO: usize = 100;
/// The least of 100 that will do [kube-scheduler, minFeasibleNodesPercentageToFind].
const LEAST_PERCENT: usize = 5;
/// Of 100 nodes, how many more begin than will do: the part has no exact size.
const MORE_PERCENT: usize = 4;

/// In which order a pod's nodes are looked at, and how many of those that fit will do.
pub(super) struct NodeSample {
    enough: usize,
    first_percent: usize,
    seed: u64,
}

impl NodeSample {
    pub(super) fn new(pod: &HeldPod, nodes: usize) -> Self {
        let uid = pod.metadata.uid.as_deref().unwrap_or_default();
        let percent = 50_usize.saturating_sub(nodes / 125).max(LEAST_PERCENT);
        let (enough, first_percent) = if nodes <= ALL_UP_TO {
            (nodes, 100)
        } else {
            let enough = (nodes * percent / 100).max(ALL_UP_TO);
            (enough, enough * 100 / nodes + MORE_PERCENT)
        };
        Self { enough, first_percent, seed: names::hash(&[uid]) }
    }

    /// True when no more nodes are needed than these.
    pub(super) fn is_enough(&self, fitting: usize) -> bool {
        fitting >= self.enough
    }

    /// All nodes, those of the first part before the others, each part by name.
    pub(super) fn walk<'v>(
        &self,
        cluster: &'v ClusterIndex,
    ) -> impl Iterator<Item = NodeEntry<'v>> {
        let part = |is_first: bool| {
            let nodes = cluster.nodes().zip(0..);
            nodes.filter(move |(_, place)| self.is_first(*place) == is_first).map(|(host, _)| host)
        };
        part(true).chain(part(false))
    }

    fn is_first(&self, place: u64) -> bool {
        // the upper half of a product depends on all bits of its factors [Fibonacci hashing]
        let mixed = (self.seed ^ place).wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 32;
        usize::try_from(mixed % 100).is_ok_and(|percent| percent < self.first_percent)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sample(uid: &str, nodes: usize) -> NodeSample {
        let mut pod = HeldPod::default();
        pod.metadata.uid = Some(uid.to_owned());
        NodeSample::new(&pod, nodes)
    }

    #[test]
    fn as_many_are_looked_at_as_upstream_does() {
        let enough = |nodes| sample("u", nodes).enough;
        let cases =
            [(1, 1), (100, 100), (101, 100), (250, 120), (1000, 420), (5000, 500), (6000, 300)];
        assert_eq!(cases.map(|(nodes, _)| (nodes, enough(nodes))), cases);
    }

    #[test]
    fn the_first_part_is_of_its_size_and_from_everywhere() {
        for pod in 0..50 {
            let sample = sample(&format!("pod-{pod}"), 1000);
            // as when zones are named one after the other, and as when they take turns
            let (mut blocks, mut turns) = ([0; 3], [0; 3]);
            for place in (0..1000_u64).filter(|place| sample.is_first(*place)) {
                blocks[usize::try_from(place / 334).unwrap()] += 1;
                turns[usize::try_from(place % 3).unwrap()] += 1;
            }
            let all: i32 = turns.iter().sum();
            assert!((380..=540).contains(&all), "{all} of 1000");
            assert!(blocks.iter().chain(&turns).all(|count| *count >= 100), "{blocks:?} {turns:?}");
        }
    }
}
