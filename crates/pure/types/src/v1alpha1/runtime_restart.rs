//! What an agent on a cluster records of a restart in place before it stops anything: what it has
//! begun on, and what the runtime forgets when the containers are removed.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::MicroTime;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Bytes kept of the message of a container's last end; what is longer is cut.
pub const END_MESSAGE_BYTES_MAX: usize = 1024;

/// Bytes kept of a container's log: its last lines.
pub const LAST_LOG_BYTES_MAX: usize = 2048;

/// What a restart in place was begun on. Only this sandbox, and only these containers, are ended by
/// the request, whatever dies in between.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(rename = "dev.rekindle.v1alpha1.RuntimeRestart")]
pub struct RuntimeRestart {
    /// The sandbox that ran when the restart was begun.
    #[serde(rename = "sandboxID")]
    #[schemars(length(max = 256))]
    pub sandbox_id: String,
    /// The containers that it concerns.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub containers: Vec<RestartedContainer>,
    /// How many processes of the pod the kernel had ended for lack of memory (`oom_kill` of the
    /// pod's cgroup); absent where the agent does not see cgroups.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 0))]
    pub oom_kills: Option<i64>,
    /// Of a pod that is frozen between its sandboxes, so that nothing starts in that time: how far
    /// that is. So are pods that have emptyDir volumes emptied, and members of a group.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub freeze: Option<PodFreeze>,
}

/// A pod whose cgroup is frozen from before its sandbox is stopped: what the kubelet starts in it
/// waits until it is thawed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(rename = "dev.rekindle.v1alpha1.PodFreeze")]
pub struct PodFreeze {
    /// The pod's cgroup, below the root of cgroups.
    #[schemars(length(max = 1024))]
    pub cgroup: String,
    /// How far it is.
    pub step: PodFreezeStep,
}

/// Written before what it names is done, so that the next agent knows what may have happened.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "dev.rekindle.v1alpha1.PodFreezeStep")]
pub enum PodFreezeStep {
    /// The cgroup may be frozen. What ran in it may still run; the volumes are as they were, or
    /// emptied in part.
    Held,
    /// Nothing runs, and the volumes are empty if that was asked for. They are not touched again;
    /// the cgroup may still be frozen.
    Stopped,
    /// The cgroup is not frozen any more.
    Released,
}

/// A container that a restart in place concerns, as the runtime had it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(rename = "dev.rekindle.v1alpha1.RestartedContainer")]
pub struct RestartedContainer {
    /// The container's name in the pod.
    pub name: String,
    /// The runtime's id of its latest attempt; absent when it had none.
    #[serde(default, rename = "containerID", skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 256))]
    pub container_id: Option<String>,
    /// How its latest attempt that was over had ended; absent when there was none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last_end: Option<ContainerLastEnd>,
    /// The last lines of its log; absent where the agent does not see logs.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last_log: Option<String>,
}

/// How an attempt of a container ended, as the runtime had it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(rename = "dev.rekindle.v1alpha1.ContainerLastEnd")]
pub struct ContainerLastEnd {
    /// Its exit code; 128 and the signal's number for one that a signal ended.
    pub exit_code: i32,
    /// In a word, such as Error or OOMKilled.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// What the app or the runtime said of it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub message: Option<String>,
    /// When it ended, by the node's clock.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub finished_at: Option<MicroTime>,
}
