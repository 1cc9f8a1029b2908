//! A log as a stream of bytes.

use std::io;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use futures::StreamExt;
use futures::stream::BoxStream;
use jiff::{SignedDuration, Timestamp};
use k8s_openapi::api::core::v1::PodStatus;
use rekindle_types::log_options::{LogOptions, LogSince};
use rekindle_types::{ContainerAttempt, PodUid};
use rustix::fs::inotify::WatchFlags;
use tokio::sync::watch;
use tokio::time::Instant;

use super::error::LogError;
use super::reader::{LogChunk, LogReader, LogSelection};
use super::run::{attempt_of, has_ended};
use crate::clock::{Clock, sleep_until};
use crate::folder_watch::FolderWatch;
use crate::layout::NodeDirs;
use crate::pods::PodIndex;

/// The bytes of a log as they come; an error ends it.
pub type LogStream = BoxStream<'static, io::Result<Bytes>>;

/// What happens to a folder of logs that grow.
const GROWTH: WatchFlags = WatchFlags::MODIFY
    .union(WatchFlags::CREATE)
    .union(WatchFlags::MOVED_TO)
    .union(WatchFlags::DELETE_SELF);

/// How long a line may go without its end before a reader that follows is shown what there is of
/// it. A program that writes a line in pieces does so at once; one that waits for somebody's
/// answer, or shows how far it is, does not.
const OPEN_LINE_WAIT: Duration = Duration::from_millis(200);

/// Reads the logs of a node's pods. Cheap to clone.
#[derive(Clone, Debug)]
pub struct Logs {
    index: PodIndex,
    dirs: NodeDirs,
    clock: Clock,
}

impl Logs {
    pub(crate) fn new(index: PodIndex, dirs: NodeDirs, clock: Clock) -> Self {
        Self { index, dirs, clock }
    }

    /// The log of a container. A stream that follows ends when the container does.
    pub async fn read(
        &self,
        uid: &PodUid,
        container: &str,
        options: LogOptions,
    ) -> Result<LogStream, LogError> {
        let view = self.index.get(uid).ok_or_else(|| LogError::NoSuchPod(uid.to_string()))?;
        let folder = self.dirs.pod(&view.pod_ref).container_logs(container);
        let status = view.status.borrow().clone();
        let pod = view.pod_ref.name;
        let attempt = attempt_of(&status, &pod, container, options.run, &folder)?;
        let failed = |error: io::Error| LogError::Failed {
            pod: pod.clone(),
            container: container.to_owned(),
            problem: error.to_string(),
        };
        // watched before the first read, so that nothing written in between is missed
        let growth = if options.follow {
            Some(FolderWatch::new(&folder, GROWTH).map_err(failed)?)
        } else {
            None
        };
        let selection = self.selection(options);
        let reader = blocking(move || LogReader::new(folder, attempt, selection)).await;
        let reading = LogReading {
            reader: Some(reader.map_err(failed)?),
            growth,
            status: view.status,
            container: container.to_owned(),
            attempt,
            open_since: None,
        };
        let chunks = futures::stream::unfold(Some(reading), |reading| async {
            let mut reading = reading?;
            match reading.next().await {
                Ok(Some(bytes)) => Some((Ok(bytes), Some(reading))),
                Ok(None) => None,
                Err(error) => Some((Err(error), None)),
            }
        });
        Ok(chunks.boxed())
    }

    fn selection(&self, options: LogOptions) -> LogSelection {
        let since = options.since.map(|since| match since {
            LogSince::Time(time) => time.to_time().0,
            LogSince::Seconds(seconds) => {
                let now = self.clock.now().to_time().0;
                let seconds = i64::try_from(seconds).unwrap_or(i64::MAX);
                now.checked_sub(SignedDuration::from_secs(seconds)).unwrap_or(Timestamp::MIN)
            }
        });
        LogSelection {
            timestamps: options.timestamps,
            tail_lines: options.tail_lines,
            since,
            limit_bytes: options.limit_bytes,
        }
    }
}

/// A log being read.
struct LogReading {
    /// Away only while a thread reads with it.
    reader: Option<LogReader>,
    growth: Option<FolderWatch>,
    status: watch::Receiver<Arc<PodStatus>>,
    container: String,
    attempt: ContainerAttempt,
    /// Since when lines without their end are kept back while nothing else is to be read.
    open_since: Option<Instant>,
}

impl LogReading {
    async fn next(&mut self) -> io::Result<Option<Bytes>> {
        loop {
            // asked before reading: what an ended container wrote is there by then
            let ended = has_ended(&self.status.borrow_and_update(), &self.container, self.attempt);
            match self.next_chunk().await? {
                LogChunk::Data(bytes) => return Ok(Some(bytes)),
                LogChunk::LimitReached => return Ok(None),
                LogChunk::CaughtUp => {}
            }
            let open_until = self.open_until();
            let Some(growth) = self.growth.as_ref().filter(|_| !ended) else {
                return Ok(self.open_lines());
            };
            tokio::select! {
                grown = growth.changed() => grown?,
                changed = self.status.changed() => {
                    if changed.is_err() {
                        self.growth = None; // the pod is gone: read what is left, and end
                    }
                }
                () = sleep_until(open_until), if open_until.is_some() => {
                    if let Some(bytes) = self.open_lines() {
                        return Ok(Some(bytes));
                    }
                }
            }
        }
    }

    /// When lines without their end are shown.
    fn open_until(&mut self) -> Option<Instant> {
        if self.reader.as_ref().is_some_and(LogReader::keeps_back) {
            Some(*self.open_since.get_or_insert_with(Instant::now) + OPEN_LINE_WAIT)
        } else {
            self.open_since = None;
            None
        }
    }

    fn open_lines(&mut self) -> Option<Bytes> {
        self.open_since = None;
        self.reader.as_mut()?.open_lines()
    }

    async fn next_chunk(&mut self) -> io::Result<LogChunk> {
        let Some(mut reader) = self.reader.take() else {
            return Err(io::Error::other("the log reader panicked"));
        };
        let (reader, chunk) = blocking(move || {
            let chunk = reader.next_chunk();
            Ok((reader, chunk))
        })
        .await?;
        self.reader = Some(reader);
        chunk
    }
}

async fn blocking<T: Send + 'static>(
    work: impl FnOnce() -> io::Result<T> + Send + 'static,
) -> io::Result<T> {
    tokio::task::spawn_blocking(work).await.map_err(io::Error::other)?
}
