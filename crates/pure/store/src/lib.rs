//! The store: revisioned, watchable, durable objects. What etcd is to Kubernetes, inside one
//! process.
//!
//! ```text
//!  write ──> queue ──(one batch)──> disk commit + fsync ──> index and history ──> get, range, watch
//!    │         ▲                                                   │
//!    └─ compare-and-swap against the newest state                  └─> Pending resolves, watchers wake
//!       (queued writes included)
//! ```
//!
//! - Every write gets the next [`Revision`]; it becomes visible, as one step with all others of its
//!   batch, only after the batch is durable. What a client was told, or has read, is therefore
//!   never lost.
//! - Reads never touch the disk: an in-memory index keeps the newest version of each key, and older
//!   ones as far back as the history of events goes. [`StoreLimits`] bound the history by count and
//!   by bytes, [`Compaction`] by age; older revisions are compacted.
//! - The disk is a trait ([`Disk`]): a redb file on a real machine
//!   (crate `redb-disk`),
//!   [`memory::MemoryDisk`] in tests and in the simulator. Nothing here starts a thread: a driver
//!   runs [`Committer::run`] on a thread of its own, the simulator calls
//!   [`Committer::commit_pending`] at the moments that it chooses.
//! - [`backup`] is all objects of one revision as bytes.
//!
//! Invariants: revisions are dense (each visible revision is exactly one event); a failed commit
//! changes nothing that can be seen; lock order is writer, then visible state, then one watcher.
#![forbid(unsafe_code)]

pub mod backup;
mod committer;
mod compaction;
mod disk;
mod error;
mod history;
mod index;
mod key;
mod limits;
mod memo;
pub mod memory;
mod object;
mod pending;
mod range;
mod shared;
mod store;
mod subscribers;
mod terms;
mod visible;
mod watch;
mod writer;

pub use committer::{CommitSummary, Committer};
pub use compaction::Compaction;
pub use disk::{
    Batch, BatchRow, Disk, DiskContent, DiskError, DiskSource, ObjectFault, ValueSealing,
};
pub use error::StoreError;
pub use key::{ObjectKey, Revision};
pub use limits::StoreLimits;
pub use memo::Memo;
pub use object::{StoreEvent, StoredObject};
pub use pending::{DurableWrite, PendingWrite};
pub use range::{RangePage, RangeQuery};
pub use store::Store;
pub use terms::{KnownTerms, TermFilter};
pub use watch::StoreWatch;
pub use writer::{Mutation, StoreWrite, WriteEpoch, WritePrecondition};
