//! Pods that restarts on a cluster leave alone unless they are named, or in any case. The operator
//! and the agents of the nodes go by the same words.

/// What the cluster itself runs is there. Nothing in it is ever restarted by ladders or agents.
pub const SYSTEM_NAMESPACE: &str = "kube-system";

/// On a PodRestart: pods that are left alone otherwise, and that it means all the same: `Devices`,
/// `HostNetwork`, `OnFailure` and `Static`, with a comma between them.
pub const RESTART_INCLUDES_ANNOTATION: &str = "rekindle.dev/restart-includes";

/// The restartPolicy of pods that run until their containers end with 0, and how they are named.
pub const ON_FAILURE: &str = "OnFailure";
