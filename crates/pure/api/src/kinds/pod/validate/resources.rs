//! Requests and limits.

use k8s_openapi::api::core::v1::{Container, ContainerResizePolicy, PodSpec, ResourceRequirements};
use rekindle_types::Quantity;
use rekindle_types::resources::{Amounts, is_pod_level, sum_over_containers};

use crate::registry::field_error::FieldError;
use crate::validation::quantities::{self, ResourceList};
use crate::validation::resource_names;
use crate::validation::{ListKeys, Path, items};

use super::checked_pod::CheckedPod;
use super::claims;

/// Checks the resources of a container of this pod.
pub(super) fn validate_container_resources(
    container: &Container,
    pod: &CheckedPod<'_>,
    field: &Path,
) -> Vec<FieldError> {
    let Some(resources) = &container.resources else { return Vec::new() };
    let mut errors = requirements(resources, field);
    let used = items(resources.claims.as_ref());
    errors.extend(claims::validate_container_claims(used, pod, &field.child("claims")));
    errors
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
        for (name, list) in [("limits", &resources.limits), ("requests", &resources.requests)] {
            errors.extend(pod_level_names(list.as_ref(), &field.child(name)));
        }
        let known = of_known_names(resources);
        errors.extend(requirements(&known, &field));
        errors.extend(agree(spec, resources, &field));
    }
    // upstream's validation names the overhead so
    let overhead = field.child("overhead").child("limits");
    errors.extend(amounts(spec.overhead.as_ref(), &overhead));
    errors
}

/// What is asked for a pod as a whole, without the names that it cannot ask for: these are named
/// already.
fn of_known_names(resources: &ResourceRequirements) -> ResourceRequirements {
    let known = |list: &Option<ResourceList>| {
        let list = list.as_ref()?;
        let known = list.iter().filter(|(name, _)| is_pod_level(name));
        Some(known.map(|(name, amount)| (name.clone(), amount.clone())).collect())
    };
    ResourceRequirements {
        claims: None,
        limits: known(&resources.limits),
        requests: known(&resources.requests),
    }
}

fn pod_level_names(list: Option<&ResourceList>, field: &Path) -> Vec<FieldError> {
    let names = list.into_iter().flat_map(ResourceList::keys);
    names
        .filter(|name| !is_pod_level(name))
        .map(|name| {
            let supported = ["cpu", "hugepages-", "memory"];
            FieldError::not_supported(field.key(name), name, &supported)
        })
        .collect()
}

/// What the containers ask for together is no more than what is asked for the pod, and none has a
/// higher limit.
fn agree(spec: &PodSpec, own: &ResourceRequirements, field: &Path) -> Vec<FieldError> {
    let mut errors = Vec::new();
    let validate_container_resources = |container: &Container| {
        Amounts::read(container.resources.as_ref().and_then(|r| r.requests.as_ref()))
    };
    let (requests, limits) = (Amounts::read(own.requests.as_ref()), own.limits.as_ref());
    for (name, sum) in sum_over_containers(spec, validate_container_resources).iter() {
        let asked = requests.get(name);
        let is_named = own.requests.as_ref().is_some_and(|list| list.contains_key(name));
        if is_named && sum.millis() > asked.millis() {
            let detail = "must be greater than or equal to aggregate container requests of";
            let field = field.child("requests").key(name);
            errors.push(FieldError::invalid(field, asked.to_string(), format!("{detail} {sum}")));
        }
    }
    for (index, container) in spec.containers.iter().enumerate() {
        let validate_container_resources =
            container.resources.as_ref().and_then(|r| r.limits.as_ref());
        for (name, limit) in Amounts::read(validate_container_resources).iter() {
            let most = limits.and_then(|limits| quantities::read(limits.get(name)?).ok());
            if let Some(most) = most.filter(|most| limit.millis() > most.millis()) {
                // The path is upstream's own.
                let field = field.child("containers").index(index).key(name).child("limits");
                let detail = format!("must be less than or equal to pod limits of {most}");
                errors.push(FieldError::invalid(field, limit.to_string(), detail));
            }
        }
    }
    errors
}

/// What a change of resources means for the container (KEP-1287).
pub(super) fn resize_policy(
    policies: &[ContainerResizePolicy],
    pod_policy: &str,
    field: &Path,
) -> Vec<FieldError> {
    let mut errors = Vec::new();
    let mut named: ListKeys<&str> = ListKeys::new();
    for (index, policy) in policies.iter().enumerate() {
        let resource = policy.resource_name.as_str();
        if named.add(resource).is_some() {
            errors.push(FieldError::duplicate(field.index(index), resource));
        }
        match resource {
            "cpu" | "memory" => {}
            "" => errors.push(FieldError::required(field, "")),
            other => errors.push(FieldError::not_supported(field, other, &["cpu", "memory"])),
        }
        let restart = policy.restart_policy.as_str();
        match restart {
            "NotRequired" | "RestartContainer" => {}
            "" => errors.push(FieldError::required(field, "")),
            other => {
                let supported = ["NotRequired", "RestartContainer"];
                errors.push(FieldError::not_supported(field, other, &supported));
            }
        }
        if pod_policy == "Never" && restart != "NotRequired" {
            errors.push(FieldError::invalid(
                field,
                restart,
                "must be 'NotRequired' when `restartPolicy` is 'Never'",
            ));
        }
    }
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
    errors.extend(huge_pages(resources, field));
    errors
}

/// Whole pages, and not without CPU or memory.
fn huge_pages(resources: &ResourceRequirements, field: &Path) -> Vec<FieldError> {
    let mut errors = Vec::new();
    let (mut asks, mut has_others) = (false, false);
    for (side, list) in [("limits", &resources.limits), ("requests", &resources.requests)] {
        for (name, amount) in list.iter().flatten() {
            has_others |= matches!(name.as_str(), "cpu" | "memory");
            let Some(size) = name.strip_prefix("hugepages-") else { continue };
            asks = true;
            let (Ok(amount), size) = (quantities::read(amount), size.parse::<Quantity>()) else {
                continue; // named before
            };
            let is_whole = size
                .ok()
                .and_then(|size| amount.units().checked_rem(size.units()))
                .is_some_and(|rest| rest == 0);
            if !is_whole {
                let detail = format!("{amount} is not positive integer multiple of {name}");
                let field = field.child(side).key(name);
                errors.push(FieldError::invalid(field, amount.to_string(), detail));
            }
        }
    }
    if asks && !has_others {
        errors.push(FieldError::forbidden(field, "HugePages require cpu or memory"));
    }
    errors
}

fn amounts(list: Option<&ResourceList>, field: &Path) -> Vec<FieldError> {
    let mut errors = Vec::new();
    for (name, amount) in list.into_iter().flatten() {
        let key = field.key(name);
        errors.extend(resource_names::of_container(name, &key));
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

/// Extended resources are counted.
fn is_fractional(name: &str) -> bool {
    resource_names::is_native(name) && !name.starts_with("hugepages-")
}

/// Huge pages and extended resources are whole things: what is requested is what there is.
fn may_overcommit(name: &str) -> bool {
    resource_names::is_native(name) && !name.starts_with("hugepages-")
}
