//! What happens to a pod, as the driver tells the core.

use std::net::IpAddr;
use std::sync::Arc;

use k8s_openapi::api::core::v1::Pod;
use rekindle_types::reasons::pod::AdmissionRefusal;
use rekindle_types::v1alpha1::{EmptyDirPolicy, PodRestart, Rung};
use rekindle_types::{
    ContainerAttempt, ContainerName, ContainerUser, Exit, SandboxAttempt, StopNotice, Tick,
    TickDuration,
};
use serde::{Deserialize, Serialize};

use crate::key::{ActionId, ContainerStartKey};

/// One thing that happened.
#[derive(Clone, Debug)]
pub enum CoreEvent {
    /// The API object changed (or was seen for the first time by this agent).
    SpecChanged(Arc<Pod>),
    /// `metadata.deletionTimestamp` is set. Repeated when the grace is shortened; a longer one
    /// changes nothing.
    DeleteRequested {
        /// From now until SIGKILL.
        grace: TickDuration,
    },
    /// The node stops, and the pod comes back with it: its containers end, and it is not over. What
    /// the journal says from then on is what the next agent is to go on from.
    NodeStops {
        /// From now until SIGKILL.
        grace: TickDuration,
    },
    /// A PodRestart asks for a restart in place.
    RestartRequested(RestartRequest),
    /// A PodRestart asks for a restart in place, and an image of
    /// [`PodCore::images_before_restart`](crate::PodCore) cannot be had.
    RestartImpossible {
        /// What is asked for.
        request: RestartRequest,
        /// Which image, and why.
        problem: String,
    },
    /// The rest of the group of a PodRestart has stopped, or the group is over: what was stopped
    /// for it may start. Repeated at will.
    RestartReleased {
        /// The UID of the PodRestart.
        id: String,
    },
    /// An action was carried out, or was not.
    ActionResult {
        /// Which action.
        id: ActionId,
        /// How it went.
        result: Result<ActionOutcome, ActionError>,
    },
    /// A container's first process ended. It may be told before its start is answered.
    ContainerExited {
        /// Which start of which container.
        key: ContainerStartKey,
        /// What it was.
        made: Made,
        /// How.
        exit: Exit,
    },
    /// The sandbox is gone without having been asked to go.
    SandboxDied {
        /// Which one.
        attempt: SandboxAttempt,
    },
    /// The node's word on [`crate::CoreReport::RequestResources`]. Deferred may be followed by
    /// Granted.
    ResourcesDecided {
        /// Of the request.
        ticket: u64,
        /// What it says.
        decision: ResourceDecision,
    },
    /// Everything that stands of this pod in the runtime: the first event that matters to a new
    /// core (an empty one for a new pod), and whenever the driver is unsure. It must not be older
    /// than any answer or exit that was given before it.
    RuntimeSnapshot(Snapshot),
    /// The node cannot keep the pod: it ends as Failed. One that ends already only ends sooner.
    Eviction(PodEviction),
}

/// Why and how a node ends a pod that was not deleted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PodEviction {
    /// Why.
    pub cause: EvictionCause,
    /// `status.message`.
    pub message: String,
    /// From now until SIGKILL.
    pub grace: TickDuration,
}

/// Why a node ends a pod that was not deleted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum EvictionCause {
    /// The node runs out of something: reason `Evicted`.
    NodePressure,
    /// The pod uses more local storage than it may: reason `Evicted`.
    StorageLimit,
    /// The node is shut down: reason `Terminated`.
    NodeShutdown,
    /// The node does not take the pod up at all: the reason follows from this.
    NotAdmitted {
        /// Why not.
        refusal: AdmissionRefusal,
    },
}

/// What the node says to a request for resources.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ResourceDecision {
    /// They are the pod's.
    Granted,
    /// There is no room now; when there is, they are granted.
    Deferred {
        /// What there is too little of.
        message: String,
    },
    /// There never will be room on this node.
    Infeasible {
        /// What there is too little of.
        message: String,
    },
}

