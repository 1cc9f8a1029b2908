//! One container of the pod: its states, the numbers of its starts, and what follows its end.
//!
//! ```text
//!         hold passed, its turn            image here              started
//!  Idle ──────────────────────► Pulling ─────────────► Starting ─────────────► Running
//!   ▲ ▲                            │ failed               │ │ StartError, exit    │ exit
//!   │ └──────── hold, try again ───┴──────────────────────┘ │                     │
//!   └───────────────────────── next number, hold by backoff ◄─────────────────────┘
//! ```
//! A start that is tried again is asked for under the same number, whatever is known of how far the
//! one before came: it finds what stands. An exit of that number says that it ran, in whatever
//! state it is told.
//!
//! Beside the state stands the [`ContainerStanding`] in the round: an Idle container that is Done
//! stays so until the next round. Running holds [`ContainerHealth`], the way to `started` and what
//! the probes say, and [`ContainerStop`], the way to its end.
//!
//! `number` is the number of the start in progress or of the next one. It is raised when a start
//! has ended, never else, so it is the count of ended starts, and `restartCount` of a running
//! container.

use k8s_openapi::api::core::v1::ResourceRequirements;
use rekindle_types::{ContainerAttempt, ContainerName, ExitStatus, SandboxAttempt, Tick};

use super::failed_pulls::ImageName;
use super::limits::LimitUpdate;
use crate::backoff::{CrashBackoff, RetriedTask};
use crate::blueprint::{Definition, HookPresence, RoleInPod};
use crate::complaint::Complaint;
use crate::event::Made;
use crate::health::{ContainerHealth, HookRun};
use crate::journal::{
    ContainerRecord, ContainerStanding, EndedContainer, FailingRecord, HealthRecord, NodeStop,
    SidecarGate,
};
use crate::key::{ActionId, ContainerStartKey};
use crate::stop_reason::StopReason;

/// One container.
#[derive(Debug)]
pub(crate) struct PodContainer {
    /// Its place in the pod, by which answers find it.
    pub(super) place: usize,
    pub(super) definition: Definition,
    pub(super) number: ContainerAttempt,
    pub(super) standing: ContainerStanding,
    pub(super) state: ProcessState,
    /// The newest end.
    pub(super) last: Option<EndedContainer>,
    /// The end before that.
    pub(super) before: Option<EndedContainer>,
    pub(super) crash: CrashBackoff,
    /// Of a sidecar: whether those after it wait for it in this round.
    pub(super) gate: SidecarGate,
    /// What an earlier agent knew of the health of the start that ran then.
    pub(super) remembered: Option<HealthRecord>,
    /// Why an earlier agent was ending the start that ran then.
    pub(super) failing: Option<FailingRecord>,
    /// The start that an earlier agent asked to end before others, and when it is killed.
    pub(super) kill_by: Option<(ContainerAttempt, Tick)>,
    pub(super) image: StartImage,
    /// The image of the start in progress; `None` when an earlier agent started it.
    pub(super) started_image: Option<String>,
    /// Why it waits, as the status shows it. Kept until it runs, as the kubelet's reason cache
    /// does.
    pub(super) complaint: Option<Complaint>,
    /// Failures since it ran, for the delay between tries.
    pub(super) failures: u32,
    /// The resources that its newest start was made with, or was given since.
    pub(super) in_force: ResourceRequirements,
    /// Its limits are being changed.
    pub(super) update: Option<LimitUpdate>,
    /// The words for why its node ends it: what of it failed.
    pub(super) failed: Option<String>,
    /// The start that a stop of its node asked to end, in the time of an earlier agent.
    pub(super) stopped_with_node: Option<ContainerAttempt>,
}

/// What a container does.
#[expect(clippy::large_enum_variant, reason = "nearly all run, nearly always")]
#[derive(Debug, PartialEq)]
pub(crate) enum ProcessState {
    /// There is no process and none on the way.
    Idle(StartHold),
    /// Its image is being made sure of.
    Pulling { step: PullStep },
    /// It is being prepared and started, and since then it is to end with all others.
    Starting { action: ActionId, halted: Option<Tick> },
    /// Its process runs.
    Running { made: Made, started_at: Tick, health: ContainerHealth, stop: Option<ContainerStop> },
}

