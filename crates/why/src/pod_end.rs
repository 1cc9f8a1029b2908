//! What helps a pod that was ended as a whole: by its deadline, by its node under pressure, for
//! what it wrote, or by a shutdown.
//!
//! The messages are the kubelet's (`pkg/kubelet/eviction/helpers.go`, `eviction_manager.go`), so
//! that accounts of a cluster of kubelets tell the same.

/// `status.reason` of a pod that ran longer than `activeDeadlineSeconds`.
pub(crate) const DEADLINE_EXCEEDED: &str = "DeadlineExceeded";

/// Words of a message, and what helps then; the first that fits counts.
const EVICTED: [(&str, &str); 8] = [
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

/// What helps a pod that is Failed for this reason, with this message.
pub(crate) fn advice(reason: &str, message: &str) -> Option<&'static str> {
    match reason {
        "Evicted" => {
            EVICTED.iter().find(|(words, _)| message.contains(words)).map(|(_, advice)| *advice)
        }
        DEADLINE_EXCEEDED => Some(
            "it ran as long as activeDeadlineSeconds lets it: raise that, or find out why its work takes longer",
        ),
        "Terminated" | "NodeShutdown" => Some(
            "its node was shut down: nothing is wrong with the pod; its controller makes another one",
        ),
        _ => None,
    }
}
