//! Group commit: everything that is queued becomes durable with one commit of the disk. A lone
//! write is committed at once; what arrives during a commit forms the next batch. Nothing here
//! polls.

use std::sync::{Arc, PoisonError};

use crate::disk::{Disk, DiskError};
use crate::error::StoreError;
use crate::key::Revision;
use crate::shared::SharedStore;
use crate::visible::StoreLifetime;
use crate::writer::{QueuedWrite, WriteGate, batch, events};

/// The one that writes to the disk. Dropping it ends the store: writes fail with
/// [`StoreError::Closed`], watchers end.
#[derive(Debug)]
pub struct Committer<D: Disk> {
    disk: D,
    shared: Arc<SharedStore>,
}

/// What a commit did.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CommitSummary {
    /// The newest durable revision.
    pub revision: Revision,
    /// How many writes became durable; 0 when nothing was queued.
    pub writes: usize,
}

impl<D: Disk> Committer<D> {
    pub(crate) fn new(disk: D, shared: Arc<SharedStore>) -> Self {
        Self { disk, shared }
    }

    /// Commits what is queued, as one batch, and answers its writers. Returns at once when nothing
    /// is queued.
    ///
    /// # Errors
    /// What the disk says; the writers of the batch, and those that queued up behind it meanwhile,
    /// were told too.
    pub fn commit_pending(&mut self) -> Result<CommitSummary, DiskError> {
        let queue = self.shared.writer().take_queue();
        self.commit(queue)
    }

    /// Commits batch after batch, sleeping while there is nothing to do, until the store is closed
    /// or every [`crate::Store`] is dropped. For a thread of its own.
    pub fn run(mut self) {
        while let Some(queue) = self.wait_for_work() {
            // The error was handed to each writer that it concerns, and the next batch is tried
            // afresh.
            let _told_to_the_writers = self.commit(queue);
        }
    }

    /// The disk, for tests that look at it or change its behaviour.
    pub fn disk_mut(&mut self) -> &mut D {
        &mut self.disk
    }

    fn wait_for_work(&self) -> Option<Vec<QueuedWrite>> {
        let mut writer = self.shared.writer();
        loop {
            if writer.has_work() {
                return Some(writer.take_queue());
            }
            match writer.gate {
                WriteGate::Closing => return None,
                WriteGate::Open => {
                    writer = self.shared.work.wait(writer).unwrap_or_else(PoisonError::into_inner);
                }
            }
        }
    }

    fn commit(&mut self, queue: Vec<QueuedWrite>) -> Result<CommitSummary, DiskError> {
        let events = events(&queue);
        let writes = events.len();
        let mut wakers = Vec::new();
        if let Some(batch) = batch(&events) {
            if let Err(error) = self.disk.commit(&batch) {
                self.fail(queue, &error);
                return Err(error);
            }
            wakers = self.shared.visible_mut().publish(events, &self.shared.limits);
            self.shared.writer().settle(&batch);
        }
        let revision = self.shared.visible().revision();
        for queued in queue {
            queued.succeed(revision);
        }
        for waker in wakers {
            waker.wake();
        }
        Ok(CommitSummary { revision, writes })
    }

    fn fail(&mut self, queue: Vec<QueuedWrite>, error: &DiskError) {
        let durable = self.shared.visible().durable();
        let behind = self.shared.writer().roll_back(durable);
        for queued in queue.into_iter().chain(behind) {
            queued.fail(StoreError::Disk { source: error.clone() });
        }
    }
}

impl<D: Disk> Drop for Committer<D> {
    fn drop(&mut self) {
        let abandoned = {
            let mut writer = self.shared.writer();
            writer.gate = WriteGate::Closing;
            writer.roll_back(self.shared.visible().durable())
        };
        let wakers = {
            let mut visible = self.shared.visible_mut();
            visible.lifetime = StoreLifetime::Ended;
            visible.subscribers.all_wakers()
        };
        for queued in abandoned {
            queued.fail(StoreError::Closed);
        }
        for waker in wakers {
            waker.wake();
        }
    }
}
