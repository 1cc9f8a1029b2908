//! Which of the nodes that can take a pod it had best go to: upstream's default weights and normalisation, over the nodes
//! that fit.
//!
//! Free resources, their balance and images count once; preferred node affinity, affinity between pods and spreading twice; taints that the pod had
//! better avoid three times; each on a scale of 0..=100 [kube-scheduler, default plugins]. The first node by name wins among
//! equals.

use std::cmp::Reverse;
use std::sync::Arc;

use k8s_openapi::api::core::v1::Node;

use super::candidate::{Candidate, SCORE_MAX};
use super::fit::Fit;
use super::{affinity, locality, spread, taints};
use crate::View;

/// Points of `filter::free_share` for one point of a score of weight 1: CPU and memory are added up there, not averaged,
/// and multiplied by 1000.
const FREE_SHARE_PER_POINT: i64 = 2 * 1000;
/// Upstream's weight of NodeAffinity.
const AFFINITY_WEIGHT: i64 = 2;
/// Upstream's weight of InterPodAffinity.
const NEIGHBOUR_WEIGHT: i64 = 2;
/// Upstream's weight of PodTopologySpread.
const SPREAD_WEIGHT: i64 = 2;
/// Upstream's weight of TaintToleration.
const TAINT_WEIGHT: i64 = 3;

/// The best of them.
pub(super) fn best<'v>(
    view: &View,
    fit: &Fit<'_>,
    candidates: &[Candidate<'v>],
) -> Option<&'v Arc<Node>> {
    if let [only] = candidates {
        return Some(only.node);
    }
    let pod = fit.pod;
    let nodes: Vec<&Node> = candidates.iter().map(|c| c.node.as_ref()).collect();
    let of_nodes = |score: &dyn Fn(&Node) -> i64| nodes.iter().map(|n| score(n)).collect();
    let liked = of_greatest(of_nodes(&|node| affinity::preference(pod, node)));
    let avoided = candidates.iter().map(|candidate| {
        if candidate.state.is_open() { 0 } else { taints::count_to_avoid(pod, candidate.node) }
    });
    let avoided = of_greatest(avoided.collect());
    let near = of_range(of_nodes(&|node| fit.neighbours.preference(node)));
    let spread = spread::scores(view, pod, &nodes);
    let local = locality::scores(view.cluster(), pod, candidates);
    let total = |index: usize| {
        let clean = SCORE_MAX - avoided[index];
        let points = candidates[index].balance
            + local[index]
            + AFFINITY_WEIGHT * liked[index]
            + NEIGHBOUR_WEIGHT * near[index]
            + SPREAD_WEIGHT * spread[index]
            + TAINT_WEIGHT * clean;
        candidates[index].free_share + FREE_SHARE_PER_POINT * points
    };
    let best = (0..candidates.len())
        .max_by_key(|index| (total(*index), Reverse(candidates[*index].name)))?;
    Some(candidates[best].node)
}

/// Each as 0..=100 of the greatest.
fn of_greatest(values: Vec<i64>) -> Vec<i64> {
    let most = values.iter().copied().max().unwrap_or(0);
    let share = |value| if most == 0 { 0 } else { value * SCORE_MAX / most };
    values.into_iter().map(share).collect()
}

/// Each as 0..=100 of the way from the least to the greatest.
fn of_range(values: Vec<i64>) -> Vec<i64> {
    let least = values.iter().copied().min().unwrap_or(0);
    let span = values.iter().copied().max().unwrap_or(0) - least;
    let share = |value| if span == 0 { 0 } else { (value - least) * SCORE_MAX / span };
    values.into_iter().map(share).collect()
}
