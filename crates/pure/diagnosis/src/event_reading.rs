//! What an event of a pod is to an account of it, by its reason.
//!
//! The kubelet's reasons are in `pkg/kubelet/events/event.go`, those of other parts beside what
//! records them.

use rekindle_types::reasons::event;

use crate::pod_reason::PodReason;

/// What an event tells.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EventReading {
    /// A step of every start: it goes without saying.
    StepOfStart,
    /// A decision of a ladder, which its ledger tells better.
    LadderDecision,
    /// A restart began or is over, which its PodRestart tells better.
    Restart,
    /// What a status tells better: how the pod was placed, or that a back-off goes on.
    ToldByStatus,
    /// Something of a container failed; the message says what.
    Failure,
    /// A container is told to stop; the message says why.
    Stop,
    /// A controller made, removed or scaled something: its status tells better.
    ControllerStep,
    /// The pod was ended, and by this.
    EndOfPod,
    /// The pod cannot begin on its node.
    Obstacle(StartObstacle),
    /// A probe said no, or could not be run; the message says which.
    Probe,
    /// Processes of a container were killed for lack of memory, and it lives on.
    OomKilling,
    /// It is told as it is.
    News,
    /// It is not known here, and told as it is.
    Unknown,
}

/// What keeps a pod from beginning although a node has it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StartObstacle {
    /// Its sandbox, with the network.
    Sandbox,
    /// A volume.
    Volume,
}

impl StartObstacle {
    /// What helps against it.
    pub fn remedy(self) -> &'static str {
        match self {
            Self::Sandbox => "look at the node: its network, its runtime and its disk",
            Self::Volume => "create what the volume names, or mend the volume",
        }
    }

    /// What comes of it without that.
    pub fn outlook(self) -> &'static str {
        match self {
            Self::Sandbox => "the node tries again by itself",
            Self::Volume => "the node goes on by itself",
        }
    }
}

impl EventReading {
    /// What an event of this reason tells.
    pub fn parse(reason: &str) -> Self {
        match reason {
            event::PULLING | event::PULLED | event::CREATED | event::STARTED => Self::StepOfStart,
            event::LADDER_STEP | event::LADDER_HOLD | event::LADDER_EXHAUSTED => {
                Self::LadderDecision
            }
            event::POD_RESTARTED | event::POD_RESTARTING | event::POD_RESTART_FAILED => {
                Self::Restart
            }
            event::SCHEDULED | event::FAILED_SCHEDULING | event::BACK_OFF => Self::ToldByStatus,
            event::FAILED => Self::Failure,
            event::KILLING => Self::Stop,
            event::SUCCESSFUL_CREATE | "SuccessfulDelete" | "ScalingReplicaSet" => {
                Self::ControllerStep
            }
            event::PREEMPTED | event::TAINT_MANAGER_EVICTION => Self::EndOfPod,
            event::FAILED_CREATE_POD_SANDBOX | "FailedPodSandBoxStatus" | "NetworkNotReady" => {
                Self::Obstacle(StartObstacle::Sandbox)
            }
            event::FAILED_MOUNT
            | "FailedAttachVolume"
            | "FailedMapVolume"
            | "FailedMountOnFilesystemMismatch" => Self::Obstacle(StartObstacle::Volume),
            event::UNHEALTHY | event::PROBE_WARNING => Self::Probe,
            event::OOM_KILLING => Self::OomKilling,
            event::SANDBOX_CHANGED
            | event::FAILED_KILL_POD
            | event::FAILED_POST_START_HOOK
            | event::FAILED_PRE_STOP_HOOK
            | event::FAILED_SYNC
            | event::FAILED_TO_RETRIEVE_IMAGE_PULL_SECRET
            | event::DNS_CONFIG_FORMING
            | event::LIFECYCLE_HTTP_FALLBACK
            | event::MISSING_CLUSTER_DNS
            | event::FREE_DISK_SPACE_FAILED
            | event::FAILED_WITHDRAW_ENDPOINTS
            | event::FAILED_OPEN_PORT
            | event::FAILED_WRITE_RULES
            | event::PORT_CONFLICT
            | event::FIREWALL_DROPS_PACKETS
            | event::INSPECT_FAILED
            | event::ERR_IMAGE_NEVER_PULL
            | event::INVALID_ENVIRONMENT_VARIABLE_NAMES
            | event::EVICTION_THRESHOLD_MET
            | event::INVALID_STATIC_POD
            | event::PROVISIONING_FAILED
            | event::PROVISIONING_SUCCEEDED
            | event::RESIZE_STARTED
            | event::RESIZE_COMPLETED
            | event::RESIZE_DEFERRED
            | event::RESIZE_INFEASIBLE
            | event::RESIZE_ERROR
            | event::EXCEEDED_GRACE_PERIOD
            | event::NODE_NOT_READY
            | event::NODE_READY
            | event::REGISTERED_NODE
            | event::REMOVING_NODE
            | event::FAILED_CREATE
            | event::LEADER_ELECTION
            | event::TRIGGERED_SCALE_UP
            | event::NOT_TRIGGER_SCALE_UP
            | event::FAILED_TO_SCALE_UP_GROUP
            | event::SCALE_DOWN
            | event::PROCESS_LIMIT_REACHED
            | event::CREATION_PAUSED
            | event::POD_RESTART_HELD
            | event::LADDER_INVALID
            | event::LADDER_OVERLAPPED
            | event::LADDER_RECOVERED
            // the kubelet's that have no name of ours
            | "FailedCreatePodContainer"
            | "InvalidDiskCapacity"
            | "Rebooted"
            | "Starting"
            | "VolumeResizeFailed"
            | "FileSystemResizeFailed"
            | "FailedPrepareDynamicResources" => Self::News,
            reason if PodReason::parse(reason).tells_of_end() => Self::EndOfPod,
            _ => Self::Unknown,
        }
    }
}
