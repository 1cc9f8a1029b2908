//! Spreading for pods without constraints of their own: over hosts with a skew of 3, over zones
//! with one of 5, as well as it goes [kube-scheduler, PodTopologySpread,
//! `systemDefaultConstraints`].
//!
//! Other than with constraints of its own a node need not have both labels: without a zone the
//! hosts count alone. The domain of a host is the node, whatever its label says.

use rekindle_types::held::HeldPod;

use super::super::affinity;
use super::super::candidate::NodeCandidate;
use super::occupants::NodeOccupants;
use super::points::{normalized, points, weight};
use super::selector::Selector;
use crate::ClusterView;
use crate::cluster::ZoneNumber;

/// The skew over hosts.
const HOST_SKEW: i32 = 3;
/// The skew over zones.
const ZONE_SKEW: i32 = 5;

/// How well the nodes spread pods like this one, 0..=100 each; nothing for a pod that no controller
/// and no Service knows.
pub(super) fn scores(
    view: &ClusterView,
    pod: &HeldPod,
    candidates: &[NodeCandidate<'_>],
) -> Option<Vec<i64>> {
    let selector = Selector::by_default(view, pod)?;
    let occupants = NodeOccupants::with_nominated(view, pod, &selector);
    let zones = CandidateZones::new(view, pod, candidates, &occupants);
    let (host_weight, zone_weight) = (weight(candidates.len()), weight(zones.count));
    let all = candidates.iter().map(|NodeCandidate { host, .. }| {
        let on_host = match host.state.has_hostname() {
            true => points(occupants.on(host.number), HOST_SKEW, host_weight),
            false => 0.0,
        };
        let zone = view.cluster().zone_of(host.number);
        let in_zone = zone.map_or(0.0, |zone| points(zones.pods_in(zone), ZONE_SKEW, zone_weight));
        Some(on_host + in_zone)
    });
    Some(normalized(all.collect()))
}

/// The zones of the candidates; no zone is one of them, which nobody asks about.
struct CandidateZones {
    /// How many they are.
    count: usize,
    /// How many of the pods are in each, by its number.
    pods: Vec<i64>,
}

impl CandidateZones {
    /// Counts them. Pods on nodes that the pod may not go to do not count.
    fn new(
        view: &ClusterView,
        pod: &HeldPod,
        candidates: &[NodeCandidate<'_>],
        occupants: &NodeOccupants,
    ) -> Self {
        let cluster = view.cluster();
        let (mut has_candidates, mut has_none) = (vec![false; cluster.zone_places()], false);
        for candidate in candidates {
            match cluster.zone_of(candidate.host.number) {
                Some(zone) => has_candidates[zone.index()] = true,
                None => has_none = true,
            }
        }
        let named = has_candidates.iter().filter(|has| **has).count();
        let mut pods = vec![0; if named == 0 { 0 } else { cluster.zone_places() }];
        for (node, count) in occupants.places() {
            if let Some(zone) = cluster.zone_of(node)
                && let Some(pods) = pods.get_mut(zone.index())
                && cluster.numbered(node).is_some_and(|node| affinity::matches(pod, node))
            {
                *pods += count;
            }
        }
        Self { count: named + usize::from(has_none), pods }
    }

    fn pods_in(&self, zone: ZoneNumber) -> i64 {
        self.pods.get(zone.index()).copied().unwrap_or(0)
    }
}

#[cfg(test)]
mod tests;
