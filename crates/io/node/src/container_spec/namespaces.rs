//! Which of the node's namespaces a pod shares, and whether its containers share one of theirs.

use k8s_openapi::api::core::v1::{Pod, PodSpec};
use rekindle_runtime::{NamespaceOwner, Namespaces, ProcessVisibility, SandboxUsers};

/// `spec.hostNetwork`, `spec.hostIPC`, `spec.hostPID` and `spec.shareProcessNamespace`; not
/// `spec.hostUsers`, which takes a range of ids ([`crate::users`]).
pub(crate) fn pod_namespaces(pod: &Pod) -> Namespaces {
    let whose = |host: Option<bool>| match host {
        Some(true) => NamespaceOwner::Host,
        Some(false) | None => NamespaceOwner::Own,
    };
    let spec = pod.spec.as_ref();
    Namespaces {
        network: whose(spec.and_then(|spec| spec.host_network)),
        ipc: whose(spec.and_then(|spec| spec.host_ipc)),
        processes: spec.map(processes).unwrap_or_default(),
        // what its own are is the node's to say
        users: SandboxUsers::Host,
    }
}

/// The API refuses both together.
fn processes(spec: &PodSpec) -> ProcessVisibility {
    match (spec.host_pid, spec.share_process_namespace) {
        (Some(true), _) => ProcessVisibility::Host,
        (Some(false) | None, Some(true)) => ProcessVisibility::Pod,
        (Some(false) | None, Some(false) | None) => ProcessVisibility::Container,
    }
}
