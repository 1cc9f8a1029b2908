//! The parts of /proc that are masked.

use std::collections::BTreeSet;

use super::wording::quoted;
use super::{ControlViolation, PodUnderReview, wording};

/// Forbids to unmask them.
pub(super) fn unmasked(pod: &PodUnderReview<'_>) -> Option<ControlViolation> {
    let mut values = BTreeSet::new();
    let names = pod.containers_with_context(|context| {
        let bad = context.proc_mount.as_deref().filter(|value| *value != "Default");
        values.extend(bad);
        bad.is_some()
    });
    wording::violation_of_containers("procMount", &names, |containers| {
        format!("{containers} must not set securityContext.procMount to {}", quoted(values))
    })
}

/// The same at `baseline` since v1.35: a pod with users of its own may unmask them.
pub(super) fn unmasked_without_own_users(pod: &PodUnderReview<'_>) -> Option<ControlViolation> {
    if pod.has_own_users() { None } else { unmasked(pod) }
}
