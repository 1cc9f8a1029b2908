//! Whether effects may be given out: not while a journal is on its way to the disk.
//!
//! ```text
//!         Persist given            written
//!  Open ───────────────► Writing ───────────► Open
//!                          │   ▲
//!                   failed │   │ an input came, or a second has passed: the newest journal
//!                          ▼   │
//!                         Failed   (only what ends a pod that is over goes on)
//! ```

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
        if let Self::Failed { retry_at } = self {
            *retry_at = Tick::ZERO;
        }
    }

    /// Whether a journal that failed is to be tried again.
    pub(crate) fn is_retry_due(self, now: Tick) -> bool {
        match self {
            Self::Failed { retry_at } => retry_at <= now,
            Self::Open | Self::Writing => false,
        }
    }

    /// When a journal that failed is to be tried again.
    pub(crate) fn poll_timeout(self) -> Option<Tick> {
        match self {
            Self::Failed { retry_at } => Some(retry_at),
            Self::Open | Self::Writing => None,
        }
    }
}
