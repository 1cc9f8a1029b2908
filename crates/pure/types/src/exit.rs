//! How a container's process ended.

use serde::{Deserialize, Serialize};

use crate::Tick;

/// What the kernel said of the process, and the cgroup of its memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", tag = "kind")]
pub enum ExitStatus {
    /// It called exit with this code (0..=255).
    Code {
        /// The exit code.
        code: i32,
    },
    /// A signal ended it.
    Signal {
        /// The signal's number.
        signal: i32,
    },
    /// SIGKILL, and the cgroup's OOM counter rose while this container ran. Any other SIGKILL is a
    /// `Signal`.
    OomKilled,
    /// The process was never started: the command is missing, not executable, the work directory is
    /// absent, …
    StartError,
    /// It was running when the agent last looked and is gone now; nobody saw how it ended.
    Unknown,
}

impl ExitStatus {
    /// The code Kubernetes shows: 128 + N for signal N, 137 for an OOM kill or an unknown end, 128
    /// for a start error.
    pub const fn code(self) -> i32 {
        match self {
            ExitStatus::Code { code } => code,
            ExitStatus::Signal { signal } => 128 + signal,
            ExitStatus::OomKilled | ExitStatus::Unknown => 137,
            ExitStatus::StartError => 128,
        }
    }

    /// The signal's number, when one ended it.
    pub const fn signal(self) -> Option<i32> {
        match self {
            ExitStatus::Signal { signal } => Some(signal),
            ExitStatus::OomKilled => Some(9),
            ExitStatus::Code { .. } | ExitStatus::StartError | ExitStatus::Unknown => None,
        }
    }

    /// The `reason` of `state.terminated`, as the kubelet writes it.
    pub const fn reason(self) -> &'static str {
        match self {
            ExitStatus::Code { code: 0 } => "Completed",
            ExitStatus::Code { .. } | ExitStatus::Signal { .. } => "Error",
            ExitStatus::OomKilled => "OOMKilled",
            ExitStatus::StartError => "StartError",
            ExitStatus::Unknown => "ContainerStatusUnknown",
        }
    }

    /// True when it ended with exit code 0.
    pub const fn is_success(self) -> bool {
        matches!(self, ExitStatus::Code { code: 0 })
    }
}

/// The end of one container attempt, as the runtime recorded it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Exit {
    /// How it ended.
    pub status: ExitStatus,
    /// When the process was started; the tick of the end if it never ran.
    pub started_at: Tick,
    /// When it ended.
    pub finished_at: Tick,
    /// What the runtime says of the end (the problem of a start error, the figures of an OOM kill)
    /// and, after it, the container's own termination message, already cut to size; empty when
    /// there is neither.
    pub message: String,
}

/// The signals that end containers in practice, by number. A code of 128 + N may also be the
/// program's own.
pub const fn signal_name(signal: i32) -> Option<&'static str> {
    Some(match signal {
        2 => "SIGINT",
        4 => "SIGILL",
        6 => "SIGABRT",
        7 => "SIGBUS",
        8 => "SIGFPE",
        9 => "SIGKILL",
        11 => "SIGSEGV",
        13 => "SIGPIPE",
        15 => "SIGTERM",
        31 => "SIGSYS",
        _ => return None,
    })
}
