//! What a Pod says of itself, for all who ask.

use k8s_openapi::api::core::v1::{Pod, PodCondition};

/// `status.phase`, or empty.
pub fn phase(pod: &Pod) -> &str {
    pod.status.as_ref().and_then(|status| status.phase.as_deref()).unwrap_or_default()
}

/// True for the phases of a pod that has ended for good.
pub fn is_final(phase: &str) -> bool {
    matches!(phase, "Succeeded" | "Failed")
}

/// True when it has ended for good: Succeeded or Failed.
pub fn is_finished(pod: &Pod) -> bool {
    is_final(phase(pod))
}

/// A condition of its status.
pub fn condition<'a>(pod: &'a Pod, type_: &str) -> Option<&'a PodCondition> {
    let conditions = pod.status.as_ref()?.conditions.as_ref()?;
    conditions.iter().find(|condition| condition.type_ == type_)
}

/// True when condition Ready is True.
pub fn is_ready(pod: &Pod) -> bool {
    condition(pod, "Ready").is_some_and(|ready| ready.status == "True")
}
