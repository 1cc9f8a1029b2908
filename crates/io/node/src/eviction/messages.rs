//! What evicted pods and their node say, in the kubelet's words.

use rekindle_types::Quantity;

use super::figures::{ContainerFigures, EvictionFigures};
use super::judge::Reclaim;
use super::ranking;
use super::signal::{PressureKind, StarvedResource};

/// What the node's event says when it begins to take something back.
pub(crate) fn threshold_met(reclaim: &Reclaim) -> String {
    format!("Attempting to reclaim {}", reclaim.signal.resource().name())
}

/// Why this pod: what the node lacks, and which containers use more than they asked for.
pub(crate) fn node_was_low(pod: &EvictionFigures, reclaim: &Reclaim) -> String {
    let resource = reclaim.signal.resource();
    let (wanted, available) = (quantity(reclaim.wanted), quantity(reclaim.available));
    let mut message = format!(
        "The node was low on resource: {}. Threshold quantity: {wanted}, available: {available}. ",
        resource.name()
    );
    for found in &pod.containers {
        let Some(asked) = request_of(pod, found, resource) else { continue };
        let used = match resource {
            StarvedResource::Memory => found.memory,
            StarvedResource::EphemeralStorage => found.disk,
            StarvedResource::Inodes | StarvedResource::Pids => None,
        };
        if let Some(used) = used.filter(|used| *used > asked) {
            message += &format!(
                "Container {} was using {}, request is {}, has larger consumption of {}. ",
                found.name,
                quantity(used),
                quantity(asked),
                resource.name()
            );
        }
    }
    message
}

fn request_of(
    pod: &EvictionFigures,
    found: &ContainerFigures,
    resource: StarvedResource,
) -> Option<u64> {
    let spec = pod.pod.spec.as_ref()?;
    let mut containers = spec.init_containers.iter().flatten().chain(&spec.containers);
    let container = containers.find(|container| container.name == found.name)?;
    Some(ranking::request(container, resource))
}

/// Why a pod is not taken up.
pub(crate) fn node_had_conditions(pressures: impl IntoIterator<Item = PressureKind>) -> String {
    let names: Vec<&str> = pressures.into_iter().map(PressureKind::condition).collect();
    format!("The node had condition: [{}]. ", names.join(" "))
}

pub(crate) fn empty_dir_over_limit(volume: &str, limit: &str) -> String {
    format!("Usage of EmptyDir volume {volume:?} exceeds the limit {limit:?}. ")
}

pub(crate) fn container_over_limit(container: &str, limit: &str) -> String {
    format!("Container {container} exceeded its local ephemeral storage limit {limit:?}. ")
}

pub(crate) fn pod_over_limit(limit: u64) -> String {
    format!(
        "Pod ephemeral local storage usage exceeds the total limit of containers {}. ",
        quantity(limit)
    )
}

fn quantity(amount: u64) -> Quantity {
    Quantity::from_bytes(i64::try_from(amount).unwrap_or(i64::MAX))
}
