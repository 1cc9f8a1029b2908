//! What can go wrong in a runtime, sorted by what the node agent does about it.

use rekindle_types::causes;

use crate::spec::{ContainerKey, SandboxKey};

/// Why a step of a call failed: the source of the call's error.
pub(crate) type Cause = Box<dyn std::error::Error + Send + Sync>;

/// A failed runtime call. The text names the object and the operation; the source has the cause.
#[derive(Debug, thiserror::Error)]
pub enum RuntimeError {
    /// The sandbox could not be made or taken away: retried with backoff.
    #[error("{operation} sandbox {} of pod {}", key.attempt, key.pod)]
    Sandbox {
        /// Which sandbox.
        key: SandboxKey,
        /// `set up`, `tear down`, …
        operation: &'static str,
        /// Why.
        #[source]
        source: Box<dyn std::error::Error + Send + Sync>,
    },
    /// The container's root, mounts or cgroup could not be made: `CreateContainerError`, retried
    /// with backoff.
    #[error("{operation} container {:?} of pod {}", key.name.0, key.sandbox.pod)]
    Container {
        /// Which container.
        key: ContainerKey,
        /// `create`, `signal`, `remove`, …
        operation: &'static str,
        /// Why.
        #[source]
        source: Box<dyn std::error::Error + Send + Sync>,
    },
    /// The spec cannot be carried out as it stands (runAsNonRoot with a root image, an unknown
    /// capability): `CreateContainerConfigError`.
    #[error("container {:?} of pod {}: {problem}", key.name.0, key.sandbox.pod)]
    Config {
        /// Which container.
        key: ContainerKey,
        /// What, and what to do.
        problem: String,
    },
    /// The process could not be started: missing command, no permission, absent work folder. The
    /// container has ended with exit code 128 and reason StartError.
    #[error("start container {:?} of pod {}: {problem}", key.name.0, key.sandbox.pod)]
    Start {
        /// Which container.
        key: ContainerKey,
        /// For people, as `exec "/bin/nope": no such file or directory`.
        problem: String,
    },
    /// The image is not here and cannot be had.
    #[error("image {image:?}: {problem}")]
    Image {
        /// As the user wrote it.
        image: String,
        /// Why, and what to do.
        problem: String,
        /// Which waiting reason the container shows.
        kind: ImageErrorKind,
    },
    /// The runtime as a whole does not answer.
    #[error("{operation}")]
    Unavailable {
        /// What was asked.
        operation: &'static str,
        /// Why.
        #[source]
        source: Box<dyn std::error::Error + Send + Sync>,
    },
}

/// Which waiting reason an image error shows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ImageErrorKind {
    /// `InvalidImageName`: not a reference at all. Never retried.
    InvalidName,
    /// `ErrImagePull`: not found or not reachable. Retried with backoff.
    Pull,
}

impl RuntimeError {
    /// The whole chain in one line, as status messages and events show it.
    pub fn chain(&self) -> String {
        causes(self)
    }
}
