//! What variables and files may show of their own pod: its fields, and its containers' resources.

use k8s_openapi::api::core::v1::{ObjectFieldSelector, ResourceFieldSelector};
use rekindle_types::validation::field_error::FieldError;

use crate::validation::{Path, invalid_each, names, quantities, text};

/// The fields of its own pod that a variable can show.
pub(super) const ENV_FIELDS: [&str; 9] = [
    "metadata.name",
    "metadata.namespace",
    "metadata.uid",
    "spec.nodeName",
    "spec.serviceAccountName",
    "status.hostIP",
    "status.hostIPs",
    "status.podIP",
    "status.podIPs",
];

/// The fields of its own pod that a file of a downwardAPI volume can show.
pub(super) const FILE_FIELDS: [&str; 5] = [
    "metadata.annotations",
    "metadata.labels",
    "metadata.name",
    "metadata.namespace",
    "metadata.uid",
];

/// Fields that a selector can name, and nothing shows.
const OTHER_FIELDS: [&str; 4] =
    ["spec.host", "spec.restartPolicy", "spec.schedulerName", "status.phase"];

const RESOURCES: [&str; 6] = [
    "limits.cpu",
    "limits.ephemeral-storage",
    "limits.memory",
    "requests.cpu",
    "requests.ephemeral-storage",
    "requests.memory",
];

/// Checks a `fieldRef` against the fields that may be shown there.
pub(super) fn field_selector(
    selector: &ObjectFieldSelector,
    allowed: &[&str],
    field: &Path,
) -> Vec<FieldError> {
    let path = selector.field_path.as_str();
    if path.is_empty() {
        return vec![FieldError::required(field.child("fieldPath"), "")];
    }
    if text(selector.api_version.as_ref()) != "v1" {
        return vec![FieldError::invalid(
            field.child("fieldPath"),
            path,
            format!(
                "error converting fieldPath: unsupported pod version: {}",
                text(selector.api_version.as_ref())
            ),
        )];
    }
    if let Some((map, key)) = path.strip_suffix("']").and_then(|path| path.split_once("['")) {
        return match map {
            "metadata.annotations" => {
                invalid_each(field, key, names::qualified(&key.to_lowercase())).collect()
            }
            "metadata.labels" => invalid_each(field, key, names::qualified(key)).collect(),
            _ => vec![FieldError::invalid(
                field.child("fieldPath"),
                path,
                format!(
                    "error converting fieldPath: field label does not support subscript: {path}"
                ),
            )],
        };
    }
    if allowed.contains(&path) {
        return Vec::new();
    }
    if [&ENV_FIELDS[..], &FILE_FIELDS, &OTHER_FIELDS].iter().any(|known| known.contains(&path)) {
        return vec![FieldError::not_supported(field.child("fieldPath"), path, allowed)];
    }
    vec![FieldError::invalid(
        field.child("fieldPath"),
        path,
        format!("error converting fieldPath: field label not supported: {path}"),
    )]
}

/// Whether a `resourceFieldRef` must name the container.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ContainerNameRule {
    /// In a volume, which belongs to no container.
    Required,
    /// In a variable.
    Optional,
}

/// Checks a `resourceFieldRef`.
pub(super) fn resource_selector(
    selector: &ResourceFieldSelector,
    container: ContainerNameRule,
    field: &Path,
) -> Vec<FieldError> {
    let mut errors = Vec::new();
    let resource = selector.resource.as_str();
    if container == ContainerNameRule::Required && text(selector.container_name.as_ref()).is_empty()
    {
        errors.push(FieldError::required(field.child("containerName"), ""));
    } else if resource.is_empty() {
        errors.push(FieldError::required(field.child("resource"), ""));
    } else if !RESOURCES.contains(&resource)
        && !resource.starts_with("limits.hugepages-")
        && !resource.starts_with("requests.hugepages-")
    {
        errors.push(FieldError::not_supported(field.child("resource"), resource, &RESOURCES));
    }
    let Some(divisor) = &selector.divisor else { return errors };
    let amount = match quantities::check(divisor, &field.child("divisor")) {
        Ok(amount) => amount,
        Err(error) => {
            errors.push(error);
            return errors;
        }
    };
    let (known, kind, shown) = if resource.ends_with(".cpu") {
        (&["1m", "1"][..], "cpu", "1m and 1")
    } else {
        const BYTES: [&str; 13] =
            ["1", "1k", "1M", "1G", "1T", "1P", "1E", "1Ki", "1Mi", "1Gi", "1Ti", "1Pi", "1Ei"];
        let kind = if resource.ends_with(".memory") {
            "memory"
        } else if resource.contains("hugepages-") {
            "hugepages"
        } else {
            "local ephemeral storage"
        };
        (&BYTES[..], kind, "1, 1k, 1M, 1G, 1T, 1P, 1E, 1Ki, 1Mi, 1Gi, 1Ti, 1Pi, 1Ei")
    };
    if !amount.is_zero() && !known.contains(&amount.to_string().as_str()) {
        errors.push(FieldError::invalid(
            field.child("divisor"),
            resource,
            format!("only divisor's values {shown} are supported with the {kind} resource"),
        ));
    }
    errors
}
