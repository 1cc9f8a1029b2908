//! The thread that writes events, one line each.

use std::io::{self, Write};
use std::sync::Arc;
use std::thread::JoinHandle;

use jiff::Timestamp;
use tokio::sync::mpsc::Receiver;

use super::AuditSink;
use super::figures::{AuditFailure, AuditFigures};
use super::log_file::LogFile;
use super::queue::{AuditQueue, WriterOrder};
use super::queued_event::QueuedEvent;

/// The writer of an audit log.
pub struct AuditWriter {
    thread: JoinHandle<()>,
    queue: AuditQueue,
}

/// Where lines go.
enum LineSink {
    StandardOutput,
    File(LogFile),
}

struct AuditLineWriter {
    sink: LineSink,
    figures: Arc<AuditFigures>,
    /// Whether the last event could not be written: that is said once, and again when it is over.
    is_failing: bool,
}

impl AuditWriter {
    pub(super) fn start(
        sink: AuditSink,
        mut orders: Receiver<WriterOrder>,
        queue: AuditQueue,
        figures: Arc<AuditFigures>,
    ) -> io::Result<Self> {
        let sink = match sink {
            AuditSink::StandardOutput => LineSink::StandardOutput,
            AuditSink::File { path, limits } => {
                LineSink::File(LogFile::open(path, limits, Timestamp::now())?)
            }
        };
        let mut writer = AuditLineWriter { sink, figures, is_failing: false };
        let run = move || {
            while let Some(WriterOrder::Write { event, waiter, _room }) = orders.blocking_recv() {
                writer.event(*event);
                // what waits goes on
                drop(waiter);
            }
        };
        let thread = std::thread::Builder::new().name("audit-writer".to_owned()).spawn(run)?;
        Ok(Self { thread, queue })
    }

    /// Writes what is queued, and ends.
    pub async fn close(self) {
        let Self { thread, queue } = self;
        queue.stop().await;
        let joined = tokio::task::spawn_blocking(move || thread.join()).await;
        if !matches!(joined, Ok(Ok(()))) {
            tracing::error!("failed to keep the audit log's writer running: it panicked");
        }
    }
}

impl AuditLineWriter {
    fn event(&mut self, event: QueuedEvent) {
        let written = event.into_line().map_err(io::Error::from).and_then(|line| self.line(&line));
        match written {
            Ok(()) if self.is_failing => {
                self.is_failing = false;
                tracing::info!("audit events are written again");
            }
            Ok(()) => {}
            Err(error) => {
                self.figures.lost(AuditFailure::Write);
                if !self.is_failing {
                    self.is_failing = true;
                    tracing::warn!(%error, "failed to write an audit event; further losses are only counted, in apiserver_audit_error_total");
                }
            }
        }
    }

    fn line(&mut self, line: &[u8]) -> io::Result<()> {
        match &mut self.sink {
            LineSink::StandardOutput => {
                let mut out = io::stdout().lock();
                out.write_all(line)?;
                out.flush()
            }
            LineSink::File(file) => file.write(line, Timestamp::now()),
        }
    }
}
