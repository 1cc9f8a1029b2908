//! Small files that survive kill -9 of the agent: the pod object beside its core's journal, and its
//! range of user ids.
//!
//! A new file is renamed over the old, so that kill -9 at any point leaves the old or the new,
//! whole. There is no fsync: a power loss may leave one damaged, which counts as absent.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use rekindle_types::ObjectJson;
use serde::Serialize;
use serde::de::DeserializeOwned;

/// A durable file could not be written or removed.
#[derive(Debug, thiserror::Error)]
#[error("{operation} {}", path.display())]
pub(crate) struct DurableError {
    operation: &'static str,
    path: PathBuf,
    #[source]
    source: io::Error,
}

impl DurableError {
    /// This failed on this file.
    pub(crate) fn new(operation: &'static str, path: &Path, source: io::Error) -> Self {
        Self { operation, path: path.to_owned(), source }
    }
}

/// Writes `value` as JSON so that a reader after a crash finds the old or the new content, whole.
pub(crate) fn write_json<T: Serialize>(path: &Path, value: &T) -> Result<(), DurableError> {
    let encoded = serde_json::to_vec(value).map_err(io::Error::other);
    let bytes = encoded.map_err(|source| DurableError::new("encode", path, source))?;
    replace(path, &bytes).map(drop)
}

/// The same for an object of the API, by the code that the workspace has for its kind.
pub(crate) fn write_object<K: ObjectJson>(path: &Path, object: &K) -> Result<(), DurableError> {
    replace(path, &object.to_json()).map(drop)
}

/// What [`write_json`] wrote; `None` when it is absent or not whole (a power loss may leave that).
pub(crate) fn read_json<T: DeserializeOwned>(path: &Path) -> Option<T> {
    read_with(path, |bytes| serde_json::from_slice(bytes))
}

/// The same for what [`write_object`] wrote.
pub(crate) fn read_object<K: ObjectJson>(path: &Path) -> Option<K> {
    read_with(path, K::from_json)
}

fn read_with<T>(path: &Path, decode: fn(&[u8]) -> Result<T, serde_json::Error>) -> Option<T> {
    let bytes = read(path)?;
    match decode(&bytes) {
        Ok(value) => Some(value),
        Err(error) => {
            tracing::warn!(path = %path.display(), %error, "ignored a damaged file of an earlier agent");
            None
        }
    }
}

/// A new file in place of what is there; it is open at its end.
pub(crate) fn replace(path: &Path, bytes: &[u8]) -> Result<File, DurableError> {
    let failed = |operation: &'static str| {
        move |source: io::Error| DurableError::new(operation, path, source)
    };
    let new = path.with_extension("new");
    let mut options = OpenOptions::new();
    options.write(true).create(true).truncate(true).mode(0o600);
    let mut file = options.open(&new).map_err(failed("create new"))?;
    file.write_all(bytes).map_err(failed("write new"))?;
    fs::rename(&new, path).map_err(failed("replace"))?;
    Ok(file)
}

/// `None` when it is absent, or cannot be read.
pub(crate) fn read(path: &Path) -> Option<Vec<u8>> {
    match fs::read(path) {
        Ok(bytes) => Some(bytes),
        Err(error) if error.kind() == io::ErrorKind::NotFound => None,
        Err(error) => {
            tracing::warn!(path = %path.display(), %error, "failed to read a file of an earlier agent; going on without it");
            None
        }
    }
}

/// Removes a file; absent is success.
pub(crate) fn remove(path: &Path) -> Result<(), DurableError> {
    match fs::remove_file(path) {
        Ok(()) => Ok(()),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        Err(source) => Err(DurableError::new("remove", path, source)),
    }
}
