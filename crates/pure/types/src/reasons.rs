//! Reasons of events, of container states and of failed pods that we write: the words kubectl users
//! know, and the few that are ours. What they mean is read in crate `diagnosis`.

/// The cause of a refused eviction that names a disruption budget which never allows one, however
/// healthy its pods are. It comes beside upstream's, `DisruptionBudget`.
pub const DEADLOCKED_BUDGET: &str = "DeadlockedBudget";

/// Each constant, and the list of all of them.
macro_rules! reasons {
    ($($(#[$doc:meta])* $name:ident = $text:literal;)+) => {
        $($(#[$doc])* pub const $name: &str = $text;)+
        /// Every reason of this kind that a part of ours writes: crate `diagnosis` knows them all.
        pub const ALL: &[&str] = &[$($name),+];
    };
}

/// Reasons of events the kubelet emits too, with its exact spelling.
pub mod event {
    #![allow(missing_docs, reason = "each is its own text, as in the Kubernetes API")]

    reasons! {
        SCHEDULED = "Scheduled";
        FAILED_SCHEDULING = "FailedScheduling";
        PULLING = "Pulling";
        PULLED = "Pulled";
        CREATED = "Created";
        STARTED = "Started";
        KILLING = "Killing";
        BACK_OFF = "BackOff";
        FAILED = "Failed";
        UNHEALTHY = "Unhealthy";
        PROBE_WARNING = "ProbeWarning";
        SANDBOX_CHANGED = "SandboxChanged";
        FAILED_CREATE_POD_SANDBOX = "FailedCreatePodSandBox";
        FAILED_MOUNT = "FailedMount";
        FAILED_KILL_POD = "FailedKillPod";
        FAILED_POST_START_HOOK = "FailedPostStartHook";
        FAILED_PRE_STOP_HOOK = "FailedPreStopHook";
        FAILED_WITHDRAW_ENDPOINTS = "FailedWithdrawEndpoints";
        FAILED_OPEN_PORT = "FailedOpenPort";
        FAILED_WRITE_RULES = "FailedWriteRules";
        PORT_CONFLICT = "PortConflict";
        FAILED_SYNC = "FailedSync";
        FAILED_TO_RETRIEVE_IMAGE_PULL_SECRET = "FailedToRetrieveImagePullSecret";
        DNS_CONFIG_FORMING = "DNSConfigForming";
        LIFECYCLE_HTTP_FALLBACK = "LifecycleHTTPFallback";
        MISSING_CLUSTER_DNS = "MissingClusterDNS";
        FREE_DISK_SPACE_FAILED = "FreeDiskSpaceFailed";
        INSPECT_FAILED = "InspectFailed";
        ERR_IMAGE_NEVER_PULL = "ErrImageNeverPull";
        INVALID_ENVIRONMENT_VARIABLE_NAMES = "InvalidEnvironmentVariableNames";
        EVICTION_THRESHOLD_MET = "EvictionThresholdMet";
        PROVISIONING_FAILED = "ProvisioningFailed";
        PROVISIONING_SUCCEEDED = "ProvisioningSucceeded";
        NODE_SHUTDOWN = "NodeShutdown";
        RESIZE_STARTED = "ResizeStarted";
        RESIZE_COMPLETED = "ResizeCompleted";
        RESIZE_DEFERRED = "ResizeDeferred";
        RESIZE_INFEASIBLE = "ResizeInfeasible";
        RESIZE_ERROR = "ResizeError";
        PREEMPTED = "Preempted";
        EXCEEDED_GRACE_PERIOD = "ExceededGracePeriod";
        NODE_NOT_READY = "NodeNotReady";
        NODE_READY = "NodeReady";
        REGISTERED_NODE = "RegisteredNode";
        REMOVING_NODE = "RemovingNode";
        TAINT_MANAGER_EVICTION = "TaintManagerEviction";
        FAILED_CREATE = "FailedCreate";
        SUCCESSFUL_CREATE = "SuccessfulCreate";
        LEADER_ELECTION = "LeaderElection";
        TRIGGERED_SCALE_UP = "TriggeredScaleUp";
        NOT_TRIGGER_SCALE_UP = "NotTriggerScaleUp";
        FAILED_TO_SCALE_UP_GROUP = "FailedToScaleUpGroup";
        SCALE_DOWN = "ScaleDown";

        /// Ours: a file of the folder of static pods makes no pod.
        INVALID_STATIC_POD = "InvalidStaticPod";
        /// Ours: a firewall of the machine drops what pods send.
        FIREWALL_DROPS_PACKETS = "FirewallDropsPackets";
        /// Ours: a pod has as many processes and threads as it may.
        PROCESS_LIMIT_REACHED = "ProcessLimitReached";
        /// Ours, under the name that tools which watch a node's kernel use: processes of a
        /// container were killed for lack of memory, and the container lives on.
        OOM_KILLING = "OOMKilling";
        /// Ours: a controller waits before it creates the next object of a series, because those
        /// before ended early.
        CREATION_PAUSED = "CreationPaused";
        /// Ours: a PodRestart was carried out by the node.
        POD_RESTARTED = "PodRestarted";
        /// Ours: a PodRestart began.
        POD_RESTARTING = "PodRestarting";
        /// Ours: a PodRestart ended without what was asked for.
        POD_RESTART_FAILED = "PodRestartFailed";
        /// Ours: a PodRestart that replaces the pod waits for a budget or for another node.
        POD_RESTART_HELD = "PodRestartHeld";
        /// Ours: the ladder chose a rung.
        LADDER_STEP = "LadderStep";
        /// Ours: the ladder waits, because a restart would not help or a budget forbids it.
        LADDER_HOLD = "LadderHold";
        /// Ours: every rung was tried.
        LADDER_EXHAUSTED = "LadderExhausted";
        /// Ours: the annotations of a pod make no ladder.
        LADDER_INVALID = "LadderInvalid";
        /// Ours: an older ladder decides for pods that this one selects.
        LADDER_OVERLAPPED = "LadderOverlapped";
        /// Ours: the workload is healthy again after the ladder acted.
        LADDER_RECOVERED = "LadderRecovered";
    }
}

/// Reasons of a pod that a node or a ladder ended as Failed (`status.reason`), in the kubelet's
/// spelling where it has one.
pub mod pod {
    reasons! {
        /// The node ran out of something, the pod used more local storage than it may, or the node
        /// was under pressure and took no such pod up.
        EVICTED = "Evicted";
        /// It ran longer than `activeDeadlineSeconds`.
        DEADLINE_EXCEEDED = "DeadlineExceeded";
        /// Its node was shut down while it ran.
        TERMINATED = "Terminated";
        /// Its node was shutting down and took no pods up.
        NODE_SHUTDOWN = "NodeShutdown";
        /// The node's labels are not those that it asks for.
        NODE_AFFINITY = "NodeAffinity";
        /// Another pod of the node has its host port.
        NODE_PORTS = "NodePorts";
        /// The node has a taint that it does not tolerate.
        TAINT_TOLERATION = "TaintToleration";
        /// The node does not allow a sysctl of it.
        SYSCTL_FORBIDDEN = "SysctlForbidden";
        /// It is for another operating system than the node's.
        POD_OS_NOT_SUPPORTED = "PodOSNotSupported";
        /// Ours: its ladder is exhausted and says `onExhausted: Fail`.
        LADDER_EXHAUSTED = "LadderExhausted";
    }

    /// Why a node does not take a pod up at all.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub enum AdmissionRefusal {
        /// The node is under pressure.
        NodePressure,
        /// The node is shutting down.
        NodeShutdown,
        /// Its labels are not those that the pod asks for.
        NodeAffinity,
        /// Another pod of it has a host port that the pod asks for.
        NodePorts,
        /// It has a taint that the pod does not tolerate.
        TaintToleration,
        /// It does not allow a sysctl of the pod.
        SysctlForbidden,
        /// The pod is for another operating system.
        PodOsNotSupported,
    }

    impl AdmissionRefusal {
        /// `status.reason` of the pod, and the reason of the event about it.
        pub const fn as_str(self) -> &'static str {
            match self {
                Self::NodePressure => EVICTED,
                Self::NodeShutdown => NODE_SHUTDOWN,
                Self::NodeAffinity => NODE_AFFINITY,
                Self::NodePorts => NODE_PORTS,
                Self::TaintToleration => TAINT_TOLERATION,
                Self::SysctlForbidden => SYSCTL_FORBIDDEN,
                Self::PodOsNotSupported => POD_OS_NOT_SUPPORTED,
            }
        }
    }
}

/// Reasons of `state.waiting`.
pub mod waiting {
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
}
