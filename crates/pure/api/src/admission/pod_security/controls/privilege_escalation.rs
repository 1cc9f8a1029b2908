//! Processes that get more rights than their parent has, by set-user-ID files for example.

use super::{ControlViolation, PodUnderReview, wording};

/// Asks each container to forbid it.
pub(super) fn allowed(pod: &PodUnderReview<'_>) -> Option<ControlViolation> {
    let names = pod.containers_that(|container| {
        container.security.and_then(|context| context.allow_privilege_escalation) != Some(false)
    });
    wording::violation_of_containers("allowPrivilegeEscalation != false", &names, |containers| {
        format!("{containers} must set securityContext.allowPrivilegeEscalation=false")
    })
}

/// The same since v1.25: the field is not for Windows.
pub(super) fn allowed_on_linux(pod: &PodUnderReview<'_>) -> Option<ControlViolation> {
    if pod.is_windows() { None } else { allowed(pod) }
}
