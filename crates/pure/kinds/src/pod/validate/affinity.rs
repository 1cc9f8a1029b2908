//! Affinity: to nodes by their labels and names, to other pods by the labels of those and by where
//! they run.

use k8s_openapi::api::core::v1::{
    Affinity, NodeAffinity, PodAffinityTerm, WeightedPodAffinityTerm,
};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::LabelSelector;
use rekindle_types::validation::field_error::FieldError;

use crate::validation::node_selector::{AffinityValues, node_selector, node_term};
use crate::validation::{ListKeys, Path, invalid_each, items, names, selector};

const REQUIRED: &str = "requiredDuringSchedulingIgnoredDuringExecution";
const PREFERRED: &str = "preferredDuringSchedulingIgnoredDuringExecution";

/// Checks all of it.
pub(super) fn check(affinity: &Affinity, field: &Path) -> Vec<FieldError> {
    let mut errors = Vec::new();
    if let Some(node) = &affinity.node_affinity {
        errors.extend(to_nodes(node, &field.child("nodeAffinity")));
    }
    if let Some(pods) = &affinity.pod_affinity {
        errors.extend(to_pods(
            items(pods.required_during_scheduling_ignored_during_execution.as_ref()),
            items(pods.preferred_during_scheduling_ignored_during_execution.as_ref()),
            &field.child("podAffinity"),
        ));
    }
    if let Some(pods) = &affinity.pod_anti_affinity {
        errors.extend(to_pods(
            items(pods.required_during_scheduling_ignored_during_execution.as_ref()),
            items(pods.preferred_during_scheduling_ignored_during_execution.as_ref()),
            &field.child("podAntiAffinity"),
        ));
    }
    errors
}

fn to_nodes(affinity: &NodeAffinity, field: &Path) -> Vec<FieldError> {
    let required = affinity.required_during_scheduling_ignored_during_execution.as_ref();
    let mut errors =
        required.map_or_else(Vec::new, |required| node_selector(required, &field.child(REQUIRED)));
    let preferred = affinity.preferred_during_scheduling_ignored_during_execution.as_ref();
    for (index, term) in items(preferred).iter().enumerate() {
        let field = field.child(PREFERRED).index(index);
        errors.extend(weight(term.weight, &field));
        errors.extend(node_term(&term.preference, AffinityValues::Any, &field.child("preference")));
    }
    errors
}

fn to_pods(
    required: &[PodAffinityTerm],
    preferred: &[WeightedPodAffinityTerm],
    field: &Path,
) -> Vec<FieldError> {
    let mut errors = Vec::new();
    for (index, term) in required.iter().enumerate() {
        errors.extend(pod_term(term, &field.child(REQUIRED).index(index)));
    }
    for (index, term) in preferred.iter().enumerate() {
        let field = field.child(PREFERRED).index(index);
        errors.extend(weight(term.weight, &field));
        errors.extend(pod_term(&term.pod_affinity_term, &field.child("podAffinityTerm")));
    }
    errors
}

fn weight(weight: i32, field: &Path) -> Option<FieldError> {
    (!(1..=100).contains(&weight))
        .then(|| FieldError::invalid(field.child("weight"), weight, "must be in the range 1-100"))
}

fn pod_term(term: &PodAffinityTerm, field: &Path) -> Vec<FieldError> {
    let mut errors = Vec::new();
    let selectors =
        [("labelSelector", &term.label_selector), ("namespaceSelector", &term.namespace_selector)];
    for (name, selector) in selectors {
        let checked = selector.as_ref().map(|labels| selector::check(labels, &field.child(name)));
        errors.extend(checked.into_iter().flatten());
    }
    for (index, name) in items(term.namespaces.as_ref()).iter().enumerate() {
        let field = field.child("namespaces").index(index);
        errors.extend(invalid_each(&field, name, names::dns_label(name)));
    }
    let labels = term.label_selector.as_ref();
    let (same, other) =
        (items(term.match_label_keys.as_ref()), items(term.mismatch_label_keys.as_ref()));
    errors.extend(label_keys(same, labels, &field.child("matchLabelKeys")));
    errors.extend(label_keys(other, labels, &field.child("mismatchLabelKeys")));
    errors.extend(said_twice(same, labels, &field.child("matchLabelKeys")));
    let others: ListKeys<&String> = other.iter().collect();
    for (index, key) in same.iter().enumerate().filter(|(_, key)| others.has(key)) {
        errors.push(FieldError::invalid(
            field.child("matchLabelKeys").index(index),
            key,
            "exists in both matchLabelKeys and mismatchLabelKeys",
        ));
    }
    let topology = field.child("topologyKey");
    if term.topology_key.is_empty() {
        errors.push(FieldError::required(&topology, "can not be empty"));
    } else {
        let messages = names::qualified(&term.topology_key);
        errors.extend(invalid_each(&topology, &term.topology_key, messages));
    }
    errors
}

/// The keys whose values the pod itself has; they need a selector that they can become part of.
pub(super) fn label_keys(
    keys: &[String],
    selector: Option<&LabelSelector>,
    field: &Path,
) -> Vec<FieldError> {
    if selector.is_none() && !keys.is_empty() {
        return vec![FieldError::forbidden(
            field.clone(),
            "must not be specified when labelSelector is not set",
        )];
    }
    let mut errors = Vec::new();
    for (index, key) in keys.iter().enumerate() {
        errors.extend(invalid_each(&field.index(index), key, names::qualified(key)));
    }
    errors
}

/// Of a new pod the keys have become part of the selector already; that they stood there before
/// shows in a key that comes again.
pub(super) fn said_twice(
    keys: &[String],
    selector: Option<&LabelSelector>,
    field: &Path,
) -> Vec<FieldError> {
    let Some(selector) = selector.filter(|_| !keys.is_empty()) else { return Vec::new() };
    let keys: ListKeys<&String> = keys.iter().collect();
    let mut seen: ListKeys<&String> =
        selector.match_labels.iter().flatten().map(|(k, _)| k).collect();
    let mut errors = Vec::new();
    for expression in items(selector.match_expressions.as_ref()) {
        let is_again = seen.add(&expression.key).is_some();
        if let Some(index) = keys.place(&expression.key).filter(|_| is_again) {
            let detail = "exists in both matchLabelKeys and labelSelector";
            errors.push(FieldError::invalid(field.index(index), &expression.key, detail));
        }
    }
    errors
}
