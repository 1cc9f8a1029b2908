//! What comes out of the core: actions, which the driver answers, and reports, which it does not.
//! It polls them in order and may carry out several actions at a time.

use std::sync::Arc;

use k8s_openapi::api::core::v1::PodStatus;
use rekindle_types::resources::Amounts;
use rekindle_types::v1alpha1::PodRestartPhase;
use rekindle_types::{ContainerName, EventSeverity, SandboxAttempt, Tick, TickDuration};
use serde::{Deserialize, Serialize};

use crate::journal::Journal;
use crate::key::{ActionId, ContainerStartKey};

/// One thing that comes out of the core.
#[derive(Clone, Debug, PartialEq)]
pub enum CoreOutput {
    /// To be carried out, and answered with exactly one `CoreEvent::ActionResult`.
    Act(ActionId, CoreAction),
    /// To be told. No answer: the driver retries by itself (status, events, restarts), or says that
    /// it cannot go on (journal).
    Report(CoreReport),
}

/// What the core tells. Each is idempotent.
#[derive(Clone, Debug, PartialEq)]
pub enum CoreReport {
    /// Keep this journal before anything more is polled. It must survive kill -9 of the agent.
    /// While that cannot be done: [`crate::PodCore::hold_up`].
    Persist(Arc<Journal>),
    /// Ask the node for other resources. It answers with `CoreEvent::ResourcesDecided`, and again
    /// when it changes its mind; a later request takes the place of this one.
    RequestResources(Box<ResourceRequest>),
    /// Write the status to the API. A newer one replaces one that is not written yet.
    WriteStatus(Arc<PodStatus>),
    /// Record an Event on the pod.
    EmitEvent(PodEvent),
    /// Tell how a restart request goes.
    Restart(RestartReport),
    /// Everything of the pod has ended and is cleaned up, volumes excepted: unmount them, forget
    /// the journal, and remove the API object if it is being deleted. The last status must be in
    /// the API before the journal is forgotten: how the containers ended is known nowhere else by
    /// then. Asked for again when a finished pod is deleted.
    Finish,
}

/// How a restart request goes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RestartReport {
    /// The UID of the PodRestart.
    pub id: String,
    /// Where it is.
    pub phase: PodRestartPhase,
    /// For people.
    pub message: String,
    /// When this phase began.
    pub at: Tick,
    /// Whether all containers have ended, and the pod waits for the others of its group.
    pub is_held: bool,
}

/// One thing to do. Every action is idempotent by its keys.
#[derive(Clone, Debug, PartialEq)]
pub enum CoreAction {
    /// Make the volumes ready: folders, tmpfs, files. Once per pod and agent process, and again
    /// after emptyDir volumes were cleared.
    MountVolumes,
    /// Clear the emptyDir volumes. Only while no container runs.
    RefreshVolumes,
    /// Make the sandbox with its network. Nothing is taken over from the sandbox before.
    SetUpSandbox {
        /// Which one.
        attempt: SandboxAttempt,
    },
    /// Take a sandbox and all in it away. Its containers have ended, or are killed with it.
    TearDownSandbox {
        /// Which one.
        attempt: SandboxAttempt,
    },
    /// Look for the image on the node: answered with `ImagePresent`, or with `ImageToPull` when it
    /// has to be pulled.
    FindImage {
        /// For which container.
        container: ContainerName,
        /// The reference as written.
        image: String,
        /// When to pull.
        policy: PullPolicy,
    },
    /// Pull the image from its registry.
    PullImage {
        /// For which container.
        container: ContainerName,
        /// The reference as written.
        image: String,
    },
    /// Prepare a container, if that was not done, and start its process, if that was not done. One
    /// that stands prepared has the limits of [`crate::PodCore::granted_pod`] before it goes on.
    /// Answered with [`crate::ActionOutcome::ContainerMade`]; an error says that it was not
    /// prepared, or that is not known.
    StartContainer {
        /// Which start.
        key: ContainerStartKey,
        /// Of an ephemeral container: the running start whose processes it is to see.
        target: Option<ContainerStartKey>,
    },
    /// Ask it to end: its stop signal.
    SignalContainer {
        /// Which start.
        key: ContainerStartKey,
    },
    /// End it now: SIGKILL to all of it.
    KillContainer {
        /// Which start.
        key: ContainerStartKey,
    },
    /// Take an ended container away; its log stays while it is the last or the one before.
    RemoveContainer {
        /// Which start.
        key: ContainerStartKey,
    },
    /// Change the limits of the pod as a whole to those of [`crate::PodCore::granted_pod`].
    UpdateSandbox {
        /// Of which sandbox.
        attempt: SandboxAttempt,
        /// Before those of the containers, or after.
        step: LimitStep,
    },
    /// Change the limits of a container to those of [`crate::PodCore::granted_pod`]. A memory limit
    /// below what is in use is an error.
    UpdateContainer {
        /// Which start.
        key: ContainerStartKey,
    },
    /// Run a probe of it once. The answer is its verdict, or an error when there is none; a command
    /// or a connection that takes longer than the timeout is a failure.
    RunProbe {
        /// Which start.
        key: ContainerStartKey,
        /// Which of its probes.
        probe: ProbeKind,
        /// `timeoutSeconds`.
        timeout: TickDuration,
    },
    /// Run one of its hooks. An error says that it failed. When the container ends first, the
    /// hook is over too.
    RunHook {
        /// Which start.
        key: ContainerStartKey,
        /// Which of its hooks.
        hook: HookKind,
        /// How long it may take.
        limit: HookLimit,
    },
}

