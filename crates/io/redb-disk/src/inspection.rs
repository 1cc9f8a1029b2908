//! A look at a store's file that changes nothing: all of it is done on a copy in memory. Opening
//! the file itself may repair it.

use std::fs::{OpenOptions, TryLockError};
use std::io::{self, Read};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;
use std::sync::Arc;

use redb::backends::InMemoryBackend;
use redb::{Database, DatabaseError, StorageBackend};
use rekindle_store::{DiskContent, DiskError, Revision};

use crate::{CACHE_BYTES, damaged, known_revision, read_meta, read_objects};

/// So much is copied at a time.
const COPY_BYTES: u64 = 1 << 20;

/// Reads the whole store, after a look at every page: of several faults only the first is reported.
/// If the file was not closed and its newest commit is damaged, redb goes back to the one before,
/// here as when an engine starts.
///
/// # Errors
/// When the file is open in another process, cannot be read, is damaged, or has another format.
pub fn inspect(path: &Path) -> Result<DiskContent, DiskError> {
    let copy = copy_of(path)?;
    if copy.len().is_ok_and(|bytes| bytes == 0) {
        return Err(damaged(path, "the file is empty"));
    }
    let pages_damaged = |what: String| damaged(path, format!("its pages are damaged: {what}"));
    let check_and_read = || {
        let mut database = open_copy(copy).map_err(|error| pages_damaged(error.to_string()))?;
        match database.check_integrity() {
            Ok(true) => read_store(&database, path),
            Ok(false) => Err(pages_damaged("checksums do not match".to_owned())),
            Err(error) => Err(pages_damaged(error.to_string())),
        }
    };
    without_panic(check_and_read).unwrap_or_else(|panic| Err(pages_damaged(panic)))
}

/// The newest durable revision, without a look at the objects: they may be damaged. Of a file that
/// was not closed redb looks at every page first.
///
/// # Errors
/// When the file is open in another process, cannot be read, says no revision, or has another
/// format.
pub fn newest_revision(path: &Path) -> Result<Revision, DiskError> {
    let copy = copy_of(path)?;
    let read = || {
        let database = open_copy(copy).map_err(|error| damaged(path, error.to_string()))?;
        read_revision(&database, path)
    };
    without_panic(read).unwrap_or_else(|panic| Err(damaged(path, panic)))
}

/// A copy in memory of a file that no other process has open to write.
fn copy_of(path: &Path) -> Result<InMemoryBackend, DiskError> {
    let failed = |error| DiskError::Load { path: path.to_owned(), source: Arc::new(error) };
    let mut file = OpenOptions::new().read(true).open(path).map_err(failed)?;
    match file.try_lock_shared() {
        Ok(()) => {
            let bytes = file.metadata().map_err(failed)?.len();
            read_into_memory(&mut file, bytes).map_err(failed)
        }
        Err(TryLockError::WouldBlock) => Err(DiskError::Locked { path: path.to_owned() }),
        Err(TryLockError::Error(error)) => Err(failed(error)),
    }
}

/// Reads to the end. The buffer is made once, for the expected length, and grows only if there is
/// more to read.
fn read_into_memory(mut from: impl Read, bytes_expected: u64) -> io::Result<InMemoryBackend> {
    let copy = InMemoryBackend::new();
    copy.set_len(bytes_expected)?;
    let (mut chunk, mut length) = (Vec::new(), 0);
    while from.by_ref().take(COPY_BYTES).read_to_end(&mut chunk)? > 0 {
        let end = length + chunk.len() as u64;
        if end > copy.len()? {
            copy.set_len(end)?;
        }
        StorageBackend::write(&copy, length, &chunk)?;
        chunk.clear();
        length = end;
    }
    copy.set_len(length)?;
    Ok(copy)
}

fn open_copy(copy: InMemoryBackend) -> Result<Database, DatabaseError> {
    redb::Builder::new().set_cache_size(CACHE_BYTES).create_with_backend(copy)
}

fn read_store(database: &Database, path: &Path) -> Result<DiskContent, DiskError> {
    let revision = read_revision(database, path)?;
    let objects = read_objects(database).map_err(|error| damaged(path, error.to_string()))?;
    Ok(DiskContent { revision, objects })
}

fn read_revision(database: &Database, path: &Path) -> Result<Revision, DiskError> {
    let meta = read_meta(database).map_err(|error| damaged(path, error.to_string()))?;
    known_revision(meta, path)?.ok_or_else(|| damaged(path, "it has no table of a store"))
}

/// Turns a panic into an error: redb panics on damage that it does not expect.
pub(crate) fn without_panic<T>(work: impl FnOnce() -> T) -> Result<T, String> {
    catch_unwind(AssertUnwindSafe(work)).map_err(|panic| {
        let text = panic.downcast_ref::<String>().map(String::as_str);
        let text = text.or_else(|| panic.downcast_ref::<&str>().copied());
        format!("redb panicked: {}", text.unwrap_or("without a message"))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_copy_has_what_is_read_whatever_length_was_expected() {
        let bytes: Vec<u8> = (0..3_000_000).map(|number: u32| number.to_le_bytes()[0]).collect();
        for bytes_expected in [0, 1 << 20, 2_999_999, 3_000_000, 4_000_000] {
            let copy = read_into_memory(&bytes[..], bytes_expected).unwrap();
            let mut found = vec![0; usize::try_from(copy.len().unwrap()).unwrap()];
            copy.read(0, &mut found).unwrap();
            assert!(found == bytes, "{bytes_expected} bytes were expected");
        }
    }
}
