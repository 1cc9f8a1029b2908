//! Claims that a pod brings along: each ephemeral volume has one, by the names of the pod and of
//! the volume.

use k8s_openapi::api::core::v1::{PersistentVolumeClaimTemplate, Volume};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use rekindle_types::ObjectJson;
use rekindle_types::validation::field_error::FieldError;
use serde_json::Value;

use crate::storage::claim_errors;
use crate::validation::{ListKeys, Path, labels, names};

/// What the name of a pod may have (RFC 1123 subdomain).
const POD_NAME_BYTES_MAX: usize = 253;

/// Checks what the claim will be made from.
pub(super) fn template(template: &PersistentVolumeClaimTemplate, field: &Path) -> Vec<FieldError> {
    let mut errors = Vec::new();
    if let Some(meta) = &template.metadata {
        errors.extend(template_metadata(meta, &field.child("metadata")));
    }
    errors.extend(claim_errors(&template.spec, &field.child("spec")));
    errors
}

/// Labels and annotations are copied. All else of the claim follows from the pod, so it may not be
/// given.
pub(crate) fn template_metadata(meta: &ObjectMeta, field: &Path) -> Vec<FieldError> {
    let mut errors = labels::annotations(meta.annotations.as_ref(), &field.child("annotations"));
    errors.extend(labels::labels(meta.labels.as_ref(), &field.child("labels")));
    let given = meta.to_value();
    let given = given.as_object().into_iter().flatten();
    let others = given.filter(|(name, value)| {
        !matches!(name.as_str(), "annotations" | "labels") && !is_nothing(value)
    });
    errors
        .extend(others.map(|(name, _)| FieldError::forbidden(field.child(name), "cannot be set")));
    errors
}

fn is_nothing(value: &Value) -> bool {
    match value {
        Value::Null => true,
        Value::String(text) => text.is_empty(),
        Value::Array(list) => list.is_empty(),
        Value::Number(number) => number.as_i64() == Some(0),
        Value::Bool(_) | Value::Object(_) => false,
    }
}

/// Checks the names of the claims that the volumes of a pod of this name will have: each can be
/// one, and no volume names a claim that is made for another one.
pub(crate) fn by_name(volumes: &[Volume], pod: &str, field: &Path) -> Vec<FieldError> {
    let is_ephemeral = |volume: &&Volume| volume.ephemeral.is_some();
    // A name that is too long is refused already, and would be written down for each volume.
    if pod.is_empty()
        || pod.len() > POD_NAME_BYTES_MAX
        || !volumes.iter().any(|volume| is_ephemeral(&volume))
    {
        return Vec::new();
    }
    let claim_of = |volume: &Volume| format!("{pod}-{}", volume.name);
    let made: ListKeys<String> = volumes.iter().filter(is_ephemeral).map(claim_of).collect();
    let mut errors = Vec::new();
    for (index, volume) in volumes.iter().enumerate() {
        let field = field.index(index);
        if volume.ephemeral.is_some() && !volume.name.is_empty() {
            let claim = claim_of(volume);
            let wrong = names::dns_subdomain(&claim).into_iter();
            errors.extend(wrong.map(|why| {
                let detail = format!("PVC name {claim:?}: {why}");
                FieldError::invalid(field.child("name"), &volume.name, detail)
            }));
        }
        if let Some(source) = &volume.persistent_volume_claim
            && made.has(source.claim_name.as_str())
        {
            errors.push(FieldError::invalid(
                field.child("persistentVolumeClaim").child("claimName"),
                &source.claim_name,
                "must not reference a PVC that gets created for an ephemeral volume",
            ));
        }
    }
    errors
}
