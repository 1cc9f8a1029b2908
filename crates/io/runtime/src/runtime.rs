//! The CRI-shaped trait that a node agent drives. Ours (the shim per pod) implements it; a CRI
//! client will, too.

use std::collections::{BTreeMap, BTreeSet};
use std::future::Future;
use std::time::Duration;

use rekindle_types::{ContainerUser, Exit, PodRef, SandboxAttempt, StopNotice, Tick};
use serde::{Deserialize, Serialize};

use crate::error::RuntimeError;
use crate::exec::{ExecOutcome, ExecStreams, StreamRequest};
use crate::image::registry::Keyring;
use crate::spec::{
    ContainerKey, ContainerSpec, LimitChange, Resources, SandboxInfo, SandboxKey, SandboxMemory,
    SandboxSpec,
};
use crate::usage::{LayerUsage, RuntimeUsage};

/// Runs sandboxes and containers. Every call is idempotent by its key: repeated after a crash of
/// the caller it finds what stands and says the same. No call waits for a process to end; ends
/// arrive as [`RuntimeEvent`]s.
pub trait Runtime: Send + Sync + 'static {
    /// Makes the sandbox: shim, namespaces, cgroup, /dev/shm.
    fn run_sandbox(
        &self,
        spec: &SandboxSpec,
    ) -> impl Future<Output = Result<SandboxInfo, RuntimeError>> + Send;

    /// Makes a sandbox ahead of need, which one of the next calls of
    /// [`run_sandbox`](Self::run_sandbox) takes; to be called when there is time. `None` when
    /// enough of them stand, or this runtime does not do that.
    fn prepare_sandbox(
        &self,
    ) -> impl Future<Output = Result<Option<SandboxInfo>, RuntimeError>> + Send {
        std::future::ready(Ok(None))
    }

    /// Ends those made ahead that nobody has taken: for an agent that ends for good.
    fn end_prepared(&self) -> impl Future<Output = ()> + Send {
        std::future::ready(())
    }

    /// What the sandbox is called outside of it, as [`SandboxInfo::id`] says; `None` when it does
    /// not stand.
    fn sandbox_id(&self, key: &SandboxKey) -> Option<String>;

    /// Kills what is left in the sandbox and takes it away, cgroups and mounts included. Absent is
    /// success.
    fn remove_sandbox(
        &self,
        key: &SandboxKey,
    ) -> impl Future<Output = Result<(), RuntimeError>> + Send;

    /// Prepares a container: root file system, mounts, cgroup. Nothing runs yet. Answers its id and
    /// its image's id.
    fn create_container(
        &self,
        spec: &ContainerSpec,
    ) -> impl Future<Output = Result<CreatedContainer, RuntimeError>> + Send;

    /// Starts the process. A command that is missing or may not be executed is
    /// `RuntimeError::Start`.
    fn start_container(
        &self,
        key: &ContainerKey,
    ) -> impl Future<Output = Result<StartedContainer, RuntimeError>> + Send;

    /// Both in one: prepares a container and starts its process, with nothing between the two if
    /// this runtime can do without. One that stands prepared gets the limits of `spec` first. An
    /// error says that it was not prepared, or that nobody knows; what became of the start is in
    /// [`RunContainerResult::start`].
    fn run_container(
        &self,
        spec: &ContainerSpec,
    ) -> impl Future<Output = Result<RunContainerResult, RuntimeError>> + Send {
        async move {
            let created = self.create_container(spec).await?;
            let start = self.start_container(&spec.key).await;
            Ok(RunContainerResult { created, start })
        }
    }

    /// Sends the container's first process a signal; a container that has ended already is success.
    fn signal_container(
        &self,
        key: &ContainerKey,
        signal: StopSignal,
    ) -> impl Future<Output = Result<(), RuntimeError>> + Send;

    /// Changes the limits of a sandbox that stands. The kernel keeps them: they hold as long as the
    /// sandbox does, whatever becomes of this agent. A sandbox that does not stand is an error.
    fn update_sandbox(
        &self,
        key: &SandboxKey,
        resources: &Resources,
        change: LimitChange,
    ) -> impl Future<Output = Result<(), RuntimeError>> + Send;

    /// Changes the limits of a container; one that has ended or was taken away is success. A memory
    /// limit below what is in use may end its processes: see [`memory`](Self::memory).
    fn update_container(
        &self,
        key: &ContainerKey,
        resources: &Resources,
    ) -> impl Future<Output = Result<(), RuntimeError>> + Send;

    /// The memory limits that are in force, and what is in use.
    fn memory(
        &self,
        key: &SandboxKey,
    ) -> impl Future<Output = Result<SandboxMemory, RuntimeError>> + Send;

    /// Runs one more command in a running container to its end, as the container's user and with
    /// its rights, without input. At the end of its time it is killed. A command that is missing or
    /// may not be executed is `RuntimeError::Start`; a container that does not run is
    /// `RuntimeError::Container`. Dropping the call kills the command.
    fn exec_sync(
        &self,
        key: &ContainerKey,
        command: &[String],
        timeout: Duration,
    ) -> impl Future<Output = Result<ExecOutcome, RuntimeError>> + Send;

    /// Runs one more command as [`exec_sync`](Self::exec_sync) does, with its files in the caller's
    /// hands. Answers when it runs.
    fn exec(
        &self,
        key: &ContainerKey,
        command: &[String],
        request: StreamRequest,
    ) -> impl Future<Output = Result<ExecStreams, RuntimeError>> + Send;

    /// Joins a container's first process: copies of what it writes from now on, and its input.
    /// `running` resolves with 0 when the container ends. A reader that is too slow is cut off; the
    /// container does not wait for it.
    fn attach(
        &self,
        key: &ContainerKey,
        request: StreamRequest,
    ) -> impl Future<Output = Result<ExecStreams, RuntimeError>> + Send;

    /// Takes an ended (or never started) container away: its root file system and cgroup. Its log
    /// stays. Absent is success.
    fn remove_container(
        &self,
        key: &ContainerKey,
    ) -> impl Future<Output = Result<(), RuntimeError>> + Send;

    /// Everything that stands: also what an earlier agent left, and the exits that nobody has seen.
    fn snapshot(&self) -> impl Future<Output = Result<Vec<SandboxSnapshot>, RuntimeError>> + Send;

    /// What the machine, every sandbox and every container use now, by the accounts of the kernel:
    /// a few short files each, and no walk through a disk.
    fn usage(&self) -> impl Future<Output = Result<RuntimeUsage, RuntimeError>> + Send;

    /// What a container has written to its root file system: a walk through it, through so many
    /// entries at most. `None` when it is not there.
    fn layer_usage(
        &self,
        key: &ContainerKey,
        entries_max: u64,
    ) -> impl Future<Output = Result<Option<LayerUsage>, RuntimeError>> + Send;

    /// The next event, in order per sandbox. Cancel-safe. An event is given once per agent process;
    /// after a restart of the agent, `snapshot` holds what was missed.
    fn next_event(&self) -> impl Future<Output = RuntimeEvent> + Send;

    /// Whether the image is here, and under which id. `None` when it must be pulled.
    fn image_status(
        &self,
        image: &str,
    ) -> impl Future<Output = Result<Option<ImageInfo>, RuntimeError>> + Send;

    /// Fetches an image, or makes sure that the one that is here is still what its registry means
    /// by the name. Dropping the future ends the pull. What cannot be fetched is a clear
    /// `RuntimeError::Image`.
    fn pull_image(
        &self,
        request: &ImagePull,
    ) -> impl Future<Output = Result<ImageInfo, RuntimeError>> + Send;

    /// Every image that is here, once.
    fn images(&self) -> impl Future<Output = Result<Vec<ImageOnDisk>, RuntimeError>> + Send;

    /// How full the file system of the images is.
    fn image_file_system(
        &self,
    ) -> impl Future<Output = Result<ImageFileSystem, RuntimeError>> + Send;

    /// Takes an image away by its id, with all its names. One that a container was made from is
    /// refused; absent is success.
    fn remove_image(&self, id: &str) -> impl Future<Output = Result<(), RuntimeError>> + Send;
}

