//! Capabilities: no more than the usual ones; at `restricted` none but NET_BIND_SERVICE.

use std::collections::BTreeSet;

use rekindle_kinds::validation::items;

use super::wording::quoted;
use super::{ControlViolation, PodUnderReview, wording};

/// Those that container runtimes give by default, without NET_RAW.
const USUAL: [&str; 13] = [
    "AUDIT_WRITE",
    "CHOWN",
    "DAC_OVERRIDE",
    "FOWNER",
    "FSETID",
    "KILL",
    "MKNOD",
    "NET_BIND_SERVICE",
    "SETFCAP",
    "SETGID",
    "SETPCAP",
    "SETUID",
    "SYS_CHROOT",
];

/// Containers that add others than these, and what they add.
fn adding<'a>(pod: &PodUnderReview<'a>, allowed: &[&str]) -> (Vec<&'a str>, BTreeSet<&'a str>) {
    let mut forbidden = BTreeSet::new();
    let names = pod.containers_that(|container| {
        let added = items(container.capabilities().and_then(|given| given.add.as_ref()));
        let bad = added.iter().map(String::as_str).filter(|name| !allowed.contains(name));
        let count = bad.map(|name| forbidden.insert(name)).count();
        count > 0
    });
    (names, forbidden)
}

fn must_not_add(names: &[&str], forbidden: &BTreeSet<&str>) -> Option<String> {
    (!names.is_empty()).then(|| {
        format!(
            "{} must not include {} in securityContext.capabilities.add",
            wording::containers(names),
            quoted(forbidden)
        )
    })
}

/// Forbids to add unusual ones.
pub(super) fn baseline(pod: &PodUnderReview<'_>) -> Option<ControlViolation> {
    let (names, forbidden) = adding(pod, &USUAL);
    let detail = must_not_add(&names, &forbidden)?;
    Some(ControlViolation { reason: "non-default capabilities", detail })
}

/// Asks to drop all.
pub(super) fn restricted(pod: &PodUnderReview<'_>) -> Option<ControlViolation> {
    let keeping = pod.containers_that(|container| {
        let dropped = items(container.capabilities().and_then(|given| given.drop.as_ref()));
        !dropped.iter().any(|name| name == "ALL")
    });
    let must_drop = (!keeping.is_empty()).then(|| {
        let containers = wording::containers(&keeping);
        format!("{containers} must set securityContext.capabilities.drop=[\"ALL\"]")
    });
    let (names, forbidden) = adding(pod, &["NET_BIND_SERVICE"]);
    let details = [must_drop, must_not_add(&names, &forbidden)];
    let details: Vec<String> = details.into_iter().flatten().collect();
    (!details.is_empty()).then(|| ControlViolation {
        reason: "unrestricted capabilities",
        detail: details.join("; "),
    })
}

/// The same since v1.25: Windows has no capabilities.
pub(super) fn restricted_on_linux(pod: &PodUnderReview<'_>) -> Option<ControlViolation> {
    if pod.is_windows() { None } else { restricted(pod) }
}
