//! Node affinity: what the scheduler makes of it. The selector and the required part must match,
//! the preferred part counts for a node.

use k8s_openapi::api::core::v1::{Node, PersistentVolume, PreferredSchedulingTerm};
use rekindle_types::held::HeldPod;
use rekindle_types::node_affinity::term_matches;
pub(crate) use rekindle_types::node_affinity::{label, matches};
use rekindle_types::pods;

/// The terms of the nodes that the pod would rather go to.
pub(super) fn preferred(pod: &HeldPod) -> &[PreferredSchedulingTerm] {
    pods::affinity(pod)
        .and_then(|affinity| affinity.node_affinity.as_ref())
        .and_then(|a| a.preferred_during_scheduling_ignored_during_execution.as_deref())
        .unwrap_or_default()
}

/// The sum of the weights of the preferred terms that match the node. An empty term matches nothing
/// here, too.
pub(super) fn preference(preferred: &[PreferredSchedulingTerm], node: &Node) -> i64 {
    let matching = preferred.iter().filter(|term| term_matches(&term.preference, node));
    matching.map(|term| i64::from(term.weight)).sum()
}

/// True when the volume can be reached from the node.
pub(crate) fn fits_volume(volume: &PersistentVolume, node: &Node) -> bool {
    let affinity = volume.spec.as_ref().and_then(|spec| spec.node_affinity.as_ref());
    let required = affinity.and_then(|affinity| affinity.required.as_ref());
    required
        .is_none_or(|required| required.node_selector_terms.iter().any(|t| term_matches(t, node)))
}
