//! Annotations of pods that are not ours and that several crates look at.

use k8s_openapi::api::core::v1::Pod;

/// On a pod that stands in the API for one of its node's own files. Its value names the file's content.
pub const MIRROR: &str = "kubernetes.io/config.mirror";
/// What cluster-autoscaler asks; `"true"` lets a pod be evicted whatever it is, `"false"` keeps its node.
pub const SAFE_TO_EVICT: &str = "cluster-autoscaler.kubernetes.io/safe-to-evict";

/// True for a pod that stands in the API for one of its node's own files.
pub fn is_mirror(pod: &Pod) -> bool {
    pod.metadata.annotations.as_ref().is_some_and(|all| all.contains_key(MIRROR))
}
