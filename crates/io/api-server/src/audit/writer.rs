//! The thread that writes events, one line each.

use std::io::{self, Write};
use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;
use tokio::sync::mpsc::Receiver;
use tokio::sync::oneshot;
use tokio::time::timeout;

use super::AuditSink;
use super::figures::{AuditFailure, AuditFigures};
use super::log_file::LogFile;
use super::queue::{AuditQueue, WriterOrder};
use super::queued_event::QueuedEvent;

/// How long the end of an engine waits for the last events.
const CLOSE_WITHIN: Duration = Duration::from_secs(5);

/// The writer of an audit log.
pub(super) struct AuditWriter {
    /// Resolves when the thread has ended.
    end: oneshot::Receiver<()>,
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
        let (ended, end) = oneshot::channel::<()>();
        let run = move || {
            let _ended = ended;
            while let Some(order) = orders.blocking_recv() {
                match order {
                    WriterOrder::Write { event, waiter, room: _until_written } => {
                        writer.event(*event);
                        // what waits goes on
                        drop(waiter);
                    }
                    // what is queued already is written
                    WriterOrder::Stop => orders.close(),
                }
            }
        };
        std::thread::Builder::new().name("audit-writer".to_owned()).spawn(run)?;
        Ok(Self { end, queue })
    }

    /// Writes what is queued, and ends. A disk that hangs does not keep the engine from ending.
    pub(super) async fn close(self) {
        let Self { end, queue } = self;
        let closed = timeout(CLOSE_WITHIN, async {
            queue.stop().await;
            // it is dropped at the end of the thread
            let _ = end.await;
        });
        if closed.await.is_err() {
            let seconds = CLOSE_WITHIN.as_secs();
            tracing::error!(seconds, "failed to write the last audit events in time");
        }
    }
}

impl AuditLineWriter {
    fn event(&mut self, event: QueuedEvent) {
        let line = event.into_line_safely().map_err(io::Error::from);
        let written = line.and_then(|line| self.line(&line));
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
