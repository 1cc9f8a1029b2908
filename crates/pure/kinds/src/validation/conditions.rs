//! Conditions of `metav1.Condition`: source is apimachinery's `ValidateConditions`.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;
use rekindle_types::validation::field_error::FieldError;

use super::{ListKeys, Path, invalid_each, names, numbers};

const REASON_BYTES_MAX: usize = 1024;
const MESSAGE_BYTES_MAX: usize = 32 * 1024;
const STATUSES: [&str; 3] = ["False", "True", "Unknown"];
const REASON: &str = "a condition reason must start with alphabetic character, optionally \
    followed by a string of alphanumeric characters or '_,:', and must end with an \
    alphanumeric character or '_' (e.g. 'my_name',  or 'MY_NAME',  or 'MyName',  or \
    'ReasonA,ReasonB',  or 'ReasonA:ReasonB', regex used for validation is \
    '[A-Za-z]([A-Za-z0-9_,:]*[A-Za-z0-9_])?')";

/// What is wrong with conditions, and with the list of them.
pub(crate) fn errors(conditions: &[Condition], field: &Path) -> Vec<FieldError> {
    let entries = conditions.iter().enumerate();
    let of_entries =
        entries.flat_map(|(index, condition)| entry_errors(condition, &field.index(index)));
    of_entries.chain(duplicate_errors(conditions, field)).collect()
}

/// What is wrong with one condition.
pub(crate) fn entry_errors(condition: &Condition, field: &Path) -> Vec<FieldError> {
    let type_ = field.child("type");
    let messages = names::qualified(&condition.type_);
    let mut errors: Vec<FieldError> = invalid_each(&type_, &condition.type_, messages).collect();
    if !STATUSES.contains(&condition.status.as_str()) {
        let status = field.child("status");
        errors.push(FieldError::not_supported(status, &condition.status, &STATUSES));
    }
    if let Some(generation) = condition.observed_generation {
        errors.extend(numbers::non_negative(generation, &field.child("observedGeneration")));
    }
    let reason = field.child("reason");
    if condition.reason.is_empty() {
        errors.push(FieldError::required(reason, ""));
    } else if condition.reason.len() > REASON_BYTES_MAX {
        errors.push(FieldError::too_long(reason, REASON_BYTES_MAX));
    } else if !is_reason(&condition.reason) {
        errors.push(FieldError::invalid(reason, &condition.reason, REASON));
    }
    if condition.message.len() > MESSAGE_BYTES_MAX {
        errors.push(FieldError::too_long(field.child("message"), MESSAGE_BYTES_MAX));
    }
    errors
}

/// One error for each condition of a type that another one before it has.
pub(crate) fn duplicate_errors(conditions: &[Condition], field: &Path) -> Vec<FieldError> {
    let mut known: ListKeys<&str> = ListKeys::new();
    let mut errors = Vec::new();
    for (index, condition) in conditions.iter().enumerate() {
        if known.add(&condition.type_).is_some() {
            let field = field.index(index).child("type");
            errors.push(FieldError::duplicate(field, &condition.type_));
        }
    }
    errors
}

fn is_reason(text: &str) -> bool {
    let is_word = |sign: char| sign == '_' || sign.is_ascii_alphanumeric();
    text.starts_with(|sign: char| sign.is_ascii_alphabetic())
        && text.ends_with(is_word)
        && text.chars().all(|sign| is_word(sign) || matches!(sign, ',' | ':'))
}
