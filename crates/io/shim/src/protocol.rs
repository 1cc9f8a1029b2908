//! What the agent and a shim say to each other over the sandbox's unix socket: frames of a length
//! (u32, little endian) and a JSON text. The agent calls, the shim answers by number; exits come
//! unasked.
//!
//! A plan is fully resolved: what is left to do inside is what can only be done there (the image's
//! users, links in paths).

mod ahead;
mod exec;
mod plan;

use serde::{Deserialize, Serialize};

pub use crate::oom::{MemoryFiles, OomRecord};
pub use ahead::*;
pub use exec::*;
pub use plan::*;

/// Bytes of the largest frame that either side takes.
pub const FRAME_BYTES_MAX: usize = 4 * 1024 * 1024;

/// One call of the agent.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ShimCall {
    /// Comes back with the answer.
    pub seq: u64,
    /// What is wanted.
    pub request: ShimRequest,
}

/// What the agent may want. All but the first need a configured sandbox.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub enum ShimRequest {
    /// Make the namespaces. Once, before all else.
    Configure(SandboxPlan),
    /// Give a configured sandbox that was made ahead of need to its pod. Answered when it has taken
    /// the pod's settings.
    Claim(ClaimPlan),
    /// Make a container and hold it just before its exec. Answered when it is ready; one that
    /// stands already is success.
    Create(Box<ContainerPlan>),
    /// Put the root of a container's next start together. Answered when it stands; the
    /// [`ShimRequest::Create`] that it serves takes it. It is nobody's before, and goes away when
    /// another one is made for the same container, or another agent comes. Only of a shim that says
    /// [`RootsAhead::Made`].
    MakeRoot(Box<RootAhead>),
    /// Let a created container go; one that is still being prepared goes when it is. Answered when
    /// the exec succeeded or failed. A shim of an earlier version refuses the one that is still
    /// being prepared.
    Start {
        /// Which one.
        slot: String,
    },
    /// Signal a container's first process.
    Signal {
        /// Which one.
        slot: String,
        /// The signal's number.
        signal: i32,
    },
    /// Forget a container that has ended; end one that was never started. An unknown one is
    /// success.
    Remove {
        /// Which one.
        slot: String,
    },
    /// Run one more command in a running container; the files of [`ExecPlan::files`] come along as
    /// descriptors (SCM_RIGHTS). Answered when the exec succeeded or failed. It ends with the
    /// connection that asked for it.
    Exec(Box<ExecPlan>),
    /// End such a command and its process group with SIGKILL. One that is gone already is success.
    KillExec {
        /// Its [`ExecPlan::id`].
        id: u64,
    },
    /// Copy a container's output to pipes, and hand its input over. The descriptors of
    /// [`AttachPlan`] come along.
    Attach(AttachPlan),
    /// Everything that stands.
    State,
    /// Kill all containers, answer when they are gone, and exit.
    Shutdown,
}

/// One message of the shim.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub enum ShimMessage {
    /// The answer to a call.
    Answer {
        /// The call's number.
        seq: u64,
        /// How it went.
        result: Result<ShimAnswer, ShimFailure>,
    },
    /// A container's first process ended; it stands on disk already.
    Exited {
        /// Which one.
        slot: String,
        /// How.
        exit: ExitRecord,
    },
    /// A command of [`ShimRequest::Exec`] ended.
    ExecEnded {
        /// Its [`ExecPlan::id`].
        id: u64,
        /// By what.
        cause: ExitCause,
    },
}

/// What a call that succeeded brings.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub enum ShimAnswer {
    /// Nothing to tell.
    Done,
    /// The container is prepared, and who its process is known.
    Created(UserIds),
    /// The process runs.
    Started {
        /// In the shim's own process numbers (the host's).
        pid: u32,
        /// Microseconds since the Unix epoch.
        started_at_us: u64,
    },
    /// Everything that stands.
    State(ShimState),
}

/// Who a process is.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct UserIds {
    /// Its user.
    pub uid: u32,
    /// Its primary group.
    pub gid: u32,
    /// All of its groups, in ascending order.
    pub groups: Vec<u32>,
}

/// A shim and all that is in it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ShimState {
    /// The shim itself, in the host's numbers.
    pub pid: u32,
    /// Whether there is a sandbox.
    pub sandbox: SandboxPhase,
    /// Its containers; those still in preparation are left out.
    pub containers: Vec<ContainerReport>,
    /// Whether it knows [`ShimRequest::MakeRoot`].
    #[serde(default)]
    pub roots_ahead: RootsAhead,
}

/// Whether a shim got its sandbox.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum SandboxPhase {
    /// Not yet; it goes away with its agent.
    Absent,
    /// It holds one.
    Ready,
}

/// Why a call failed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ShimFailure {
    /// Whose fault it is.
    pub kind: FailureKind,
    /// One line: operation, object, cause.
    pub problem: String,
}

impl ShimFailure {
    /// A failure of this kind.
    pub fn new(kind: FailureKind, problem: impl Into<String>) -> Self {
        Self { kind, problem: problem.into() }
    }
}

/// Sorted by what the agent makes of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum FailureKind {
    /// The plan cannot be carried out with this image, however often it is tried.
    Config,
    /// The surroundings could not be made; may be better next time.
    Setup,
    /// The command could not be executed.
    Start,
    /// The call does not fit the state (no such container, it runs still).
    State,
}

/// One container as the shim sees it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ContainerReport {
    /// Which one.
    pub slot: String,
    /// What it does.
    pub phase: ContainerPhase,
}

/// What a container does; the form of the state file, too.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub enum ContainerPhase {
    /// Held before its exec.
    Created,
    /// Its first process runs.
    Running {
        /// The process.
        pid: u32,
        /// Microseconds since the Unix epoch.
        started_at_us: u64,
        /// Whether it was signalled. The shim's memory of it lasts as long as the process; a state
        /// file does not tell, and neither does a shim of an earlier version.
        #[serde(default)]
        notice: SignalNotice,
    },
    /// It ended.
    Exited {
        /// What was its process.
        pid: u32,
        /// How it ended.
        exit: ExitRecord,
    },
}

/// Whether a process got a signal by [`ShimRequest::Signal`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum SignalNotice {
    /// None that is known of.
    #[default]
    NotGiven,
    /// One at least.
    Given,
}

/// How a container ended.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ExitRecord {
    /// By what.
    pub cause: ExitCause,
    /// Microseconds since the Unix epoch; the end when it never ran.
    pub started_at_us: u64,
    /// Microseconds since the Unix epoch.
    pub finished_at_us: u64,
    /// The problem of a start error, else empty.
    pub message: String,
    /// What the cgroup said of its memory, when it was killed for lack of it.
    #[serde(default)]
    pub oom: Option<OomRecord>,
}

/// What ended a container.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum ExitCause {
    /// It called exit.
    Code(i32),
    /// A signal.
    Signal(i32),
    /// SIGKILL (or a shell's 137), and its cgroup's OOM counter rose.
    OomKilled,
    /// It never ran.
    StartError,
    /// Nobody saw it.
    Unknown,
}
