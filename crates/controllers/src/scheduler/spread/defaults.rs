//! Spreading for pods without constraints of their own: over hosts with a skew of 3, over zones with one of 5, as well as it goes
//! [kube-scheduler, PodTopologySpread, `systemDefaultConstraints`].
//!
//! Other than with constraints of its own a node need not have both labels: without a zone the hosts count alone. The domain of a host is
//! the node, whatever its label says.

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::Pod;

use super::super::affinity;
use super::super::candidate::Candidate;
use super::occupants::Occupants;
use super::points::{normalized, points, weight};
use super::selector::Selector;
use crate::View;

/// The skew over hosts.
const HOST_SKEW: i32 = 3;
/// The skew over zones.
const ZONE_SKEW: i32 = 5;

/// How well the nodes spread pods like this one, 0..=100 each; nothing for a pod that no controller and no Service knows.
pub(super) fn scores(view: &View, pod: &Pod, candidates: &[Candidate<'_>]) -> Option<Vec<i64>> {
    let selector = Selector::by_default(view, pod)?;
    let occupants = Occupants::of(view, pod, &selector);
    let zones = in_zones(view, pod, candidates, &occupants);
    let (host_weight, zone_weight) = (weight(candidates.len()), weight(zones.len()));
    let on_hosts = occupants.along(candidates.iter().map(|candidate| candidate.name));
    let all = candidates.iter().zip(on_hosts).map(|(candidate, here)| {
        let host =
            if candidate.state.has_hostname() { points(here, HOST_SKEW, host_weight) } else { 0.0 };
        let zone = candidate.state.zone().map_or(0.0, |zone| {
            points(zones.get(zone).copied().unwrap_or(0), ZONE_SKEW, zone_weight)
        });
        Some(host + zone)
    });
    Some(normalized(all.collect()))
}

/// How many of the pods are in the zones of the candidates. Those on nodes that the pod may not go to do not count; nodes without a zone
/// are a domain of their own, which nobody asks about.
fn in_zones<'v>(
    view: &View,
    pod: &Pod,
    candidates: &[Candidate<'v>],
    occupants: &Occupants<'_>,
) -> BTreeMap<&'v str, i64> {
    let zones = candidates.iter().map(|candidate| candidate.state.zone());
    let mut counts = BTreeMap::new();
    if zones.clone().all(|zone| zone.is_none()) {
        return counts;
    }
    for zone in zones {
        counts.entry(zone.unwrap_or_default()).or_insert(0);
    }
    for (name, pods) in occupants.places() {
        if let Some((node, state)) = view.cluster().node(name)
            && let Some(count) = counts.get_mut(state.zone().unwrap_or_default())
            && affinity::matches(pod, node)
        {
            *count += pods;
        }
    }
    counts
}

#[cfg(test)]
mod tests;
