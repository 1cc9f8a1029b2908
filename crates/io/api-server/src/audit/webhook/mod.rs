//! Sends events to a server, many at a time.
//!
//! ```text
//!  queue --> batch: 400 events, or 30 s --> EventList --> POST --> the next batch
//!                                                   ^      | fails
//!                                                   +------+ 10 s, 15 s, 22 s, 34 s: then it is lost
//! ```
//! Batches go one after the other, so that the server sees events in their order. Requests never
//! wait: while the server is slow or away, the queue fills. Further events are lost and counted.
//!
//! Source: upstream's `apiserver/plugin/pkg/audit` (`buffered` and `webhook`).

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use futures::future::BoxFuture;
use tokio::sync::mpsc::Receiver;
use tokio::sync::{OwnedSemaphorePermit, watch};
use tokio::task::JoinHandle;
use tokio::time::{Instant, sleep, sleep_until, timeout};

use super::figures::{AuditFailure, AuditFigures};
use super::queue::{AuditQueue, WriterOrder};
use super::queued_event::QueuedEvent;

/// How often a batch is tried, and by which factor each pause is longer, as upstream.
const TRIES_MAX: u32 = 5;
const BACKOFF_FACTOR: f64 = 1.5;
/// Bytes of a batch from which on it takes no more events. One event may be larger.
const BATCH_BYTES_MAX: usize = 8 << 20;
/// How long one attempt may take.
const POST_WITHIN: Duration = Duration::from_secs(30);
/// How long the end of an engine waits for the last events.
const CLOSE_WITHIN: Duration = Duration::from_secs(10);
/// What it may take to encode them beside that.
const ENCODE_WITHIN: Duration = Duration::from_secs(2);

/// Takes lists of events. A driver of HTTP implements it.
pub trait EventReceiver: Send + Sync + 'static {
    /// Sends an EventList (audit.k8s.io/v1), as JSON. It resolves once the server has taken it.
    fn post(&self, list: Bytes) -> BoxFuture<'static, Result<(), String>>;
}

/// How events are sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BatchLimits {
    /// Events that wait; further ones are lost.
    pub buffered_max: usize,
    /// Events that are sent together.
    pub batch_max: usize,
    /// How long the first event of a batch waits for others.
    pub wait_max: Duration,
    /// The pause after the first attempt that failed.
    pub initial_backoff: Duration,
}

impl Default for BatchLimits {
    fn default() -> Self {
        Self {
            buffered_max: 10_000,
            batch_max: 400,
            wait_max: Duration::from_secs(30),
            initial_backoff: Duration::from_secs(10),
        }
    }
}

/// The sender of events.
pub(super) struct AuditSender {
    task: JoinHandle<()>,
    /// Gets the time at which the last attempt is over.
    stop: watch::Sender<Option<Instant>>,
    figures: Arc<AuditFigures>,
}

impl AuditSender {
    /// Begins to send what is queued, and gives the end of the queue that requests see. To be
    /// called inside a runtime.
    pub(super) fn start(
        receiver: Arc<dyn EventReceiver>,
        limits: BatchLimits,
        figures: &Arc<AuditFigures>,
    ) -> (Self, AuditQueue) {
        let (queue, orders) = AuditQueue::of_webhook(Arc::clone(figures), limits.buffered_max);
        let (stop, stopping) = watch::channel(None);
        let figures = Arc::clone(figures);
        let sender = BatchSender {
            receiver,
            limits,
            orders,
            stopping,
            figures: Arc::clone(&figures),
            is_failing: false,
        };
        (Self { task: tokio::spawn(sender.run()), stop, figures }, queue)
    }

    /// Sends what is queued, each batch once, and ends. What the server does not take in time is
    /// lost, and counted.
    pub(super) async fn close(self) {
        let Self { mut task, stop, figures } = self;
        let before = figures.lost_by_webhook();
        stop.send_replace(Some(Instant::now() + CLOSE_WITHIN));
        // a panic of it is logged by the runtime
        if timeout(CLOSE_WITHIN + ENCODE_WITHIN, &mut task).await.is_err() {
            task.abort();
            tracing::error!("failed to end the sender of audit events");
        }
        let events = figures.lost_by_webhook().saturating_sub(before);
        if events > 0 {
            tracing::error!(events, "failed to send the last audit events");
        }
    }
}

struct BatchSender {
    receiver: Arc<dyn EventReceiver>,
    limits: BatchLimits,
    orders: Receiver<WriterOrder>,
    /// Has a time when the engine ends.
    stopping: watch::Receiver<Option<Instant>>,
    figures: Arc<AuditFigures>,
    /// Whether the last batch was lost: that is said once, and again when it is over.
    is_failing: bool,
}

