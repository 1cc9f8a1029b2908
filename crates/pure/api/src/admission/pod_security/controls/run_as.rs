//! Root in containers.

use super::{ControlViolation, PodUnderReview, wording};

/// Asks for `runAsNonRoot`, of the pod or of each container.
pub(super) fn may_be_root(pod: &PodUnderReview<'_>) -> Option<ControlViolation> {
    const REASON: &str = "runAsNonRoot != true";
    let of_pod = pod.security().and_then(|context| context.run_as_non_root);
    let explicit = pod.containers_with_context(|context| context.run_as_non_root == Some(false));
    if let Some(setters) = wording::setters(of_pod == Some(false), &explicit) {
        let detail = format!("{setters} must not set securityContext.runAsNonRoot=false");
        return Some(ControlViolation { reason: REASON, detail });
    }
    if of_pod == Some(true) {
        return None;
    }
    let implicit = pod.containers_that(|container| {
        container.security.is_none_or(|context| context.run_as_non_root.is_none())
    });
    wording::violation_of_containers(REASON, &implicit, |containers| {
        format!("pod or {containers} must set securityContext.runAsNonRoot=true")
    })
}

/// The same since v1.35: with users of its own, root in the pod has no rights on the node.
pub(super) fn may_be_root_without_own_users(pod: &PodUnderReview<'_>) -> Option<ControlViolation> {
    if pod.has_own_users() { None } else { may_be_root(pod) }
}

/// Forbids `runAsUser: 0`.
pub(super) fn root(pod: &PodUnderReview<'_>) -> Option<ControlViolation> {
    let of_pod = pod.security().and_then(|context| context.run_as_user) == Some(0);
    let names = pod.containers_with_context(|context| context.run_as_user == Some(0));
    let setters = wording::setters(of_pod, &names)?;
    let detail = format!("{setters} must not set runAsUser=0");
    Some(ControlViolation { reason: "runAsUser=0", detail })
}

/// The same since v1.35.
pub(super) fn root_without_own_users(pod: &PodUnderReview<'_>) -> Option<ControlViolation> {
    if pod.has_own_users() { None } else { root(pod) }
}
