//! Who goes first: those that use more than they asked for, then by priority, then by how much
//! more.
//!
//! Source: Kubernetes documentation, "Pod selection for kubelet eviction"; of processes nobody asks
//! for any, so priority and their number decide [kubelet `rankPIDPressure`].

use std::cmp::Reverse;
use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::{Container, Pod};
use k8s_openapi::apimachinery::pkg::api::resource::Quantity as ApiQuantity;
use rekindle_types::Quantity;
use rekindle_types::pods::AnyContainer;

use super::figures::EvictionFigures;
use super::signal::StarvedResource;

/// The pods in the order in which they go.
pub(crate) fn ranked(
    mut pods: Vec<EvictionFigures>,
    resource: StarvedResource,
) -> Vec<EvictionFigures> {
    pods.sort_by_cached_key(|pod| key(pod, resource));
    pods
}

/// Smallest first. A pod that nobody could count goes before the others, as upstream.
fn key(
    pod: &EvictionFigures,
    resource: StarvedResource,
) -> (Reverse<bool>, i32, Reverse<i128>, String) {
    let uid = pod.uid.0.clone();
    let asked = request_of_pod(&pod.pod, resource);
    let Some(used) = pod.usage(resource) else {
        return (Reverse(true), pod.priority(), Reverse(i128::MAX), uid);
    };
    let over = i128::from(used) - i128::from(asked);
    let exceeds = match resource {
        StarvedResource::Memory | StarvedResource::EphemeralStorage | StarvedResource::Inodes => {
            over > 0
        }
        StarvedResource::Pids => true,
    };
    (Reverse(exceeds), pod.priority(), Reverse(over), uid)
}

/// What a pod asked for: as the scheduler reckons it.
pub(crate) fn request_of_pod(pod: &Pod, resource: StarvedResource) -> u64 {
    let Some(spec) = &pod.spec else { return 0 };
    let mut sidecars = 0_u64;
    let mut peak = 0_u64;
    for container in spec.init_containers.iter().flatten() {
        let own = request(container, resource);
        if container.is_sidecar() {
            sidecars = sidecars.saturating_add(own);
            peak = peak.max(sidecars);
        } else {
            peak = peak.max(sidecars.saturating_add(own));
        }
    }
    let regular = spec.containers.iter().map(|container| request(container, resource));
    let running = regular.fold(sidecars, u64::saturating_add);
    let of_pod = spec.resources.as_ref().and_then(|all| amount(all.requests.as_ref(), resource));
    let overhead = amount(spec.overhead.as_ref(), resource).unwrap_or(0);
    of_pod.unwrap_or_else(|| running.max(peak)).saturating_add(overhead)
}

/// What a container asked for.
pub(crate) fn request(container: &Container, resource: StarvedResource) -> u64 {
    let requests = container.resources.as_ref().and_then(|all| all.requests.as_ref());
    amount(requests, resource).unwrap_or(0)
}

/// An amount in a list; one that cannot be read is none.
pub(crate) fn amount(
    list: Option<&BTreeMap<String, ApiQuantity>>,
    resource: StarvedResource,
) -> Option<u64> {
    let quantity: Quantity = list?.get(resource.name())?.0.parse().ok()?;
    u64::try_from(quantity.units()).ok()
}