/// Events that are sent together.
#[derive(Default)]
struct EventBatch {
    events: Vec<QueuedEvent>,
    /// Their room in the queue, until they are sent.
    rooms: Vec<OwnedSemaphorePermit>,
}

impl BatchSender {
    async fn run(mut self) {
        loop {
            let batch = self.gather().await;
            if !batch.events.is_empty() {
                self.send(batch).await;
            } else if self.orders.is_closed() {
                return;
            }
        }
    }

    /// The next batch: full, or as old as it may get. It is empty when nothing is left.
    async fn gather(&mut self) -> EventBatch {
        let (mut batch, mut bytes) = (EventBatch::default(), 0);
        let mut until: Option<Instant> = None;
        while batch.events.len() < self.limits.batch_max && bytes < BATCH_BYTES_MAX {
            let is_open = !self.orders.is_closed();
            let order = tokio::select! {
                order = self.orders.recv() => order,
                () = stopped(&mut self.stopping), if is_open => {
                    self.orders.close();
                    continue;
                }
                () = wait_until(until) => break,
            };
            match order {
                Some(WriterOrder::Write { event, waiter: _, room }) => {
                    bytes += event.held_bytes();
                    batch.events.push(*event);
                    batch.rooms.push(room);
                    until.get_or_insert_with(|| Instant::now() + self.limits.wait_max);
                }
                Some(WriterOrder::Stop) => self.orders.close(),
                None => break,
            }
        }
        batch
    }

    /// Sends a batch, again while that fails. When the engine ends, there is one attempt more.
    async fn send(&mut self, batch: EventBatch) {
        let EventBatch { events, rooms: _until_sent } = batch;
        let count = events.len() as u64;
        // bodies are decoded beside the runtime
        let encoded = tokio::task::spawn_blocking(move || encode(events)).await;
        let Ok((list, encoded)) = encoded else {
            return self.figures.lost_many(AuditFailure::Webhook, count);
        };
        self.figures.lost_many(AuditFailure::Webhook, count - encoded);
        if encoded == 0 {
            return;
        }
        let (mut pause, mut tries) = (self.limits.initial_backoff, TRIES_MAX);
        loop {
            let posted = self.receiver.post(list.clone());
            let failure = match attempt(posted, &mut self.stopping).await {
                Ok(()) => break,
                Err(failure) => failure,
            };
            tries -= 1;
            if tries == 0 || self.stopping.borrow().is_some() {
                return self.lost(encoded, &failure);
            }
            tokio::select! {
                () = sleep(pause) => {}
                () = stopped(&mut self.stopping) => {}
            }
            pause = pause.mul_f64(BACKOFF_FACTOR);
        }
        if std::mem::take(&mut self.is_failing) {
            tracing::info!("audit events are sent again");
        }
    }

    fn lost(&mut self, events: u64, error: &str) {
        self.figures.lost_many(AuditFailure::Webhook, events);
        if !std::mem::replace(&mut self.is_failing, true) {
            tracing::warn!(
                error,
                events,
                "failed to send audit events; further losses are only counted, in \
                 apiserver_audit_error_total"
            );
        }
    }
}

/// Resolves when the engine ends, or has ended.
async fn stopped(stopping: &mut watch::Receiver<Option<Instant>>) {
    // an error means that who would say so is gone
    let _ = stopping.wait_for(Option::is_some).await;
}

async fn wait_until(until: Option<Instant>) {
    match until {
        Some(until) => sleep_until(until).await,
        None => std::future::pending().await,
    }
}

async fn attempt(
    posted: BoxFuture<'static, Result<(), String>>,
    stopping: &mut watch::Receiver<Option<Instant>>,
) -> Result<(), String> {
    let end = async {
        stopped(stopping).await;
        let until = *stopping.borrow();
        wait_until(until).await;
    };
    tokio::select! {
        // an answer that is there counts
        biased;
        answer = posted => answer,
        () = sleep(POST_WITHIN) => Err(format!("no answer within {} s", POST_WITHIN.as_secs())),
        () = end => Err("no answer before the end of the engine".to_owned()),
    }
}

/// The list of events that can be encoded, and their number.
fn encode(events: Vec<QueuedEvent>) -> (Bytes, u64) {
    let mut list = LIST_HEAD.to_vec();
    let mut encoded = 0;
    for event in events {
        let Ok(line) = event.into_line_safely() else { continue };
        if encoded > 0 {
            list.push(b',');
        }
        list.extend_from_slice(line.trim_ascii_end());
        encoded += 1;
    }
    list.extend_from_slice(b"]}");
    (list.into(), encoded)
}

const LIST_HEAD: &[u8] =
    br#"{"kind":"EventList","apiVersion":"audit.k8s.io/v1","metadata":{},"items":["#;

#[cfg(test)]
mod tests;
