//! Whether an update of a pod's object concerns the pod core: most updates are echoes of the status
//! that it wrote itself.

use k8s_openapi::api::core::v1::{Pod, PodCondition};
use rekindle_types::pods::is_finished;

use crate::conditions::owns_condition;

/// True when anything but the node's own part of the status, the version and the bookkeeping of
/// writers differs. Conditions of others count: a readiness gate waits for one. So does a final
/// phase: another client may have declared the pod finished.
pub fn concerns_core(old: &Pod, new: &Pod) -> bool {
    let (a, b) = (&old.metadata, &new.metadata);
    a.labels != b.labels
        || a.annotations != b.annotations
        || a.deletion_timestamp != b.deletion_timestamp
        || a.deletion_grace_period_seconds != b.deletion_grace_period_seconds
        || a.generation != b.generation
        || old.spec != new.spec
        || !conditions_of_others(old).eq(conditions_of_others(new))
        || (is_finished(new) && !is_finished(old))
}

fn conditions_of_others(pod: &Pod) -> impl Iterator<Item = &PodCondition> {
    let conditions = pod.status.iter().flat_map(|status| status.conditions.iter().flatten());
    conditions.filter(|condition| !owns_condition(&condition.type_))
}
