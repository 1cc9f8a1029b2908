//! Requests and limits.

use k8s_openapi::api::core::v1::{Container, ContainerResizePolicy, PodSpec, ResourceRequirements};
use k8s_openapi::apimachinery::pkg::api::resource::Quantity as QuantityText;
use rekindle_types::Quantity;
use rekindle_types::resources::{Amounts, is_pod_level, sum_over_containers};
use rekindle_types::validation::field_error::FieldError;

use crate::validation::quantities::{self, ResourceList};
use crate::validation::{ListKeys, Path, items, resource_names};

use super::checked_pod::CheckedPod;
use super::claims;

/// Checks the resources of a container of this pod.
pub(super) fn validate_container_resources(
    container: &Container,
    pod: &CheckedPod<'_>,
    field: &Path,
) -> Vec<FieldError> {
    let Some(resources) = &container.resources else { return Vec::new() };
    let mut errors = requirements(resources, &ResourceOwner::Container, field);
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
        errors.extend(requirements(resources, &ResourceOwner::Pod, &field));
        errors.extend(agree(spec, resources, &field));
    }
    // upstream's validation names the overhead so
    let overhead = field.child("overhead").child("limits");
    errors.extend(amounts(spec.overhead.as_ref(), &overhead));
    errors
}

/// What the containers ask for together is no more than what is asked for the pod, and none has a
/// higher limit.
fn agree(spec: &PodSpec, own: &ResourceRequirements, field: &Path) -> Vec<FieldError> {
    let mut errors = Vec::new();
    let requests = sum_over_containers(spec, |container: &Container| {
        Amounts::read(container.resources.as_ref().and_then(|r| r.requests.as_ref()))
    });
    errors.extend(below_sum("requests", own.requests.as_ref(), requests.iter(), field));
    let pages = sum_over_containers(spec, |container: &Container| {
        Amounts::read(container.resources.as_ref().and_then(|r| r.limits.as_ref()))
    });
    let pages = pages.iter().filter(|(name, _)| name.starts_with("hugepages-"));
    errors.extend(below_sum("limits", own.limits.as_ref(), pages, field));
    let limits = own.limits.as_ref();
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

/// What a pod has less of than its containers together.
fn below_sum<'a>(
    side: &str,
    own: Option<&ResourceList>,
    sums: impl Iterator<Item = (&'a str, Quantity)>,
    field: &Path,
) -> Vec<FieldError> {
    let of_each = |(name, sum): (&str, Quantity)| {
        let asked = quantities::read(own?.get(name)?).ok()?;
        (sum.millis() > asked.millis()).then(|| {
            let detail =
                format!("must be greater than or equal to aggregate container {side} of {sum}");
            FieldError::invalid(field.child(side).key(name), asked.to_string(), detail)
        })
    };
    sums.filter_map(of_each).collect()
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

fn requirements(
    resources: &ResourceRequirements,
    of: &ResourceOwner,
    field: &Path,
) -> Vec<FieldError> {
    let (limits_field, requests_field) = (field.child("limits"), field.child("requests"));
    let mut errors = Vec::new();
    for (name, limit) in resources.limits.iter().flatten() {
        errors.extend(of.amount(name, limit, &limits_field.key(name)));
        errors.extend(part_of_page(name, limit, &limits_field.key(name)));
    }
    for (name, request) in resources.requests.iter().flatten() {
        errors.extend(of.amount(name, request, &requests_field.key(name)));
        match resources.limits.as_ref().and_then(|limits| limits.get(name)) {
            Some(limit) => errors.extend(above_limit(name, request, limit, &requests_field)),
            None if may_overcommit(name) => {}
            None => {
                let why = "Limit must be set for non overcommitable resources";
                errors.push(FieldError::required(&limits_field, why));
            }
        }
        errors.extend(part_of_page(name, request, &requests_field.key(name)));
    }
    errors.extend(only_huge_pages(resources, field));
    errors
}

/// What is wrong with a request, beside its limit.
fn above_limit(
    name: &str,
    request: &QuantityText,
    limit: &QuantityText,
    field: &Path,
) -> Option<FieldError> {
    // what is no quantity is named elsewhere
    let (asked, most) = (quantities::read(request).ok()?, quantities::read(limit).ok()?);
    let relation = if !may_overcommit(name) && asked.millis() != most.millis() {
        "equal to"
    } else if asked.millis() > most.millis() {
        "less than or equal to"
    } else {
        return None;
    };
    let detail = format!("must be {relation} {name} limit of {most}");
    Some(FieldError::invalid(field, &request.0, detail))
}

/// Huge pages are whole.
fn part_of_page(name: &str, amount: &QuantityText, field: &Path) -> Option<FieldError> {
    let size: Quantity = name.strip_prefix("hugepages-")?.parse().ok()?;
    let amount = quantities::read(amount).ok()?;
    // an amount has no more than thousandths
    let rest = amount.millis().checked_rem(size.millis());
    (rest != Some(0)).then(|| {
        let detail = format!("{amount} is not positive integer multiple of {name}");
        FieldError::invalid(field, amount.to_string(), detail)
    })
}

/// Huge pages come with CPU or memory.
fn only_huge_pages(resources: &ResourceRequirements, field: &Path) -> Option<FieldError> {
    let names = || {
        let lists = [&resources.limits, &resources.requests];
        lists.into_iter().flatten().flat_map(ResourceList::keys)
    };
    let asks = names().any(|name| name.starts_with("hugepages-"));
    let has_others = names().any(|name| matches!(name.as_str(), "cpu" | "memory"));
    (asks && !has_others).then(|| FieldError::forbidden(field, "HugePages require cpu or memory"))
}

/// Whose resources are checked.
enum ResourceOwner {
    Container,
    Pod,
}

impl ResourceOwner {
    /// What is wrong with the name or the amount of one resource.
    fn amount(&self, name: &str, amount: &QuantityText, key: &Path) -> Vec<FieldError> {
        let mut errors = match self {
            Self::Container => resource_names::of_container(name, key),
            Self::Pod if is_pod_level(name) => Vec::new(),
            Self::Pod => {
                let supported = ["cpu", "hugepages-", "memory"];
                vec![FieldError::not_supported(key, name, &supported)]
            }
        };
        errors.extend(counted_amount(name, amount, key));
        errors
    }
}

/// An amount that is none, or that counts things in parts.
fn counted_amount(name: &str, amount: &QuantityText, key: &Path) -> Option<FieldError> {
    match quantities::check_non_negative(amount, key) {
        Ok(amount) if resource_names::is_extended(name) && !amount.is_whole() => {
            Some(FieldError::invalid(key, amount.to_string(), "must be an integer"))
        }
        Ok(_) => None,
        Err(error) => Some(error),
    }
}

fn amounts(list: Option<&ResourceList>, field: &Path) -> Vec<FieldError> {
    let of_each = |(name, amount): (&String, &QuantityText)| {
        ResourceOwner::Container.amount(name, amount, &field.key(name))
    };
    list.into_iter().flatten().flat_map(of_each).collect()
}

/// Huge pages and what has a domain of its own are whole things: what is requested is what there
/// is.
fn may_overcommit(name: &str) -> bool {
    let is_of_others = name.contains('/') && !name.contains("kubernetes.io/");
    !is_of_others && !name.starts_with("hugepages-")
}
