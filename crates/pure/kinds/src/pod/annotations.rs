//! The annotations of a pod, or of the pods of a template, that mean something.

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::{PodSpec, Toleration};
use rekindle_types::pod_annotations::{DELETION_COST, MIRROR, deletion_cost};
use rekindle_types::validation::field_error::FieldError;

use super::profiles;
use crate::ladder_annotations;
use crate::validation::tolerations::tolerations;
use crate::validation::{Path, text};

type Annotations = BTreeMap<String, String>;

/// Where tolerations stood before there was a field. Nobody reads them; upstream still checks them.
const TOLERATIONS: &str = "scheduler.alpha.kubernetes.io/tolerations";

/// Everything wrong with the annotations at `field`.
pub(crate) fn check(
    annotations: Option<&Annotations>,
    spec: Option<&PodSpec>,
    field: &Path,
) -> Vec<FieldError> {
    let given = |name: &str| annotations.and_then(|all| all.get(name)).map(String::as_str);
    let mut errors = ladder_annotations::check(annotations, field);
    if deletion_cost(annotations).is_none() {
        errors.push(FieldError::invalid(
            field.key(DELETION_COST),
            given(DELETION_COST).unwrap_or_default(),
            "must be a 32bit integer",
        ));
    }
    let node = spec.map(|spec| text(spec.node_name.as_ref())).unwrap_or_default();
    if let Some(hash) = given(MIRROR).filter(|_| node.is_empty()) {
        let why = "must set spec.nodeName if mirror pod annotation is set";
        errors.push(FieldError::invalid(field.key(MIRROR), hash, why));
    }
    if let Some(text) = given(TOLERATIONS).filter(|text| !text.is_empty()) {
        match serde_json::from_str::<Vec<Toleration>>(text) {
            Ok(given) => errors.extend(tolerations(&given, &field.key(TOLERATIONS))),
            Err(error) => {
                errors.push(FieldError::invalid(field, TOLERATIONS, error.to_string()));
            }
        }
    }
    errors.extend(profiles::check(annotations, spec, field));
    errors
}

/// What a change may not do. What makes a pod a mirror of a node's file stays as it was created: a
/// node takes away mirrors that it has no file for.
pub(super) fn check_update(
    new: Option<&Annotations>,
    old: Option<&Annotations>,
    field: &Path,
) -> Vec<FieldError> {
    let mirror =
        |annotations: Option<&Annotations>| annotations.and_then(|all| all.get(MIRROR)).cloned();
    let why = match (mirror(new), mirror(old)) {
        (Some(_), None) => Some("may not add mirror pod annotation"),
        (new, old) if new == old => None,
        (_, Some(_)) => Some("may not remove or update mirror pod annotation"),
        (None, None) => None,
    };
    let mut errors: Vec<FieldError> =
        why.map(|why| FieldError::forbidden(field.key(MIRROR), why)).into_iter().collect();
    errors.extend(profiles::check_update(new, old, field));
    errors
}
