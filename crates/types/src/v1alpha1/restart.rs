//! PodRestart: a request to restart a pod in place, and how it went. Idempotent by its name.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::{ObjectMeta, Time};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{Refresh, Rung, api_object};

/// PodRestart asks for one restart of one pod. A user creates it (or `rekindle restart` does), and so does the ladder. The
/// node that runs the pod carries it out once; status tells how it went.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(rename = "dev.rekindle.v1alpha1.PodRestart")]
pub struct PodRestart {
    /// APIVersion is rekindle.dev/v1alpha1.
    #[serde(default)]
    pub api_version: String,
    /// Kind is PodRestart.
    #[serde(default)]
    pub kind: String,
    /// Standard object metadata.
    #[serde(default)]
    pub metadata: ObjectMeta,
    /// The request. It cannot be changed once made.
    #[serde(default)]
    pub spec: PodRestartSpec,
    /// How it went.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub status: Option<PodRestartStatus>,
}
api_object!(PodRestart, "PodRestart", "PodRestartList", "podrestarts");

/// Which pod, what of it, and how.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(rename = "dev.rekindle.v1alpha1.PodRestartSpec")]
pub struct PodRestartSpec {
    /// The pod's name, in the request's own namespace.
    #[serde(default)]
    pub pod_name: String,
    /// When given, only the pod with this UID is restarted: a re-created one of the same name is left alone.
    #[serde(default, rename = "podUID", skip_serializing_if = "Option::is_none")]
    pub pod_uid: Option<String>,
    /// What is restarted: Container, Containers or Pod. Default Pod.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rung: Option<Rung>,
    /// Of a Pod restart: what is made new. Default: all of it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub refresh: Option<Vec<Refresh>>,
    /// Why, in words for people; shown in the pod's events.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// Seconds the containers get to end, in place of the pod's terminationGracePeriodSeconds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub grace_period_seconds: Option<i64>,
    /// Seconds after its creation by which it has to be done, at least 1: one that is not is Failed. It is not begun any more
    /// then; what was begun goes on. Default: no limit.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub deadline_seconds: Option<i64>,
    /// Seconds that the request is kept after it is done. Default 600.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ttl_seconds_after_finished: Option<i64>,
}

/// How a restart went.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(rename = "dev.rekindle.v1alpha1.PodRestartStatus")]
pub struct PodRestartStatus {
    /// Where it is. Absent while nobody has taken it up.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub phase: Option<PodRestartPhase>,
    /// What happened, for people.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub message: Option<String>,
    /// When the node began to stop containers.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub started_at: Option<Time>,
    /// When every container that had to be was running again, or it was given up.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub finished_at: Option<Time>,
}

/// Where a restart is: absent (pending) → Running → Succeeded or Failed; Refused at once when it cannot be done.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "dev.rekindle.v1alpha1.PodRestartPhase")]
pub enum PodRestartPhase {
    /// The node carries it out.
    Running,
    /// All containers that had to be are running again.
    Succeeded,
    /// It was not finished: the pod was deleted, its node lost, or the deadline passed meanwhile.
    Failed,
    /// It cannot be done; the message says why (no such pod, another UID, terminating, a static pod, …).
    Refused,
}

impl PodRestartPhase {
    /// True when nothing more will happen.
    pub const fn is_final(self) -> bool {
        match self {
            PodRestartPhase::Running => false,
            PodRestartPhase::Succeeded | PodRestartPhase::Failed | PodRestartPhase::Refused => true,
        }
    }
}
