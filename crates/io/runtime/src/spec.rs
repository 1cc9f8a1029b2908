//! What a sandbox and a container are made of: everything resolved, nothing left to look up but the
//! image's own config.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

// What the shim is asked in the same words is said in its own types.
pub use rekindle_shim::protocol::{
    ImageGroups, MountAccess, MountFeature, MountOptions, MountPropagation, ReadOnlyReach,
};
use rekindle_types::{ContainerAttempt, ContainerName, PodRef, SandboxAttempt};
use serde::{Deserialize, Serialize};

/// Names one sandbox: a pod's UID and the attempt. Every call about a sandbox carries it; a call
/// for one that stands already is a no-op.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct SandboxKey {
    /// The pod.
    pub pod: PodRef,
    /// Which of its sandboxes.
    pub attempt: SandboxAttempt,
}

/// Names one container attempt. A late result about another attempt can always be told apart.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct ContainerKey {
    /// The sandbox it lives in.
    pub sandbox: SandboxKey,
    /// The container's name in the pod.
    pub name: ContainerName,
    /// Which start of it.
    pub attempt: ContainerAttempt,
}

/// A pod sandbox: namespaces, cgroup, log folder.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct SandboxSpec {
    /// Which one.
    pub key: SandboxKey,
    /// The hostname inside.
    pub hostname: String,
    /// Limits of the pod as a whole (the pod cgroup).
    pub resources: Resources,
    /// Kernel settings inside the sandbox's namespaces, name to value.
    pub sysctls: BTreeMap<String, String>,
    /// Bytes of the sandbox's /dev/shm, where it is its own.
    pub shm_bytes: u64,
    /// Which namespaces it shares with the host.
    pub namespaces: Namespaces,
}

/// The namespaces that a pod may share with the host. UTS and mount namespaces are its own in any
/// case.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Namespaces {
    /// hostNetwork. With the host's, no `net.` setting is written, not even a default one.
    pub network: NamespaceOwner,
    /// hostIPC. With the host's, /dev/shm is the host's too.
    pub ipc: NamespaceOwner,
    /// hostPID and shareProcessNamespace.
    #[serde(default)]
    pub processes: ProcessVisibility,
    /// hostUsers. With users of its own, a sandbox shares nothing with the host.
    #[serde(default)]
    pub users: SandboxUsers,
}

/// Whose user and group ids hold in a sandbox (KEP-127).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum SandboxUsers {
    /// The host's: root in there is root.
    #[default]
    Host,
    /// Its own: what it can do in there it can do in there only. Volumes show their files by the
    /// ids inside, so that they belong to the same ids in every sandbox, whatever its range is;
    /// their file systems must have id-mapped mounts.
    Own(UserRange),
}

/// Ids of the host that stand for 0 and up in a sandbox.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct UserRange {
    /// The one that is root in there.
    pub first: u32,
    /// How many there are.
    pub length: u32,
}

/// Whose processes a pod's containers see.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum ProcessVisibility {
    /// Each its own: a PID namespace per container.
    #[default]
    Container,
    /// Those of the pod: one PID namespace, new with each sandbox, whose first process only reaps.
    /// The end of a container ends what is in its cgroup, and nothing else.
    Pod,
    /// All of the host's. The end of a container ends what is in its cgroup.
    Host,
}

/// Whose a namespace is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum NamespaceOwner {
    /// The pod's: made for its sandbox, and new with each.
    #[default]
    Own,
    /// The one that the engine itself runs in.
    Host,
}

/// A sandbox that stands.
#[derive(Clone, Debug, PartialEq)]
pub struct SandboxInfo {
    /// What it is called outside of it, on the network for one: its own alone, and the same as long
    /// as it stands, also when it was made before there was a pod for it.
    pub id: String,
    /// The network namespace, as a path that stays valid while the sandbox lives
    /// (`/proc/<shim>/ns/net`).
    pub netns: PathBuf,
    /// The process that holds it.
    pub pid: u32,
    /// Which of its namespaces are the host's.
    pub namespaces: Namespaces,
}

/// A container, in CRI's shape: `command` and `args` override the image's entrypoint and cmd by
/// Kubernetes' rules.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ContainerSpec {
    /// Which one.
    pub key: ContainerKey,
    /// The image as the user wrote it; it must be present.
    pub image: String,
    /// Replaces the image's entrypoint (and drops its cmd) when not empty.
    pub command: Vec<String>,
    /// Replaces the image's cmd when not empty.
    pub args: Vec<String>,
    /// In order; laid over the image's own.
    pub env: Vec<(String, String)>,
    /// Replaces the image's when given.
    pub working_dir: Option<String>,
    /// Bind mounts, parents before children.
    pub mounts: Vec<Mount>,
    /// Limits of this container.
    pub resources: Resources,
    /// Who it runs as and what it may.
    pub security: Security,
    /// The CRI-format log file; its folder exists.
    pub log_path: PathBuf,
    /// Rotation of that file.
    pub log_limits: LogLimits,
    /// What its first process reads and writes.
    #[serde(default)]
    pub stdio: ContainerStdio,
    /// A container of the same sandbox whose processes it sees, in place of what the sandbox says;
    /// it must be running, and this one ends with it where it has a PID namespace of its own.
    #[serde(default)]
    pub target: Option<ContainerKey>,
    /// How soon the kernel ends its processes when the machine has no memory left: -1000 to 1000,
    /// most first. A right that the machine may lack is needed below 0.
    #[serde(default)]
    pub oom_score_adj: i32,
    /// Whether it will be started again when it ends: a runtime may get ready for that.
    #[serde(default)]
    pub renewal: ExpectedRestart,
}

