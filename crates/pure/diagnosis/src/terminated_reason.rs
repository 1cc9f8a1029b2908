//! `state.terminated.reason`: what the kubelet, its runtime or our own node says of an end.

use crate::reason_table::reason_table;

reason_table! {
    /// Why a container ended.
    TerminatedReason {
        /// It exited with 0.
        Completed = "Completed";
        /// It exited with another code, or by a signal.
        Error = "Error";
        /// The kernel killed it for lack of memory.
        OomKilled = "OOMKilled";
        /// Its process could not be started (containerd, and our own runtime).
        StartError = "StartError";
        /// The same (Docker).
        ContainerCannotRun = "ContainerCannotRun";
        /// Its pod ran longer than its deadline.
        DeadlineExceeded = "DeadlineExceeded";
        /// It was gone: the kubelet did not see how it ended.
        ContainerStatusUnknown = "ContainerStatusUnknown";
        /// The same (containerd, exit code 255).
        Unknown = "Unknown";
        /// Its seccomp profile forbade a system call (CRI-O).
        SeccompKilled = "seccomp killed";
    }
}