/// How an image is made sure of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum PullStep {
    /// It is looked for on the node.
    Look(ActionId),
    /// It is being pulled.
    Pull(ActionId),
    /// It is on its way for another container of the pod: it is looked for again when that has an
    /// answer.
    Await,
}

/// What keeps an idle container from its next start.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum StartHold {
    /// Nothing but its turn.
    None,
    /// It has crashed: the delay of its backoff. When it passes, the next delay is longer.
    Crash { until: Tick },
    /// Something failed before it ran: tried again then.
    Retry { until: Tick },
    /// Its image could not be had: shown as ErrImagePull first, as ImagePullBackOff from `shown_at`
    /// on.
    Image { shown_at: Option<Tick>, until: Tick },
    /// Only another spec can help.
    SpecChange,
}

/// A running container on its way to its end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct ContainerStop {
    pub(super) step: StopStep,
    /// When it is killed.
    pub(super) kill_at: Tick,
    /// Not before then, unless the grace is 0: what is left to it after a hook that used the grace
    /// up.
    pub(super) not_before: Tick,
    pub(super) reason: StopReason,
}

/// How far the end of a container is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum StopStep {
    /// Its preStop hook, which has time until `kill_at`.
    PreStop(HookRun),
    /// A sidecar whose hook has ended: its stop signal comes when later containers have ended.
    AwaitTurn,
    /// Its stop signal.
    Signal(RetriedTask),
    /// It was signalled and has time until `kill_at`.
    Grace,
    /// SIGKILL.
    Kill(RetriedTask),
    /// It was killed; if no exit is seen by then, once more.
    AwaitExit { again_at: Tick },
}

/// What is known of the image.
#[derive(Debug, Default)]
pub(crate) struct StartImage {
    /// Its id, once it was here in this agent's time.
    pub(super) known: Option<String>,
    /// Which image is being made sure of: its own, then those of its volumes.
    pub(super) number: usize,
    /// What that one is called, once the driver has said so.
    pub(super) name: Option<ImageName>,
    /// Whether they were made sure of for the start to come.
    pub(super) is_checked: bool,
}

impl PodContainer {
    /// As the journal has it, where `granted` are its resources.
    pub(crate) fn restore(
        place: usize,
        definition: Definition,
        record: ContainerRecord,
        granted: ResourceRequirements,
        node_stop: NodeStop,
    ) -> Self {
        let mut container = Self {
            place,
            definition,
            number: record.number,
            standing: record.standing,
            state: ProcessState::Idle(StartHold::None),
            last: record.last,
            before: record.before,
            crash: record.crash,
            gate: record.gate,
            remembered: record.health,
            failing: record.failing,
            kill_by: record.kill_by.map(|at| (record.number, at)),
            image: StartImage::default(),
            started_image: None,
            complaint: None,
            failures: 0,
            in_force: record.in_force.unwrap_or(granted),
            update: None,
            failed: None,
            stopped_with_node: match node_stop {
                NodeStop::Begun => Some(record.number),
                NodeStop::None => record.stopped_with_node,
            },
        };
        if container.standing == ContainerStanding::Started {
            container.hold_by_backoff();
        }
        container
    }

    /// The spec changed. What was held because of the image may be tried at once with another one.
    pub(crate) fn redefine(&mut self, definition: Definition) {
        if definition.image != self.definition.image {
            self.image = StartImage::default();
            self.failures = 0;
            match self.state {
                ProcessState::Idle(
                    StartHold::Retry { .. } | StartHold::Image { .. } | StartHold::SpecChange,
                ) => {
                    self.complaint = None;
                    self.state = ProcessState::Idle(StartHold::None);
                }
                ProcessState::Idle(StartHold::None | StartHold::Crash { .. })
                | ProcessState::Pulling { .. }
                | ProcessState::Starting { .. }
                | ProcessState::Running { .. } => {}
            }
        }
        self.definition = definition;
    }

    pub(crate) fn definition(&self) -> &Definition {
        &self.definition
    }

    pub(crate) fn name(&self) -> &ContainerName {
        &self.definition.name
    }

    pub(crate) fn role(&self) -> RoleInPod {
        self.definition.role
    }

