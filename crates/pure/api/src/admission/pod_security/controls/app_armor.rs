//! AppArmor: the runtime's profile or one of the node's own, not none.

use std::collections::BTreeSet;

use k8s_openapi::api::core::v1::AppArmorProfile;

use super::wording::{plural, quoted};
use super::{ControlViolation, PodUnderReview, wording};

/// What the annotations began with before there was a field; they still count.
const ANNOTATION: &str = "container.apparmor.security.beta.kubernetes.io/";

/// Forbids other profiles.
pub(super) fn profile(pod: &PodUnderReview<'_>) -> Option<ControlViolation> {
    let mut types = BTreeSet::new();
    let mut is_bad = |profile: Option<&AppArmorProfile>| {
        let bad = profile.filter(|profile| !is_allowed(&profile.type_));
        types.extend(bad.map(|profile| profile.type_.clone()));
        bad.is_some()
    };
    let of_pod = is_bad(pod.security().and_then(|context| context.app_armor_profile.as_ref()));
    let names = pod.containers_with_context(|context| is_bad(context.app_armor_profile.as_ref()));
    let annotations: Vec<String> = pod
        .annotations
        .into_iter()
        .flatten()
        .filter(|(key, value)| key.starts_with(ANNOTATION) && !is_allowed_annotation(value))
        .map(|(key, value)| format!("{key}={value:?}"))
        .collect();
    let by_annotation = match annotations.len() {
        0 => None,
        count => Some(plural(count, "annotation", "annotations").to_owned()),
    };
    let setters = [wording::setters(of_pod, &names), by_annotation];
    let setters: Vec<String> = setters.into_iter().flatten().collect();
    if setters.is_empty() {
        return None;
    }
    let values: Vec<String> = types.into_iter().chain(annotations).collect();
    Some(ControlViolation {
        reason: plural(values.len(), "forbidden AppArmor profile", "forbidden AppArmor profiles"),
        detail: format!(
            "{} must not set AppArmor profile type to {}",
            setters.join(" and "),
            quoted(values)
        ),
    })
}

fn is_allowed(profile_type: &str) -> bool {
    matches!(profile_type, "RuntimeDefault" | "Localhost")
}

fn is_allowed_annotation(value: &str) -> bool {
    matches!(value, "" | "runtime/default") || value.starts_with("localhost/")
}
