//! How long the kubelet waits before it starts a container again that ended (`doBackOff`).

use crate::TickDuration;

/// The wait before the restart after so many restarts of the same series: 0, 10, 20 … 300 s.
pub fn backoff_after(restarts: u32) -> TickDuration {
    const INITIAL_SECS: u64 = 10;
    const MAX_SECS: u64 = 300;
    match restarts {
        0 => TickDuration::ZERO,
        n => TickDuration::from_secs((INITIAL_SECS << (n - 1).min(8)).min(MAX_SECS)),
    }
}

/// How often a container can end within a span of time when it ends each time in the moment in
/// which it was started.
pub fn ends_within(span: TickDuration) -> u32 {
    let mut after = TickDuration::ZERO;
    let mut ends = 0;
    while after < span {
        after = after + backoff_after(ends);
        ends += 1;
    }
    ends
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_backoff_doubles_from_ten_seconds_to_five_minutes() {
        let delays: Vec<u64> = (0..9).map(|n| backoff_after(n).as_secs()).collect();
        assert_eq!(delays, [0, 10, 20, 40, 80, 160, 300, 300, 300]);
        assert_eq!(backoff_after(u32::MAX).as_secs(), 300);
    }

    #[test]
    fn a_container_that_crashes_at_once_ends_seven_times_in_ten_minutes() {
        // the ends: 0, 0, 10, 30, 70, 150, 310, 610, 910 s
        for (secs, ends) in
            [(0, 0), (1, 2), (10, 2), (11, 3), (311, 7), (600, 7), (610, 7), (611, 8), (911, 9)]
        {
            assert_eq!(ends_within(TickDuration::from_secs(secs)), ends, "{secs} s");
        }
        assert_eq!(ends_within(TickDuration::from_secs(30 * 24 * 3600)), 7 + 8_638);
    }
}
