//! The answer to a write: there once its batch is durable, or has failed.

use std::future::Future;
use std::pin::Pin;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Waker};

use crate::error::StoreError;
use crate::key::Revision;
use crate::object::StoredObject;

/// A durable write.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DurableWrite {
    /// Its revision.
    pub revision: Revision,
    /// The object as written; none when it was deleted.
    pub object: Option<Arc<StoredObject>>,
    /// The object as it was before; none when it was created.
    pub previous: Option<Arc<StoredObject>>,
}

/// A write on its way to the disk. It resolves when the write is durable and visible, or has
/// failed. The write goes on if this is dropped.
#[derive(Debug)]
#[must_use = "the write is not durable before this resolves"]
pub struct PendingWrite {
    slot: Arc<WriteSlot>,
}

impl PendingWrite {
    /// Blocks the thread until the write is durable or has failed. Not for async code (await it
    /// instead), and not for the thread that runs the committer.
    pub fn wait(self) -> Result<DurableWrite, StoreError> {
        let mut state = self.slot.state();
        loop {
            match &*state {
                SlotState::Done(result) => return result.clone(),
                SlotState::Waiting(_) => {
                    state = self.slot.done.wait(state).unwrap_or_else(PoisonError::into_inner);
                }
            }
        }
    }

    /// The answer, if it is there already.
    pub fn try_get(&self) -> Option<Result<DurableWrite, StoreError>> {
        match &*self.slot.state() {
            SlotState::Done(result) => Some(result.clone()),
            SlotState::Waiting(_) => None,
        }
    }
}

impl Future for PendingWrite {
    type Output = Result<DurableWrite, StoreError>;

    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        match &mut *self.slot.state() {
            SlotState::Done(result) => Poll::Ready(result.clone()),
            SlotState::Waiting(waker) => {
                *waker = Some(context.waker().clone());
                Poll::Pending
            }
        }
    }
}

/// The committer's end: whatever happens to it, the waiting side gets an answer.
#[derive(Debug)]
pub(crate) struct WriteCompleter {
    slot: Arc<WriteSlot>,
}

#[derive(Debug)]
struct WriteSlot {
    state: Mutex<SlotState>,
    done: Condvar,
}

#[derive(Debug)]
enum SlotState {
    Waiting(Option<Waker>),
    Done(Result<DurableWrite, StoreError>),
}

/// Both ends of one answer.
pub(crate) fn pending() -> (WriteCompleter, PendingWrite) {
    let slot =
        Arc::new(WriteSlot { state: Mutex::new(SlotState::Waiting(None)), done: Condvar::new() });
    (WriteCompleter { slot: Arc::clone(&slot) }, PendingWrite { slot })
}

impl WriteCompleter {
    pub(crate) fn complete(self, result: Result<DurableWrite, StoreError>) {
        self.slot.complete(result);
    }
}

impl Drop for WriteCompleter {
    /// A completer lost with its committer, for example in a panic of the disk, is a store that was
    /// closed.
    fn drop(&mut self) {
        self.slot.complete(Err(StoreError::Closed));
    }
}

impl WriteSlot {
    fn state(&self) -> MutexGuard<'_, SlotState> {
        // A state is replaced in one assignment, so a poisoned lock still guards a whole one.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Only the first answer counts.
    fn complete(&self, result: Result<DurableWrite, StoreError>) {
        let mut state = self.state();
        let SlotState::Waiting(waker) = &mut *state else { return };
        let waker = waker.take();
        *state = SlotState::Done(result);
        drop(state);
        self.done.notify_all();
        if let Some(waker) = waker {
            waker.wake();
        }
    }
}
