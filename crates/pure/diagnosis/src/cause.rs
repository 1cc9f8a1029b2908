//! What is the matter with a container, in one word.

use serde::Serialize;

/// What is the matter with a container.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub enum Cause {
    /// It was killed for lack of memory.
    OutOfMemory,
    /// Its command is not there (code 127, or the runtime could not start it).
    CommandMissing,
    /// Its command is there and cannot be executed (code 126).
    CommandNotExecutable,
    /// The runtime could not start it for another reason.
    StartError,
    /// Its image cannot be had.
    ImageUnavailable,
    /// A ConfigMap, Secret, key or setting that it names is missing or refused.
    ConfigurationMissing,
    /// The runtime could not create it.
    CreateError,
    /// Its liveness probe failed, so it was killed.
    LivenessFailed,
    /// Its startup probe failed, so it was killed.
    StartupFailed,
    /// Its postStart hook failed, so it was killed.
    PostStartFailed,
    /// A signal ended it.
    Signal,
    /// It exited with a code that is not 0.
    ExitCode,
    /// It exited with 0 and is to run for ever (restartPolicy Always).
    ExitedUnasked,
    /// Its end was not seen.
    Unknown,
    /// A restart in place ended it, as it was asked to.
    Restarted,
    /// It ran when its pod was ended as Failed: by an exhausted ladder, an eviction or a deadline.
    EndedWithPod,
    /// It runs and its readiness probe fails.
    ReadinessFailed,
    /// It runs and one of its probes cannot be run.
    ProbeErrored,
    /// It waits for a reason that is not known here.
    UnknownWait,
}

/// How grave a cause is, and what there is to tell beside it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CauseFamily {
    /// It cannot begin. Its message tells more than how often it ended.
    KeptFromStarting,
    /// It waits, and whether that is wrong is not known.
    Waiting,
    /// It failed by itself.
    Failed,
    /// Its node killed it for a probe or a hook.
    KilledByNode,
    /// It was ended on purpose: nothing is wrong with it.
    EndedOnPurpose,
    /// It runs, and a probe says no.
    NotReady,
    /// It runs, and a probe says nothing.
    Unchecked,
}

impl Cause {
    /// How grave it is.
    pub fn family(self) -> CauseFamily {
        match self {
            Self::ImageUnavailable | Self::ConfigurationMissing | Self::CreateError => {
                CauseFamily::KeptFromStarting
            }
            Self::UnknownWait => CauseFamily::Waiting,
            Self::OutOfMemory
            | Self::CommandMissing
            | Self::CommandNotExecutable
            | Self::StartError
            | Self::Signal
            | Self::ExitCode
            | Self::ExitedUnasked
            | Self::Unknown => CauseFamily::Failed,
            Self::LivenessFailed | Self::StartupFailed | Self::PostStartFailed => {
                CauseFamily::KilledByNode
            }
            Self::Restarted | Self::EndedWithPod => CauseFamily::EndedOnPurpose,
            Self::ReadinessFailed => CauseFamily::NotReady,
            Self::ProbeErrored => CauseFamily::Unchecked,
        }
    }
}
