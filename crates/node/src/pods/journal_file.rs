//! Durable files of one pod: the core's journal and the pod object beside it.
//!
//! The journal is written before each action that depends on it, so its cost is part of each start and restart: a line is
//! added to a file that is open (a fiftieth of a new file renamed over the old), and the last whole line counts. The pod
//! object is seldom written: a new file renamed over the old. Either way kill -9 at any point leaves the old or the new. There
//! is no fsync on the hot path, for what a power loss takes is also in the API's status (promise P8 is the API's); a
//! background task syncs.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use serde::Serialize;
use serde::de::DeserializeOwned;

/// How long a journal may wait for its sync.
const SYNC_DELAY: Duration = Duration::from_secs(1);
/// A journal that has grown to this many bytes is begun anew.
const JOURNAL_BYTES_MAX: u64 = 256 * 1024;

/// A durable file could not be written or removed.
#[derive(Debug, thiserror::Error)]
#[error("{operation} {}", path.display())]
pub(crate) struct JournalError {
    operation: &'static str,
    path: PathBuf,
    #[source]
    source: io::Error,
}

/// Writes `value` as JSON so that a reader after a crash finds the old or the new content, whole.
pub(crate) fn write_json<T: Serialize>(path: &Path, value: &T) -> Result<(), JournalError> {
    let failed = |operation| {
        move |source: io::Error| JournalError { operation, path: path.to_owned(), source }
    };
    let bytes = serde_json::to_vec(value).map_err(io::Error::other).map_err(failed("encode"))?;
    let new = path.with_extension("new");
    let mut file = OpenOptions::new()
        .write(true)
        .create(true)
        .truncate(true)
        .mode(0o600)
        .open(&new)
        .map_err(failed("create new"))?;
    file.write_all(&bytes).map_err(failed("write new"))?;
    drop(file);
    fs::rename(&new, path).map_err(failed("replace"))
}

/// What [`write_json`] wrote; `None` when it is absent or not whole (a power loss may leave that).
pub(crate) fn read_json<T: DeserializeOwned>(path: &Path) -> Option<T> {
    let bytes = read_file(path)?;
    match serde_json::from_slice(&bytes) {
        Ok(value) => Some(value),
        Err(error) => {
            tracing::warn!(path = %path.display(), %error, "what an earlier agent kept is damaged; going on without");
            None
        }
    }
}

/// A file of lines, of which the last whole one counts.
#[derive(Debug)]
pub(crate) struct JournalFile {
    path: PathBuf,
    /// `None` until it is written, and after a failure: then it is begun anew.
    open: Option<Open>,
}

#[derive(Debug)]
struct Open {
    file: File,
    bytes: u64,
}

impl JournalFile {
    /// The one at this path, whose folder need not stand yet.
    pub(crate) fn new(path: PathBuf) -> Self {
        Self { path, open: None }
    }

    /// Where it is.
    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// What was written last; `None` when there is nothing whole.
    pub(crate) fn read<T: DeserializeOwned>(&self) -> Option<T> {
        let bytes = read_file(&self.path)?;
        let last = last_whole(&bytes);
        if last.is_none() && !bytes.is_empty() {
            tracing::warn!(path = %self.path.display(), "what an earlier agent kept is damaged; going on without");
        }
        last
    }

    /// Writes the newest value.
    pub(crate) fn write<T: Serialize>(&mut self, value: &T) -> Result<(), JournalError> {
        let added = match self.open.take() {
            Some(open) if open.bytes < JOURNAL_BYTES_MAX => self.add(open, value)?,
            Some(_) | None => self.begin(value)?,
        };
        self.open = Some(added);
        Ok(())
    }

    fn add<T: Serialize>(&self, mut open: Open, value: &T) -> Result<Open, JournalError> {
        let line = self.encode(value)?;
        open.file.write_all(&line).map_err(|source| self.failed("add to", source))?;
        open.bytes += line.len() as u64;
        Ok(open)
    }

    /// A new file in place of what is there, which may end with half a line.
    fn begin<T: Serialize>(&self, value: &T) -> Result<Open, JournalError> {
        let line = self.encode(value)?;
        let new = self.path.with_extension("new");
        let mut options = OpenOptions::new();
        options.write(true).create(true).truncate(true).mode(0o600);
        let mut file = options.open(&new).map_err(|source| self.failed("create new", source))?;
        file.write_all(&line).map_err(|source| self.failed("write new", source))?;
        fs::rename(&new, &self.path).map_err(|source| self.failed("replace", source))?;
        Ok(Open { file, bytes: line.len() as u64 })
    }

