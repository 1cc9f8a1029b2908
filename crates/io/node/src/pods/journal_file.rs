//! The journal of a pod's core. What is seldom written beside it is `durable`'s.
//!
//! It is written before each action that depends on it, so its cost is part of each start and
//! restart: a line is added to a file that is open (a fiftieth of a new file renamed over the old),
//! and the last whole line counts: kill -9 at any point leaves the old or the new. There is no
//! fsync on the hot path, for what a power loss takes is also in the API's status (promise P8 is
//! the API's); a background task syncs.

use std::fs::File;
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::durable::{self, DurableError};

/// How long a journal may wait for its sync.
const SYNC_DELAY: Duration = Duration::from_secs(1);
/// A journal that has grown to this many bytes is begun anew.
const JOURNAL_BYTES_MAX: u64 = 256 * 1024;

/// A file of lines, of which the last whole one counts.
#[derive(Debug)]
pub(crate) struct JournalFile {
    path: PathBuf,
    /// `None` until it is written, and after a failure: then it is begun anew.
    open: Option<OpenJournal>,
}

#[derive(Debug)]
struct OpenJournal {
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
        let bytes = durable::read(&self.path)?;
        let last = last_whole(&bytes);
        if last.is_none() && !bytes.is_empty() {
            tracing::warn!(path = %self.path.display(), "ignored a damaged journal of an earlier agent");
        }
        last
    }

    /// Writes the newest value.
    pub(crate) fn write<T: Serialize>(&mut self, value: &T) -> Result<(), DurableError> {
        let added = match self.open.take() {
            Some(open) if open.bytes < JOURNAL_BYTES_MAX => self.add(open, value)?,
            Some(_) | None => self.begin(value)?,
        };
        self.open = Some(added);
        Ok(())
    }

    fn add<T: Serialize>(
        &self,
        mut open: OpenJournal,
        value: &T,
    ) -> Result<OpenJournal, DurableError> {
        let line = self.encode(value)?;
        open.file.write_all(&line).map_err(|source| self.failed("add to", source))?;
        open.bytes += line.len() as u64;
        Ok(open)
    }

    /// A new file in place of what is there, which may end with half a line.
    fn begin<T: Serialize>(&self, value: &T) -> Result<OpenJournal, DurableError> {
        let line = self.encode(value)?;
        let file = durable::replace(&self.path, &line)?;
        Ok(OpenJournal { file, bytes: line.len() as u64 })
    }

    fn encode<T: Serialize>(&self, value: &T) -> Result<Vec<u8>, DurableError> {
        let mut line = serde_json::to_vec(value)
            .map_err(|error| self.failed("encode", io::Error::other(error)))?;
        line.push(b'\n');
        Ok(line)
    }

    fn failed(&self, operation: &'static str, source: io::Error) -> DurableError {
        DurableError::new(operation, &self.path, source)
    }
}

/// The last line that ends with a newline and says something.
fn last_whole<T: DeserializeOwned>(bytes: &[u8]) -> Option<T> {
    let whole = &bytes[..=bytes.iter().rposition(|byte| *byte == b'\n')?];
    whole.rsplit(|byte| *byte == b'\n').find_map(|line| serde_json::from_slice(line).ok())
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
            let synced = tokio::task::spawn_blocking(move || match File::open(&path) {
                Ok(file) => file.sync_data(),
                Err(_) => Ok(()), // removed meanwhile: the pod is over
            });
            if let Ok(Err(error)) = synced.await {
                tracing::warn!(%error, "failed to sync a journal's folder: the journal may not survive a power loss");
            }
        });
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

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
