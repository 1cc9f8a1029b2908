//! A Deployment's conditions, with upstream's reasons and texts: `kubectl rollout status` reads
//! them.

use k8s_openapi::api::apps::v1::{DeploymentCondition, DeploymentStatus};
use rekindle_types::Tick;

pub(super) const AVAILABLE: &str = "Available";
pub(super) const PROGRESSING: &str = "Progressing";
pub(super) const REPLICA_FAILURE: &str = "ReplicaFailure";

pub(super) const NEW_SET: &str = "NewReplicaSetCreated";
pub(super) const FOUND_NEW_SET: &str = "FoundNewReplicaSet";
pub(super) const SET_UPDATED: &str = "ReplicaSetUpdated";
pub(super) const NEW_SET_AVAILABLE: &str = "NewReplicaSetAvailable";
pub(super) const FAILED_CREATE: &str = "ReplicaSetCreateError";
pub(super) const TIMED_OUT: &str = "ProgressDeadlineExceeded";
pub(super) const PAUSED: &str = "DeploymentPaused";
pub(super) const RESUMED: &str = "DeploymentResumed";
pub(super) const MINIMUM_AVAILABLE: &str = "MinimumReplicasAvailable";
pub(super) const MINIMUM_UNAVAILABLE: &str = "MinimumReplicasUnavailable";

/// A condition's status.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ConditionTruth {
    True,
    False,
    Unknown,
}

impl ConditionTruth {
    const fn name(self) -> &'static str {
        match self {
            ConditionTruth::True => "True",
            ConditionTruth::False => "False",
            ConditionTruth::Unknown => "Unknown",
        }
    }
}

/// A new condition.
pub(super) fn new(
    type_: &str,
    truth: ConditionTruth,
    reason: &str,
    message: impl Into<String>,
    now: Tick,
) -> DeploymentCondition {
    DeploymentCondition {
        type_: Some(type_.to_owned()),
        status: Some(truth.name().to_owned()),
        reason: Some(reason.to_owned()),
        message: Some(message.into()),
        last_transition_time: Some(now.to_time()),
        last_update_time: Some(now.to_time()),
    }
}

/// The condition of a type.
pub(super) fn get<'a>(
    status: &'a DeploymentStatus,
    type_: &str,
) -> Option<&'a DeploymentCondition> {
    status.conditions.iter().flatten().find(|c| c.type_.as_deref() == Some(type_))
}

/// Sets a condition. One with the same status and reason stays as it is, and its transition time
/// stays while the status is the same (upstream's `SetDeploymentCondition`).
pub(super) fn set(status: &mut DeploymentStatus, mut condition: DeploymentCondition) {
    let type_ = condition.type_.clone().unwrap_or_default();
    if let Some(current) = get(status, &type_) {
        if current.status == condition.status && current.reason == condition.reason {
            return;
        }
        if current.status == condition.status {
            condition.last_transition_time = current.last_transition_time.clone();
        }
    }
    remove(status, &type_);
    status.conditions.get_or_insert_default().push(condition);
}

/// Removes a condition.
pub(super) fn remove(status: &mut DeploymentStatus, type_: &str) {
    if let Some(conditions) = &mut status.conditions {
        conditions.retain(|c| c.type_.as_deref() != Some(type_));
    }
}

/// The reason of a condition.
pub(super) fn reason(condition: &DeploymentCondition) -> &str {
    condition.reason.as_deref().unwrap_or_default()
}
