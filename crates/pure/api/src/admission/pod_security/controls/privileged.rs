//! Containers with the rights of the node: privileged ones, and host processes of Windows.

use k8s_openapi::api::core::v1::WindowsSecurityContextOptions;

use super::{ControlViolation, PodUnderReview, wording};

/// Forbids privileged containers.
pub(super) fn privileged(pod: &PodUnderReview<'_>) -> Option<ControlViolation> {
    let names = pod.containers_with_context(|context| context.privileged == Some(true));
    wording::violation_of_containers("privileged", &names, |containers| {
        format!("{containers} must not set securityContext.privileged=true")
    })
}

/// Forbids host processes.
pub(super) fn windows_host_process(pod: &PodUnderReview<'_>) -> Option<ControlViolation> {
    let asks = |options: Option<&WindowsSecurityContextOptions>| {
        options.is_some_and(|options| options.host_process == Some(true))
    };
    let of_pod = asks(pod.security().and_then(|context| context.windows_options.as_ref()));
    let names = pod.containers_with_context(|context| asks(context.windows_options.as_ref()));
    let setters = wording::setters(of_pod, &names)?;
    Some(ControlViolation {
        reason: "hostProcess",
        detail: format!("{setters} must not set securityContext.windowsOptions.hostProcess=true"),
    })
}
