//! A restart in place beside a kubelet: what a PodRestart may do to a pod of a cluster, and in
//! which order, by the calls of a container runtime. Pure: objects, the runtime's state and time
//! in, the next action out.
//!
//! ```text
//! absent -> Refused                           nothing was done
//!    |
//!    v written: sandbox, containers, evidence
//! Running -> stop containers -> stop sandbox -> remove sandbox -> wait for the kubelet -> Succeeded
//!    |                         \  (rung Pod)  /   (rung Pod)
//!    |                          +- freeze, empty emptyDir volumes, wait for the group, thaw
//!    +--> Failed                              the runtime failed too often, or it took too long
//! ```
//!
//! The status says which sandbox and which containers a request was begun on. No action names
//! another one, so a request that is taken up again after a crash ends nothing twice. What the
//! driver remembers beside that ([`RestartProgress`]) may be lost at any point.

mod evidence;
mod freeze;
mod pod_cgroup;
mod pod_runtime;
mod procedure;
mod refusals;
mod restart_slots;
mod stop_plan;

pub use freeze::{
    EmptyDirVolume, FreezeSupport, clears_empty_dirs, frozen_by_deleted, frozen_for_nothing,
};
pub use pod_cgroup::{is_pod_cgroup, pod_cgroup};
pub use pod_runtime::{PodRuntime, RuntimeContainer, RuntimeContainerState, RuntimeSandbox};
pub use procedure::{
    NEW_SANDBOX_LATEST, NodeCall, RUNTIME_SILENT_MAX, RestartAction, RestartProgress,
    RestartSituation, RuntimeCall, next_action,
};
pub use refusals::refusal;
pub use restart_slots::{OpenRestart, RestartEnd, RestartSlots};
pub use stop_plan::{ContainerStop, MINIMUM_GRACE, StopPlan};

use k8s_openapi::api::core::v1::Pod;
use rekindle_types::pod_annotations::is_mirror;

/// The annotation of a pod that its kubelet reads from a file or URL: the UID that the runtime
/// knows the pod by.
const CONFIG_HASH: &str = "kubernetes.io/config.hash";

/// The UID that the runtime knows a pod by; the API gives a static pod's mirror another one.
pub fn runtime_uid(pod: &Pod) -> Option<&str> {
    let annotations = pod.metadata.annotations.as_ref();
    let hash = annotations.and_then(|all| all.get(CONFIG_HASH));
    hash.filter(|_| is_mirror(pod)).or(pod.metadata.uid.as_ref()).map(String::as_str)
}