/// Whether a container is to run again after its end, as far as its restart policy says.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum ExpectedRestart {
    /// It runs once, or nobody knows.
    #[default]
    NotExpected,
    /// It is to run all the time.
    Expected,
}

/// What the three files of a container's first process are. Its output goes to the log in any case.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ContainerStdio {
    /// What it reads.
    pub stdin: Stdin,
    /// Whether it is on a terminal.
    pub terminal: TerminalUse,
}

/// What a first process reads.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum Stdin {
    /// /dev/null.
    #[default]
    Null,
    /// What those who attach send; it never ends.
    Open,
    /// What the first who attaches sends; then it ends.
    Once,
}

/// Whether a first process is on a terminal.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum TerminalUse {
    /// No.
    #[default]
    None,
    /// On one of its own.
    Own,
}

/// One bind mount from the host into a container.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Mount {
    /// What is mounted.
    pub source: MountSource,
    /// A path inside `source` that the pod's content decides over (subPath): resolved beneath it
    /// without following links out.
    pub sub_path: Option<PathBuf>,
    /// Where it appears in the container; resolved inside the container's root.
    pub destination: PathBuf,
    /// Whether the container may write to it.
    pub access: MountAccess,
    /// What else is asked of it.
    #[serde(default)]
    pub options: MountOptions,
}

/// What a mount shows.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum MountSource {
    /// A path on the host, made by the node agent, never by the pod.
    Host(PathBuf),
    /// The content of an image, which must be present; it is never written. A sub path must be
    /// there.
    Image(String),
}

impl MountSource {
    /// The path on the host, if it is one.
    pub fn host_path(&self) -> Option<&Path> {
        match self {
            MountSource::Host(path) => Some(path),
            MountSource::Image(_) => None,
        }
    }
}

/// Limits; `None` is no limit.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Resources {
    /// CPU weight as v1 shares (2..=262144); translated for v2.
    pub cpu_shares: Option<u64>,
    /// CPU limit in thousandths of a core.
    pub cpu_limit_millis: Option<u64>,
    /// Memory limit in bytes.
    pub memory_limit_bytes: Option<u64>,
    /// Processes and threads at most.
    pub pids_limit: Option<u64>,
}

/// How limits that are in force are changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LimitChange {
    /// Each is raised to the new value, and none is lowered: what is inside may still have as much
    /// as before.
    RaiseOnly,
    /// Each becomes the new value.
    Exact,
}

/// Memory of one cgroup.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct MemoryState {
    /// The limit in force; `None` is no limit.
    pub limit_bytes: Option<u64>,
    /// What is in use, page cache included.
    pub usage_bytes: u64,
}

/// Memory of a sandbox and of what runs in it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SandboxMemory {
    /// Of the pod as a whole.
    pub pod: MemoryState,
    /// Of each container that runs or is about to.
    pub containers: BTreeMap<ContainerKey, MemoryState>,
}

/// Who the container's process is and what it may do. The same at every attempt (promise P4).
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Security {
    /// runAsUser; `None` takes the image's.
    pub run_as_user: Option<u32>,
    /// runAsGroup; `None` takes the image user's group.
    pub run_as_group: Option<u32>,
    /// Refuse to start when the user turns out to be 0.
    pub run_as_non_root: bool,
    /// supplementalGroups and fsGroup.
    pub supplemental_groups: Vec<u32>,
    /// supplementalGroupsPolicy.
    #[serde(default)]
    pub image_groups: ImageGroups,
    /// Capabilities beyond the default set (`NET_ADMIN`, `ALL`).
    pub add_capabilities: Vec<String>,
    /// Capabilities taken from the default set (`ALL`).
    pub drop_capabilities: Vec<String>,
    /// Everything allowed: all capabilities, host devices, nothing masked.
    pub privileged: bool,
    /// `false` sets no_new_privs.
    pub allow_privilege_escalation: bool,
    /// The root file system cannot be written.
    pub read_only_root: bool,
    /// Which system calls are allowed.
    pub seccomp: Seccomp,
    /// procMount.
    #[serde(default)]
    pub proc_mount: ProcMount,
}

/// What of /proc and /sys a container sees that is not privileged.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum ProcMount {
    /// What concerns the machine is hidden, or cannot be written.
    #[default]
    Default,
    /// All. In a sandbox with users of its own only: what is the machine's is then kept from it by
    /// whose it is.
    Unmasked,
}

/// The seccomp profile.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Seccomp {
    /// Ours, after the container engines' default.
    RuntimeDefault,
    /// No filter.
    Unconfined,
    /// A file of the node's own, in the form of the OCI runtime specification or of docker.
    Localhost {
        /// Where the node keeps its profiles.
        folder: PathBuf,
        /// The file, beneath that folder.
        profile: PathBuf,
    },
}

/// When a log file is rotated, and how many are kept (kubelet: 10Mi, 5).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct LogLimits {
    /// Bytes of one file.
    pub max_bytes: u64,
    /// Files of one container attempt, the current one included.
    pub max_files: u32,
}

impl Default for LogLimits {
    fn default() -> Self {
        Self { max_bytes: 10 * 1024 * 1024, max_files: 5 }
    }
}
