//! The handle that everybody holds.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

use crate::committer::Committer;
use crate::disk::{Disk, DiskError};
use crate::error::StoreError;
use crate::key::{ObjectKey, Revision};
use crate::limits::StoreLimits;
use crate::object::{ObjectVersion, StoredObject};
use crate::pending::PendingWrite;
use crate::range::{RangePage, RangeQuery};
use crate::shared::SharedStore;
use crate::watch::StoreWatch;
use crate::writer::{Mutation, StoreWrite, WriteEpoch, WritePrecondition};

/// Revisioned, watchable, durable objects. Cheap to clone; all clones are the same store. When the
/// last one is dropped the committer finishes what is queued and ends, and so do the watchers.
#[derive(Clone)]
pub struct Store {
    handle: Arc<StoreHandle>,
}

/// Closes the store when the last [`Store`] goes.
struct StoreHandle {
    shared: Arc<SharedStore>,
}

impl Store {
    /// Loads everything from the disk. No write becomes durable until somebody drives the
    /// committer.
    ///
    /// # Errors
    /// [`StoreError::Locked`] when another process holds the data, [`StoreError::Open`] otherwise.
    pub fn open<D: Disk>(
        mut disk: D,
        limits: StoreLimits,
    ) -> Result<(Self, Committer<D>), StoreError> {
        let loaded = disk.load().map_err(|source| match source {
            DiskError::Locked { path } => StoreError::Locked { path },
            DiskError::Format { .. }
            | DiskError::Damaged { .. }
            | DiskError::Encrypted { .. }
            | DiskError::Open { .. }
            | DiskError::Load { .. }
            | DiskError::Full { .. }
            | DiskError::Commit { .. } => StoreError::Open { source },
        })?;
        let shared = Arc::new(SharedStore::new(loaded, limits, disk.sealing()));
        let store = Self { handle: Arc::new(StoreHandle { shared: Arc::clone(&shared) }) };
        Ok((store, Committer::new(disk, shared)))
    }

    /// The newest durable revision, which is also the newest visible one.
    pub fn revision(&self) -> Revision {
        self.shared().visible().revision()
    }

    /// The oldest revision that can be read at or watched from.
    pub fn oldest_revision(&self) -> Revision {
        self.shared().visible().history.oldest()
    }

    /// An object as it is visible: durable, so it may be shown to anybody.
    pub fn get(&self, key: &str) -> Option<Arc<StoredObject>> {
        self.shared().visible().index.get(key).cloned()
    }

    /// An object with the writes that still wait for the disk: what the next [`Store::write`] is
    /// checked against. For read-modify-write only, so that it need not wait for the disk between
    /// two writes. It may yet fail to become durable (a write based on it then fails as well), so
    /// it must not be shown to a client before [`Store::barrier`] resolved.
    pub fn newest(&self, key: &str) -> Option<Arc<StoredObject>> {
        let writer = self.shared().writer();
        self.shared().newest(&writer, key)
    }

    /// The objects below a prefix, in the order of their keys, as one revision saw them.
    ///
    /// # Errors
    /// [`StoreError::Compacted`] or [`StoreError::Future`] when that revision cannot be read.
    pub fn range(&self, query: &RangeQuery) -> Result<RangePage, StoreError> {
        self.shared().visible().range(query)
    }

    /// How many bytes all visible objects have, as [`StoreLimits`] count them.
    pub fn total_bytes(&self) -> usize {
        self.shared().visible().durable().total_bytes
    }

    /// How many visible objects there are below a prefix.
    pub fn count(&self, prefix: &str) -> usize {
        let visible = self.shared().visible();
        visible.index.range(prefix, None, visible.revision()).count()
    }

    /// Whether there are more visible objects below a prefix than this. Counts no further.
    pub fn has_more_than(&self, prefix: &str, objects: usize) -> bool {
        let visible = self.shared().visible();
        visible.index.range(prefix, None, visible.revision()).nth(objects).is_some()
    }

    /// The number of visible objects below a prefix, or `most` if there are more.
    pub fn count_up_to(&self, prefix: &str, most: usize) -> usize {
        let visible = self.shared().visible();
        visible.index.range(prefix, None, visible.revision()).take(most).count()
    }

