//! The disk below the API: one in memory, of which is known what was under way when power was lost.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use rekindle_store::memory::{Fault, MemoryDisk};
use rekindle_store::{Batch, Disk, DiskError, Loaded, Row};

use crate::faults::{Room, Sync};
use crate::known_bugs::KnownBug;

/// The disk. Clones are the same.
#[derive(Clone, Debug, Default)]
pub(crate) struct SimDisk {
    memory: MemoryDisk,
    state: Arc<Mutex<State>>,
}

#[derive(Debug, Default)]
struct State {
    bug: Option<KnownBug>,
    /// The first commit that failed for want of power.
    under_way: Option<Batch>,
    /// Said to be written and not synced; only the bug [`KnownBug::RowsUnsynced`] has any.
    unsynced: Vec<Row>,
}

impl SimDisk {
    pub(crate) fn set_bug(&self, bug: Option<KnownBug>) {
        self.state().bug = bug;
    }

    /// Power is lost in the next commit.
    pub(crate) fn lose_power(&self, sync: Sync) {
        let fault = match sync {
            Sync::Before => Fault::PowerLossBeforeSync,
            Sync::After => Fault::PowerLossAfterSync,
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

    pub(crate) fn set_room(&self, room: Room) {
        let bytes = match room {
            Room::None => Some(0),
            Room::Enough => None,
        };
        self.memory.set_capacity_bytes(bytes);
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Disk for SimDisk {
    fn load(&mut self) -> Result<Loaded, DiskError> {
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
