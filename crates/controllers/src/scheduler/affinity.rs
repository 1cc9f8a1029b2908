//! `nodeSelector` and node affinity: the selector and the required part must match, the preferred part counts for a node.

use k8s_openapi::api::core::v1::{
    Node, NodeSelectorRequirement, NodeSelectorTerm, PersistentVolume, Pod, PreferredSchedulingTerm,
};

/// A label of a node.
pub(super) fn label<'a>(node: &'a Node, key: &str) -> Option<&'a str> {
    node.metadata.labels.as_ref().and_then(|labels| labels.get(key)).map(String::as_str)
}

/// True when the pod may go to the node as far as its labels are concerned.
pub(crate) fn matches(pod: &Pod, node: &Node) -> bool {
    let Some(spec) = &pod.spec else { return true };
    if !spec.node_selector.iter().flatten().all(|(key, value)| label(node, key) == Some(value)) {
        return false;
    }
    let required = spec
        .affinity
        .as_ref()
        .and_then(|affinity| affinity.node_affinity.as_ref())
        .and_then(|a| a.required_during_scheduling_ignored_during_execution.as_ref());
    required
        .is_none_or(|required| required.node_selector_terms.iter().any(|t| term_matches(t, node)))
}

/// The terms of the nodes that the pod would rather go to.
pub(super) fn preferred(pod: &Pod) -> &[PreferredSchedulingTerm] {
    let affinity = pod.spec.as_ref().and_then(|spec| spec.affinity.as_ref());
    affinity
        .and_then(|affinity| affinity.node_affinity.as_ref())
        .and_then(|a| a.preferred_during_scheduling_ignored_during_execution.as_deref())
        .unwrap_or_default()
}

/// The sum of the weights of the preferred terms that match the node. An empty term matches nothing here, too.
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

/// Terms are alternatives; an empty one matches nothing (API reference).
fn term_matches(term: &NodeSelectorTerm, node: &Node) -> bool {
    let expressions = term.match_expressions.as_deref().unwrap_or_default();
    let fields = term.match_fields.as_deref().unwrap_or_default();
    if expressions.is_empty() && fields.is_empty() {
        return false;
    }
    expressions.iter().all(|r| requirement_holds(r, label(node, &r.key)))
        && fields.iter().all(|r| {
            r.key == "metadata.name" && requirement_holds(r, node.metadata.name.as_deref())
        })
}

fn requirement_holds(requirement: &NodeSelectorRequirement, value: Option<&str>) -> bool {
    let values = requirement.values.as_deref().unwrap_or_default();
    let listed = value.is_some_and(|value| values.iter().any(|v| v == value));
    let numbers =
        || -> Option<(i64, i64)> { Some((value?.parse().ok()?, values.first()?.parse().ok()?)) };
    match requirement.operator.as_str() {
        "In" => listed,
        "NotIn" => !listed,
        "Exists" => value.is_some(),
        "DoesNotExist" => value.is_none(),
        "Gt" => numbers().is_some_and(|(has, bound)| has > bound),
        "Lt" => numbers().is_some_and(|(has, bound)| has < bound),
        _ => false,
    }
}
