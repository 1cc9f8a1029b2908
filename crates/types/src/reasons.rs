//! Reasons of events and of container states: the words kubectl users know, and the few that are ours.

/// The cause of a refused eviction that names a disruption budget which never allows one, however healthy its pods are. It comes beside
/// upstream's, `DisruptionBudget`.
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

    /// Ours: a controller waits before it creates the next object of a series, because those before ended early.
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
    #![allow(missing_docs, reason = "each is its own text, as in the Kubernetes API")]
    pub const CONTAINER_CREATING: &str = "ContainerCreating";
    pub const POD_INITIALIZING: &str = "PodInitializing";
    pub const RESTARTING_ALL_CONTAINERS: &str = "RestartingAllContainers";
    pub const CRASH_LOOP_BACK_OFF: &str = "CrashLoopBackOff";
    pub const ERR_IMAGE_PULL: &str = "ErrImagePull";
    pub const IMAGE_PULL_BACK_OFF: &str = "ImagePullBackOff";
    pub const ERR_IMAGE_NEVER_PULL: &str = "ErrImageNeverPull";
    pub const INVALID_IMAGE_NAME: &str = "InvalidImageName";
    pub const CREATE_CONTAINER_ERROR: &str = "CreateContainerError";
    pub const CREATE_CONTAINER_CONFIG_ERROR: &str = "CreateContainerConfigError";
    pub const RUN_CONTAINER_ERROR: &str = "RunContainerError";
}
