//! What the agent writes down about a sandbox and its containers, to know them again after a crash:
//! lines in one file per sandbox, of which the newest about a thing counts. Not fsynced: it guards
//! against kill -9, and a power cut ends what it speaks of.

use std::collections::BTreeMap;
use std::fs::{self, File, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::sync::Mutex;

use rekindle_shim::protocol::{self, ContainerPhase, ExitCause, ExitRecord, OomRecord};
use rekindle_types::{ContainerUser, Exit, ExitStatus, OomKill, StopNotice, Tick};
use serde::{Deserialize, Serialize};

use crate::runtime::{CreatedContainer, RuntimeContainerState};
use crate::spec::{ContainerKey, Namespaces, SandboxKey};

/// The file's name in the sandbox's folder.
const FILE: &str = "records";
/// A file that has grown to this many bytes is written anew, with what still stands.
const BYTES_MAX: u64 = 256 * 1024;

/// Whose the sandbox is.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct SandboxRecord {
    pub(crate) key: SandboxKey,
    pub(crate) hostname: String,
    /// The engine that made it: a copied folder is not taken for its own by another.
    pub(crate) engine_id: String,
    /// Absent in records of earlier versions, whose sandboxes shared nothing.
    #[serde(default)]
    pub(crate) namespaces: Namespaces,
}

/// A container that was asked for.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct SlotRecord {
    pub(crate) key: ContainerKey,
    pub(crate) id: String,
    pub(crate) image_id: String,
    pub(crate) stop_signal: i32,
    /// The folder of its writable layer, when that lies on the disk.
    pub(crate) root: Option<String>,
    /// Who its process is: known when it is prepared.
    #[serde(default)]
    pub(crate) user: Option<ContainerUser>,
    /// The ids of the images that it mounts as volumes.
    #[serde(default)]
    pub(crate) volume_images: Vec<String>,
}

impl SlotRecord {
    /// What its creation answers.
    pub(crate) fn created(&self) -> CreatedContainer {
        let Self { id, image_id, user, .. } = self;
        CreatedContainer { id: id.clone(), image_id: image_id.clone(), user: user.clone() }
    }
}

/// One line.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) enum RecordLine {
    /// The sandbox is this pod's.
    Sandbox(SandboxRecord),
    /// The container of this slot is being made.
    Made { slot: String, record: SlotRecord },
    /// It was taken away.
    Gone { slot: String },
}

/// What the lines come to.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct SandboxRecords {
    /// `None` for a sandbox that never was a pod's.
    pub(crate) sandbox: Option<SandboxRecord>,
    pub(crate) containers: BTreeMap<String, SlotRecord>,
}

impl SandboxRecords {
    /// Those in this sandbox's folder; nothing when there are none. A line that was cut short
    /// counts as not written.
    pub(crate) fn read(dir: &Path) -> Self {
        let content = fs::read(dir.join(FILE)).unwrap_or_default();
        let mut records = Self::default();
        let lines = content.split(|byte| *byte == b'\n');
        for line in lines.filter_map(|line| serde_json::from_slice(line).ok()) {
            match line {
                RecordLine::Sandbox(record) => records.sandbox = Some(record),
                RecordLine::Made { slot, record } => drop(records.containers.insert(slot, record)),
                RecordLine::Gone { slot } => drop(records.containers.remove(&slot)),
            }
        }
        records
    }

    fn into_lines(self) -> impl Iterator<Item = RecordLine> {
        let containers = self.containers.into_iter();
        let made = containers.map(|(slot, record)| RecordLine::Made { slot, record });
        self.sandbox.map(RecordLine::Sandbox).into_iter().chain(made)
    }
}

/// The file, open to add to.
#[derive(Debug)]
pub(crate) struct RecordFile {
    dir: PathBuf,
    open: Mutex<OpenRecordFile>,
}

#[derive(Debug)]
struct OpenRecordFile {
    file: File,
    bytes: u64,
}

