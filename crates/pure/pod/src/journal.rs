//! What must survive a crash of the agent: the durable part of a pod core's state.
//!
//! It is written whole before the actions that depend on it, so it is small and bounded: one record
//! a container, one restart in progress, the last [`RECENT_RESTARTS`] requests. What the runtime
//! and the API's status tell as well is not in it, with the exception of how containers ended: a
//! torn-down sandbox tells nothing.

use std::collections::BTreeMap;
use std::sync::Arc;

use k8s_openapi::api::core::v1::ResourceRequirements;
use rekindle_types::v1alpha1::{PodRestartPhase, Rung};
use rekindle_types::{ContainerAttempt, ContainerName, Exit, SandboxAttempt, Tick, TickDuration};
use serde::{Deserialize, Serialize};

pub use crate::allocation::Allocation;
pub use crate::backoff::CrashBackoff;
use crate::event::RestartRequest;

/// How many finished restart requests are remembered, so that a repeated request is told how it
/// went and not carried out again.
pub const RECENT_RESTARTS: usize = 32;

/// The durable part of a pod core's state.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Journal {
    /// [`Journal::VERSION`] of the agent that wrote it. 0 is a journal that was never written.
    pub version: u32,
    /// The newest sandbox attempt that was given out.
    pub sandbox: SandboxAttempt,
    /// Whether the volumes wait to be made new.
    pub volumes: VolumesRecord,
    /// By name; each by itself, as the map would keep room for ten others beside it.
    pub containers: BTreeMap<ContainerName, Box<ContainerRecord>>,
    /// The end of the pod, when it has begun.
    pub ending: Option<EndingRecord>,
    /// The restart that is carried out.
    pub restart: Option<RestartRecord>,
    /// What the node granted. Absent in the journal of an agent that knew no resizes.
    pub resources: Option<ResourcesRecord>,
    /// Requests whose place another restart has taken, oldest first. Absent in the journal of an
    /// agent that let them fail.
    pub superseded: Vec<SupersededRestart>,
    /// Requests that are done with, oldest first.
    pub recent_restarts: Vec<RestartResult>,
    /// Whether the node was being stopped. Absent in the journal of an agent that did not keep it.
    pub node_stop: NodeStop,
}

/// How many requests whose place another restart has taken are followed. More are asked for by
/// nobody who waits for the one before.
pub const SUPERSEDED_MAX: usize = 8;

impl Journal {
    /// The version that this code writes and reads. Another one is not read: the pod is recovered
    /// from the runtime and the API alone.
    pub const VERSION: u32 = 3;

    /// The UIDs of the PodRestarts that its pod has taken up, as far as they are remembered.
    pub fn requests(&self) -> impl Iterator<Item = &str> {
        let under_way = self.restart.iter().filter_map(|restart| match &restart.cause {
            RestartCause::Asked { request } => Some(request.id.as_str()),
            RestartCause::Rule { .. } => None,
        });
        let superseded = self.superseded.iter().map(|restart| restart.request.id.as_str());
        let over = self.recent_restarts.iter().map(|result| result.id.as_str());
        under_way.chain(superseded).chain(over)
    }

    /// The same for an agent that starts now, when the clock may have been set back since it was
    /// written: nothing in it has happened later than now, and what must end by a deadline gets
    /// this grace at most, and the least that there is for a signal at least. Otherwise a crashed
    /// container would be held until the clock has caught up, and one whose grace passed while no
    /// agent ran would be killed though it may not have been asked to end.
    #[must_use]
    pub(crate) fn seen_at(mut self, now: Tick, grace: TickDuration) -> Self {
        for record in self.containers.values_mut() {
            for end in [&mut record.last, &mut record.before].into_iter().flatten() {
                end.set_seen_at(now);
            }
            record.crash.seen_at(now);
        }
        if let Some(ending) = &mut self.ending {
            ending.halt = ending.halt.taken_up(now, grace);
        }
        for restart in &mut self.superseded {
            restart.since = restart.since.min(now);
        }
        if let Some(restart) = &mut self.restart {
            restart.since = restart.since.min(now);
            let asked = match &restart.cause {
                RestartCause::Asked { request } => request.grace.unwrap_or_default(),
                RestartCause::Rule { .. } => TickDuration::ZERO,
            };
            match &mut restart.stage {
                RestartStage::Stopping { halt } | RestartStage::Cycling { halt, .. } => {
                    *halt = halt.taken_up(now, grace.max(asked));
                }
                RestartStage::Starting => {}
            }
        }
        self
    }
}