    /// Checks the expectation against the newest state, writes that wait for the disk included, and
    /// queues the write. It becomes visible and the [`PendingWrite`] resolves when its batch is
    /// durable.
    ///
    /// # Errors
    /// Nothing was written when this fails: [`StoreError::AlreadyExists`],
    /// [`StoreError::NotFound`], [`StoreError::Conflict`], [`StoreError::TooLarge`],
    /// [`StoreError::NoRoom`], [`StoreError::Overloaded`], [`StoreError::Closed`]. The
    /// [`PendingWrite`] may still resolve to [`StoreError::Disk`] or [`StoreError::Closed`].
    pub fn write(
        &self,
        key: &str,
        expect: WritePrecondition,
        mutation: Mutation<'_>,
    ) -> Result<PendingWrite, StoreError> {
        let shared = self.shared();
        let mut writer = shared.writer();
        let current = shared.newest(&writer, key);
        let pending = writer.write(key, current, expect, &mutation, &shared.limits)?;
        drop(writer);
        shared.work.notify_one();
        Ok(pending)
    }

    /// The same of several objects, each with a key of its own: all are written, with consecutive
    /// revisions and in one batch, or none is. `epoch` is that of the state they were decided from.
    ///
    /// # Errors
    /// Those of [`Store::write`], and [`StoreError::RolledBack`] when the epoch is over.
    pub fn write_all(
        &self,
        writes: &[StoreWrite<'_>],
        epoch: WriteEpoch,
    ) -> Result<Vec<PendingWrite>, StoreError> {
        let shared = self.shared();
        let mut writer = shared.writer();

        let with_current: Vec<_> =
            writes.iter().map(|write| (write, shared.newest(&writer, write.key))).collect();
        let pending = writer.write_all(&with_current, epoch, &shared.limits)?;
        drop(writer);
        shared.work.notify_one();
        Ok(pending)
    }

    /// The span that lasts until the next failed commit.
    pub fn epoch(&self) -> WriteEpoch {
        self.shared().writer().epoch()
    }

    /// Every object below a prefix with the writes that still wait for the disk, as
    /// [`Store::newest`] gives one; and the epoch in which that holds.
    pub fn newest_below(&self, prefix: &str) -> (Vec<Arc<StoredObject>>, WriteEpoch) {
        let shared = self.shared();
        let writer = shared.writer();
        let visible = shared.visible();
        let known = visible.index.range(prefix, None, visible.revision());
        let mut objects: BTreeMap<ObjectKey, Arc<StoredObject>> =
            known.map(|object| (object.key.clone(), Arc::clone(object))).collect();
        for (key, version) in writer.heads_below(prefix) {
            match version {
                ObjectVersion::Live(object) => {
                    objects.insert(key.clone(), Arc::clone(object));
                }
                ObjectVersion::Deleted(_) => {
                    objects.remove(key);
                }
            }
        }
        (objects.into_values().collect(), writer.epoch())
    }

    /// Whether [`Store::newest_below`] gives any object. It reads none.
    pub fn has_newest_below(&self, prefix: &str) -> bool {
        let shared = self.shared();
        let writer = shared.writer();
        let visible = shared.visible();
        // of a key that has a head, the index has an older version
        let is_live = |(_, version)| matches!(version, &ObjectVersion::Live(_));
        let has_no_head = |object: &Arc<StoredObject>| writer.head(object.key.as_str()).is_none();
        let mut durable = visible.index.range(prefix, None, visible.revision());
        writer.heads_below(prefix).any(is_live) || durable.any(has_no_head)
    }

    /// Resolves when every write accepted so far is durable; fails if the newest of them fail.
    ///
    /// # Errors
    /// [`StoreError::Closed`].
    pub fn barrier(&self) -> Result<PendingWrite, StoreError> {
        let pending = self.shared().writer().barrier()?;
        self.shared().work.notify_one();
        Ok(pending)
    }

    /// The events of a prefix after a revision. The prefix is compared with the whole key, so it
    /// should end in `/` unless it is one object's full key (which `/pods/a/web-1` and
    /// `/pods/a/web-10` both begin with).
    ///
    /// # Errors
    /// [`StoreError::Compacted`] when the history does not go back that far, [`StoreError::Future`]
    /// when the revision was never reached.
    pub fn watch(&self, prefix: &str, after: Revision) -> Result<StoreWatch, StoreError> {
        let subscriber = self.shared().visible_mut().subscribe(prefix, after)?;
        Ok(StoreWatch::new(Arc::clone(self.shared()), subscriber, after))
    }

    /// Forgets the history up to a revision; what is newer than the newest visible revision is left
    /// alone.
    pub fn compact(&self, keep_after: Revision) {
        self.shared().visible_mut().compact(keep_after);
    }

    /// Takes no more writes. Those queued are still committed; then the committer and the watchers
    /// end.
    pub fn close(&self) {
        self.shared().close();
    }

    pub(crate) fn shared(&self) -> &Arc<SharedStore> {
        &self.handle.shared
    }
}

impl fmt::Debug for Store {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.shared().fmt(f)
    }
}

impl Drop for StoreHandle {
    fn drop(&mut self) {
        self.shared.close();
    }
}
