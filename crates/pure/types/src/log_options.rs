//! Which part of a container's log is asked for: the API reads it from the query (`PodLogOptions`),
//! the node carries it out.

use serde::{Deserialize, Serialize};

use crate::{Tick, yes_or_no};

/// What to read of a log.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct LogOptions {
    /// Which start of the container.
    pub run: ContainerRun,
    /// Whether to go on as new lines come, until the container ends.
    #[serde(with = "yes_or_no")]
    pub follow: bool,
    /// Whether each line begins with its time.
    #[serde(with = "yes_or_no")]
    pub timestamps: bool,
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
            follow: false,
            timestamps: false,
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

/// From when on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum LogSince {
    /// So many seconds ago.
    Seconds(u64),
    /// A point in time.
    Time(Tick),
}
