//! A watcher: takes the events of its prefix from the shared history, in order, each once, none
//! missing (P6).

use std::collections::VecDeque;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};

use futures_core::Stream;

use crate::error::StoreError;
use crate::key::Revision;
use crate::object::StoreEvent;
use crate::shared::SharedStore;
use crate::subscribers::Subscriber;
use crate::visible::{StoreLifetime, VisibleState};

/// How many events a watcher takes at a time, so that the lock is taken once for many events and
/// the memory that a watcher holds stays small.
const CHUNK_EVENTS: usize = 64;

/// A stream of the events of one prefix. Dropping it unsubscribes.
///
/// A watcher that falls behind the history gets one [`StoreError::Compacted`] and then the end; so
/// does nobody else. When the store is closed the stream ends after the last event.
#[derive(Debug)]
#[must_use = "a watch that is not polled sees nothing"]
pub struct StoreWatch {
    shared: Arc<SharedStore>,
    subscriber: Arc<Subscriber>,
    /// Everything up to here was taken from the history.
    taken: Revision,
    buffer: VecDeque<StoreEvent>,
    phase: WatchPhase,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum WatchPhase {
    Running,
    Ended,
}

/// What asking the history brought.
enum WatchRefill {
    Taken,
    UpToDate,
    Ended,
    Overrun(StoreError),
}

impl StoreWatch {
    pub(crate) fn new(
        shared: Arc<SharedStore>,
        subscriber: Arc<Subscriber>,
        after: Revision,
    ) -> Self {
        Self {
            shared,
            subscriber,
            taken: after,
            buffer: VecDeque::new(),
            phase: WatchPhase::Running,
        }
    }

    /// The next event, if there is one already. None means "nothing now", or the end: see
    /// [`StoreWatch::is_ended`].
    pub fn try_next(&mut self) -> Option<Result<StoreEvent, StoreError>> {
        match self.next_or_register(None) {
            Poll::Ready(item) => item,
            Poll::Pending => None,
        }
    }

    /// Whether nothing will come any more.
    pub fn is_ended(&self) -> bool {
        self.phase == WatchPhase::Ended
    }

    /// Every event of this prefix up to this revision was handed out: what a bookmark says. A watch
    /// that resumes after this revision misses nothing and repeats nothing.
    pub fn progress(&self) -> Revision {
        if let Some(event) = self.buffer.front() {
            return event.revision().previous();
        }
        match self.phase {
            WatchPhase::Ended => self.taken,
            WatchPhase::Running => {
                // The lock keeps a batch from being published between the two looks.
                let visible = self.shared.visible();
                match self.subscriber.state().first_untaken {
                    Some(first) => first.previous(),
                    None => visible.revision().max(self.taken),
                }
            }
        }
    }

    fn next_or_register(
        &mut self,
        waker: Option<&Waker>,
    ) -> Poll<Option<Result<StoreEvent, StoreError>>> {
        if let Some(event) = self.buffer.pop_front() {
            return Poll::Ready(Some(Ok(event)));
        }
        if self.phase == WatchPhase::Ended {
            return Poll::Ready(None);
        }
        match self.refill(waker) {
            WatchRefill::Taken => Poll::Ready(self.buffer.pop_front().map(Ok)),
            WatchRefill::UpToDate => Poll::Pending,
            WatchRefill::Ended => {
                self.phase = WatchPhase::Ended;
                Poll::Ready(None)
            }
            WatchRefill::Overrun(error) => {
                self.phase = WatchPhase::Ended;
                Poll::Ready(Some(Err(error)))
            }
        }
    }

    fn refill(&mut self, waker: Option<&Waker>) -> WatchRefill {
        // Declared before the locks, so dropped after them: dropping a waker may drop a task with a
        // watch in it.
        let mut replaced = None;
        let shared = Arc::clone(&self.shared);
        let visible = shared.visible();
        let subscriber = Arc::clone(&self.subscriber);
        let mut state = subscriber.state();
        let Some(first) = state.first_untaken else {
            self.taken = self.taken.max(visible.revision());
            return match visible.lifetime {
                StoreLifetime::Ended => WatchRefill::Ended,
                StoreLifetime::Open => {
                    if let Some(waker) = waker {
                        replaced = state.waker.replace(waker.clone());
                    }
                    drop(state);
                    drop(visible);
                    drop(replaced);
                    WatchRefill::UpToDate
                }
            };
        };
        let oldest = visible.history.oldest();
        if first <= oldest {
            return WatchRefill::Overrun(StoreError::Compacted { asked: self.taken, oldest });
        }
        state.first_untaken = self.take_chunk(&visible, first);
        WatchRefill::Taken
    }

    /// Takes events from `first` on; the answer is the first one that had to be left.
    fn take_chunk(&mut self, visible: &VisibleState, first: Revision) -> Option<Revision> {
        let mut events = visible.history.since(&self.subscriber.prefix, first.previous());
        self.buffer.extend(events.by_ref().take(CHUNK_EVENTS).cloned());
        let left = events.next().map(StoreEvent::revision);
        self.taken = left.map_or(visible.revision(), Revision::previous);
        left
    }
}

impl Stream for StoreWatch {
    type Item = Result<StoreEvent, StoreError>;

    fn poll_next(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        self.get_mut().next_or_register(Some(context.waker()))
    }
}

impl Drop for StoreWatch {
    fn drop(&mut self) {
        self.shared.visible_mut().subscribers.remove(&self.subscriber);
    }
}