    fn encode<T: Serialize>(&self, value: &T) -> Result<Vec<u8>, JournalError> {
        let mut line = serde_json::to_vec(value)
            .map_err(|error| self.failed("encode", io::Error::other(error)))?;
        line.push(b'\n');
        Ok(line)
    }

    fn failed(&self, operation: &'static str, source: io::Error) -> JournalError {
        JournalError { operation, path: self.path.clone(), source }
    }
}

/// The last line that ends with a newline and says something.
fn last_whole<T: DeserializeOwned>(bytes: &[u8]) -> Option<T> {
    let whole = &bytes[..=bytes.iter().rposition(|byte| *byte == b'\n')?];
    whole.rsplit(|byte| *byte == b'\n').find_map(|line| serde_json::from_slice(line).ok())
}

/// `None` when it is absent, or cannot be read.
fn read_file(path: &Path) -> Option<Vec<u8>> {
    match fs::read(path) {
        Ok(bytes) => Some(bytes),
        Err(error) if error.kind() == io::ErrorKind::NotFound => None,
        Err(error) => {
            tracing::warn!(path = %path.display(), %error, "cannot read what an earlier agent kept; going on without");
            None
        }
    }
}

/// Removes a file; absent is success.
pub(crate) fn remove(path: &Path) -> Result<(), JournalError> {
    match fs::remove_file(path) {
        Ok(()) => Ok(()),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        Err(source) => Err(JournalError { operation: "remove", path: path.to_owned(), source }),
    }
}

/// Brings files to the disk some time later, so that many writes in a row cost one sync.
#[derive(Clone, Debug, Default)]
pub(crate) struct BackgroundSync {
    is_due: Arc<AtomicBool>,
}

impl BackgroundSync {
    /// Syncs `path` within [`SYNC_DELAY`], as it is by then.
    pub(crate) fn schedule(&self, path: PathBuf) {
        if self.is_due.swap(true, Ordering::Relaxed) {
            return;
        }
        let is_due = self.is_due.clone();
        tokio::spawn(async move {
            tokio::time::sleep(SYNC_DELAY).await;
            is_due.store(false, Ordering::Relaxed);
            let synced = tokio::task::spawn_blocking(move || match fs::File::open(&path) {
                Ok(file) => file.sync_data(),
                Err(_) => Ok(()), // removed meanwhile: the pod is over
            });
            if let Ok(Err(error)) = synced.await {
                tracing::warn!(%error, "a journal may not survive a power loss");
            }
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_whole_line_counts() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("journal");
        let mut journal = JournalFile::new(path.clone());
        assert_eq!(journal.read::<u32>(), None);
        journal.write(&1).unwrap();
        journal.write(&2).unwrap();
        assert_eq!(journal.read::<u32>(), Some(2));
        let mut bytes = fs::read(&path).unwrap();
        bytes.extend(b"3");
        fs::write(&path, bytes).unwrap();
        let mut next_agent = JournalFile::new(path);
        assert_eq!(next_agent.read::<u32>(), Some(2), "a line without an end is not whole");
        next_agent.write(&4).unwrap();
        next_agent.write(&5).unwrap();
        assert_eq!(next_agent.read::<u32>(), Some(5));
    }

    #[test]
    fn a_journal_does_not_grow_for_ever() {
        let dir = tempfile::tempdir().unwrap();
        let mut journal = JournalFile::new(dir.path().join("journal"));
        let text = "x".repeat(1000);
        for number in 0..1000 {
            journal.write(&(number, &text)).unwrap();
        }
        assert_eq!(journal.read::<(u32, String)>(), Some((999, text)));
        assert!(fs::metadata(journal.path()).unwrap().len() < JOURNAL_BYTES_MAX + 2000);
    }

    #[test]
    fn a_journal_that_could_not_be_written_goes_on_when_it_can() {
        let dir = tempfile::tempdir().unwrap();
        let mut journal = JournalFile::new(dir.path().join("pod/journal"));
        assert!(journal.write(&1).is_err());
        fs::create_dir(dir.path().join("pod")).unwrap();
        journal.write(&2).unwrap();
        assert_eq!(journal.read::<u32>(), Some(2));
    }
}
