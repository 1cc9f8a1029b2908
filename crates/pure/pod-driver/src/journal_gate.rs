//! Whether effects may be given out: not while a journal is on its way to the disk.
//!
//! ```text
//!         Persist given            written
//!  Open ───────────────► Writing ───────────► Open
//!                          │ failed             ▲
//!                          ▼                    │ written, and it is still the newest
//!                         Failed ──────────► Retrying
//!                          ▲  an input came,    │ failed, or
//!                          │  or a second       │ an input came while it was written
//!                          │  has passed        │
//!                          └────────────────────┘
//! ```
//! While the state is Failed, only what ends a pod that is over goes on. A core that is held up
//! puts no journal in front of what it asks for. So a journal that is written again must have seen
//! all inputs before the core goes on.

use rekindle_types::{Tick, TickDuration};

/// The longest wait before a journal that could not be written (disk full) is tried again.
const RETRY: TickDuration = TickDuration::from_secs(1);

/// The state of the journal on disk.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum JournalGate {
    /// It is as the core wants it.
    Open,
    /// It was given out to be written.
    Writing,
    /// The newest was given out in place of one that could not be written.
    Retrying {
        /// An input came since, which it does not cover.
        is_stale: bool,
    },
    /// It could not be written.
    Failed {
        /// When it is tried again.
        retry_at: Tick,
    },
}

impl JournalGate {
    /// It could not be written.
    pub(crate) fn failed(now: Tick) -> Self {
        Self::Failed { retry_at: now + RETRY }
    }

    /// Something happened: a journal that failed is tried again, as it is now.
    pub(crate) fn input_came(&mut self) {
        match self {
            Self::Failed { retry_at } => *retry_at = Tick::ZERO,
            Self::Retrying { is_stale } => *is_stale = true,
            Self::Open | Self::Writing => {}
        }
    }

    /// The journal that was given out is written.
    pub(crate) fn written(&mut self) {
        *self = match self {
            Self::Retrying { is_stale: true } => Self::Failed { retry_at: Tick::ZERO },
            Self::Retrying { is_stale: false } | Self::Writing | Self::Open => Self::Open,
            Self::Failed { retry_at } => Self::Failed { retry_at: *retry_at },
        };
    }

    /// Whether a journal is on its way to the disk.
    pub(crate) fn is_closed(self) -> bool {
        match self {
            Self::Writing | Self::Retrying { .. } => true,
            Self::Open | Self::Failed { .. } => false,
        }
    }

    /// Whether a journal that failed is to be tried again.
    pub(crate) fn is_retry_due(self, now: Tick) -> bool {
        match self {
            Self::Failed { retry_at } => retry_at <= now,
            Self::Open | Self::Writing | Self::Retrying { .. } => false,
        }
    }

    /// When a journal that failed is to be tried again.
    pub(crate) fn poll_timeout(self) -> Option<Tick> {
        match self {
            Self::Failed { retry_at } => Some(retry_at),
            Self::Open | Self::Writing | Self::Retrying { .. } => None,
        }
    }
}