/// The pod's resources.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct ResourcesRecord {
    /// What the node granted.
    pub granted: Arc<Allocation>,
    /// Whether all of it is in force.
    pub standing: ResizeStanding,
}

/// Whether what was granted is in force.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum ResizeStanding {
    /// All of it.
    #[default]
    Settled,
    /// Not all of it yet, or it is not known.
    UnderWay,
}

/// Whether the volumes wait to be made new.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum VolumesRecord {
    /// They are as they should be.
    #[default]
    Kept,
    /// A whole-pod restart wants emptyDir volumes empty, and no container was created since.
    RefreshDue,
}

/// Whether the node was being stopped, and the pod's containers with it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum NodeStop {
    /// It was not.
    #[default]
    None,
    /// It was: what has ended since was asked to end.
    Begun,
}

/// One container.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct ContainerRecord {
    /// The number of the start in progress, or of the next one.
    pub number: ContainerAttempt,
    /// Where it stands in this round.
    pub standing: ContainerStanding,
    /// How it ended the last time.
    pub last: Option<EndedContainer>,
    /// And the time before.
    pub before: Option<EndedContainer>,
    /// Its restart delays.
    pub crash: CrashBackoff,
    /// Whether it keeps those after it waiting in this round.
    pub gate: SidecarGate,
    /// How it does, when it runs.
    pub health: Option<HealthRecord>,
    /// The resources that its newest start has, when they are not those that were granted.
    pub in_force: Option<ResourceRequirements>,
    /// Something of it failed, and its node ends it for that. Absent in the journal of an agent
    /// that did not keep it.
    pub failing: Option<FailingRecord>,
    /// When its newest start is killed, where that is sooner than the deadline of all that end with
    /// it: it was asked before they could be.
    pub kill_by: Option<Tick>,
    /// The start that a stop of its node asked to end, when the agent was killed before it had
    /// ended. Absent in the journal of an agent that did not keep it.
    pub stopped_with_node: Option<ContainerAttempt>,
}

/// Why a container is being ended by its node. It decides what is told of its end, and whether
/// another start follows.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct FailingRecord {
    /// The start that it is about.
    pub number: ContainerAttempt,
    /// What failed.
    pub what: Failing,
    /// The words for it.
    pub words: String,
    /// When it is killed.
    pub kill_at: Tick,
}

/// What of a container failed so that its node ends it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Failing {
    /// Its startup probe.
    StartupProbe,
    /// Its liveness probe.
    LivenessProbe,
    /// Its postStart hook.
    PostStartHook,
}

/// Whether a sidecar keeps the containers after it waiting. It opens when the sidecar is started
/// for the first time in a round, hook and startup probe included, and stays open when it crashes
/// later [KEP-753].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum SidecarGate {
    /// It does.
    #[default]
    Closed,
    /// It does not.
    Open,
}

/// What of a running container's health must not be lost: the status tells it too, but a little
/// later.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct HealthRecord {
    /// The start that it is about.
    pub number: ContainerAttempt,
    /// How far it is on its way to `started`.
    pub launched: Launched,
    /// Whether it was ready.
    pub readiness: Readiness,
}

/// How far a running container is on its way to `started`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub enum Launched {
    /// Its process runs.
    #[default]
    Fresh,
    /// Its postStart hook has ended well.
    HookDone,
    /// And its startup probe has passed.
    Started,
}

/// What a readiness probe said last.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum Readiness {
    /// Not ready, or nothing yet.
    #[default]
    Unready,
    /// Ready.
    Ready,
}

/// Where a container stands in this round. A round begins with each sandbox, and with each restart
/// of all containers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum ContainerStanding {
    /// It has not been started in this round.
    #[default]
    Due,
    /// It has been started in this round, and is started again when it ends. An ephemeral container
    /// is not; of one it says that its only start may have happened.
    Started,
    /// It has ended, and is not started again in this round.
    Done,
}

/// One end of a container, with what the status shows of it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct EndedContainer {
    /// The sandbox it ran in.
    pub sandbox: SandboxAttempt,
    /// Which start.
    pub attempt: ContainerAttempt,
    /// As the runtime named it; empty when it is not known.
    pub container_id: String,
    /// Its image's id; empty when it is not known.
    pub image_id: String,
    /// How it ended.
    pub exit: Exit,
}

