//! Durable files of one pod: the core's journal and the pod object beside it.
//!
//! A write is a new file renamed over the old: kill -9 at any point leaves one or the other. There is no fsync on the hot
//! path, for what a power loss takes is also in the API's status (promise P8 is the API's); a background task syncs.

use std::fs::{self, OpenOptions};
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
    let bytes = match fs::read(path) {
        Ok(bytes) => bytes,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return None,
        Err(error) => {
            tracing::warn!(path = %path.display(), %error, "cannot read what an earlier agent kept; going on without");
            return None;
        }
    };
    match serde_json::from_slice(&bytes) {
        Ok(value) => Some(value),
        Err(error) => {
            tracing::warn!(path = %path.display(), %error, "what an earlier agent kept is damaged; going on without");
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
