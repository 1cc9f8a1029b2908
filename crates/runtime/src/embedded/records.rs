//! What the agent writes down about a sandbox and its containers, to know them again after a crash.

use std::fs;
use std::io;
use std::path::Path;

use rekindle_shim::protocol::{ExitCause, ExitRecord, Phase};
use rekindle_types::{Exit, ExitStatus, Tick};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use crate::runtime::ContainerState;
use crate::spec::{ContainerKey, SandboxKey};

/// `sandbox.json`.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct SandboxRecord {
    pub(crate) key: SandboxKey,
    pub(crate) hostname: String,
}

/// `<slot>.json`.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct ContainerRecord {
    pub(crate) key: ContainerKey,
    pub(crate) id: String,
    pub(crate) image_id: String,
    pub(crate) stop_signal: i32,
}

/// Writes a record in one step. Not fsynced: it guards against kill -9, and a power cut ends what it speaks of.
pub(crate) fn write<T: Serialize>(path: &Path, record: &T) -> io::Result<()> {
    let temporary = path.with_extension("new");
    fs::write(&temporary, serde_json::to_vec(record)?)?;
    fs::rename(&temporary, path)
}

/// Reads a record; `None` when there is none, or only half of one.
pub(crate) fn read<T: DeserializeOwned>(path: &Path) -> Option<T> {
    serde_json::from_slice(&fs::read(path).ok()?).ok()
}

/// A shim's exit as the agent speaks of it.
pub(crate) fn exit(record: &ExitRecord) -> Exit {
    Exit {
        status: match record.cause {
            ExitCause::Code(code) => ExitStatus::Code { code },
            ExitCause::Signal(signal) => ExitStatus::Signal { signal },
            ExitCause::OomKilled => ExitStatus::OomKilled,
            ExitCause::StartError => ExitStatus::StartError,
            ExitCause::Unknown => ExitStatus::Unknown,
        },
        started_at: Tick::from_micros(record.started_at_us),
        finished_at: Tick::from_micros(record.finished_at_us),
        message: record.message.clone(),
    }
}

/// A shim's container as the agent speaks of it.
pub(crate) fn state(phase: &Phase) -> ContainerState {
    match phase {
        Phase::Created => ContainerState::Created,
        Phase::Running { pid, started_at_us } => {
            ContainerState::Running { pid: *pid, started_at: Tick::from_micros(*started_at_us) }
        }
        Phase::Exited { exit: record, .. } => ContainerState::Exited { exit: exit(record) },
    }
}

/// What is left of a container whose shim is gone: it cannot run any more.
pub(crate) fn phase_without_shim(found: Option<Phase>, now: Tick) -> Phase {
    match found {
        Some(Phase::Exited { pid, exit }) => Phase::Exited { pid, exit },
        Some(Phase::Running { pid, started_at_us }) => Phase::Exited {
            pid,
            exit: ExitRecord {
                cause: ExitCause::Unknown,
                started_at_us,
                finished_at_us: now.as_micros(),
                message: String::new(),
            },
        },
        Some(Phase::Created) | None => Phase::Created,
    }
}
