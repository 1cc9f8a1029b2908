//! Why there is no log.

/// Why there is no log.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum LogError {
    /// The pod is not on this node.
    #[error("pod {0} is not on this node")]
    NoSuchPod(String),
    /// The container has not started, or has no earlier run.
    #[error("{0}")]
    NotThere(String),
    /// The files cannot be read.
    #[error("read the log of container {container:?} in pod {pod:?}: {problem}")]
    Failed {
        /// The pod.
        pod: String,
        /// The container.
        container: String,
        /// Why.
        problem: String,
    },
}
