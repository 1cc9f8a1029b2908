//! Why a container or a sandbox cannot be put together.

use rekindle_types::validation::numbers::ID_MAX;

/// Why a container cannot be made as its spec says: `CreateContainerConfigError`.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum SpecError {
    /// The pod's spec does not name it.
    #[error("container {0:?} is not in the pod's spec")]
    NoSuchContainer(String),
    /// A volumeMount names a volume that the pod does not have.
    #[error("container {container:?}: volume {volume:?} is not in the pod's spec")]
    NoSuchVolume {
        /// The container.
        container: String,
        /// What it names.
        volume: String,
    },
    /// runAsNonRoot with runAsUser 0. The kubelet's own text.
    #[error("container's runAsUser breaks non-root policy (pod: {pod:?}, container: {container})")]
    RootForbidden {
        /// The pod, as the kubelet writes it: `name_namespace(uid)`.
        pod: String,
        /// The container.
        container: String,
    },
    /// setHostnameAsFQDN with a name that the kernel does not take.
    #[error(
        "setHostnameAsFQDN: {name:?} is longer than the 64 characters that the kernel keeps of a host name"
    )]
    FullNameTooLong {
        /// The name.
        name: String,
    },
    /// A user or group id that nobody may have.
    #[error("securityContext.{field}: {id} is not between 0 and {ID_MAX}")]
    IdRange {
        /// The field.
        field: &'static str,
        /// Its value.
        id: i64,
    },
    /// A seccomp profile without its file. The kubelet's own text.
    #[error("localhostProfile must be set if seccompProfile type is Localhost.")]
    NoLocalhostProfile,
    /// A kind of seccomp profile that nobody knows.
    #[error(
        "seccompProfile type {profile:?} is not supported here: use RuntimeDefault, Localhost or Unconfined"
    )]
    SeccompProfile {
        /// The type.
        profile: String,
    },
    /// A subPath that would lead out of its volume.
    #[error("volume {volume:?}: subPath {sub_path:?} must be a relative path without \"..\"")]
    SubPath {
        /// The volume.
        volume: String,
        /// The path.
        sub_path: String,
    },
    /// subPathExpr refers to a variable that the container does not have.
    #[error(
        "container {container:?}: volume {volume:?}: subPathExpr refers to variable {variable:?}, which is not set"
    )]
    SubPathVariable {
        /// The container.
        container: String,
        /// The volume.
        volume: String,
        /// The variable.
        variable: String,
    },
}
