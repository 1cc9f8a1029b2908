//! Attributes of a device: one value each, or a list of values of one type.

use k8s_openapi::api::resource::v1::{Device, DeviceAttribute};
use rekindle_structural_schema::is_semantic_version;
use rekindle_types::validation::field_error::{FieldError, FieldProblem};

use super::bounded_lists::{UNBOUNDED, map_errors};
use super::qualified_name::{QUALIFIED_BYTES_MAX, qualified_errors};
use crate::validation::{MISTAKES_MAX, Path, items, json};

/// The longest text or version.
const VALUE_BYTES_MAX: usize = 64;

/// How many values an attribute has.
pub(super) fn value_count(attribute: &DeviceAttribute) -> usize {
    let listed = items(attribute.bools.as_ref()).len()
        + items(attribute.ints.as_ref()).len()
        + items(attribute.strings.as_ref()).len()
        + items(attribute.versions.as_ref()).len();
    listed.max(1)
}

/// Whether an attribute has a list of values.
pub(super) fn has_list(attribute: &DeviceAttribute) -> bool {
    attribute.bools.is_some()
        || attribute.ints.is_some()
        || attribute.strings.is_some()
        || attribute.versions.is_some()
}

/// What is wrong with the attributes of a device.
pub(super) fn map_of_errors(device: &Device, field: &Path) -> Vec<FieldError> {
    let key_bytes = QUALIFIED_BYTES_MAX;
    map_errors(
        device.attributes.as_ref(),
        (UNBOUNDED, key_bytes),
        field,
        qualified_errors,
        attribute_errors,
    )
}

fn attribute_errors(attribute: &DeviceAttribute, field: &Path) -> Vec<FieldError> {
    let mut errors = Vec::new();
    if let Some(text) = &attribute.string {
        errors.extend(text_error(text, &field.child("string")));
    }
    if let Some(version) = &attribute.version {
        errors.extend(version_errors(version, &field.child("version")));
    }
    for (name, count) in [
        ("bools", attribute.bools.as_ref().map(Vec::len)),
        ("ints", attribute.ints.as_ref().map(Vec::len)),
        ("strings", attribute.strings.as_ref().map(Vec::len)),
        ("versions", attribute.versions.as_ref().map(Vec::len)),
    ] {
        if count == Some(0) {
            errors.push(FieldError {
                field: field.child(name).into(),
                problem: FieldProblem::Invalid("[]".to_owned()),
                detail: "must not be empty if specified".to_owned(),
            });
        }
    }
    for (index, text) in items(attribute.strings.as_ref()).iter().enumerate().take(MISTAKES_MAX) {
        errors.extend(text_error(text, &field.child("strings").index(index)));
    }
    for (index, version) in items(attribute.versions.as_ref()).iter().enumerate().take(MISTAKES_MAX)
    {
        errors.extend(version_errors(version, &field.child("versions").index(index)));
    }
    errors.extend(union_error(attribute, field));
    errors
}

fn union_error(attribute: &DeviceAttribute, field: &Path) -> Option<FieldError> {
    let given = [
        attribute.bool.is_some(),
        attribute.int.is_some(),
        attribute.string.is_some(),
        attribute.version.is_some(),
        attribute.bools.is_some(),
        attribute.ints.is_some(),
        attribute.strings.is_some(),
        attribute.versions.is_some(),
    ];
    const WHY: &str = "exactly one value must be specified";
    match given.into_iter().filter(|given| *given).count() {
        0 => Some(FieldError::invalid(field, "", WHY)),
        1 => None,
        _ => Some(FieldError {
            field: field.into(),
            problem: FieldProblem::Invalid(json(attribute)),
            detail: WHY.to_owned(),
        }),
    }
}

fn text_error(text: &str, field: &Path) -> Option<FieldError> {
    (text.len() > VALUE_BYTES_MAX).then(|| FieldError::too_long(field, VALUE_BYTES_MAX))
}

fn version_errors(version: &str, field: &Path) -> Vec<FieldError> {
    let mut errors = Vec::new();
    if !is_semantic_version(version) {
        let why = "must be a string compatible with semver.org spec 2.0.0";
        errors.push(FieldError::invalid(field, version, why));
    }
    errors.extend(text_error(version, field));
    errors
}
