//! How long no node is added after one could not be.

use rekindle_types::{Tick, TickDuration};

/// The first wait, the longest, and after how long without a failure the next one is a first one
/// again (cluster-autoscaler: `InitialNodeGroupBackoffDuration`, `MaxNodeGroupBackoffDuration`,
/// `NodeGroupBackoffResetTimeout`).
pub(super) const FIRST: TickDuration = TickDuration::from_secs(5 * 60);
const LONGEST: TickDuration = TickDuration::from_secs(30 * 60);
const RESET: TickDuration = TickDuration::from_secs(3 * 3600);

/// What the last additions have shown.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum Backoff {
    /// The last one went well, or there was none.
    #[default]
    None,
    /// The last one failed.
    After {
        /// Then.
        failed_at: Tick,
        /// So long none is tried.
        wait: TickDuration,
    },
}

impl Backoff {
    pub(super) fn failed(&mut self, now: Tick) {
        let wait = match *self {
            Self::After { failed_at, wait } if now.since(failed_at) < RESET => {
                wait.saturating_mul(2).min(LONGEST)
            }
            Self::After { .. } | Self::None => FIRST,
        };
        *self = Self::After { failed_at: now, wait };
    }

    /// When the next one may be tried, while that is not now.
    pub(super) fn until(self, now: Tick) -> Option<Tick> {
        match self {
            Self::None => None,
            Self::After { failed_at, wait } => Some(failed_at + wait).filter(|until| now < *until),
        }
    }
}
