//! The audit log: what [`rekindle_audit`] says of requests goes to a file, or to standard output.
//!
//! ```text
//!  front -> trail: one request -> queue: bounded -> writer: a thread -> log_file: rotates
//!           | policy: which stages, how much        | decodes bodies, makes the line
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
pub(super) use trail::AuditTrail;
pub use writer::AuditWriter;

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
    queue: AuditQueue,
    figures: Arc<AuditFigures>,
    entropy: Mutex<OsEntropy>,
}

impl AuditLog {
    /// Opens the log and starts its writer.
    ///
    /// # Errors
    /// When the file cannot be opened, or the thread not be started.
    pub fn start(
        policy: AuditPolicy,
        mode: AuditMode,
        sink: AuditSink,
        clock: Clock,
    ) -> std::io::Result<(Arc<Self>, AuditWriter)> {
        let figures = Arc::new(AuditFigures::default());
        let (queue, events) = AuditQueue::new(Arc::clone(&figures));
        let writer = AuditWriter::start(sink, events, queue.clone(), Arc::clone(&figures))?;
        let entropy = Mutex::default();
        Ok((Arc::new(Self { policy, mode, clock, queue, figures, entropy }), writer))
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