/// A PodRestart, as the core needs it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct RestartRequest {
    /// The UID of the PodRestart: the same request is carried out once.
    pub id: String,
    /// Its name, for messages.
    pub name: String,
    /// Container, Containers or Pod; others are refused.
    pub rung: Rung,
    /// Of a Container restart: the one that is restarted, in place of all that run.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub container: Option<ContainerName>,
    /// Of a Pod restart: what becomes of emptyDir volumes.
    pub empty_dirs: EmptyDirPolicy,
    /// In place of the pod's own grace period.
    pub grace: Option<TickDuration>,
    /// Of a Containers restart: they are killed at once.
    #[serde(default)]
    pub is_fast: bool,
    /// Why, for people.
    pub reason: String,
    /// What becomes of the containers' backoff, when all of them are started anew.
    #[serde(default)]
    pub series: Series,
    /// Of a member of a group: nothing starts again before the others have stopped.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub group: Option<GroupHold>,
}

/// What a member of a group waits for when it has stopped.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct GroupHold {
    /// The name of the group's PodRestart, for messages.
    pub name: String,
    /// How long it waits at most, from when the request is taken up. By then the group is over.
    pub limit: TickDuration,
}

/// What becomes of a container's backoff when a request starts it anew.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum Series {
    /// It begins a new series: a person has asked, and may have mended something.
    #[default]
    Anew,
    /// The series goes on: a ladder has asked, which knows nothing that the backoff does not. A
    /// delay that the request cuts short is made up for by the next one, so that in a failure that
    /// no restart helps against a ladder starts nothing more often than the backoff alone would.
    GoesOn,
}

impl RestartRequest {
    /// What the core needs to know of a PodRestart; `None` when it has no UID yet, which no stored
    /// object lacks.
    pub fn from_restart(restart: &PodRestart) -> Option<Self> {
        let spec = &restart.spec;
        let grace = spec.grace_seconds().map(|seconds| u64::try_from(seconds).unwrap_or(0));
        Some(Self {
            id: restart.metadata.uid.clone()?,
            name: restart.metadata.name.clone().unwrap_or_default(),
            rung: spec.rung(),
            container: spec.container_name.clone().map(ContainerName),
            empty_dirs: spec.empty_dirs.unwrap_or_default(),
            grace: grace.map(TickDuration::from_secs),
            is_fast: spec.is_fast(),
            reason: spec.reason.clone().unwrap_or_default(),
            series: match spec.ladder_name {
                Some(_) => Series::GoesOn,
                None => Series::Anew,
            },
            group: spec.member_of.clone().map(|name| GroupHold {
                name,
                // the controller gives each member a deadline after the group's
                limit: restart.in_place_limit(TickDuration::ZERO),
            }),
        })
    }
}

/// What an action brought.
#[derive(Clone, Debug, PartialEq)]
pub enum ActionOutcome {
    /// Done; there is nothing to tell.
    Done,
    /// The sandbox stands.
    SandboxReady {
        /// The pod's addresses, the first being `status.podIP`.
        ips: Vec<IpAddr>,
    },
    /// The image is not here, or its registry must be asked whether it is still the same.
    ImageToPull {
        /// Its name in full: what is written as `nginx` in one place and as `nginx:latest` in
        /// another is one image.
        name: String,
    },
    /// The image is here.
    ImagePresent {
        /// Its id.
        image_id: String,
        /// Whether it had to be fetched, or stood here already.
        source: ImageSource,
    },
    /// The container is prepared.
    ContainerMade {
        /// What was.
        made: Made,
        /// Since when its process runs, or why it does not. An error of another kind than
        /// [`ActionErrorKind::ContainerStart`] says that it is not known.
        start: Result<Tick, ActionError>,
    },
    /// A probe was run.
    Probed {
        /// What it says.
        verdict: ProbeVerdict,
        /// In words: the output of a command, the status of an answer.
        output: String,
    },
}

