//! Reasons of events and of container states: the words kubectl users know, and the few that are
//! ours.

/// The cause of a refused eviction that names a disruption budget which never allows one, however
/// healthy its pods are. It comes beside upstream's, `DisruptionBudget`.
pub const DEADLOCKED_BUDGET: &str = "DeadlockedBudget";

/// Reasons of events the kubelet emits too, with its exact spelling.
pub mod event {
    #![allow(missing_docs, reason = "each is its own text, as in the Kubernetes API")]
    pub const SCHEDULED: &str = "Scheduled";
    pub const FAILED_SCHEDULING: &str = "FailedScheduling";
    pub const PULLING: &str = "Pulling";
    pub const PULLED: &str = "Pulled";
    pub const CREATED: &str = "Created";
    pub const STARTED: &str = "Started";
    pub const KILLING: &str = "Killing";
    pub const BACK_OFF: &str = "BackOff";
    pub const FAILED: &str = "Failed";
    pub const UNHEALTHY: &str = "Unhealthy";
    pub const PROBE_WARNING: &str = "ProbeWarning";
    pub const SANDBOX_CHANGED: &str = "SandboxChanged";
    pub const FAILED_CREATE_POD_SANDBOX: &str = "FailedCreatePodSandBox";
    pub const FAILED_MOUNT: &str = "FailedMount";
    pub const FAILED_KILL_POD: &str = "FailedKillPod";
    pub const FAILED_POST_START_HOOK: &str = "FailedPostStartHook";
    pub const FAILED_PRE_STOP_HOOK: &str = "FailedPreStopHook";
    pub const FAILED_SYNC: &str = "FailedSync";
    pub const FAILED_TO_RETRIEVE_IMAGE_PULL_SECRET: &str = "FailedToRetrieveImagePullSecret";
    pub const DNS_CONFIG_FORMING: &str = "DNSConfigForming";
    pub const LIFECYCLE_HTTP_FALLBACK: &str = "LifecycleHTTPFallback";
    pub const MISSING_CLUSTER_DNS: &str = "MissingClusterDNS";
    pub const FREE_DISK_SPACE_FAILED: &str = "FreeDiskSpaceFailed";
    pub const RESIZE_STARTED: &str = "ResizeStarted";
    pub const RESIZE_COMPLETED: &str = "ResizeCompleted";
    pub const RESIZE_DEFERRED: &str = "ResizeDeferred";
    pub const RESIZE_INFEASIBLE: &str = "ResizeInfeasible";
    pub const RESIZE_ERROR: &str = "ResizeError";
    pub const PREEMPTED: &str = "Preempted";
    pub const EXCEEDED_GRACE_PERIOD: &str = "ExceededGracePeriod";
    pub const NODE_NOT_READY: &str = "NodeNotReady";
    pub const NODE_READY: &str = "NodeReady";
    pub const REGISTERED_NODE: &str = "RegisteredNode";
    pub const REMOVING_NODE: &str = "RemovingNode";
    pub const TAINT_MANAGER_EVICTION: &str = "TaintManagerEviction";
    pub const FAILED_CREATE: &str = "FailedCreate";
    pub const SUCCESSFUL_CREATE: &str = "SuccessfulCreate";
    pub const LEADER_ELECTION: &str = "LeaderElection";
    pub const TRIGGERED_SCALE_UP: &str = "TriggeredScaleUp";
    pub const NOT_TRIGGER_SCALE_UP: &str = "NotTriggerScaleUp";
    pub const FAILED_TO_SCALE_UP_GROUP: &str = "FailedToScaleUpGroup";
    pub const SCALE_DOWN: &str = "ScaleDown";

    /// Ours: a pod has as many processes and threads as it may.
    pub const PROCESS_LIMIT_REACHED: &str = "ProcessLimitReached";
    /// Ours, under the name that tools which watch a node's kernel use: processes of a container
    /// were killed for lack of memory, and the container lives on.
    pub const OOM_KILLING: &str = "OOMKilling";
    /// Ours: a controller waits before it creates the next object of a series, because those before
    /// ended early.
    pub const CREATION_PAUSED: &str = "CreationPaused";
    /// Ours: a PodRestart was carried out by the node.
    pub const POD_RESTARTED: &str = "PodRestarted";
    /// Ours: a PodRestart began.
    pub const POD_RESTARTING: &str = "PodRestarting";
    /// Ours: a PodRestart that replaces the pod waits for a budget or for another node.
    pub const POD_RESTART_HELD: &str = "PodRestartHeld";
    /// Ours: the ladder chose a rung.
    pub const LADDER_STEP: &str = "LadderStep";
    /// Ours: the ladder waits, because a restart would not help or a budget forbids it.
    pub const LADDER_HOLD: &str = "LadderHold";
    /// Ours: every rung was tried.
    pub const LADDER_EXHAUSTED: &str = "LadderExhausted";
    /// Ours: the annotations of a pod make no ladder.
    pub const LADDER_INVALID: &str = "LadderInvalid";
    /// Ours: an older ladder decides for pods that this one selects.
    pub const LADDER_OVERLAPPED: &str = "LadderOverlapped";
    /// Ours: the workload is healthy again after the ladder acted.
    pub const LADDER_RECOVERED: &str = "LadderRecovered";
}

/// Reasons of `state.waiting`.
pub mod waiting {
    /// Each constant, and the list of all of them.
    macro_rules! reasons {
        ($($(#[$doc:meta])* $name:ident = $text:literal;)+) => {
            $($(#[$doc])* pub const $name: &str = $text;)+
            /// Every reason that the core and the node write: whoever tells of them knows them all.
            pub const ALL: &[&str] = &[$($name),+];
        };
    }

    reasons! {
        /// The sandbox is being made, or the image pulled.
        CONTAINER_CREATING = "ContainerCreating";
        /// The same in a pod with init containers.
        POD_INITIALIZING = "PodInitializing";
        /// A restart of all containers is under way.
        RESTARTING_ALL_CONTAINERS = "RestartingAllContainers";
        /// It ended, and its back-off is not over.
        CRASH_LOOP_BACK_OFF = "CrashLoopBackOff";
        /// A pull has failed.
        ERR_IMAGE_PULL = "ErrImagePull";
        /// The same, and the next try is later.
        IMAGE_PULL_BACK_OFF = "ImagePullBackOff";
        /// The image is not here, and imagePullPolicy is Never.
        ERR_IMAGE_NEVER_PULL = "ErrImageNeverPull";
        /// The image has no name that can be read.
        INVALID_IMAGE_NAME = "InvalidImageName";
        /// The runtime could not prepare it.
        CREATE_CONTAINER_ERROR = "CreateContainerError";
        /// What its spec refers to is missing or refused.
        CREATE_CONTAINER_CONFIG_ERROR = "CreateContainerConfigError";
        /// The runtime prepared it, and could not run it.
        RUN_CONTAINER_ERROR = "RunContainerError";
    }

    /// Those of a container on its way: nothing but time, or what its ends say, keeps it from
    /// starting.
    pub const ON_THE_WAY: [&str; 4] =
        [CONTAINER_CREATING, POD_INITIALIZING, RESTARTING_ALL_CONTAINERS, CRASH_LOOP_BACK_OFF];
}
