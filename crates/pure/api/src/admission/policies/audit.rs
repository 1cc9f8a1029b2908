//! What policies add to the audit log: annotations of their own, and validations that do not hold
//! under a binding with the action Audit.

use serde::Serialize;

use super::memory::StoredBinding;
use super::validating::Refusal;
use crate::admission::reviewed_request::ReviewedRequest;

const FAILURE: &str = "validation.policy.admission.k8s.io/validation_failure";
/// Bytes of one value of an annotation, as upstream.
const VALUE_BYTES_MAX: usize = 10 << 10;
/// Between the values that several bindings and parameters make of one key.
const BETWEEN: &str = ", ";

/// A validation that does not hold, as upstream writes it.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct ValidationFailure<'f> {
    message: &'f str,
    policy: &'f str,
    binding: &'f str,
    expression_index: usize,
    validation_actions: &'f [String],
}

/// Notes a validation that does not hold. As upstream, the first one of a request stays.
pub(super) fn note_failure(
    request: &ReviewedRequest<'_>,
    (policy, binding): (&str, &StoredBinding),
    refusal: &Refusal,
) {
    let Some(notes) = &request.call.request.notes else { return };
    let failure = ValidationFailure {
        message: &refusal.message,
        policy,
        binding: &binding.name,
        expression_index: refusal.index,
        validation_actions: &binding.actions,
    };
    // texts and numbers can always be encoded
    if let Ok(value) = serde_json::to_string(&[failure]) {
        notes.annotate(FAILURE, value);
    }
}

/// Notes the annotations of a policy: of each key every value once.
pub(super) fn note_annotations(request: &ReviewedRequest<'_>, found: Vec<(String, String)>) {
    let Some(notes) = &request.call.request.notes else { return };
    let mut by_key: Vec<(String, Vec<String>)> = Vec::new();
    for (key, mut value) in found {
        value.truncate(value.floor_char_boundary(VALUE_BYTES_MAX));
        match by_key.iter_mut().find(|(known, _)| *known == key) {
            Some((_, values)) if values.contains(&value) => {}
            Some((_, values)) => values.push(value),
            None => by_key.push((key, vec![value])),
        }
    }
    for (key, values) in by_key {
        notes.annotate(key, values.join(BETWEEN));
    }
}
