//! Environment variables and where they come from.

use k8s_openapi::api::core::v1::{EnvFromSource, EnvVar, EnvVarSource, FileKeySelector};
use rekindle_types::validation::field_error::FieldError;

use super::checked_pod::CheckedPod;
use super::own_fields::{ContainerNameRule, ENV_FIELDS, field_selector, resource_selector};
use super::volume_files::file_path;
use crate::validation::{Path, invalid_each, names, text};

/// Checks `env` of a container of a pod.
pub(super) fn variables(
    variables: &[EnvVar],
    pod: &CheckedPod<'_>,
    field: &Path,
) -> Vec<FieldError> {
    let mut errors = Vec::new();
    for (index, variable) in variables.iter().enumerate() {
        let field = field.index(index);
        if variable.name.is_empty() {
            errors.push(FieldError::required(field.child("name"), ""));
        } else {
            let messages = names::env_var(&variable.name);
            errors.extend(invalid_each(&field.child("name"), &variable.name, messages));
        }
        if let Some(source) = &variable.value_from {
            let value = text(variable.value.as_ref());
            errors.extend(value_from(source, value, pod, &field.child("valueFrom")));
        }
    }
    errors
}

fn value_from(
    source: &EnvVarSource,
    value: &str,
    pod: &CheckedPod<'_>,
    field: &Path,
) -> Vec<FieldError> {
    let mut errors = Vec::new();
    let mut sources = 0;
    if let Some(selector) = &source.field_ref {
        sources += 1;
        errors.extend(field_selector(selector, &ENV_FIELDS, &field.child("fieldRef")));
    }
    if let Some(selector) = &source.resource_field_ref {
        sources += 1;
        let field = field.child("resourceFieldRef");
        errors.extend(resource_selector(selector, ContainerNameRule::Optional, &field));
    }
    if let Some(selector) = &source.config_map_key_ref {
        sources += 1;
        errors.extend(key_selector(&selector.name, &selector.key, &field.child("configMapKeyRef")));
    }
    if let Some(selector) = &source.secret_key_ref {
        sources += 1;
        errors.extend(key_selector(&selector.name, &selector.key, &field.child("secretKeyRef")));
    }
    if let Some(selector) = &source.file_key_ref {
        sources += 1;
        errors.extend(file_selector(selector, pod, &field.child("fileKeyRef")));
    }
    if sources == 0 {
        errors.push(FieldError::invalid(
            field,
            "",
            "must specify one of: `fieldRef`, `resourceFieldRef`, `configMapKeyRef`, `secretKeyRef` or `fileKeyRef`",
        ));
    } else if !value.is_empty() {
        errors.push(FieldError::invalid(
            field,
            "",
            "may not be specified when `value` is not empty",
        ));
    } else if sources > 1 {
        errors.push(FieldError::invalid(
            field,
            "",
            "may not have more than one field specified at a time",
        ));
    }
    errors
}

fn key_selector(name: &str, key: &str, field: &Path) -> Vec<FieldError> {
    let mut errors: Vec<FieldError> =
        invalid_each(&field.child("name"), name, names::dns_subdomain(name)).collect();
    if key.is_empty() {
        errors.push(FieldError::required(field.child("key"), ""));
    } else {
        errors.extend(invalid_each(&field.child("key"), key, names::config_map_key(key)));
    }
    errors
}

/// A key of a file in one of the pod's emptyDirs (KEP-3721).
fn file_selector(
    selector: &FileKeySelector,
    pod: &CheckedPod<'_>,
    field: &Path,
) -> Vec<FieldError> {
    let mut errors = Vec::new();
    if selector.key.is_empty() {
        errors.push(FieldError::required(field.child("key"), ""));
    } else {
        let messages = names::env_var(&selector.key);
        errors.extend(invalid_each(&field.child("key"), &selector.key, messages));
    }
    let name = &selector.volume_name;
    let at = field.child("volumeName");
    if name.is_empty() {
        errors.push(FieldError::required(at, ""));
    } else {
        match pod.volume(name) {
            Some(volume) if volume.empty_dir.is_some() => {}
            Some(_) => errors.push(FieldError::invalid(
                at,
                name,
                "referenced volume must be of type emptyDir",
            )),
            None => errors.push(FieldError::not_found(at, name)),
        }
    }
    errors.extend(file_path(&selector.path, &field.child("path")));
    errors
}

/// Checks `envFrom`.
pub(super) fn sources(sources: &[EnvFromSource], field: &Path) -> Vec<FieldError> {
    let mut errors = Vec::new();
    for (index, source) in sources.iter().enumerate() {
        let entry = field.index(index);
        let prefix = text(source.prefix.as_ref());
        if !prefix.is_empty() {
            errors.extend(invalid_each(&entry.child("prefix"), prefix, names::env_var(prefix)));
        }
        let config_map = source.config_map_ref.as_ref().map(|source| &source.name);
        let secret = source.secret_ref.as_ref().map(|source| &source.name);
        for (name, value) in [("configMapRef", config_map), ("secretRef", secret)] {
            let Some(value) = value else { continue };
            let field = entry.child(name).child("name");
            if value.is_empty() {
                errors.push(FieldError::required(&field, ""));
            } else {
                errors.extend(invalid_each(&field, value, names::dns_subdomain(value)));
            }
        }
        match (config_map, secret) {
            (None, None) => errors.push(FieldError::invalid(
                field,
                "",
                "must specify one of: `configMapRef` or `secretRef`",
            )),
            (Some(_), Some(_)) => errors.push(FieldError::invalid(
                field,
                "",
                "may not have more than one field specified at a time",
            )),
            (Some(_), None) | (None, Some(_)) => {}
        }
    }
    errors
}
