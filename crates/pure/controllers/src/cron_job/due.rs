//! Which time is to be made up for, and when the next one comes.

use rekindle_cron::Schedule;
use rekindle_types::{Tick, TickDuration};

/// More missed times than this are pointed out (upstream: one may be looking at a clock that was
/// set).
const MANY: u64 = 100;

/// Where the schedule stands.
pub(super) struct ScheduleState {
    /// The last time that came since the last one that was served, and that is not too old.
    pub(super) latest: Option<Tick>,
    /// How many came.
    pub(super) missed: MissedRuns,
    /// When the next one comes.
    pub(super) next: Option<Tick>,
}

/// About how many times came since the last one that was served.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum MissedRuns {
    /// As many as can happen.
    Few,
    /// More than a hundred.
    Many,
}

/// Why a schedule cannot be followed, in upstream's words: a time that never comes leaves no time
/// between two of them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("time difference between two schedules is less than 1 second")]
pub(super) struct UnreachableSchedule;

impl ScheduleState {
    /// Nothing up to `since` is due, nor what is older than the starting deadline. A schedule that
    /// was `changed` has had no times before: of those that it would have had none is made up for.
    pub(super) fn new(
        schedule: &Schedule,
        since: Tick,
        deadline: Option<TickDuration>,
        changed: Option<Tick>,
        now: Tick,
    ) -> Result<Self, UnreachableSchedule> {
        let from = deadline.map_or(since, |deadline| since.max(now - deadline));
        let first = schedule.next_after(changed.map_or(from, |changed| from.max(changed)));
        let first = first.ok_or(UnreachableSchedule)?;
        let is_of_this = |at: &Tick| changed.is_none_or(|changed| changed < *at);
        let latest = schedule.last_between(from, now).filter(is_of_this);
        // Counted from the last one: with @every that is what the next one follows.
        let next = match schedule.last_between(since, now).or(Some(since)) {
            Some(before) => schedule.next_after(before).filter(|next| *next > now),
            None => None,
        };
        let next = next.or_else(|| schedule.next_after(now));
        Ok(Self { latest, missed: count(schedule, first, now), next })
    }
}

/// As upstream: by the distance of the first two.
fn count(schedule: &Schedule, first: Tick, now: Tick) -> MissedRuns {
    let Some(second) = schedule.next_after(first) else { return MissedRuns::Few };
    let between = second.since(first).as_secs().max(1);
    if first <= now && now.since(first).as_secs() / between + 1 > MANY {
        MissedRuns::Many
    } else {
        MissedRuns::Few
    }
}
