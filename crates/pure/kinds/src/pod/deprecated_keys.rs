//! Keys of node labels that have a newer name, in the words of upstream's warnings.

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::{Affinity, NodeSelectorTerm};

use crate::validation::{Path, items};

/// A key, since when it is old, and what to use in its place.
const OLD_KEYS: [(&str, &str, &str); 5] = [
    ("beta.kubernetes.io/arch", "v1.14", "kubernetes.io/arch"),
    ("beta.kubernetes.io/os", "v1.14", "kubernetes.io/os"),
    ("beta.kubernetes.io/instance-type", "v1.17", "node.kubernetes.io/instance-type"),
    ("failure-domain.beta.kubernetes.io/region", "v1.17", "topology.kubernetes.io/region"),
    ("failure-domain.beta.kubernetes.io/zone", "v1.17", "topology.kubernetes.io/zone"),
];

fn advice(key: &str) -> Option<String> {
    let (_, since, newer) = OLD_KEYS.iter().find(|(old, ..)| *old == key)?;
    Some(format!("deprecated since {since}; use {newer:?} instead"))
}

/// Of the `nodeSelector` of a pod.
pub(super) fn of_node_selector(
    selector: Option<&BTreeMap<String, String>>,
    field: &Path,
) -> Vec<String> {
    let keys = selector.into_iter().flat_map(BTreeMap::keys);
    let of_key =
        |key: &String| Some(format!("{}: {}", field.child("nodeSelector").key(key), advice(key)?));
    keys.filter_map(of_key).collect()
}

/// Of the value of a field that is a key.
pub(super) fn of_key(key: &str, field: &Path) -> Option<String> {
    Some(format!("{field}: {key} is {}", advice(key)?))
}

/// Of the affinity to nodes of the pod at `field`.
pub(super) fn of_node_affinity(affinity: Option<&Affinity>, field: &Path) -> Vec<String> {
    let Some(affinity) = affinity.and_then(|affinity| affinity.node_affinity.as_ref()) else {
        return Vec::new();
    };
    let field = field.child("affinity").child("nodeAffinity");
    let mut warnings = Vec::new();
    if let Some(required) = &affinity.required_during_scheduling_ignored_during_execution {
        let field = field.child("requiredDuringSchedulingIgnoredDuringExecution");
        for (index, term) in required.node_selector_terms.iter().enumerate() {
            warnings.extend(of_term(term, &field.child("nodeSelectorTerms").index(index)));
        }
    }
    let preferred = affinity.preferred_during_scheduling_ignored_during_execution.as_ref();
    for (index, term) in items(preferred).iter().enumerate() {
        let field = field.child("preferredDuringSchedulingIgnoredDuringExecution").index(index);
        warnings.extend(of_term(&term.preference, &field.child("preference")));
    }
    warnings
}

fn of_term(term: &NodeSelectorTerm, field: &Path) -> Vec<String> {
    let expressions = items(term.match_expressions.as_ref()).iter().enumerate();
    let of_expression =
        |(index, key)| of_key(key, &field.child("matchExpressions").index(index).child("key"));
    expressions
        .map(|(index, expression)| (index, expression.key.as_str()))
        .filter_map(of_expression)
        .collect()
}
