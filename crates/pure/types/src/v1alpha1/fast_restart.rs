//! Restarts that wait for nothing: containers are killed at once. KEP-5532 (RestartAllContainers)
//! skips hooks and grace period, too.

use super::{PodRestartSpec, Rung};
use crate::validation::{FieldError, Path};

impl PodRestartSpec {
    /// Whether containers are killed at once, without preStop hooks.
    pub fn is_fast(&self) -> bool {
        self.fast == Some(true)
    }

    /// Seconds that containers get to end, where that is not left to the pod. Without any, no hook
    /// runs.
    pub fn grace_seconds(&self) -> Option<i64> {
        if self.is_fast() { Some(0) } else { self.grace_period_seconds }
    }
}

/// What is wrong with `fast` in a request. Only Containers has it: a whole pod's end also takes its
/// network down, and one container by itself has `gracePeriodSeconds: 0`.
pub fn fast_fault(spec: &PodRestartSpec, field: &Path) -> Option<FieldError> {
    let is_allowed = spec.rung() == Rung::Containers && spec.grace_period_seconds.is_none();
    (spec.is_fast() && !is_allowed).then(|| FieldError::forbidden(field, FAST_MESSAGE))
}

/// The same in CEL.
pub(super) const FAST_RULE: &str = "!has(self.fast) || !self.fast || \
    (has(self.rung) && self.rung == 'Containers' && !has(self.gracePeriodSeconds))";
/// What both say.
pub(super) const FAST_MESSAGE: &str =
    "may only be set on the rung Containers, and without gracePeriodSeconds";

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn only_a_restart_of_all_containers_without_a_grace_of_its_own_is_fast() {
        for (spec, is_valid, grace) in [
            (json!({"rung": "Containers", "fast": true}), true, Some(0)),
            (json!({"rung": "Containers", "fast": true, "gracePeriodSeconds": 3}), false, Some(0)),
            (json!({"rung": "Pod", "fast": true}), false, Some(0)),
            (json!({"fast": true}), false, Some(0)),
            (json!({"rung": "Pod", "fast": false, "gracePeriodSeconds": 3}), true, Some(3)),
            (json!({}), true, None),
        ] {
            let parsed: PodRestartSpec = serde_json::from_value(spec.clone()).unwrap();
            let fault = fast_fault(&parsed, &Path::new("spec").child("fast"));
            assert_eq!(fault.is_none(), is_valid, "{spec}: {fault:?}");
            assert_eq!(parsed.grace_seconds(), grace, "{spec}");
        }
    }
}
