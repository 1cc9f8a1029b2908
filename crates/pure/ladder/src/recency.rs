//! Whether something was within the last minute, or the last ten. A time that is still to come was
//! told by a clock that was ahead, and has been set back since, or is another machine's: it counts
//! as now for as long as a time of the past would count, and then not at all. Otherwise a clock
//! that was a day ahead would leave the budgets without room for a day.

use rekindle_types::{Tick, TickDuration};

/// When that was, if it is within so long.
pub(crate) fn within(now: Tick, at: Tick, span: TickDuration) -> Option<Tick> {
    let away = if at <= now { now.since(at) } else { at.since(now) };
    (away < span).then(|| at.min(now))
}

/// The first and the last moment that are within so long.
pub(crate) fn bounds(now: Tick, span: TickDuration) -> (Tick, Tick) {
    let moment = TickDuration::from_micros(1);
    (now - span + moment, now + span - moment)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_told_of_the_future_counts_as_now_and_not_for_ever() {
        let (now, minute) = (Tick::from_secs(1_000), TickDuration::from_secs(60));
        let of = |secs| within(now, Tick::from_secs(secs), minute).map(|at| at.as_micros());
        let secs = |secs: u64| Some(secs * 1_000_000);
        assert_eq!([940, 941, 1_000].map(of), [None, secs(941), secs(1_000)]);
        assert_eq!([1_001, 1_059, 1_060, 90_000].map(of), [secs(1_000), secs(1_000), None, None]);
        let (first, last) = bounds(now, minute);
        for (inside, outside) in [(first, first - minute), (last, last + minute)] {
            assert!(within(now, inside, minute).is_some());
            assert_eq!(within(now, outside, minute), None);
        }
    }
}
