//! What can go wrong with a volume, in the kubelet's words where it has some.

use std::io;
use std::path::PathBuf;

use super::payload::PayloadError;

/// A volume that could not be made or taken away: `FailedMount`, retried with backoff.
#[derive(Debug, thiserror::Error)]
#[error("MountVolume.SetUp failed for volume {volume:?} : {problem}")]
pub(crate) struct VolumeError {
    /// The volume's name in the pod.
    pub volume: String,
    /// Why.
    pub problem: VolumeProblem,
}

/// Why a volume could not be made.
#[derive(Debug, thiserror::Error)]
pub(crate) enum VolumeProblem {
    /// Its content cannot be put together.
    #[error(transparent)]
    Payload(#[from] PayloadError),
    /// The host path is not what its type says.
    #[error("hostPath type check failed: {path} is not {expected}")]
    HostPathType {
        /// The path.
        path: String,
        /// `a directory`, `a file`, …
        expected: &'static str,
    },
    /// A path on the host that is not absolute, or goes upwards.
    #[error("hostPath {0:?} must be an absolute path without \"..\"")]
    HostPath(String),
    /// A volume of a storage system that no driver of this node mounts.
    #[error("no driver of this node mounts volumes of type {0}")]
    Unsupported(&'static str),
    /// A share that the machine's program did not mount.
    #[error("mount {share}: {why}")]
    Mount {
        /// `server:/path`.
        share: String,
        /// How the program ended, and what it said.
        why: String,
    },
    /// emptyDir.medium.
    #[error("emptyDir medium {0:?} is not supported here: use \"\" or Memory")]
    Medium(String),
    /// What is behind a claim cannot be used.
    #[error("{0}")]
    Claim(String),
    /// The API did not answer about an object that the volume needs.
    #[error(transparent)]
    Unavailable(#[from] crate::objects::ObjectUnavailable),
    /// An id that Linux cannot have.
    #[error(transparent)]
    Spec(#[from] crate::container_spec::SpecError),
    /// The file system refused.
    #[error("{operation} {}: {source}", path.display())]
    Io {
        /// `create folder`, `mount tmpfs at`, …
        operation: &'static str,
        /// Of what.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
}

impl VolumeProblem {
    /// Wraps the file system's answer.
    pub(crate) fn io(
        operation: &'static str,
        path: impl Into<PathBuf>,
        source: impl Into<io::Error>,
    ) -> Self {
        Self::Io { operation, path: path.into(), source: source.into() }
    }
}
