//! Events between requests and the writer: bounded in number and in bytes.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use tokio::sync::mpsc::error::TrySendError;
use tokio::sync::mpsc::{Receiver, Sender, channel};
use tokio::sync::{OwnedSemaphorePermit, Semaphore, oneshot};

use super::figures::{AuditFailure, AuditFigures};
use super::queued_event::QueuedEvent;

/// Events that wait to be written, as upstream's `--audit-log-batch-buffer-size`.
const EVENTS_MAX: usize = 10_000;
/// What they hold together, in KiB. Bodies may be large.
const KIBIBYTES_MAX: u32 = 64 * 1024;

/// Whether the sender of an event may wait for the writer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum QueuePermission {
    /// Until the event is written.
    MayWait,
    /// An event that finds no room is lost.
    MayNotWait,
}

/// What the writer gets.
pub(super) enum WriterOrder {
    /// Write this event.
    Write {
        event: Box<QueuedEvent>,
        /// Resolves for who waits when it is dropped.
        waiter: Option<oneshot::Sender<()>>,
        /// Its room in the queue, until it is written.
        room: OwnedSemaphorePermit,
    },
    /// Stop.
    Stop,
}

/// The end of the queue that requests see. Cheap to clone.
#[derive(Clone)]
pub(super) struct AuditQueue {
    orders: Sender<WriterOrder>,
    room: Arc<Semaphore>,
    figures: Arc<AuditFigures>,
    has_warned: Arc<AtomicBool>,
}

impl AuditQueue {
    /// A queue, and the end that the writer takes from.
    pub(super) fn new(figures: Arc<AuditFigures>) -> (Self, Receiver<WriterOrder>) {
        Self::with_limits(figures, EVENTS_MAX, KIBIBYTES_MAX)
    }

    /// The same of a webhook, with room for so many events.
    pub(super) fn of_webhook(
        figures: Arc<AuditFigures>,
        events_max: usize,
    ) -> (Self, Receiver<WriterOrder>) {
        Self::with_limits(figures, events_max, KIBIBYTES_MAX)
    }

    pub(super) fn with_limits(
        figures: Arc<AuditFigures>,
        events_max: usize,
        kibibytes_max: u32,
    ) -> (Self, Receiver<WriterOrder>) {
        let (orders, taken) = channel(events_max);
        let room = Arc::new(Semaphore::new(kibibytes_max as usize));
        (Self { orders, room, figures, has_warned: Arc::default() }, taken)
    }

    /// Queues an event if there is room; else it is lost.
    pub(super) fn offer(&self, event: QueuedEvent) {
        let order = Arc::clone(&self.room)
            .try_acquire_many_owned(kibibytes(&event))
            .map(|room| WriterOrder::Write { event: Box::new(event), waiter: None, room });
        let is_queued = match order.map(|order| self.orders.try_send(order)) {
            Ok(Ok(())) => true,
            // the writer has ended
            Ok(Err(TrySendError::Closed(_))) => return self.figures.lost(AuditFailure::Queue),
            Ok(Err(TrySendError::Full(_))) | Err(_) => false,
        };
        if !is_queued {
            self.figures.lost(AuditFailure::Queue);
            if !self.has_warned.swap(true, Ordering::Relaxed) {
                tracing::warn!(
                    "failed to queue an audit event: the queue is full; further losses are only \
                     counted, in apiserver_audit_error_total"
                );
            }
        }
    }

    /// Queues an event, and waits until it is written or has failed.
    pub(super) async fn deliver(&self, event: QueuedEvent) {
        let (waiter, written) = oneshot::channel();
        let size = kibibytes(&event);
        let mut undelivered = UndeliveredEvent { queue: self, event: Some(event) };
        let room = Arc::clone(&self.room).acquire_many_owned(size).await;
        let place = self.orders.reserve().await;
        // without a writer the event stays undelivered, which counts it as lost
        let (Ok(room), Ok(place)) = (room, place) else { return };
        let Some(event) = undelivered.event.take() else { return };
        let event = Box::new(event);
        place.send(WriterOrder::Write { event, waiter: Some(waiter), room });
        // an error means that the writer is done with it, too
        let _ = written.await;
    }

    /// Has the writer stop, after what is queued.
    pub(super) async fn stop(&self) {
        // an error means that it has stopped
        let _ = self.orders.send(WriterOrder::Stop).await;
    }
}

/// An event that waits for room. When its client goes in the meantime, it does not wait any more.
struct UndeliveredEvent<'q> {
    queue: &'q AuditQueue,
    event: Option<QueuedEvent>,
}

impl Drop for UndeliveredEvent<'_> {
    fn drop(&mut self) {
        if let Some(event) = self.event.take() {
            self.queue.offer(event);
        }
    }
}

/// What an event takes of the room. One that is larger than all of it may use all of it.
fn kibibytes(event: &QueuedEvent) -> u32 {
    let kibibytes = event.held_bytes().div_ceil(1024).max(1);
    u32::try_from(kibibytes).unwrap_or(KIBIBYTES_MAX).min(KIBIBYTES_MAX)
}
