//! SELinux: types for containers only, no user and no role.

use std::collections::BTreeSet;

use k8s_openapi::api::core::v1::SELinuxOptions;

use super::wording::{plural, quoted};
use super::{ControlViolation, PodUnderReview, wording};

/// What v1.0 allows.
pub(super) fn v1_0(pod: &PodUnderReview<'_>) -> Option<ControlViolation> {
    options(pod, &["", "container_t", "container_init_t", "container_kvm_t"])
}

/// What v1.31 allows.
pub(super) fn v1_31(pod: &PodUnderReview<'_>) -> Option<ControlViolation> {
    options(pod, &["", "container_t", "container_init_t", "container_kvm_t", "container_engine_t"])
}

/// The forbidden options that were found.
#[derive(Default)]
struct ForbiddenOptions<'a> {
    types: BTreeSet<&'a str>,
    user: bool,
    role: bool,
}

impl<'a> ForbiddenOptions<'a> {
    /// Whether these ask for any of it.
    fn note(&mut self, options: Option<&'a SELinuxOptions>, types: &[&str]) -> bool {
        let Some(options) = options else { return false };
        let is_set = |value: Option<&String>| value.is_some_and(|value| !value.is_empty());
        let of_type = options.type_.as_deref().filter(|of_type| !types.contains(of_type));
        let (user, role) = (is_set(options.user.as_ref()), is_set(options.role.as_ref()));
        self.types.extend(of_type);
        self.user |= user;
        self.role |= role;
        of_type.is_some() || user || role
    }

    fn told(self) -> String {
        let types = match self.types.len() {
            0 => None,
            count => Some(format!("{} {}", plural(count, "type", "types"), quoted(self.types))),
        };
        let user = self.user.then(|| "user may not be set".to_owned());
        let role = self.role.then(|| "role may not be set".to_owned());
        let told: Vec<String> = [types, user, role].into_iter().flatten().collect();
        told.join("; ")
    }
}

fn options(pod: &PodUnderReview<'_>, types: &[&str]) -> Option<ControlViolation> {
    let mut bad = ForbiddenOptions::default();
    let of_pod = pod.security().and_then(|context| context.se_linux_options.as_ref());
    let of_pod = bad.note(of_pod, types);
    let names =
        pod.containers_with_context(|context| bad.note(context.se_linux_options.as_ref(), types));
    let setters = wording::setters(of_pod, &names)?;
    let detail = format!("{setters} set forbidden securityContext.seLinuxOptions: {}", bad.told());
    Some(ControlViolation { reason: "seLinuxOptions", detail })
}
