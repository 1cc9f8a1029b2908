//! How long a controller waits before it creates the next object: longer each time.

use rekindle_types::TickDuration;

/// A pause that doubles.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct GrowingPause {
    /// So many strikes bring no pause.
    pub(crate) free: u32,
    /// The pause after the next one.
    pub(crate) first: TickDuration,
    /// It grows up to this.
    pub(crate) longest: TickDuration,
}

/// After pods that failed [documentation of Jobs, "Pod backoff failure policy"]: 10 s, doubled, 10
/// minutes at most.
pub(crate) const AFTER_FAILURES: GrowingPause = GrowingPause {
    free: 0,
    first: TickDuration::from_secs(10),
    longest: TickDuration::from_secs(10 * 60),
};
/// The same of a DaemonSet on one node (upstream's `failedPodsBackoff`): the first is replaced at
/// once.
pub(crate) const AFTER_DAEMON_FAILURES: GrowingPause = GrowingPause {
    free: 1,
    first: TickDuration::from_secs(1),
    longest: TickDuration::from_secs(15 * 60),
};
/// After objects that were deleted, or taken from their owner, soon after they were created. People
/// and tools delete pods on purpose, and expect others at once: five times in a row are free.
pub(crate) const AFTER_LOSSES: GrowingPause = GrowingPause {
    free: 5,
    first: TickDuration::from_secs(1),
    longest: TickDuration::from_secs(5 * 60),
};

impl GrowingPause {
    /// The pause after so many strikes in a row.
    pub(crate) fn after(&self, strikes: u32) -> TickDuration {
        let Some(doublings) = strikes.checked_sub(self.free + 1) else { return TickDuration::ZERO };
        let factor = 1u64.checked_shl(doublings).unwrap_or(u64::MAX);
        self.first.saturating_mul(factor).min(self.longest)
    }

    /// So long without a strike, and the next one is a first one.
    pub(crate) fn forgotten_after(&self) -> TickDuration {
        self.longest.saturating_mul(2)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pause_doubles_after_the_free_ones_up_to_the_longest() {
        let pauses = |of: GrowingPause, strikes: [u32; 6]| strikes.map(|n| of.after(n).as_secs());
        assert_eq!(pauses(AFTER_FAILURES, [0, 1, 2, 3, 7, 200]), [0, 10, 20, 40, 600, 600]);
        assert_eq!(pauses(AFTER_DAEMON_FAILURES, [0, 1, 2, 3, 11, 12]), [0, 0, 1, 2, 512, 900]);
        assert_eq!(pauses(AFTER_LOSSES, [1, 5, 6, 7, 14, 15]), [0, 0, 1, 2, 256, 300]);
    }
}
