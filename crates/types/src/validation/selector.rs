//! Label selectors inside objects.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::{LabelSelector, LabelSelectorRequirement};

use super::{FieldError, Path, invalid_each, items, labels, names};

/// Checks the keys, values and operators of a selector.
pub fn check(selector: &LabelSelector, field: &Path) -> Vec<FieldError> {
    let mut errors = labels::labels(selector.match_labels.as_ref(), &field.child("matchLabels"));
    let expressions = field.child("matchExpressions");
    for (index, requirement) in items(selector.match_expressions.as_ref()).iter().enumerate() {
        errors.extend(check_requirement(requirement, &expressions.index(index)));
    }
    errors
}

fn check_requirement(requirement: &LabelSelectorRequirement, field: &Path) -> Vec<FieldError> {
    let mut errors = Vec::new();
    let values = items(requirement.values.as_ref());
    match requirement.operator.as_str() {
        "In" | "NotIn" => {
            if values.is_empty() {
                errors.push(FieldError::required(
                    field.child("values"),
                    "must be specified when `operator` is 'In' or 'NotIn'",
                ));
            }
        }
        "Exists" | "DoesNotExist" => {
            if !values.is_empty() {
                errors.push(FieldError::forbidden(
                    field.child("values"),
                    "may not be specified when `operator` is 'Exists' or 'DoesNotExist'",
                ));
            }
        }
        other => errors.push(FieldError::invalid(
            field.child("operator"),
            other,
            "not a valid selector operator",
        )),
    }
    errors.extend(invalid_each(
        &field.child("key"),
        &requirement.key,
        names::qualified(&requirement.key),
    ));
    for (index, value) in values.iter().enumerate() {
        errors.extend(invalid_each(
            &field.child("values").index(index),
            value,
            names::label_value(value),
        ));
    }
    errors
}
