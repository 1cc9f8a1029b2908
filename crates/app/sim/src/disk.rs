//! The disk below the API: one in memory, of which is known what was under way when power was lost.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use rekindle_store::memory::{DiskFault, MemoryDisk};
use rekindle_store::{Batch, BatchRow, Disk, DiskContent, DiskError};

use crate::faults::{DiskSpace, PowerLossSync};
use crate::known_bugs::KnownBug;

/// The disk. Clones are the same.
#[derive(Clone, Debug, Default)]
pub(crate) struct SimDisk {
    memory: MemoryDisk,
    state: Arc<Mutex<SimDiskState>>,
}

#[derive(Debug, Default)]
struct SimDiskState {
    bug: Option<KnownBug>,
    /// The first commit that failed for want of power.
    under_way: Option<Batch>,
    /// Said to be written and not synced; only the bug [`KnownBug::RowsUnsynced`] has any.
    unsynced: Vec<BatchRow>,
}

impl SimDisk {
    pub(crate) fn set_bug(&self, bug: Option<KnownBug>) {
        self.state().bug = bug;
    }

    /// Power is lost in the next commit.
    pub(crate) fn lose_power(&self, sync: PowerLossSync) {
        let fault = match sync {
            PowerLossSync::Before => DiskFault::PowerLossBeforeSync,
            PowerLossSync::After => DiskFault::PowerLossAfterSync,
        };
        self.memory.inject(fault);
    }

    /// Power stays on.
    pub(crate) fn keep_power(&self) {
        self.memory.forget_faults();
    }

    /// Power is back. What was not synced is gone.
    pub(crate) fn power_on(&self) {
        let mut state = self.state();
        state.unsynced.clear();
        state.under_way = None;
        drop(state);
        self.memory.power_on();
    }

    /// The commit in which power was lost.
    pub(crate) fn under_way(&self) -> Option<Batch> {
        self.state().under_way.clone()
    }

    pub(crate) fn set_room(&self, room: DiskSpace) {
        let bytes = match room {
            DiskSpace::None => Some(0),
            DiskSpace::Enough => None,
        };
        self.memory.set_capacity_bytes(bytes);
    }

    fn state(&self) -> MutexGuard<'_, SimDiskState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Disk for SimDisk {
    fn load(&mut self) -> Result<DiskContent, DiskError> {
        self.memory.load()
    }

    fn commit(&mut self, batch: &Batch) -> Result<(), DiskError> {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        let written = match state.bug {
            Some(KnownBug::RowsUnsynced) => {
                let rows = std::mem::replace(&mut state.unsynced, batch.rows.clone());
                self.memory.commit(&Batch { revision: batch.revision, rows })
            }
            Some(_) | None => self.memory.commit(batch),
        };
        match &written {
            Ok(()) | Err(DiskError::Full { .. }) => {}
            // whatever comes after that finds no power
            Err(_) => {
                state.under_way.get_or_insert_with(|| batch.clone());
            }
        }
        written
    }
}