impl CoreAction {
    /// Whether it is a step on a container's way to its end.
    pub const fn ends_container(&self) -> bool {
        matches!(
            self,
            CoreAction::SignalContainer { .. }
                | CoreAction::KillContainer { .. }
                | CoreAction::RunHook { hook: HookKind::PreStop, .. }
        )
    }

    /// Whether a start waits for it, so that another status follows its end: one of before may wait
    /// for that.
    pub const fn leads_on(&self) -> bool {
        match self {
            CoreAction::MountVolumes
            | CoreAction::RefreshVolumes
            | CoreAction::SetUpSandbox { .. }
            | CoreAction::FindImage { .. }
            | CoreAction::StartContainer { .. } => true,
            // takes as long as a registry does
            CoreAction::PullImage { .. }
            | CoreAction::TearDownSandbox { .. }
            | CoreAction::SignalContainer { .. }
            | CoreAction::KillContainer { .. }
            | CoreAction::RemoveContainer { .. }
            | CoreAction::UpdateSandbox { .. }
            | CoreAction::UpdateContainer { .. }
            | CoreAction::RunProbe { .. }
            | CoreAction::RunHook { .. } => false,
        }
    }
}

/// What a pod asks its node for.
#[derive(Clone, Debug, PartialEq)]
pub struct ResourceRequest {
    /// Names the request in its answers.
    pub ticket: u64,
    /// What the pod was granted before, and has until this is granted.
    pub held: Amounts,
    /// What it wants; the same as `held` when it wants nothing else any more.
    pub wanted: Amounts,
}

/// A step of the pod's limits. Those of the containers change between the two.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum LimitStep {
    /// Those that rise. Before that a memory limit is looked for that would fall below what is in
    /// use: an error, and nothing is changed.
    Raise {
        /// The containers whose limits are changed without a restart.
        in_place: Vec<ContainerStartKey>,
        /// Whether others are restarted.
        restarts: Restarts,
    },
    /// All. A memory limit below what is in use is an error.
    Settle,
}

/// Whether containers are restarted for their new limits: what the pod uses now says little then.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Restarts {
    /// At least one.
    Some,
    /// None.
    None,
}

/// A probe of a container.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum ProbeKind {
    /// Gates the two others.
    Startup,
    /// Decides `ready`.
    Readiness,
    /// Ends a container that fails it.
    Liveness,
}

/// A hook of a container.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum HookKind {
    /// After its process was started.
    PostStart,
    /// Before its stop signal.
    PreStop,
}

/// How long a hook may take.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HookLimit {
    /// As long as the container runs.
    None,
    /// What is left of the grace period. The core goes on by itself then; it is for the driver to
    /// give up.
    Grace(TickDuration),
}

/// imagePullPolicy.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum PullPolicy {
    /// Ask the registry each time.
    Always,
    /// Only when it is not here.
    IfNotPresent,
    /// Not at all.
    Never,
}

/// An Event to be recorded; the driver adds the object, the source and the count.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PodEvent {
    /// Normal or Warning.
    pub severity: EventSeverity,
    /// One of `rekindle_types::reasons::event`.
    pub reason: &'static str,
    /// For people.
    pub message: String,
    /// The container it is about: `spec.containers{name}` in `involvedObject.fieldPath`.
    pub field_path: Option<String>,
}
