//! Which part of a container's log is asked for: the API reads it from the query (`PodLogOptions`),
//! the node carries it out.

use serde::{Deserialize, Serialize};

use crate::Tick;

/// What to read of a log.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct LogOptions {
    /// Which start of the container.
    pub run: ContainerRun,
    /// Whether to go on as new lines come.
    pub follow: LogFollow,
    /// Whether each line begins with its time.
    pub timestamps: Timestamps,
    /// At most so many lines from the end.
    pub tail_lines: Option<u64>,
    /// At most so many bytes.
    pub limit_bytes: Option<u64>,
    /// Only lines from this time on.
    pub since: Option<LogSince>,
}

impl Default for LogOptions {
    /// All of the current run, and then the end.
    fn default() -> Self {
        Self {
            run: ContainerRun::Current,
            follow: LogFollow::No,
            timestamps: Timestamps::No,
            tail_lines: None,
            limit_bytes: None,
            since: None,
        }
    }
}

/// Which start of a container.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum ContainerRun {
    /// The current one, or the last if none runs.
    Current,
    /// The one before it.
    Previous,
}

/// Whether a log goes on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum LogFollow {
    /// Until the container ends.
    Yes,
    /// It ends with what is there.
    No,
}

/// Whether lines carry their times.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Timestamps {
    /// They do.
    Yes,
    /// They do not.
    No,
}

/// From when on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum LogSince {
    /// So many seconds ago.
    Seconds(u64),
    /// A point in time.
    Time(Tick),
}