/// The signal that asks a container to end.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum StopSignal {
    /// The image's STOPSIGNAL, else SIGTERM.
    ImageDefault,
    /// SIGKILL: to the whole container, not only its first process.
    Kill,
    /// This signal's number.
    Number(i32),
}

/// What a create answers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CreatedContainer {
    /// 64 hex digits, the same for the same key; the API shows it behind `rekindle://`.
    pub id: String,
    /// The digest of the image it was made from.
    pub image_id: String,
    /// Who its process is, where the runtime can tell.
    pub user: Option<ContainerUser>,
}

/// What a start answers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StartedContainer {
    /// The first process, in the host's numbers.
    pub pid: u32,
    /// When it was started.
    pub started_at: Tick,
}

/// What [`Runtime::run_container`] answers.
#[derive(Debug)]
pub struct RunContainerResult {
    /// What was prepared.
    pub created: CreatedContainer,
    /// How its start went.
    pub start: Result<StartedContainer, RuntimeError>,
}

/// An image that is present.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ImageInfo {
    /// `sha256:…` of its config.
    pub id: String,
    /// The reference in its full form (`docker.io/library/busybox:latest`).
    pub reference: String,
    /// Bytes on disk.
    pub size_bytes: u64,
    /// Whether a registry can be asked for it.
    pub origin: ImageOrigin,
}

