//! What of /proc is hidden.

use std::collections::BTreeSet;

use super::wording::quoted;
use super::{ControlViolation, PodUnderReview, wording};

/// Forbids to show all of it.
pub(super) fn unmasked(pod: &PodUnderReview<'_>) -> Option<ControlViolation> {
    let mut values = BTreeSet::new();
    let names = pod.containers_whose_context(|context| {
        let bad = context.proc_mount.as_deref().filter(|value| *value != "Default");
        values.extend(bad);
        bad.is_some()
    });
    wording::of_containers("procMount", &names, |containers| {
        format!("{containers} must not set securityContext.procMount to {}", quoted(values))
    })
}

/// The same of `baseline` since v1.35: root of users of the pod's own can do nothing with it.
pub(super) fn unmasked_without_own_users(pod: &PodUnderReview<'_>) -> Option<ControlViolation> {
    if pod.has_own_users() { None } else { unmasked(pod) }
}
