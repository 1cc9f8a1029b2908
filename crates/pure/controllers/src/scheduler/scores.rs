//! Which of the nodes that can take a pod it had best go to: upstream's default weights and
//! normalisation, over the nodes that fit.
//!
//! Free resources, their balance and images count once; preferred node affinity, affinity between
//! pods and spreading twice; taints that the pod had better avoid three times; each on a scale of
//! 0..=100 [kube-scheduler, default plugins]. A plugin that has nothing to say of the pod is not
//! asked about each node. The first node by name wins among equals.

use std::cmp::Reverse;
use std::sync::Arc;

use k8s_openapi::api::core::v1::Node;
use rekindle_types::held::HeldPod;

use super::candidate::{NodeCandidate, SCORE_MAX};
use super::fit::PodPlacement;
use super::{affinity, locality, spread, taints};
use crate::ClusterView;

/// Points of `filter::free_share` for one point of a score of weight 1: CPU and memory are added up
/// there, not averaged, and multiplied by 1000.
const FREE_SHARE_PER_POINT: i64 = 2 * 1000;
/// Upstream's weight of NodeAffinity.
const AFFINITY_WEIGHT: i64 = 2;
/// Upstream's weight of InterPodAffinity.
const NEIGHBOUR_WEIGHT: i64 = 2;
/// Upstream's weight of PodTopologySpread.
const SPREAD_WEIGHT: i64 = 2;
/// Upstream's weight of ImageLocality.
const LOCALITY_WEIGHT: i64 = 1;
/// Upstream's weight of TaintToleration.
const TAINT_WEIGHT: i64 = 3;

/// The best of them.
pub(super) fn best<'v>(
    view: &ClusterView,
    fit: &PodPlacement<'_>,
    candidates: &[NodeCandidate<'v>],
) -> Option<&'v Arc<Node>> {
    if let [only] = candidates {
        return Some(only.host.node);
    }
    let mut totals: Vec<i64> = candidates
        .iter()
        .map(|candidate| candidate.free_share + FREE_SHARE_PER_POINT * candidate.balance)
        .collect();
    let opinions = [
        (AFFINITY_WEIGHT, liked(fit.pod, candidates)),
        (NEIGHBOUR_WEIGHT, near(fit, candidates)),
        (SPREAD_WEIGHT, spread::scores(view, fit.pod, candidates)),
        (LOCALITY_WEIGHT, locality::scores(view.cluster(), fit.pod, candidates)),
        (-TAINT_WEIGHT, avoided(fit.pod, candidates)),
    ];
    for (weight, scores) in opinions {
        let Some(scores) = scores else { continue };
        for (total, score) in totals.iter_mut().zip(scores) {
            *total += FREE_SHARE_PER_POINT * weight * score;
        }
    }
    let best = totals.iter().zip(candidates);
    best.max_by_key(|(total, candidate)| (**total, Reverse(candidate.host.name)))
        .map(|(_, candidate)| candidate.host.node)
}

/// How much the pod likes the labels of each node; nothing when it prefers none.
fn liked(pod: &HeldPod, candidates: &[NodeCandidate<'_>]) -> Option<Vec<i64>> {
    let preferred = affinity::preferred(pod);
    let liked = candidates.iter().map(|c| affinity::preference(preferred, c.host.node));
    (!preferred.is_empty()).then(|| percent_of_greatest(liked.collect()))
}

/// What the pods that are there and this one think of each other; nothing when none of them prefers
/// anything.
fn near(fit: &PodPlacement<'_>, candidates: &[NodeCandidate<'_>]) -> Option<Vec<i64>> {
    let near = candidates.iter().map(|candidate| fit.neighbours.preference(candidate.host.node));
    fit.neighbours.have_preferences().then(|| percent_of_range(near.collect()))
}

/// How many taints of each node the pod had better avoid; nothing when all of them are open.
fn avoided(pod: &HeldPod, candidates: &[NodeCandidate<'_>]) -> Option<Vec<i64>> {
    if candidates.iter().all(|candidate| candidate.host.state.is_open()) {
        return None;
    }
    let counts =
        candidates.iter().map(|candidate| taints::count_to_avoid(pod, candidate.host.node));
    Some(percent_of_greatest(counts.collect()))
}

/// Each as 0..=100 of the greatest.
fn percent_of_greatest(values: Vec<i64>) -> Vec<i64> {
    let most = values.iter().copied().max().unwrap_or(0);
    let share = |value| if most == 0 { 0 } else { value * SCORE_MAX / most };
    values.into_iter().map(share).collect()
}

/// Each as 0..=100 of the way from the least to the greatest.
fn percent_of_range(values: Vec<i64>) -> Vec<i64> {
    let least = values.iter().copied().min().unwrap_or(0);
    let span = values.iter().copied().max().unwrap_or(0) - least;
    let share = |value| if span == 0 { 0 } else { (value - least) * SCORE_MAX / span };
    values.into_iter().map(share).collect()
}