/// Whether a registry can be asked for an image.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ImageOrigin {
    /// Its name is that of a registry.
    Registry,
    /// It is built in, or its name says that only this machine has it (`localhost/…`, an id).
    ThisMachine,
}

/// An image to be fetched.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ImagePull {
    /// As the user wrote it.
    pub image: String,
    /// The logins that may be tried.
    pub keyring: Keyring,
}

/// One image of this machine, as its keeper sees it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ImageOnDisk {
    /// `sha256:…` of its config.
    pub id: String,
    /// Its names with digests, then those with tags.
    pub names: Vec<String>,
    /// Bytes on disk; layers that others share count in full.
    pub size_bytes: u64,
    /// Whether it may go.
    pub usage: ImageUse,
}

/// Whether something needs an image.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ImageUse {
    /// Containers were made from it, and are not removed.
    ByContainers,
    /// It is part of the program.
    BuiltIn,
    /// Nothing uses it, but it was loaded by hand: no registry may have it.
    Pinned,
    /// Nothing does.
    Unused,
}

/// The images that containers were made from, or mount, by id, with the pods of those containers.
pub type ImagesInUse = BTreeMap<String, BTreeSet<PodRef>>;

/// How full the file system of the images is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ImageFileSystem {
    /// Its size.
    pub capacity_bytes: u64,
    /// What may still be written.
    pub available_bytes: u64,
    /// What is written, whoever wrote it.
    pub used_bytes: u64,
    /// Files and folders that it has room for; 0 where that is not bounded.
    pub inodes: u64,
    /// Those that may still be made.
    pub inodes_free: u64,
}

/// What happened without being asked for.
#[derive(Clone, Debug, PartialEq)]
pub enum RuntimeEvent {
    /// A container's first process ended; its exit stands on disk.
    ContainerExited {
        /// Which container.
        key: ContainerKey,
        /// What its creation answered, or would have.
        created: CreatedContainer,
        /// How.
        exit: Exit,
    },
    /// Processes of a container were killed for lack of memory, and its first process lives on.
    ProcessesOomKilled {
        /// Which container.
        key: ContainerKey,
    },
    /// The sandbox's shim is gone, and with it everything inside. The ends of containers that were
    /// not told yet follow.
    SandboxDied {
        /// Which sandbox.
        key: SandboxKey,
    },
}

/// One sandbox as found.
#[derive(Clone, Debug, PartialEq)]
pub struct SandboxSnapshot {
    /// Which one.
    pub key: SandboxKey,
    /// What it is called; see [`SandboxInfo::id`].
    pub id: String,
    /// Whether its shim lives.
    pub state: SandboxReadiness,
    /// Where its namespaces are, when it is ready.
    pub info: Option<SandboxInfo>,
    /// What is in it.
    pub containers: Vec<ContainerSnapshot>,
}

impl SandboxSnapshot {
    /// The attempt of the sandbox.
    pub fn attempt(&self) -> SandboxAttempt {
        self.key.attempt
    }
}

/// Whether a sandbox can be used.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SandboxReadiness {
    /// Its shim lives.
    Ready,
    /// Its shim is gone.
    NotReady,
}

/// One container as found.
#[derive(Clone, Debug, PartialEq)]
pub struct ContainerSnapshot {
    /// Which one.
    pub key: ContainerKey,
    /// What its creation answered.
    pub created: CreatedContainer,
    /// What it does.
    pub state: RuntimeContainerState,
}

/// What a container does.
#[derive(Clone, Debug, PartialEq)]
pub enum RuntimeContainerState {
    /// Made, never started.
    Created,
    /// Its first process runs.
    Running {
        /// The first process.
        pid: u32,
        /// Since when.
        started_at: Tick,
        /// Whether it was asked to end, be it by an earlier agent.
        notice: StopNotice,
    },
    /// It ended so.
    Exited {
        /// How.
        exit: Exit,
    },
}