    pub(crate) fn standing(&self) -> ContainerStanding {
        self.standing
    }

    /// The newest end.
    pub(crate) fn last(&self) -> Option<&EndedContainer> {
        self.last.as_ref()
    }

    /// It has run to its end, and is not started again in this round.
    pub(crate) fn is_done(&self) -> bool {
        self.standing == ContainerStanding::Done
    }

    /// How it does, if it runs.
    pub(crate) fn health(&self) -> Option<&ContainerHealth> {
        match &self.state {
            ProcessState::Running { health, .. } => Some(health),
            ProcessState::Idle(_)
            | ProcessState::Pulling { .. }
            | ProcessState::Starting { .. } => None,
        }
    }

    pub(crate) fn key(&self, sandbox: SandboxAttempt) -> ContainerStartKey {
        ContainerStartKey { sandbox, name: self.definition.name.clone(), attempt: self.number }
    }

    /// Whether anything was done for it, or is about to be.
    pub(crate) fn has_begun(&self) -> bool {
        self.last.is_some() || self.is_live() || self.is_on_its_way()
    }

    /// A process exists, or an answer that may bring one is awaited: the sandbox cannot be given
    /// up.
    pub(crate) fn is_live(&self) -> bool {
        match self.state {
            ProcessState::Idle(_) | ProcessState::Pulling { .. } => false,
            ProcessState::Starting { .. } | ProcessState::Running { .. } => true,
        }
    }

    pub(crate) fn is_running(&self) -> bool {
        match &self.state {
            ProcessState::Running { stop, .. } => stop.is_none(),
            ProcessState::Idle(_)
            | ProcessState::Pulling { .. }
            | ProcessState::Starting { .. } => false,
        }
    }

    /// On its way to run, image excepted: an answer is awaited that takes no longer than the
    /// runtime needs.
    pub(crate) fn is_on_its_way(&self) -> bool {
        match self.state {
            ProcessState::Starting { .. } => true,
            ProcessState::Idle(_) | ProcessState::Pulling { .. } | ProcessState::Running { .. } => {
                false
            }
        }
    }

    /// It has a postStart hook, and is being started or runs it.
    pub(crate) fn is_in_start_with_hook(&self) -> bool {
        let in_start = match &self.state {
            ProcessState::Idle(_) => false,
            ProcessState::Running { health, .. } => health.is_in_post_start(),
            ProcessState::Pulling { .. } | ProcessState::Starting { .. } => true,
        };
        in_start && self.definition.post_start == HookPresence::Given
    }

    /// Ended in this round with exit code 0, for good.
    pub(crate) fn has_succeeded(&self) -> bool {
        self.standing == ContainerStanding::Done
            && self.last_status().is_some_and(ExitStatus::is_success)
    }

    pub(crate) fn last_status(&self) -> Option<ExitStatus> {
        self.last.as_ref().map(|last| last.exit.status)
    }

    /// Whether the next init container, or the regular ones, may start as far as this one is
    /// concerned.
    pub(crate) fn lets_others_start(&self) -> bool {
        match self.definition.role {
            RoleInPod::Init => self.has_succeeded(),
            // Once it was started nothing waits for it, even while it restarts.
            RoleInPod::Sidecar => match (self.gate, self.standing) {
                (SidecarGate::Open, _) | (_, ContainerStanding::Done) => true,
                (SidecarGate::Closed, ContainerStanding::Due | ContainerStanding::Started) => false,
            },
            RoleInPod::Regular | RoleInPod::Ephemeral => true,
        }
    }

    /// Its way to its end, if it is on it.
    pub(super) fn stop(&self) -> Option<&ContainerStop> {
        match &self.state {
            ProcessState::Running { stop, .. } => stop.as_ref(),
            ProcessState::Idle(_)
            | ProcessState::Pulling { .. }
            | ProcessState::Starting { .. } => None,
        }
    }

    pub(super) fn stop_mut(&mut self) -> Option<&mut ContainerStop> {
        match &mut self.state {
            ProcessState::Running { stop, .. } => stop.as_mut(),
            ProcessState::Idle(_)
            | ProcessState::Pulling { .. }
            | ProcessState::Starting { .. } => None,
        }
    }
}
