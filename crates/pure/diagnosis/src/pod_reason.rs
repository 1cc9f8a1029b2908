//! `status.reason` of a pod that ended as Failed: by its deadline, by its node, or because no node
//! took it up. The event about such an end has the same reason.
//!
//! The messages are the kubelet's (`pkg/kubelet/eviction/helpers.go`, `eviction_manager.go`), so
//! that accounts of a cluster of kubelets tell the same.

use crate::reason_table::reason_table;

reason_table! {
    /// Why a pod ended as Failed.
    PodReason {
        /// Its node ran out of something, or the pod used more local storage than it may.
        Evicted = "Evicted";
        /// It ran longer than `activeDeadlineSeconds`.
        DeadlineExceeded = "DeadlineExceeded";
        /// Its node was shut down while it ran.
        Terminated = "Terminated";
        /// Its node was shutting down and took no pods up.
        NodeShutdown = "NodeShutdown";
        /// Its node made room for a critical pod.
        Preempting = "Preempting";
        /// Its node is not heard of.
        NodeLost = "NodeLost";
        /// Its ladder is exhausted (onExhausted Fail).
        LadderExhausted = "LadderExhausted";
        /// The node's labels are not those that it asks for.
        NodeAffinity = "NodeAffinity";
        /// It asks for another node.
        NodeName = "NodeName";
        /// Another pod of the node has its host port.
        NodePorts = "NodePorts";
        /// The node has a taint that it does not tolerate.
        TaintToleration = "TaintToleration";
        /// The node does not allow a sysctl of it.
        SysctlForbidden = "SysctlForbidden";
        /// The node cannot apply its AppArmor profile.
        AppArmor = "AppArmor";
        /// Its label `kubernetes.io/os` is not the node's.
        OsLabel = "PodOSSelectorNodeLabelDoesNotMatch";
        /// Its `spec.os` is not the node's.
        OsNotSupported = "PodOSNotSupported";
        /// The kubelet could not read its own Node.
        InvalidNodeInfo = "InvalidNodeInfo";
        /// An init container has a restartPolicy that the node does not know.
        InitRestartPolicy = "InitContainerRestartPolicyForbidden";
        /// The node cannot apply its supplementalGroupsPolicy.
        SupplementalGroupsPolicy = "SupplementalGroupsPolicyNotSupported";
        /// The node cannot apply resources of the pod as a whole.
        PodLevelResources = "PodLevelResourcesNotSupported";
        /// The node lacks a feature that it asks for.
        FeatureUnsupported = "PodFeatureUnsupported";
        /// A device or another resource could not be given to it.
        UnexpectedAdmissionError = "UnexpectedAdmissionError";
        /// The kubelet gives no reason.
        UnknownReason = "UnknownReason";
        /// The kubelet does not know its own reason.
        UnexpectedPredicateFailure = "UnexpectedPredicateFailureType";
        /// Its resources are not on one NUMA node.
        TopologyAffinity = "TopologyAffinityError";
        /// Its CPUs are not whole cores.
        SmtAlignment = "SMTAlignmentError";
        /// The node has as many volumes attached as it may.
        VolumeLimit = "VolumeAttachmentLimitExceeded";
        /// The node has too little processor time left.
        OutOfCpu = "OutOfcpu";
        /// The node has too little memory left.
        OutOfMemory = "OutOfmemory";
        /// The node has too little local storage left.
        OutOfStorage = "OutOfephemeral-storage";
        /// The node has as many pods as it may.
        OutOfPods = "OutOfpods";
    }
}

/// What the reason begins with where another resource of a node is used up: `OutOfnvidia.com/gpu`
/// (`pkg/kubelet/lifecycle/predicate.go`).
const OUT_OF: &str = "OutOf";