impl RecordFile {
    /// Opens the one in this sandbox's folder; an empty one is made when there is none.
    pub(crate) fn open(dir: &Path) -> io::Result<Self> {
        let file = open_file(&dir.join(FILE))?;
        let bytes = file.metadata()?.len();
        Ok(Self { dir: dir.to_owned(), open: Mutex::new(OpenRecordFile { file, bytes }) })
    }

    /// Adds a line.
    pub(crate) fn add(&self, line: &RecordLine) -> io::Result<()> {
        let mut open = self.open.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
        if open.bytes >= BYTES_MAX {
            *open = write_anew(&self.dir)?;
        }
        let bytes = encode(line)?;
        open.bytes += bytes.len() as u64;
        open.file.write_all(&bytes)
    }

    /// Takes the file away: the folder is nobody's again.
    pub(crate) fn remove(&self) -> io::Result<()> {
        match fs::remove_file(self.dir.join(FILE)) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
            Ok(()) | Err(_) => Ok(()),
        }
    }
}

fn open_file(path: &Path) -> io::Result<File> {
    OpenOptions::new().create(true).append(true).mode(0o600).open(path)
}

/// With a newline in front, which ends a line that a full disk has cut.
fn encode(line: &RecordLine) -> io::Result<Vec<u8>> {
    let mut bytes = vec![b'\n'];
    serde_json::to_writer(&mut bytes, line)?;
    bytes.push(b'\n');
    Ok(bytes)
}

fn write_anew(dir: &Path) -> io::Result<OpenRecordFile> {
    let new = dir.join(FILE).with_extension("new");
    let mut content = Vec::new();
    for line in SandboxRecords::read(dir).into_lines() {
        content.extend(encode(&line)?);
    }
    fs::write(&new, &content)?;
    fs::rename(&new, dir.join(FILE))?;
    Ok(OpenRecordFile { file: open_file(&dir.join(FILE))?, bytes: content.len() as u64 })
}

/// What a container's state file says; `None` when there is none, or nothing whole in it.
pub(crate) fn read_phase(path: &Path) -> Option<ContainerPhase> {
    rekindle_shim::state_file::read(&fs::read(path).ok()?)
}

/// Replaces a state file whose shim is gone.
pub(crate) fn write_phase(path: &Path, phase: &ContainerPhase) -> io::Result<()> {
    let temporary = path.with_extension("new");
    fs::write(&temporary, serde_json::to_vec(phase)?)?;
    fs::rename(&temporary, path)
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
        message: match &record.oom {
            None => record.message.clone(),
            Some(oom) => oom_kill(oom).to_string(),
        },
    }
}

fn oom_kill(record: &OomRecord) -> OomKill {
    let OomRecord { kills, limit_bytes, peak_bytes } = *record;
    OomKill { kills, limit_bytes, peak_bytes }
}

/// A shim's container as the agent speaks of it.
pub(crate) fn state(phase: &ContainerPhase) -> RuntimeContainerState {
    match phase {
        ContainerPhase::Created => RuntimeContainerState::Created,
        ContainerPhase::Running { pid, started_at_us, notice } => RuntimeContainerState::Running {
            pid: *pid,
            started_at: Tick::from_micros(*started_at_us),
            notice: match notice {
                protocol::SignalNotice::NotGiven => StopNotice::NotGiven,
                protocol::SignalNotice::Given => StopNotice::Given,
            },
        },
        ContainerPhase::Exited { exit: record, .. } => {
            RuntimeContainerState::Exited { exit: exit(record) }
        }
    }
}

/// What is left of a container whose shim is gone: it cannot run any more.
pub(crate) fn phase_without_shim(found: Option<ContainerPhase>, now: Tick) -> ContainerPhase {
    match found {
        Some(ContainerPhase::Exited { pid, exit }) => ContainerPhase::Exited { pid, exit },
        Some(ContainerPhase::Running { pid, started_at_us, notice: _ }) => ContainerPhase::Exited {
            pid,
            exit: ExitRecord {
                cause: ExitCause::Unknown,
                started_at_us,
                finished_at_us: now.as_micros(),
                message: String::new(),
                oom: None,
            },
        },
        Some(ContainerPhase::Created) | None => ContainerPhase::Created,
    }
}

#[cfg(test)]
mod tests;
