//! Why a container is stopped.

use crate::journal::Failing;

/// Why a running container is stopped.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum StopReason {
    /// All containers are: what follows is decided elsewhere.
    Halt,
    /// A restart of this container was asked for.
    RestartAsked,
    /// Its resources changed, and its policy is that it is restarted for that.
    Resize,
    /// Its image in the spec is another one now.
    ImageChanged,
    /// A restart rule of one container ends all: without preStop.
    RestartRule,
    /// Its startup probe failed too often.
    StartupFailed,
    /// Its liveness probe did.
    LivenessFailed,
    /// Its postStart hook failed.
    PostStartFailed,
}

impl StopReason {
    /// What of the container failed, if that is why.
    pub(crate) fn failing(self) -> Option<Failing> {
        match self {
            Self::StartupFailed => Some(Failing::StartupProbe),
            Self::LivenessFailed => Some(Failing::LivenessProbe),
            Self::PostStartFailed => Some(Failing::PostStartHook),
            Self::Halt
            | Self::RestartAsked
            | Self::Resize
            | Self::ImageChanged
            | Self::RestartRule => None,
        }
    }
}

impl From<Failing> for StopReason {
    fn from(failing: Failing) -> Self {
        match failing {
            Failing::StartupProbe => Self::StartupFailed,
            Failing::LivenessProbe => Self::LivenessFailed,
            Failing::PostStartHook => Self::PostStartFailed,
        }
    }
}
