//! The files of a volume that shows what the API knows: where each lies, whom it belongs to, who
//! may read it.

use k8s_openapi::api::core::v1::{DownwardAPIVolumeFile, KeyToPath};
use rekindle_types::validation::field_error::FieldError;

use super::own_fields;
use crate::validation::paths::descending_path;
use crate::validation::{Path, numbers};

/// Checks which keys of a ConfigMap or a Secret are shown, and where.
pub(super) fn keys(keys: &[KeyToPath], field: &Path) -> Vec<FieldError> {
    let mut errors = Vec::new();
    for (index, key) in keys.iter().enumerate() {
        let field = field.index(index);
        if key.key.is_empty() {
            errors.push(FieldError::required(field.child("key"), ""));
        }
        errors.extend(file_path(&key.path, &field.child("path")));
        errors.extend(mode(key.mode, &field.child("mode")));
        errors.extend(user(key.user, &field.child("user")));
    }
    errors
}

/// Checks the files that show what a pod says of itself.
pub(super) fn files(files: &[DownwardAPIVolumeFile], field: &Path) -> Vec<FieldError> {
    let mut errors = Vec::new();
    for file in files {
        errors.extend(file_path(&file.path, &field.child("path")));
        match (&file.field_ref, &file.resource_field_ref) {
            (Some(selector), other) => {
                errors.extend(own_fields::field_selector(
                    selector,
                    &own_fields::FILE_FIELDS,
                    &field.child("fieldRef"),
                ));
                if other.is_some() {
                    errors.push(FieldError::invalid(
                        field,
                        "resource",
                        "fieldRef and resourceFieldRef can not be specified simultaneously",
                    ));
                }
            }
            (None, Some(selector)) => {
                let field = field.child("resourceFieldRef");
                let container = own_fields::ContainerNameRule::Required;
                errors.extend(own_fields::resource_selector(selector, container, &field));
            }
            (None, None) => errors.push(FieldError::required(
                field,
                "one of fieldRef and resourceFieldRef is required",
            )),
        }
        errors.extend(mode(file.mode, &field.child("mode")));
        errors.extend(user(file.user, &field.child("user")));
    }
    errors
}

/// Who may read a file.
pub(super) fn mode(mode: Option<i32>, field: &Path) -> Option<FieldError> {
    mode.and_then(|mode| numbers::file_mode(mode, field))
}

/// Whom a file belongs to.
pub(super) fn user(user: Option<i64>, field: &Path) -> Option<FieldError> {
    user.and_then(|user| numbers::unix_id(user, field))
}

/// A path of a file inside a volume, which may not look like the names that atomic updates use.
pub(super) fn file_path(path: &str, field: &Path) -> Vec<FieldError> {
    if path.is_empty() {
        return vec![FieldError::required(field, "")];
    }
    let mut errors = descending_path(path, field);
    if path.starts_with("..") && !path.starts_with("../") {
        errors.push(FieldError::invalid(field, path, "must not start with '..'"));
    }
    errors
}