impl EndedContainer {
    /// It is read at this time by a clock that may have been set back since it was written: it has
    /// not happened later than now.
    pub(crate) fn set_seen_at(&mut self, now: Tick) {
        self.exit.finished_at = self.exit.finished_at.min(now);
        self.exit.started_at = self.exit.started_at.min(self.exit.finished_at);
    }
}

/// The end of the pod.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct EndingRecord {
    /// Why.
    pub cause: EndCause,
    /// By when.
    pub halt: Halt,
}

/// Why a pod ends.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "camelCase")]
pub enum EndCause {
    /// Its object is being deleted.
    Deleted,
    /// Its containers are done, or can never be: sidecars end too.
    Completed,
    /// It is ended as Failed: `status.reason` and `status.message`.
    Failed {
        /// `status.reason`.
        reason: String,
        /// `status.message`.
        message: String,
        /// Who or what is the cause.
        #[serde(default)]
        ground: Ground,
    },
    /// The API shows a final phase that is not ours: another client declared the pod finished.
    DeclaredFinished,
}

/// Who or what is the cause when a pod fails as a whole.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum Ground {
    /// Its own: it is overdue, or uses more than it may.
    #[default]
    Pod,
    /// The node's, which cannot keep it: condition DisruptionTarget says so.
    Node,
    /// The node's, which never took it up: there are no containers to show.
    NotAdmitted,
}

/// By when the containers must have ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "camelCase")]
pub enum Halt {
    /// Now, without asking: grace 0.
    AtOnce,
    /// They are asked to, and killed then.
    By {
        /// SIGKILL.
        deadline: Tick,
        /// From the signal to there. Absent in the journal of an agent that gave none anew.
        #[serde(default)]
        grace: TickDuration,
    },
}

/// A restart that is carried out.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct RestartRecord {
    /// Why.
    pub cause: RestartCause,
    /// How far it is.
    pub stage: RestartStage,
    /// When it was taken up.
    pub since: Tick,
    /// Whether what has stopped may start again.
    #[serde(default)]
    pub barrier: StartBarrier,
}

/// Whether a restart may start again what it has stopped.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "camelCase")]
pub enum StartBarrier {
    /// As soon as all of it has stopped.
    #[default]
    Open,
    /// Not before the rest of its group has stopped.
    Closed {
        /// Then it starts all the same: its group is over.
        until: Tick,
        /// When all of this pod had stopped.
        reached: Option<Tick>,
    },
}

/// Why a restart is carried out.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "camelCase")]
pub enum RestartCause {
    /// It was asked for.
    Asked {
        /// So.
        request: RestartRequest,
    },
    /// A container ended with an exit code that one of its rules answers with RestartAllContainers.
    Rule {
        /// This one.
        container: ContainerName,
    },
}

impl RestartCause {
    /// The rung that it stands on.
    pub fn rung(&self) -> Rung {
        match self {
            Self::Asked { request } => request.rung,
            Self::Rule { .. } => Rung::Containers,
        }
    }
}

/// How far a restart is.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "camelCase")]
pub enum RestartStage {
    /// Rungs Containers and Pod: all containers end.
    Stopping {
        /// By when.
        halt: Halt,
    },
    /// Rungs Containers and Pod: everything old is given up, everything is started anew.
    Starting,
    /// Rung Container: each of these starts ends by itself and is followed by the next.
    Cycling {
        /// By when they must have ended.
        halt: Halt,
        /// The starts that must end and be followed by a running one. None of a container that was
        /// asked for before it ever ended, and did not run: any start of it will do.
        targets: Targets,
    },
}

/// Of containers that are restarted one by one: the start that is replaced.
pub type Targets = BTreeMap<ContainerName, Option<ContainerAttempt>>;

/// A request whose place another restart has taken before it was done.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct SupersededRestart {
    /// It.
    pub request: RestartRequest,
    /// What is left of what it asked for.
    pub wanted: SupersededGoal,
    /// What has taken its place, for people.
    pub by: String,
    /// When it was taken up.
    pub since: Tick,
}

/// What is left of what a request asked for when another restart took its place.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "camelCase")]
pub enum SupersededGoal {
    /// Rungs Containers and Pod, when everything had ended: all containers run.
    AllRunning,
    /// Rung Container: a later start of each of these runs.
    Restarted {
        /// As in [`RestartStage::Cycling`].
        targets: Targets,
    },
}

/// A request that is done with.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct RestartResult {
    /// The UID of the PodRestart.
    pub id: String,
    /// Succeeded, Failed or Refused.
    pub phase: PodRestartPhase,
    /// What was reported.
    pub message: String,
    /// When.
    pub at: Tick,
}
