//! Names of resources: `cpu`, `requests.storage`, `example.com/gpu`.
//!
//! Source: upstream's `validateResourceName` and `validateContainerResourceName`.

use rekindle_quota::is_standard_name;
use rekindle_types::validation::field_error::FieldError;

use super::{Path, invalid_each, names};

/// What is wrong with the name of any resource.
pub(crate) fn any(name: &str, field: &Path) -> Vec<FieldError> {
    let messages = names::qualified(name);
    if !messages.is_empty() {
        return invalid_each(field, name, messages).collect();
    }
    if name.contains('/') || is_standard_name(name) || matches!(name, "storage") {
        return Vec::new();
    }
    let why = "must be a standard resource type or fully qualified";
    vec![FieldError::invalid(field, name, why)]
}

/// What is wrong with the name of a resource that a container has.
pub(crate) fn of_container(name: &str, field: &Path) -> Vec<FieldError> {
    if is_native(name) {
        return any_native(name, field);
    }
    let mut errors = any(name, field);
    match name.split_once('/') {
        None => {
            let why = "must be a standard resource for containers";
            errors.push(FieldError::invalid(field, name, why));
        }
        Some((domain, _)) if domain.starts_with("requests.") => {
            let why = "doesn't follow extended resource name standard";
            errors.push(FieldError::invalid(field, name, why));
        }
        Some(_) => {}
    }
    errors
}

fn any_native(name: &str, field: &Path) -> Vec<FieldError> {
    invalid_each(field, name, names::qualified(name)).collect()
}

/// Whether a resource is one of Kubernetes' own, and not an extended one.
pub(crate) fn is_native(name: &str) -> bool {
    matches!(name, "cpu" | "memory" | "ephemeral-storage")
        || name.starts_with("hugepages-")
        || name.contains("kubernetes.io/")
}

/// Whether a resource has a domain that is none of Kubernetes' own (upstream's
/// `IsExtendedResourceName`, which looks at the form of the name, too).
pub(crate) fn is_extended(name: &str) -> bool {
    name.contains('/') && !name.contains("kubernetes.io/") && !name.starts_with("requests.")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_container_has_native_and_extended_resources() {
        let wrong = |name: &str| of_container(name, &Path::new("limits").key(name)).len();
        for name in ["cpu", "memory", "hugepages-2Mi", "example.com/gpu"] {
            assert_eq!(wrong(name), 0, "{name}");
        }
        // standard, but none of containers
        assert_eq!(wrong("pods"), 1);
        // neither standard nor of containers
        assert_eq!(wrong("gpu"), 2);
        assert_eq!(wrong("requests.example.com/gpu"), 1);
    }
}
