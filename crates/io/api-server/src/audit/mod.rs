//! The audit log: what [`rekindle_audit`] says of requests goes to a file or to standard output,
//! and to a server.
//!
//! ```text
//!  front -> trail: one request -> queue: bounded -> writer: a thread -> log_file: rotates
//!           | policy: which stages, how much        | decodes bodies, makes the line
//!           |                 -> queue: bounded -> webhook: batches -> a server
//! ```
//!
//! A request of a client waits for its events in the mode `blocking`. Requests of the engine's own
//! parts never wait: what finds no room in the queue is counted, and lost.

mod figures;
mod log_file;
mod queue;
mod queued_event;
#[cfg(test)]
mod tests;
mod trail;
mod webhook;
mod writer;

use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};

use http::HeaderName;
use http::request::Parts;
use rekindle_api::entropy;
use rekindle_audit::{AuditPolicy, is_usable_audit_id};
use rekindle_metrics::{MetricsSource, Text};

use super::caller::RequestSource;
use super::clock::Clock;
use super::tls::OsEntropy;
use figures::AuditFigures;
use queue::{AuditQueue, QueuePermission};
use queued_event::QueuedEvent;
pub(super) use trail::AuditTrail;
use webhook::AuditSender;
pub use webhook::{BatchLimits, EventReceiver};
use writer::AuditWriter;

/// The header with the ID of a request, of both the request and the answer.
const AUDIT_ID: HeaderName = HeaderName::from_static("audit-id");

/// Where events go.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum AuditSink {
    /// To standard output.
    StandardOutput,
    /// To a file that is rotated.
    File {
        /// The file that is written; those before it lie beside it.
        path: PathBuf,
        /// When it is rotated, and what is kept.
        limits: RotationLimits,
    },
}

/// When the log's file is rotated, and which files are kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RotationLimits {
    /// Bytes of a file. A single event that is larger has a file of its own.
    pub file_bytes_max: u64,
    /// Earlier files that are kept; none for all.
    pub files_max: Option<usize>,
    /// Days after its rotation that a file is kept; none for ever.
    pub days_max: Option<u32>,
}

/// Whether a client's request waits until its events are written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AuditMode {
    /// It does not.
    Batch,
    /// It does. An event that cannot be written fails no request.
    Blocking,
}

/// An audit log, as a front uses it.
pub struct AuditLog {
    policy: AuditPolicy,
    mode: AuditMode,
    clock: Clock,
    outlets: AuditOutlets,
    figures: Arc<AuditFigures>,
    entropy: Mutex<OsEntropy>,
}

/// Where events are to go.
pub struct AuditTargets {
    /// A log, if one is wanted, and whether clients wait for it.
    pub log: Option<(AuditSink, AuditMode)>,
    /// A server, if one is wanted. No request waits for it.
    pub webhook: Option<(Arc<dyn EventReceiver>, BatchLimits)>,
}

/// What carries events to where they are to go. It is closed when no more requests come.
pub struct AuditCarriers {
    writer: Option<AuditWriter>,
    sender: Option<AuditSender>,
}

impl AuditCarriers {
    /// Writes and sends what is queued, and ends. A disk that hangs, or a server that does not
    /// answer, does not keep the engine from ending.
    pub async fn close(self) {
        let writer = async {
            if let Some(writer) = self.writer {
                writer.close().await;
            }
        };
        let sender = async {
            if let Some(sender) = self.sender {
                sender.close().await;
            }
        };
        futures::future::join(writer, sender).await;
    }
}

/// The queues that events go into.
struct AuditOutlets {
    log: Option<AuditQueue>,
    webhook: Option<AuditQueue>,
    figures: Arc<AuditFigures>,
}

impl AuditOutlets {
    /// Queues an event where there is room; elsewhere it is lost.
    fn offer(&self, event: QueuedEvent) {
        self.figures.event();
        if let (Some(log), Some(event)) = (&self.log, self.offer_to_webhook(event)) {
            log.offer(event);
        }
    }

    /// The same, and waits until the log has the event.
    async fn deliver(&self, event: QueuedEvent) {
        self.figures.event();
        if let (Some(log), Some(event)) = (&self.log, self.offer_to_webhook(event)) {
            log.deliver(event).await;
        }
    }

    /// Gives the event back if the log wants it, too.
    fn offer_to_webhook(&self, event: QueuedEvent) -> Option<QueuedEvent> {
        match (&self.webhook, &self.log) {
            (Some(webhook), Some(_)) => {
                webhook.offer(event.clone());
                Some(event)
            }
            (Some(webhook), None) => {
                webhook.offer(event);
                None
            }
            (None, _) => Some(event),
        }
    }
}

impl AuditLog {
    /// Opens the log and starts its writer, and begins to send events to the webhook. To be called
    /// inside a runtime.
    ///
    /// # Errors
    /// When the file cannot be opened, or the thread not be started.
    pub fn start(
        policy: AuditPolicy,
        targets: AuditTargets,
        clock: Clock,
    ) -> std::io::Result<(Arc<Self>, AuditCarriers)> {
        let figures = Arc::new(AuditFigures::default());
        let mut outlets = AuditOutlets { log: None, webhook: None, figures: Arc::clone(&figures) };
        let mut carriers = AuditCarriers { writer: None, sender: None };
        let mut mode = AuditMode::Batch;
        if let Some((sink, wanted)) = targets.log {
            let (queue, events) = AuditQueue::new(Arc::clone(&figures));
            let (of_writer, figures) = (queue.clone(), Arc::clone(&figures));
            carriers.writer = Some(AuditWriter::start(sink, events, of_writer, figures)?);
            (outlets.log, mode) = (Some(queue), wanted);
        }
        if let Some((receiver, limits)) = targets.webhook {
            let (sender, queue) = AuditSender::start(receiver, limits, &figures);
            (carriers.sender, outlets.webhook) = (Some(sender), Some(queue));
        }
        let entropy = Mutex::default();
        Ok((Arc::new(Self { policy, mode, clock, outlets, figures, entropy }), carriers))
    }

    /// The trail of a request that has just come.
    pub(super) fn trail(
        self: &Arc<Self>,
        caller: &RequestSource,
        parts: &Parts,
    ) -> Arc<AuditTrail> {
        let given = parts.headers.get(AUDIT_ID).and_then(|value| value.to_str().ok());
        let audit_id = match given {
            Some(given) if is_usable_audit_id(given) => given.to_owned(),
            Some(_) | None => self.new_id(),
        };
        let waiting = match (caller, self.mode) {
            (RequestSource::Connected(_), AuditMode::Blocking) => QueuePermission::MayWait,
            (RequestSource::Connected(_), AuditMode::Batch) | (RequestSource::InProcess(_), _) => {
                QueuePermission::MayNotWait
            }
        };
        AuditTrail::new(Arc::clone(self), (audit_id, waiting), (caller, parts))
    }

    fn new_id(&self) -> String {
        let mut entropy = self.entropy.lock().unwrap_or_else(PoisonError::into_inner);
        entropy::uid(&mut *entropy)
    }
}

impl MetricsSource for AuditLog {
    fn write(&self, text: &mut Text) {
        self.figures.write(text);
    }
}
