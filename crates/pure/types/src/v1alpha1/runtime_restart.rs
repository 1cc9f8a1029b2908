//! What an agent on a cluster records of a restart in place before it stops anything: what it has
//! begun on, and what the runtime forgets when the containers are removed.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::MicroTime;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Bytes kept of the message of a container's last end; what is longer is cut.
pub const END_MESSAGE_BYTES_MAX: usize = 1024;

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
