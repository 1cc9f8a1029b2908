//! What nodes are asked for, by their labels and names.

use k8s_openapi::api::core::v1::{NodeSelector, NodeSelectorRequirement, NodeSelectorTerm};
use rekindle_types::validation::field_error::FieldError;

use super::{Path, invalid_each, items, names};

/// The one field of a node that can be asked for.
const NODE_NAME: &str = "metadata.name";

/// Checks what nodes are asked for, by a pod or by a volume that is on some nodes only.
pub fn node_selector(selector: &NodeSelector, field: &Path) -> Vec<FieldError> {
    let field = field.child("nodeSelectorTerms");
    if selector.node_selector_terms.is_empty() {
        return vec![FieldError::required(field, "must have at least one node selector term")];
    }
    let terms = selector.node_selector_terms.iter().enumerate();
    terms
        .flat_map(|(index, term)| node_term(term, AffinityValues::OfLabels, &field.index(index)))
        .collect()
}

/// What the values of an expression may be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum AffinityValues {
    /// What a label can have: with another one no node would ever fit.
    OfLabels,
    /// Anything: a preference for what no node has does no harm, and upstream never refused it.
    Any,
}

pub(crate) fn node_term(
    term: &NodeSelectorTerm,
    values: AffinityValues,
    field: &Path,
) -> Vec<FieldError> {
    let mut errors = Vec::new();
    for (index, requirement) in items(term.match_expressions.as_ref()).iter().enumerate() {
        let field = field.child("matchExpressions").index(index);
        errors.extend(by_label(requirement, values, &field));
    }
    for (index, requirement) in items(term.match_fields.as_ref()).iter().enumerate() {
        errors.extend(by_field(requirement, &field.child("matchFields").index(index)));
    }
    errors
}

fn by_label(
    requirement: &NodeSelectorRequirement,
    values: AffinityValues,
    field: &Path,
) -> Vec<FieldError> {
    let mut errors = Vec::new();
    let given = items(requirement.values.as_ref());
    match requirement.operator.as_str() {
        "In" | "NotIn" if given.is_empty() => errors.push(FieldError::required(
            field.child("values"),
            "must be specified when `operator` is 'In' or 'NotIn'",
        )),
        "Exists" | "DoesNotExist" if !given.is_empty() => errors.push(FieldError::forbidden(
            field.child("values"),
            "may not be specified when `operator` is 'Exists' or 'DoesNotExist'",
        )),
        "Gt" | "Lt" if given.len() != 1 => errors.push(FieldError::required(
            field.child("values"),
            "must be specified single value when `operator` is 'Lt' or 'Gt'",
        )),
        "In" | "NotIn" | "Exists" | "DoesNotExist" | "Gt" | "Lt" => {}
        other => errors.push(unknown_operator(other, field)),
    }
    let key = &requirement.key;
    errors.extend(invalid_each(&field.child("key"), key, names::qualified(key)));
    if values == AffinityValues::OfLabels {
        for (index, value) in given.iter().enumerate() {
            let field = field.child("values").index(index);
            errors.extend(invalid_each(&field, value, names::label_value(value)));
        }
    }
    errors
}

fn by_field(requirement: &NodeSelectorRequirement, field: &Path) -> Vec<FieldError> {
    let mut errors = Vec::new();
    let given = items(requirement.values.as_ref());
    match requirement.operator.as_str() {
        "In" | "NotIn" if given.len() == 1 => {}
        "In" | "NotIn" => errors.push(FieldError::required(
            field.child("values"),
            "must be only one value when `operator` is 'In' or 'NotIn' for node field selector",
        )),
        other => errors.push(unknown_operator(other, field)),
    }
    if requirement.key != NODE_NAME {
        let detail = "not a valid field selector key";
        errors.push(FieldError::invalid(field.child("key"), &requirement.key, detail));
        return errors;
    }
    for (index, name) in given.iter().enumerate() {
        let field = field.child("values").index(index);
        errors.extend(invalid_each(&field, name, names::dns_subdomain(name)));
    }
    errors
}

fn unknown_operator(operator: &str, field: &Path) -> FieldError {
    FieldError::invalid(field.child("operator"), operator, "not a valid selector operator")
}
