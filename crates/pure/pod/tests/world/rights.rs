//! What a pod may do, and what of that changes.

use k8s_openapi::api::core::v1::{Pod, PodSpec};

/// The spec without what may change while a pod runs: images, resources, what is added to look at
/// it, and its deadline. Rights, namespaces, mounts and volumes are all in what is left.
pub fn rights(pod: &Pod) -> PodSpec {
    let mut spec = pod.spec.clone().unwrap_or_default();
    for container in spec.init_containers.iter_mut().flatten().chain(&mut spec.containers) {
        container.image = None;
        container.resources = None;
    }
    spec.ephemeral_containers = None;
    spec.resources = None;
    spec.active_deadline_seconds = None;
    spec
}
