//! What a node, or who else writes the status of a pod, may say. Upstream:
//! `ValidatePodStatusUpdate`, without the rule that what has ended stays so under the restart
//! policies Never and OnFailure: a ladder restarts whole pods of any policy.

use std::collections::BTreeSet;
use std::net::IpAddr;

use k8s_openapi::api::core::v1::{
    Container, ContainerStatus, Pod, PodSpec, PodStatus, ResourceStatus,
};
use rekindle_types::validation::field_error::{FieldError, FieldProblem};
use serde_json::json;

use super::spec::ip;
use crate::validation::{ListKeys, Path, invalid_each, items, names, numbers, text};

/// Conditions whose names are shorter than those of others have to be.
const OWN_CONDITIONS: [&str; 3] = ["PodScheduled", "Ready", "Initialized"];

/// Everything wrong with the new status.
pub(crate) fn pod_status(new: &Pod, old: &Pod) -> Vec<FieldError> {
    let (no_status, no_spec) = (PodStatus::default(), PodSpec::default());
    let (status, before) =
        (new.status.as_ref().unwrap_or(&no_status), old.status.as_ref().unwrap_or(&no_status));
    let spec = new.spec.as_ref().unwrap_or(&no_spec);
    let field = Path::new("status");
    let mut errors = conditions(status, &field.child("conditions"));
    if status.nominated_node_name != before.nominated_node_name {
        errors.extend(nomination(status, spec, &field.child("nominatedNodeName")));
    }
    errors.extend(generation(status.observed_generation, &field));
    let class = text(status.qos_class.as_ref());
    if ![text(before.qos_class.as_ref()), ""].contains(&class) {
        errors.push(FieldError::invalid(field.child("qosClass"), class, "field is immutable"));
    }
    errors.extend(claims(status, spec, &field.child("resourceClaimStatuses")));
    let pod_ips = items(status.pod_ips.as_ref()).iter().map(|ip| ip.ip.as_str());
    errors.extend(addresses(&pod_ips.collect::<Vec<_>>(), &field.child("podIPs")));
    errors.extend(host_ips(status, &field.child("hostIPs")));
    errors.extend(containers(status, spec, &field));
    errors
}

fn conditions(status: &PodStatus, field: &Path) -> Vec<FieldError> {
    let mut errors = Vec::new();
    for (index, condition) in items(status.conditions.as_ref()).iter().enumerate() {
        let kind = condition.type_.as_str();
        let field = field.index(index);
        errors.extend(generation(condition.observed_generation, &field));
        if !OWN_CONDITIONS.contains(&kind) {
            // upstream names the field so
            errors.extend(invalid_each(&field.child("Type"), kind, names::qualified(kind)));
        }
    }
    errors
}

/// The node that the pod is to get once others have left it.
fn nomination(status: &PodStatus, spec: &PodSpec, field: &Path) -> Vec<FieldError> {
    let nominated = text(status.nominated_node_name.as_ref());
    if nominated.is_empty() {
        return Vec::new();
    }
    let mut errors: Vec<FieldError> =
        invalid_each(field, nominated, names::dns_subdomain(nominated)).collect();
    if !text(spec.node_name.as_ref()).is_empty() {
        let why = "may not be set on pods that are already bound to a node";
        errors.push(FieldError::forbidden(field, why));
    }
    errors
}

/// The statuses of all containers.
fn containers(status: &PodStatus, spec: &PodSpec, field: &Path) -> Vec<FieldError> {
    let lists = [
        ("containerStatuses", &status.container_statuses, spec.containers.as_slice()),
        (
            "initContainerStatuses",
            &status.init_container_statuses,
            items(spec.init_containers.as_ref()),
        ),
    ];
    let mut errors = Vec::new();
    for (name, statuses, containers) in lists {
        let names: ListKeys<&str> = containers.iter().map(|c| c.name.as_str()).collect();
        for (index, status) in items(statuses.as_ref()).iter().enumerate() {
            let field = field.child(name).index(index);
            errors.extend(user(status, &field));
            let container = names.place(status.name.as_str()).map(|place| &containers[place]);
            errors.extend(devices(status, container, &field.child("allocatedResourcesStatus")));
        }
    }
    let ephemeral = items(status.ephemeral_container_statuses.as_ref()).iter().enumerate();
    for (index, status) in ephemeral {
        let field = field.child("ephemeralContainerStatuses").index(index);
        errors.extend(user(status, &field));
        if !items(status.allocated_resources_status.as_ref()).is_empty() {
            let field = field.child("allocatedResourcesStatus");
            errors.push(FieldError::forbidden(field, "must not be specified in container status"));
        }
    }
    errors
}

fn generation(observed: Option<i64>, field: &Path) -> Option<FieldError> {
    let observed = observed.filter(|observed| *observed < 0)?;
    let why = "must be a non-negative integer";
    Some(FieldError::invalid(field.child("observedGeneration"), observed, why))
}

/// Each claim that the status speaks of is one of the pod's.
fn claims(status: &PodStatus, spec: &PodSpec, field: &Path) -> Vec<FieldError> {
    let mut errors = Vec::new();
    let mut taken: ListKeys<&str> = ListKeys::new();
    let of_pod = items(spec.resource_claims.as_ref());
    let of_pod: ListKeys<&str> = of_pod.iter().map(|claim| claim.name.as_str()).collect();
    for (index, claim) in items(status.resource_claim_statuses.as_ref()).iter().enumerate() {
        let field = field.index(index);
        let name = field.child("name");
        if !of_pod.has(claim.name.as_str()) {
            let detail = "must match the name of an entry in `spec.resourceClaims`";
            errors.push(FieldError::invalid(&name, &claim.name, detail));
        }
        if taken.add(&claim.name).is_some() {
            errors.push(FieldError::duplicate(name, &claim.name));
        }
        if let Some(object) = &claim.resource_claim_name {
            let field = field.child("resourceClaimName");
            errors.extend(invalid_each(&field, object, names::dns_subdomain(object)));
        }
    }
    errors
}

