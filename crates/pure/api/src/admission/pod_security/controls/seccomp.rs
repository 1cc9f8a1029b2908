//! seccomp: the runtime's profile or one of the node's own. Before v1.19 it was said by
//! annotations.

use std::collections::BTreeSet;

use k8s_openapi::api::core::v1::SeccompProfile;

use super::wording::{plural, quoted};
use super::{ControlViolation, PodUnderReview, wording};

const REASON: &str = "seccompProfile";
const OF_POD: &str = "seccomp.security.alpha.kubernetes.io/pod";
const OF_CONTAINER: &str = "container.seccomp.security.alpha.kubernetes.io/";

/// Forbids other profiles in annotations.
pub(super) fn forbidden_annotations(pod: &PodUnderReview<'_>) -> Option<ControlViolation> {
    let annotations = pod.annotations?;
    let of_containers = pod.containers.iter().map(|one| format!("{OF_CONTAINER}{}", one.name));
    let forbidden: BTreeSet<String> = std::iter::once(OF_POD.to_owned())
        .chain(of_containers)
        .filter_map(|key| {
            let value = annotations.get(&key)?;
            (!is_allowed_annotation(value)).then(|| format!("{key}={value:?}"))
        })
        .collect();
    let count = forbidden.len();
    (count > 0).then(|| {
        let told: Vec<String> = forbidden.into_iter().collect();
        let word = plural(count, "annotation", "annotations");
        ControlViolation { reason: REASON, detail: format!("forbidden {word} {}", told.join(", ")) }
    })
}

fn is_allowed_annotation(value: &str) -> bool {
    matches!(value, "runtime/default" | "docker/default") || value.starts_with("localhost/")
}

/// Whether a profile is given that is not allowed.
fn is_forbidden(profile: &SeccompProfile) -> bool {
    !matches!(profile.type_.as_str(), "RuntimeDefault" | "Localhost")
}

/// Forbids other profiles.
pub(super) fn forbidden_profiles(pod: &PodUnderReview<'_>) -> Option<ControlViolation> {
    let mut types = BTreeSet::new();
    let mut is_bad = |profile: Option<&SeccompProfile>| {
        let bad = profile.filter(|profile| is_forbidden(profile));
        types.extend(bad.map(|profile| profile.type_.clone()));
        bad.is_some()
    };
    let of_pod = is_bad(pod.security().and_then(|context| context.seccomp_profile.as_ref()));
    let names = pod.containers_with_context(|context| is_bad(context.seccomp_profile.as_ref()));
    let setters = wording::setters(of_pod, &names)?;
    let detail =
        format!("{setters} must not set securityContext.seccompProfile.type to {}", quoted(types));
    Some(ControlViolation { reason: REASON, detail })
}

/// Asks for a profile, of the pod or of each container.
pub(super) fn missing_profiles(pod: &PodUnderReview<'_>) -> Option<ControlViolation> {
    let forbidden = forbidden_profiles(pod);
    if forbidden.is_some() {
        return forbidden;
    }
    if pod.security().is_some_and(|context| context.seccomp_profile.is_some()) {
        return None;
    }
    let names = pod.containers_that(|container| {
        container.security.is_none_or(|context| context.seccomp_profile.is_none())
    });
    wording::violation_of_containers(REASON, &names, |containers| {
        format!(
            "pod or {containers} must set securityContext.seccompProfile.type to \"RuntimeDefault\" or \"Localhost\""
        )
    })
}

/// The same since v1.25: Windows has no seccomp.
pub(super) fn missing_profiles_on_linux(pod: &PodUnderReview<'_>) -> Option<ControlViolation> {
    if pod.is_windows() { None } else { missing_profiles(pod) }
}
