//! What a caller of the store can be told.

use crate::disk::DiskError;
use crate::key::{ObjectKey, Revision};

/// Why the store could not do as asked. Cloneable, because one failed commit answers many writers.
#[derive(Clone, Debug, thiserror::Error)]
pub enum StoreError {
    /// The write expected the object to be absent.
    #[error("create {key:?}: it already exists at revision {revision}")]
    AlreadyExists {
        /// The object.
        key: ObjectKey,
        /// Its newest revision.
        revision: Revision,
    },
    /// The write expected the object to be there.
    #[error("write {key:?}: not found")]
    NotFound {
        /// The object.
        key: ObjectKey,
    },
    /// Compare-and-swap failed: somebody else wrote in between.
    #[error("write {key:?}: expected revision {expected}, but it is at {actual}")]
    Conflict {
        /// The object.
        key: ObjectKey,
        /// The revision that the writer knew.
        expected: Revision,
        /// The newest one.
        actual: Revision,
    },
    /// A commit failed since the writer looked: what it saw may have been taken back.
    #[error("a write that this one builds on was taken back")]
    RolledBack,
    /// The history does not go back that far: list again, and watch from the revision of that list.
    #[error("revision {asked} is compacted: the oldest that can still be read is {oldest}")]
    Compacted {
        /// The revision asked for.
        asked: Revision,
        /// The oldest that can be read at or watched from.
        oldest: Revision,
    },
    /// The revision lies in the future: it was not made by this store.
    #[error("revision {asked} does not exist yet: the newest is {newest}")]
    Future {
        /// The revision asked for.
        asked: Revision,
        /// The newest visible one.
        newest: Revision,
    },
    /// The key or the value is larger than [`crate::StoreLimits`] allow.
    #[error("write {key:?}: {bytes} bytes, more than the limit of {limit_bytes}")]
    TooLarge {
        /// The object.
        key: ObjectKey,
        /// The size of key and value, bytes.
        bytes: usize,
        /// The limit, bytes.
        limit_bytes: usize,
    },
    /// All objects together are as large as [`crate::StoreLimits`] allow.
    #[error(
        "write {key:?}: the store would have {bytes} bytes, more than its limit of {limit_bytes}: delete objects that are not \
         needed, or raise the limit"
    )]
    NoRoom {
        /// The object.
        key: ObjectKey,
        /// What all objects would have, bytes.
        bytes: usize,
        /// The limit, bytes.
        limit_bytes: usize,
    },
    /// So many writes wait for the disk that this one was turned away; try again later.
    #[error("write {key:?}: {queued} writes are waiting for the disk")]
    Overloaded {
        /// The object.
        key: ObjectKey,
        /// How many writes are waiting.
        queued: usize,
    },
    /// Another process holds the data.
    #[error(
        "{path:?} is held by another engine: stop that one, or use another data directory",
        path = path.display()
    )]
    Locked {
        /// The file that is locked.
        path: std::path::PathBuf,
    },
    /// The store could not be opened.
    #[error("open the store")]
    Open {
        /// What the disk says.
        #[source]
        source: DiskError,
    },
    /// The commit of this write, or of one that it was queued behind, failed. Nothing of it is
    /// visible.
    #[error("the store's disk refused the write")]
    Disk {
        /// What the disk says.
        #[source]
        source: DiskError,
    },
    /// The store was closed; the write was not done.
    #[error("the store is closed")]
    Closed,
}
