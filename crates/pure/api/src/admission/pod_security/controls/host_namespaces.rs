//! The node's network, processes and IPC.

use super::{ControlViolation, PodUnderReview};

/// Forbids to share them.
pub(super) fn host_namespaces(pod: &PodUnderReview<'_>) -> Option<ControlViolation> {
    let shared = [
        ("hostNetwork=true", pod.spec.host_network),
        ("hostPID=true", pod.spec.host_pid),
        ("hostIPC=true", pod.spec.host_ipc),
    ];
    let shared = shared.into_iter().filter(|(_, is_shared)| *is_shared == Some(true));
    let shared: Vec<&str> = shared.map(|(told, _)| told).collect();
    (!shared.is_empty())
        .then(|| ControlViolation { reason: "host namespaces", detail: shared.join(", ") })
}
