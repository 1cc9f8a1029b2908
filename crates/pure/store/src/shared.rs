//! What the handle, the committer and the watchers share, behind its locks.

use std::fmt;
use std::sync::{
    Arc, Condvar, Mutex, MutexGuard, PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard,
};

use crate::disk::{DiskContent, ValueSealing};
use crate::limits::StoreLimits;
use crate::object::{ObjectVersion, StoredObject};
use crate::visible::VisibleState;
use crate::writer::{StoreWriter, WriteGate};

/// The state of a store. Lock order: `writer`, then `visible`, then one subscriber.
pub(crate) struct SharedStore {
    pub(crate) limits: StoreLimits,
    /// How values lie on the disk.
    pub(crate) sealing: Option<Arc<dyn ValueSealing>>,
    writer: Mutex<StoreWriter>,
    /// Told when the queue is no longer empty, or the store closes.
    pub(crate) work: Condvar,
    visible: RwLock<VisibleState>,
}

// A panic while a lock is held can only come from an encoder or an allocation failure. An encoder
// runs before its write changes anything, so the state behind a poisoned lock is whole, and one bad
// request does not stop the store.
impl SharedStore {
    /// What a disk held, and nothing that waits for it.
    pub(crate) fn new(
        loaded: DiskContent,
        limits: StoreLimits,
        sealing: Option<Arc<dyn ValueSealing>>,
    ) -> Self {
        let visible = VisibleState::from_disk(loaded);
        Self {
            limits,
            sealing,
            writer: Mutex::new(StoreWriter::new(visible.durable())),
            work: Condvar::new(),
            visible: RwLock::new(visible),
        }
    }

    pub(crate) fn writer(&self) -> MutexGuard<'_, StoreWriter> {
        self.writer.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn visible(&self) -> RwLockReadGuard<'_, VisibleState> {
        self.visible.read().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn visible_mut(&self) -> RwLockWriteGuard<'_, VisibleState> {
        self.visible.write().unwrap_or_else(PoisonError::into_inner)
    }

    /// The newest state of a key. Correct in the moment between publishing a batch and settling it
    /// too: both have the same version then.
    pub(crate) fn newest(&self, writer: &StoreWriter, key: &str) -> Option<Arc<StoredObject>> {
        match writer.head(key) {
            Some(ObjectVersion::Live(object)) => Some(Arc::clone(object)),
            Some(ObjectVersion::Deleted(_)) => None,
            None => self.visible().index.get(key).cloned(),
        }
    }

    pub(crate) fn close(&self) {
        self.writer().gate = WriteGate::Closing;
        self.work.notify_one();
    }
}

impl fmt::Debug for SharedStore {
    /// The limits only: all objects would be a flood, and take the locks that the printing thread
    /// may hold.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Store").field("limits", &self.limits).finish_non_exhaustive()
    }
}
