//! What a claim's volume is to be filled with: `dataSource`, and `dataSourceRef`, which says more.
//!
//! Source: upstream's `validateDataSource`, `validateDataSourceRef` and `NormalizeDataSources`.

use k8s_openapi::api::core::v1::{
    PersistentVolumeClaimSpec, TypedLocalObjectReference, TypedObjectReference,
};
use rekindle_types::validation::field_error::{FieldError, FieldProblem};

use crate::validation::{Path, invalid_each, names, text};

/// The kind that needs no group.
const CLAIM: &str = "PersistentVolumeClaim";

/// Whether the volume is to be filled.
pub(super) fn is_given(spec: &PersistentVolumeClaimSpec) -> bool {
    spec.data_source.is_some() || spec.data_source_ref.is_some()
}

/// Gives each of the two fields what the other one says. What upstream has behind a
/// gate is dropped: a reference to another namespace. So is a `dataSource` that is no claim and no
/// snapshot, as ever.
pub(super) fn settle(spec: &mut PersistentVolumeClaimSpec) {
    let is_far = |reference: &TypedObjectReference| !text(reference.namespace.as_ref()).is_empty();
    spec.data_source_ref = spec.data_source_ref.take().filter(|reference| !is_far(reference));
    if spec.data_source_ref.is_none() {
        spec.data_source = spec.data_source.take().filter(is_claim_or_snapshot);
    }
    match (&spec.data_source, &spec.data_source_ref) {
        (Some(source), None) => {
            spec.data_source_ref = Some(TypedObjectReference {
                api_group: source.api_group.clone(),
                kind: source.kind.clone(),
                name: source.name.clone(),
                namespace: None,
            });
        }
        (None, Some(reference)) => {
            spec.data_source = Some(TypedLocalObjectReference {
                api_group: reference.api_group.clone(),
                kind: reference.kind.clone(),
                name: reference.name.clone(),
            });
        }
        (Some(_), Some(_)) | (None, None) => {}
    }
}

fn is_claim_or_snapshot(source: &TypedLocalObjectReference) -> bool {
    match text(source.api_group.as_ref()) {
        "" => source.kind == CLAIM,
        "snapshot.storage.k8s.io" => source.kind == "VolumeSnapshot",
        _ => false,
    }
}

/// What is wrong with the two.
pub(super) fn errors(spec: &PersistentVolumeClaimSpec, field: &Path) -> Vec<FieldError> {
    let mut errors = Vec::new();
    if let Some(source) = &spec.data_source {
        let words = (text(source.api_group.as_ref()), &*source.kind, &*source.name);
        errors.extend(reference_errors(words, &field.child("dataSource")));
    }
    let mut namespace = "";
    if let Some(reference) = &spec.data_source_ref {
        let words = (text(reference.api_group.as_ref()), &*reference.kind, &*reference.name);
        let field = field.child("dataSourceRef");
        errors.extend(reference_errors(words, &field));
        namespace = text(reference.namespace.as_ref());
        if !namespace.is_empty() {
            let messages = names::dns_label(namespace);
            errors.extend(invalid_each(&field.child("namespace"), namespace, messages));
        }
    }
    if let (Some(source), Some(reference)) = (&spec.data_source, &spec.data_source_ref) {
        let is_same = source.api_group == reference.api_group
            && (&source.kind, &source.name) == (&reference.kind, &reference.name);
        let detail = match namespace {
            "" if is_same => return errors,
            "" => "must match dataSourceRef",
            _ => "may not be specified when dataSourceRef.namespace is specified",
        };
        errors.push(FieldError {
            field: field.into(),
            problem: FieldProblem::Invalid("{}".to_owned()),
            detail: detail.to_owned(),
        });
    }
    errors
}

fn reference_errors((group, kind, name): (&str, &str, &str), field: &Path) -> Vec<FieldError> {
    let mut errors = Vec::new();
    for (child, value) in [("name", name), ("kind", kind)] {
        if value.is_empty() {
            errors.push(FieldError::required(field.child(child), ""));
        }
    }
    if group.is_empty() && kind != CLAIM {
        let detail = "must be 'PersistentVolumeClaim' when referencing the default apiGroup";
        errors.push(FieldError::invalid(field, kind, detail));
    }
    if !group.is_empty() {
        errors.extend(invalid_each(&field.child("apiGroup"), group, names::dns_subdomain(group)));
    }
    errors
}
