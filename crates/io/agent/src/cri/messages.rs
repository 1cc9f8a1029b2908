//! The messages of `runtime.v1` that the agent uses, with the fields that it uses. Field numbers
//! are those of the CRI (`cri-api/pkg/apis/runtime/v1/api.proto`); a field that is left out is
//! skipped.

use std::collections::BTreeMap;

use prost::Message;

/// Asks for the runtime's name and version.
#[derive(Clone, PartialEq, Message)]
pub struct VersionRequest {}

/// The runtime's name and version.
#[derive(Clone, PartialEq, Message)]
pub struct VersionResponse {
    /// Such as `containerd`.
    #[prost(string, tag = "2")]
    pub runtime_name: String,
    /// Such as `1.6.20`.
    #[prost(string, tag = "3")]
    pub runtime_version: String,
}

/// Asks for sandboxes.
#[derive(Clone, PartialEq, Message)]
pub struct ListPodSandboxRequest {
    /// Which.
    #[prost(message, optional, tag = "1")]
    pub filter: Option<PodSandboxFilter>,
}

/// Which sandboxes.
#[derive(Clone, PartialEq, Message)]
pub struct PodSandboxFilter {
    /// Those with these labels.
    #[prost(btree_map = "string, string", tag = "3")]
    pub label_selector: BTreeMap<String, String>,
}

/// Sandboxes.
#[derive(Clone, PartialEq, Message)]
pub struct ListPodSandboxResponse {
    /// Each of them.
    #[prost(message, repeated, tag = "1")]
    pub items: Vec<PodSandbox>,
}

/// A sandbox.
#[derive(Clone, PartialEq, Message)]
pub struct PodSandbox {
    /// The runtime's id.
    #[prost(string, tag = "1")]
    pub id: String,
    /// 0 is ready, everything else is not.
    #[prost(int32, tag = "3")]
    pub state: i32,
    /// In nanoseconds since the Unix epoch.
    #[prost(int64, tag = "4")]
    pub created_at: i64,
}

/// Asks how a sandbox is.
#[derive(Clone, PartialEq, Message)]
pub struct PodSandboxStatusRequest {
    /// Its id.
    #[prost(string, tag = "1")]
    pub pod_sandbox_id: String,
    /// Whether the runtime says more than the interface has fields for.
    #[prost(bool, tag = "2")]
    pub verbose: bool,
}

/// How a sandbox is.
#[derive(Clone, PartialEq, Message)]
pub struct PodSandboxStatusResponse {
    /// What the runtime says beside that, in JSON under the key `info`.
    #[prost(btree_map = "string, string", tag = "2")]
    pub info: BTreeMap<String, String>,
}

/// Asks for containers.
#[derive(Clone, PartialEq, Message)]
pub struct ListContainersRequest {
    /// Which.
    #[prost(message, optional, tag = "1")]
    pub filter: Option<ContainerFilter>,
}

/// Which containers.
#[derive(Clone, PartialEq, Message)]
pub struct ContainerFilter {
    /// Those with these labels.
    #[prost(btree_map = "string, string", tag = "4")]
    pub label_selector: BTreeMap<String, String>,
}

/// Containers.
#[derive(Clone, PartialEq, Message)]
pub struct ListContainersResponse {
    /// Each of them.
    #[prost(message, repeated, tag = "1")]
    pub containers: Vec<ListedContainer>,
}

/// A container in a list.
#[derive(Clone, PartialEq, Message)]
pub struct ListedContainer {
    /// The runtime's id.
    #[prost(string, tag = "1")]
    pub id: String,
    /// Its sandbox's id.
    #[prost(string, tag = "2")]
    pub pod_sandbox_id: String,
    /// Its name.
    #[prost(message, optional, tag = "3")]
    pub metadata: Option<ContainerMetadata>,
    /// Created, running, exited, unknown, from 0.
    #[prost(int32, tag = "6")]
    pub state: i32,
}

/// A container's name.
#[derive(Clone, PartialEq, Message)]
pub struct ContainerMetadata {
    /// In the pod.
    #[prost(string, tag = "1")]
    pub name: String,
    /// Counts the starts.
    #[prost(uint32, tag = "2")]
    pub attempt: u32,
}

/// Asks how a container is.
#[derive(Clone, PartialEq, Message)]
pub struct ContainerStatusRequest {
    /// Its id.
    #[prost(string, tag = "1")]
    pub container_id: String,
}

/// How a container is.
#[derive(Clone, PartialEq, Message)]
pub struct ContainerStatusResponse {
    /// That.
    #[prost(message, optional, tag = "1")]
    pub status: Option<RuntimeContainerStatus>,
}

/// How a container is, or was when it ended.
#[derive(Clone, PartialEq, Message)]
pub struct RuntimeContainerStatus {
    /// In nanoseconds since the Unix epoch; 0 while it runs.
    #[prost(int64, tag = "6")]
    pub finished_at: i64,
    /// Its exit code.
    #[prost(int32, tag = "7")]
    pub exit_code: i32,
    /// In a word.
    #[prost(string, tag = "10")]
    pub reason: String,
    /// In a sentence.
    #[prost(string, tag = "11")]
    pub message: String,
    /// The file of its log.
    #[prost(string, tag = "15")]
    pub log_path: String,
}

/// Asks for the end of a container.
#[derive(Clone, PartialEq, Message)]
pub struct StopContainerRequest {
    /// Its id.
    #[prost(string, tag = "1")]
    pub container_id: String,
    /// Seconds until it is killed.
    #[prost(int64, tag = "2")]
    pub timeout: i64,
}

/// Names a sandbox: what StopPodSandbox and RemovePodSandbox are asked with.
#[derive(Clone, PartialEq, Message)]
pub struct SandboxRequest {
    /// Its id.
    #[prost(string, tag = "1")]
    pub pod_sandbox_id: String,
}

/// An answer without content.
#[derive(Clone, PartialEq, Message)]
pub struct EmptyResponse {}

/// Asks for a command in a container.
#[derive(Clone, PartialEq, Message)]
pub struct ExecSyncRequest {
    /// The container's id.
    #[prost(string, tag = "1")]
    pub container_id: String,
    /// The command and its arguments.
    #[prost(string, repeated, tag = "2")]
    pub cmd: Vec<String>,
    /// Seconds that it may take.
    #[prost(int64, tag = "3")]
    pub timeout: i64,
}

/// How a command went.
#[derive(Clone, PartialEq, Message)]
pub struct ExecSyncResponse {
    /// What it printed.
    #[prost(bytes = "vec", tag = "1")]
    pub stdout: Vec<u8>,
    /// What it printed as errors.
    #[prost(bytes = "vec", tag = "2")]
    pub stderr: Vec<u8>,
    /// Its exit code.
    #[prost(int32, tag = "3")]
    pub exit_code: i32,
}