/// What the runtime made for one start of a container.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Made {
    /// As `status` shows it: `rekindle://<64 hex digits>`.
    pub container_id: String,
    /// Its image's id.
    pub image_id: String,
    /// Who its process is, where the runtime can tell.
    pub user: Option<ContainerUser>,
}

/// What one execution of a probe says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ProbeVerdict {
    /// All is well.
    Success,
    /// All is well, and a person should look (an answer that redirects elsewhere).
    Warning,
    /// It is not.
    Failure,
    /// It is not: the host is there, and nothing listens at the port. A container that was just
    /// started may listen in a moment.
    NotListening,
}

/// Where an image came from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ImageSource {
    /// It was on the machine.
    AlreadyPresent,
    /// It was fetched just now, or its registry said that it is still the same.
    Pulled {
        /// The pull itself.
        took: TickDuration,
        /// The pull and the time that it waited for other pulls.
        with_waiting: TickDuration,
        /// Of the image on disk.
        size_bytes: u64,
    },
}

/// Why an action failed: the text for people, and the class that decides what comes next.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ActionError {
    /// The class.
    pub kind: ActionErrorKind,
    /// One line that names object, operation and cause.
    pub message: String,
}

/// What a failure means for the pod.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ActionErrorKind {
    /// The sandbox or its network could not be made: retried with backoff
    /// (`FailedCreatePodSandBox`).
    Sandbox,
    /// A volume could not be made: retried with backoff (`FailedMount`).
    Volume,
    /// The image reference is not one (`InvalidImageName`): not retried until the spec changes.
    InvalidImageName,
    /// imagePullPolicy Never and absent (`ErrImageNeverPull`).
    ImageNeverPull,
    /// The image cannot be had (`ErrImagePull`, then `ImagePullBackOff`): retried with backoff, 10
    /// s doubling to 300 s.
    ImagePull,
    /// Env or another reference cannot be resolved, runAsNonRoot is violated
    /// (`CreateContainerConfigError`): retried.
    ContainerConfig,
    /// The container could not be made (`CreateContainerError`): retried with backoff.
    ContainerCreate,
    /// The process could not be started: the container has ended with StartError, exit code 128.
    ContainerStart,
    /// Anything else, for example a signal that could not be sent: retried.
    Other,
}

/// What stands of this pod in the runtime.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Snapshot {
    /// Its sandboxes, oldest first. Usually one.
    pub sandboxes: Vec<SandboxSeen>,
}

/// One sandbox as found.
#[derive(Clone, Debug, PartialEq)]
pub struct SandboxSeen {
    /// Which one.
    pub attempt: SandboxAttempt,
    /// Whether containers can live in it.
    pub state: SandboxSeenState,
    /// Its addresses, as the network knows them.
    pub ips: Vec<IpAddr>,
    /// What is in it.
    pub containers: Vec<ContainerSeen>,
}

/// Whether containers can live in a sandbox.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SandboxSeenState {
    /// They can.
    Ready,
    /// Its shim or its network is gone.
    NotReady,
}

/// One container as found.
#[derive(Clone, Debug, PartialEq)]
pub struct ContainerSeen {
    /// The container.
    pub name: ContainerName,
    /// Which start.
    pub attempt: ContainerAttempt,
    /// What it is.
    pub made: Made,
    /// What it does.
    pub state: ContainerSeenState,
}

/// What a found container does.
#[derive(Clone, Debug, PartialEq)]
pub enum ContainerSeenState {
    /// Prepared and never started: it may be started, it is not dead.
    Created,
    /// Its process runs since then.
    Running {
        /// Since when.
        started_at: Tick,
        /// Whether it was asked to end.
        notice: StopNotice,
    },
    /// It ended so.
    Exited {
        /// How.
        exit: Exit,
    },
}