fn host_ips(status: &PodStatus, field: &Path) -> Vec<FieldError> {
    let all = items(status.host_ips.as_ref()).iter().map(|ip| ip.ip.as_str());
    let all: Vec<&str> = all.collect();
    let Some(first) = all.first() else { return Vec::new() };
    let mut errors = Vec::new();
    if *first != text(status.host_ip.as_ref()) {
        let field = field.index(0).child("ip");
        errors.push(FieldError::invalid(field, first, "must be equal to `hostIP`"));
    }
    errors.extend(addresses(&all, field));
    errors
}

/// Addresses, one of each family at most.
fn addresses(all: &[&str], field: &Path) -> Vec<FieldError> {
    let mut errors: Vec<FieldError> = all
        .iter()
        .enumerate()
        .filter_map(|(index, address)| ip(address, field.index(index)))
        .collect();
    if all.len() < 2 {
        return errors;
    }
    let parsed = all.iter().filter_map(|address| address.parse::<IpAddr>().ok());
    let families: BTreeSet<bool> = parsed.map(|address| address.is_ipv4()).collect();
    if all.len() > 2 || families.len() < 2 {
        let shown: Vec<_> = all.iter().map(|ip| json!({"ip": ip})).collect();
        errors.push(FieldError {
            field: field.into(),
            problem: FieldProblem::Invalid(json!(shown).to_string()),
            detail: "may specify no more than one IP for each IP family".to_owned(),
        });
    }
    let mut taken = ListKeys::new();
    for (index, address) in all.iter().enumerate() {
        if taken.add(address).is_some() {
            errors.push(FieldError::duplicate(field.index(index), address));
        }
    }
    errors
}

fn user(status: &ContainerStatus, field: &Path) -> Vec<FieldError> {
    let Some(user) = status.user.as_ref().and_then(|user| user.linux.as_ref()) else {
        return Vec::new();
    };
    let field = field.child("linux");
    let groups = items(user.supplemental_groups.as_ref()).iter().enumerate();
    let groups = groups.filter_map(|(index, group)| {
        numbers::unix_id(*group, &field.child("supplementalGroups").index(index))
    });
    let ids = [("uid", user.uid), ("gid", user.gid)];
    let ids = ids.iter().filter_map(|(name, id)| numbers::unix_id(*id, &field.child(name)));
    ids.chain(groups).collect()
}

/// What is said of devices is of those that the container asks for.
fn devices(
    status: &ContainerStatus,
    container: Option<&Container>,
    field: &Path,
) -> Vec<FieldError> {
    let mut errors = Vec::new();
    let devices = items(status.allocated_resources_status.as_ref());
    let asked = container.filter(|_| !devices.is_empty()).map(RequestedDevices::new);
    for (index, device) in devices.iter().enumerate() {
        let field = field.index(index);
        errors.extend(asked.as_ref().and_then(|asked| asked.lacks(device, &field)));
        let mut taken: ListKeys<&str> = ListKeys::new();
        for (position, health) in items(device.resources.as_ref()).iter().enumerate() {
            let field = field.child("resources").index(position);
            let known = ["Healthy", "Unhealthy", "Unknown"];
            let word = text(health.health.as_ref());
            if !known.contains(&word) {
                errors.push(FieldError::not_supported(field.child("health"), word, &known));
            }
            if taken.add(&health.resource_id).is_some() {
                let field = field.child("resourceID");
                errors.push(FieldError::duplicate(field, &health.resource_id));
            }
        }
    }
    errors
}

/// The devices that a container asks for.
struct RequestedDevices<'a> {
    container: &'a Container,
    /// Its claims, as its status names them.
    claims: ListKeys<String>,
}

impl<'a> RequestedDevices<'a> {
    fn new(container: &'a Container) -> Self {
        let resources = container.resources.as_ref();
        let used = resources.and_then(|resources| resources.claims.as_ref());
        let claims = items(used).iter().map(|claim| match text(claim.request.as_ref()) {
            "" => format!("claim:{}", claim.name),
            request => format!("claim:{}/{request}", claim.name),
        });
        Self { container, claims: claims.collect() }
    }

    /// What is wrong when a device is none of them.
    fn lacks(&self, device: &ResourceStatus, field: &Path) -> Option<FieldError> {
        let name = device.name.as_str();
        let (is_asked_for, detail) = if name.starts_with("claim:") {
            let detail = "must match one of the container's resource claims in a format \
                      'claim:<claimName>/<request>' or 'claim:<claimName>' if request is empty";
            (self.claims.has(name), detail)
        } else {
            let resources = self.container.resources.as_ref();
            let requests = resources.and_then(|resources| resources.requests.as_ref());
            let detail = "must match one of the container's resource requests";
            (requests.is_some_and(|requests| requests.contains_key(name)), detail)
        };
        (!is_asked_for).then(|| FieldError::invalid(field.child("name"), name, detail))
    }
}

#[cfg(test)]
mod tests;