/// Words of an eviction's message, and what helps then; the first that fits counts.
const EVICTIONS: [(&str, &str); 8] = [
    (
        "Usage of EmptyDir volume",
        "make it write less to that volume, or raise the volume's sizeLimit",
    ),
    (
        "exceeded its local ephemeral storage limit",
        "make that container write less (its root filesystem and its logs count), or raise its resources.limits.ephemeral-storage",
    ),
    (
        "exceeds the total limit of containers",
        "make it write less (root filesystems, logs and emptyDir volumes count), or raise resources.limits.ephemeral-storage of its containers",
    ),
    (
        "low on resource: ephemeral-storage",
        "free disk space on its node (images, logs, emptyDir volumes); give the pod an ephemeral-storage request that it fits in: pods above theirs go first",
    ),
    ("low on resource: inodes", "free files on its node: look which pod makes so many small ones"),
    (
        "low on resource: memory",
        "give the pod a memory request that it fits in: pods above theirs go first; or move pods away from its node",
    ),
    ("low on resource: pids", "look which pod of its node starts so many processes"),
    (
        "The node had condition",
        "its node was under pressure and took no such pod: look at that node",
    ),
];

const NODE_WAS_SHUT_DOWN: &str =
    "its node was shut down: nothing is wrong with the pod; its controller makes another one";
const NODE_IS_FULL: &str = "its node was full when the pod came: its controller makes another one; a scheduler that places pods by their requests avoids this";
const NODE_CANNOT: &str =
    "its node cannot run such a pod: place it on another, or change what the message names";

impl PodReason<'_> {
    /// Whether it says what the pod was ended for: it is known, or a resource was used up.
    pub fn tells_of_end(self) -> bool {
        self.is_known() || self.as_str().starts_with(OUT_OF)
    }

    /// What helps a pod that is Failed for this reason, with this message; none where the message
    /// alone tells, or another account does.
    pub fn remedy(self, message: &str) -> Option<&'static str> {
        Some(match self {
            Self::Evicted => {
                return EVICTIONS
                    .iter()
                    .find(|(words, _)| message.contains(words))
                    .map(|(_, remedy)| *remedy);
            }
            Self::DeadlineExceeded => {
                "it ran as long as activeDeadlineSeconds lets it: raise that, or find out why its work takes longer"
            }
            Self::Terminated | Self::NodeShutdown => NODE_WAS_SHUT_DOWN,
            Self::Preempting => {
                "its node made room for a critical pod: add a node, or give the pod a higher priority"
            }
            Self::NodeLost => {
                "its node is not heard of: look whether machine, network and agent are there"
            }
            Self::NodeAffinity | Self::NodeName => {
                "label the node so that the pod's nodeSelector or affinity finds it, or mend these"
            }
            Self::NodePorts => {
                "another pod of the node has its host port: give this one another hostPort, or end the other one"
            }
            Self::TaintToleration => "take the node's taint away, or give the pod a toleration",
            Self::SysctlForbidden => "allow the sysctl on the node, or take it out of the pod",
            Self::AppArmor
            | Self::OsLabel
            | Self::OsNotSupported
            | Self::InitRestartPolicy
            | Self::SupplementalGroupsPolicy
            | Self::PodLevelResources
            | Self::FeatureUnsupported => NODE_CANNOT,
            Self::UnexpectedAdmissionError => {
                "its node could not give it a device or a resource, often just after a restart of the kubelet: its controller makes another one"
            }
            Self::TopologyAffinity | Self::SmtAlignment => {
                "its resources do not fit on one part of the node: ask for less, or change the node's topology or CPU policy"
            }
            Self::VolumeLimit => {
                "its node has as many volumes as it may: spread such pods over more nodes"
            }
            Self::OutOfCpu | Self::OutOfMemory | Self::OutOfStorage | Self::OutOfPods => {
                NODE_IS_FULL
            }
            Self::Other(reason) if reason.starts_with(OUT_OF) => NODE_IS_FULL,
            Self::InvalidNodeInfo | Self::UnknownReason | Self::UnexpectedPredicateFailure => {
                "its node could not tell whether it takes the pod: look at that node's log"
            }
            Self::LadderExhausted | Self::Other(_) => return None,
        })
    }
}
