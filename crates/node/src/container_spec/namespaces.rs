//! Which of the node's namespaces a pod shares.

use k8s_openapi::api::core::v1::Pod;
use rekindle_runtime::{Namespace, Namespaces};

/// `spec.hostNetwork` and `spec.hostIPC`.
pub(crate) fn pod_namespaces(pod: &Pod) -> Namespaces {
    let whose = |host: Option<bool>| match host {
        Some(true) => Namespace::Host,
        Some(false) | None => Namespace::Own,
    };
    let spec = pod.spec.as_ref();
    Namespaces {
        network: whose(spec.and_then(|spec| spec.host_network)),
        ipc: whose(spec.and_then(|spec| spec.host_ipc)),
    }
}
