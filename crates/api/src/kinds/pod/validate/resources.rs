//! Requests and limits.

use k8s_openapi::api::core::v1::{Container, PodSpec, ResourceRequirements};

use crate::registry::field_error::FieldError;
use crate::validation::quantities::{self, ResourceList};
use crate::validation::{Path, invalid_each, items, names};

/// Checks the resources of a container.
pub(super) fn of_container(container: &Container, field: &Path) -> Vec<FieldError> {
    container.resources.as_ref().map_or_else(Vec::new, |resources| requirements(resources, field))
}

/// Checks the resources of the pod as a whole, and its overhead.
pub(super) fn pod_level(spec: &PodSpec, field: &Path) -> Vec<FieldError> {
    let mut errors = Vec::new();
    if let Some(resources) = &spec.resources {
        let field = field.child("resources");
        if resources.claims.is_some() {
            errors.push(FieldError::forbidden(
                field.child("claims"),
                "claims cannot be set for Resources at pod-level",
            ));
        }
        errors.extend(requirements(resources, &field));
    }
    errors.extend(amounts(spec.overhead.as_ref(), &field.child("overhead")));
    errors
}

fn requirements(resources: &ResourceRequirements, field: &Path) -> Vec<FieldError> {
    let mut errors = amounts(resources.limits.as_ref(), &field.child("limits"));
    errors.extend(amounts(resources.requests.as_ref(), &field.child("requests")));
    let requests_field = field.child("requests");
    for (name, request) in resources.requests.iter().flatten() {
        let Some(limit) = resources.limits.as_ref().and_then(|limits| limits.get(name)) else {
            if !may_overcommit(name) {
                errors.push(FieldError::required(
                    field.child("limits"),
                    "Limit must be set for non overcommitable resources",
                ));
            }
            continue;
        };
        let (Ok(asked), Ok(most)) = (quantities::read(request), quantities::read(limit)) else {
            continue; // named above
        };
        if !may_overcommit(name) && asked.millis() != most.millis() {
            errors.push(FieldError::invalid(
                &requests_field,
                &request.0,
                format!("must be equal to {name} limit of {most}"),
            ));
        } else if asked.millis() > most.millis() {
            errors.push(FieldError::invalid(
                &requests_field,
                &request.0,
                format!("must be less than or equal to {name} limit of {most}"),
            ));
        }
    }
    errors.extend(claims(resources, field));
    errors
}

fn claims(resources: &ResourceRequirements, field: &Path) -> Vec<FieldError> {
    let mut errors = Vec::new();
    for (index, claim) in items(resources.claims.as_ref()).iter().enumerate() {
        if claim.name.is_empty() {
            let field = field.child("claims").index(index).child("name");
            errors.push(FieldError::required(field, ""));
        }
    }
    errors
}

fn amounts(list: Option<&ResourceList>, field: &Path) -> Vec<FieldError> {
    let mut errors = Vec::new();
    for (name, amount) in list.into_iter().flatten() {
        let key = field.key(name);
        errors.extend(resource_name(name, field));
        match quantities::check_non_negative(amount, &key) {
            Ok(amount) if !is_fractional(name) && !amount.is_whole() => {
                errors.push(FieldError::invalid(&key, amount.to_string(), "must be an integer"));
            }
            Ok(_) => {}
            Err(error) => errors.push(error),
        }
    }
    errors
}

fn resource_name(name: &str, field: &Path) -> Vec<FieldError> {
    let messages = names::qualified(name);
    if !messages.is_empty() {
        return invalid_each(field, name, messages).collect();
    }
    match name.split_once('/') {
        None if is_native(name) => Vec::new(),
        None => {
            vec![FieldError::invalid(field, name, "must be a standard resource for containers")]
        }
        Some((domain, _))
            if domain.ends_with("kubernetes.io") || domain.starts_with("requests.") =>
        {
            vec![FieldError::invalid(field, name, "doesn't follow extended resource name standard")]
        }
        Some(_) => Vec::new(),
    }
}

fn is_native(name: &str) -> bool {
    matches!(name, "cpu" | "memory" | "ephemeral-storage") || name.starts_with("hugepages-")
}

fn is_fractional(name: &str) -> bool {
    matches!(name, "cpu" | "memory" | "ephemeral-storage")
}

/// Huge pages and extended resources are whole things: what is requested is what there is.
fn may_overcommit(name: &str) -> bool {
    is_native(name) && !name.starts_with("hugepages-")
}
