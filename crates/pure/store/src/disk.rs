//! The seam to the disk.

use std::path::PathBuf;
use std::sync::Arc;

use bytes::Bytes;

use crate::key::{ObjectKey, Revision};
use crate::object::StoredObject;

/// Where objects outlive the process. One [`crate::Committer`] owns it and calls it from one
/// thread.
pub trait Disk: Send + 'static {
    /// Reads everything. Called once, before the first commit.
    fn load(&mut self) -> Result<DiskContent, DiskError>;

    /// Makes the batch durable as one step: when this returns `Ok`, the whole batch survives
    /// kill -9 and power loss.
    ///
    /// When it returns an error nothing of the batch may be part of what a later successful commit
    /// makes durable. A disk that cannot tell how far it came (a failed fsync) therefore writes
    /// [`BatchRow::before`] of the failed batch again together with the next one. A crash before
    /// that may leave the failed batch behind, whole.
    fn commit(&mut self, batch: &Batch) -> Result<(), DiskError>;

    /// How values lie there, if not as they are: backups have them in the same way.
    fn sealing(&self) -> Option<Arc<dyn ValueSealing>> {
        None
    }
}

/// How values lie outside of the process.
pub trait ValueSealing: Send + Sync {
    /// The value of this object there; none when it is the value itself.
    fn sealed(&self, object: &StoredObject) -> Option<Bytes>;
}

/// What the disk held.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct DiskContent {
    /// The newest durable revision.
    pub revision: Revision,
    /// All objects, in any order.
    pub objects: Vec<StoredObject>,
}

/// Something that is wrong with an object as it is stored.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ObjectFault {
    /// Where it is stored.
    pub key: ObjectKey,
    /// What is wrong.
    pub problem: String,
}

impl DiskContent {
    /// Objects with an impossible revision: one that two objects share, or that is above the
    /// newest.
    pub fn revision_faults(&self) -> Vec<ObjectFault> {
        let mut by_revision: Vec<&StoredObject> = self.objects.iter().collect();
        by_revision.sort_by_key(|object| object.revision);
        let mut faults = Vec::new();
        let mut before: Option<&StoredObject> = None;
        for object in by_revision {
            let StoredObject { key, revision, .. } = object;
            let mut fault = |problem| faults.push(ObjectFault { key: key.clone(), problem });
            if *revision == Revision::ZERO {
                fault("has revision 0, which no write has".to_owned());
            } else if let Some(before) = before.filter(|before| before.revision == *revision) {
                fault(format!("has revision {revision}, as {:?} has", before.key.as_str()));
            }
            if *revision > self.revision {
                fault(format!("has revision {revision}, newer than the newest, {}", self.revision));
            }
            before = Some(object);
        }
        faults
    }
}

/// The net effect of some consecutive writes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Batch {
    /// The revision of the last of them: durable with the rows, even if there are none.
    pub revision: Revision,
    /// The keys that changed, in order, each once.
    pub rows: Vec<BatchRow>,
}

/// One key of a [`Batch`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BatchRow {
    /// The key.
    pub key: ObjectKey,
    /// What is durable now; none when there is no such object.
    pub before: Option<Arc<StoredObject>>,
    /// What shall be durable; none when the object shall be gone.
    pub after: Option<Arc<StoredObject>>,
}

/// The error underneath a [`DiskError`]. Shared, because one failed commit answers many writers.
pub type DiskSource = Arc<dyn std::error::Error + Send + Sync>;

/// What a disk could not do.
#[derive(Clone, Debug, thiserror::Error)]
pub enum DiskError {
    /// Another process has it open.
    #[error("{:?} is held by another process", path.display())]
    Locked {
        /// The file.
        path: PathBuf,
    },
    /// It was written by another version of this program.
    #[error(
        "{:?} has data format {found}, this version reads format {known}: use the version that wrote it, or another data directory",
        path.display()
    )]
    Format {
        /// The file.
        path: PathBuf,
        /// The format that it has.
        found: u64,
        /// The format that this version reads.
        known: u64,
    },
    /// Its content contradicts itself.
    #[error("{:?} is damaged: {what}", path.display())]
    Damaged {
        /// The file.
        path: PathBuf,
        /// What is wrong.
        what: String,
    },
    /// It holds an encrypted value that cannot be read.
    #[error("{:?} {what}", key.as_str())]
    Encrypted {
        /// Where the value is stored.
        key: ObjectKey,
        /// Why.
        what: String,
    },
    /// It could not be opened or created.
    #[error("open {:?}", path.display())]
    Open {
        /// The file.
        path: PathBuf,
        /// Why.
        #[source]
        source: DiskSource,
    },
    /// It could not be read.
    #[error("read {:?}", path.display())]
    Load {
        /// The file.
        path: PathBuf,
        /// Why.
        #[source]
        source: DiskSource,
    },
    /// It is full.
    #[error("no space left for {:?}: free some space there and try again", path.display())]
    Full {
        /// The file.
        path: PathBuf,
    },
    /// It could not be written.
    #[error("commit to {:?}", path.display())]
    Commit {
        /// The file.
        path: PathBuf,
        /// Why.
        #[source]
        source: DiskSource,
    },
}
