//! Which of the nodes that can take a pod it had best go to: upstream's default weights and normalisation, over the nodes
//! that fit.
//!
//! Free resources count once, preferred node affinity twice and taints that the pod had better avoid three times, each on
//! a scale of 0..=100 [kube-scheduler, default plugins]. The first node by name wins among equals.

use std::cmp::Reverse;
use std::sync::Arc;

use k8s_openapi::api::core::v1::{Node, Pod};

use super::{affinity, taints};

/// Points of `filter::free_share` for one point of a score of weight 1: CPU and memory are added up there, not averaged,
/// and multiplied by 1000.
const FREE_SHARE_PER_POINT: i64 = 2 * 1000;
/// Upstream's weight of NodeAffinity.
const AFFINITY_WEIGHT: i64 = 2;
/// Upstream's weight of TaintToleration.
const TAINT_WEIGHT: i64 = 3;
/// The best score of one plugin.
const SCORE_MAX: i64 = 100;

/// A node that can take the pod.
pub(super) struct Candidate<'v> {
    pub node: &'v Arc<Node>,
    /// As `filter::free_share` counts it.
    pub free_share: i64,
}

/// The best of them, which are in the order of their names.
pub(super) fn best<'v>(pod: &Pod, candidates: &[Candidate<'v>]) -> Option<&'v Arc<Node>> {
    let preferences: Vec<i64> =
        candidates.iter().map(|c| affinity::preference(pod, c.node)).collect();
    let avoided: Vec<i64> =
        candidates.iter().map(|c| taints::count_to_avoid(pod, c.node)).collect();
    let most_preferred = preferences.iter().copied().max().unwrap_or(0);
    let most_avoided = avoided.iter().copied().max().unwrap_or(0);
    let total = |index: usize| {
        let liked = share(preferences[index], most_preferred);
        let clean = SCORE_MAX - share(avoided[index], most_avoided);
        candidates[index].free_share
            + FREE_SHARE_PER_POINT * (AFFINITY_WEIGHT * liked + TAINT_WEIGHT * clean)
    };
    let best = (0..candidates.len()).max_by_key(|index| (total(*index), Reverse(*index)))?;
    Some(candidates[best].node)
}

/// 0..=100 of the greatest value that any node has.
fn share(value: i64, most: i64) -> i64 {
    if most == 0 { 0 } else { value * SCORE_MAX / most }
}
