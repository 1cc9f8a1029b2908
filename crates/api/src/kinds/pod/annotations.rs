//! The annotations of a pod, or of the pods of a template, that mean something.

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::PodSpec;
use rekindle_types::pod_annotations::{DELETION_COST, MIRROR, deletion_cost};

use crate::kinds::ladder_annotations;
use crate::registry::field_error::FieldError;
use crate::validation::{Path, text};

type Annotations = BTreeMap<String, String>;

/// Everything wrong with the annotations at `field`.
pub(in crate::kinds) fn check(
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
    errors
}

/// What makes a pod a mirror of a node's file stays as it was created: a node takes away mirrors that it has no file for.
pub(super) fn check_update(
    new: Option<&Annotations>,
    old: Option<&Annotations>,
    field: &Path,
) -> Option<FieldError> {
    let mirror =
        |annotations: Option<&Annotations>| annotations.and_then(|all| all.get(MIRROR)).cloned();
    let (new, old) = (mirror(new), mirror(old));
    let why = match (&new, &old) {
        (Some(_), None) => "may not add mirror pod annotation",
        (_, Some(_)) => "may not remove or update mirror pod annotation",
        (None, None) => return None,
    };
    (new != old).then(|| FieldError::forbidden(field.key(MIRROR), why))
}
