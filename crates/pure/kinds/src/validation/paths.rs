//! Paths of files.

use k8s_openapi::api::core::v1::HostPathVolumeSource;
use rekindle_types::validation::field_error::FieldError;

use super::{Path, text};

const HOST_PATH_TYPES: [&str; 8] = [
    "",
    "BlockDevice",
    "CharDevice",
    "Directory",
    "DirectoryOrCreate",
    "File",
    "FileOrCreate",
    "Socket",
];

/// A relative path that never goes up.
pub fn descending_path(path: &str, field: &Path) -> Vec<FieldError> {
    let mut errors = Vec::new();
    if path.starts_with('/') {
        errors.push(FieldError::invalid(field, path, "must be a relative path"));
    }
    if path.split('/').any(|part| part == "..") {
        errors.push(FieldError::invalid(field, path, "must not contain '..'"));
    }
    errors
}

/// What is wrong with a path of the host.
pub fn host_path(source: &HostPathVolumeSource, field: &Path) -> Vec<FieldError> {
    let mut errors = Vec::new();
    let path = &source.path;
    if path.is_empty() {
        errors.push(FieldError::required(field.child("path"), ""));
    } else if path.split('/').any(|part| part == "..") {
        errors.push(FieldError::invalid(field.child("path"), path, "must not contain '..'"));
    }
    let kind = text(source.type_.as_ref());
    if !HOST_PATH_TYPES.contains(&kind) {
        errors.push(FieldError::not_supported(field.child("type"), kind, &HOST_PATH_TYPES));
    }
    errors
}
