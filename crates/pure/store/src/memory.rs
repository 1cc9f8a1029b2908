//! A disk in memory, for tests, the simulator, and looking at what another disk held. It loses what
//! was not synced, fills up, and fails, on request.

use std::collections::{BTreeMap, VecDeque};
use std::io;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use crate::disk::{Batch, Disk, DiskContent, DiskError};
use crate::key::{ObjectKey, Revision};
use crate::object::StoredObject;

/// A disk in memory. Clones are the same disk: keep one to open the store again after a crash, and
/// to inject faults.
#[derive(Clone, Debug, Default)]
pub struct MemoryDisk {
    platter: Arc<Mutex<MemoryDiskState>>,
}

/// What goes wrong with the next commit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DiskFault {
    /// The write is refused; nothing reaches the disk.
    Refused,
    /// Everything reaches the disk, but the sync reports an error: a crash now would keep the
    /// batch, although its writers were told that it failed.
    InDoubt,
    /// Power is lost before the sync: the batch is gone, and so is everything until
    /// [`MemoryDisk::power_on`].
    PowerLossBeforeSync,
    /// Power is lost after the sync: the batch is durable, but nobody was told.
    PowerLossAfterSync,
}

#[derive(Debug, Default)]
struct MemoryDiskState {
    revision: Revision,
    objects: BTreeMap<ObjectKey, Arc<StoredObject>>,
    /// What a failed sync left behind, to be put back by the next commit.
    doubt: BTreeMap<ObjectKey, Option<Arc<StoredObject>>>,
    faults: VecDeque<DiskFault>,
    used_bytes: usize,
    capacity_bytes: Option<usize>,
    power: DiskPower,
    commits: u64,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum DiskPower {
    #[default]
    On,
    Lost,
}

impl MemoryDisk {
    /// An empty disk without a limit.
    pub fn new() -> Self {
        Self::default()
    }

    /// A disk that holds this already, each key once.
    pub fn holding(content: DiskContent) -> Self {
        let objects: BTreeMap<_, _> = content
            .objects
            .into_iter()
            .map(|object| (object.key.clone(), Arc::new(object)))
            .collect();
        let used_bytes = objects.values().map(|object| size_bytes(Some(object))).sum();
        let revision = content.revision;
        let state = MemoryDiskState { revision, objects, used_bytes, ..Default::default() };
        Self { platter: Arc::new(Mutex::new(state)) }
    }

    /// Adds a fault: each commit meets the oldest one, until there are none.
    pub fn inject(&self, fault: DiskFault) {
        self.platter().faults.push_back(fault);
    }

    /// Forgets the faults that no commit has met yet.
    pub fn forget_faults(&self) {
        self.platter().faults.clear();
    }

    /// Limits the bytes of all keys and values; none lifts the limit. A commit that would exceed it
    /// is refused whole.
    pub fn set_capacity_bytes(&self, capacity_bytes: Option<usize>) {
        self.platter().capacity_bytes = capacity_bytes;
    }

    /// Power is back: the disk can be loaded again and holds what was synced.
    pub fn power_on(&self) {
        self.platter().power = DiskPower::On;
    }

    /// How many commits became durable.
    pub fn commits(&self) -> u64 {
        self.platter().commits
    }

    fn platter(&self) -> MutexGuard<'_, MemoryDiskState> {
        // Only this module's code runs under the lock, and it does not panic half way.
        self.platter.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Disk for MemoryDisk {
    fn load(&mut self) -> Result<DiskContent, DiskError> {
        let mut platter = self.platter();
        // The process that knew what was in doubt is gone.
        platter.doubt.clear();
        match platter.power {
            DiskPower::Lost => {
                Err(DiskError::Load { path: path(), source: Arc::new(power_lost()) })
            }
            DiskPower::On => Ok(DiskContent {
                revision: platter.revision,
                objects: platter.objects.values().map(|object| (**object).clone()).collect(),
            }),
        }
    }

    fn commit(&mut self, batch: &Batch) -> Result<(), DiskError> {
        let mut platter = self.platter();
        if platter.power == DiskPower::Lost {
            return Err(commit_error(power_lost()));
        }
        match platter.faults.pop_front() {
            None => platter.write(batch),
            Some(DiskFault::Refused) => Err(commit_error(io::Error::other("injected fault"))),
            Some(DiskFault::InDoubt) => {
                platter.write(batch)?;
                let before = batch.rows.iter().map(|row| (row.key.clone(), row.before.clone()));
                platter.doubt.extend(before);
                Err(commit_error(io::Error::other("injected fault: sync failed")))
            }
            Some(DiskFault::PowerLossBeforeSync) => {
                platter.power = DiskPower::Lost;
                Err(commit_error(power_lost()))
            }
            Some(DiskFault::PowerLossAfterSync) => {
                platter.write(batch)?;
                platter.power = DiskPower::Lost;
                Err(commit_error(power_lost()))
            }
        }
    }
}

impl MemoryDiskState {
    fn write(&mut self, batch: &Batch) -> Result<(), DiskError> {
        let mut rows = std::mem::take(&mut self.doubt);
        let doubt = rows.clone();
        rows.extend(batch.rows.iter().map(|row| (row.key.clone(), row.after.clone())));
        let used_bytes = self.used_bytes_after(&rows);
        if self.capacity_bytes.is_some_and(|capacity| used_bytes > capacity) {
            self.doubt = doubt;
            return Err(DiskError::Full { path: path() });
        }
        for (key, state) in rows {
            match state {
                Some(object) => self.objects.insert(key, object),
                None => self.objects.remove(&key),
            };
        }
        self.used_bytes = used_bytes;
        self.revision = batch.revision;
        self.commits += 1;
        Ok(())
    }

    fn used_bytes_after(&self, rows: &BTreeMap<ObjectKey, Option<Arc<StoredObject>>>) -> usize {
        rows.iter().fold(self.used_bytes, |used, (key, state)| {
            used - size_bytes(self.objects.get(key)) + size_bytes(state.as_ref())
        })
    }
}

fn size_bytes(object: Option<&Arc<StoredObject>>) -> usize {
    object.map_or(0, |object| object.size())
}

fn path() -> PathBuf {
    PathBuf::from("memory")
}

fn power_lost() -> io::Error {
    io::Error::other("power lost")
}

fn commit_error(source: io::Error) -> DiskError {
    DiskError::Commit { path: path(), source: Arc::new(source) }
}
