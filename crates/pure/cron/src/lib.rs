//! Cron schedules, as CronJobs have them: five fields, `@daily` and its like, `@every 1h30m`, in a
//! time zone.
//!
//! Source: documentation, "CronJob"; robfig/cron v3 (`ParseStandard`), which Kubernetes reads and
//! follows schedules with, its error texts included.
//!
//! The clock on the wall decides, and real time passes under it. When clocks go forward, the times
//! that are left out do not come; when they go back, the times that come twice are two times.
//! `@every` counts from the last time and knows no wall.
#![forbid(unsafe_code)]

mod field;
mod parse;

use jiff::civil::{Date, Weekday};
use jiff::tz::{TimeZone, TimeZoneDatabase};
use jiff::{Timestamp, Zoned};

use field::FieldValues;
pub use parse::ParseError;
use rekindle_types::{Tick, TickDuration};

const MINUTE: TickDuration = TickDuration::from_secs(60);
/// A time that does not come within so many years does not come (robfig/cron).
const YEARS_MAX: i16 = 5;

/// When something is due, again and again.
#[derive(Clone, Debug, PartialEq)]
pub struct Schedule {
    pattern: SchedulePattern,
    zone: TimeZone,
}

/// What a schedule says.
#[derive(Clone, Debug, PartialEq, Eq)]
enum SchedulePattern {
    /// Minutes that match.
    Fields(ScheduleFields),
    /// So long after the time before, at least a second.
    Every(TickDuration),
}

/// The five fields.
#[derive(Clone, Debug, PartialEq, Eq)]
struct ScheduleFields {
    minute: FieldValues,
    hour: FieldValues,
    day_of_month: FieldValues,
    month: FieldValues,
    day_of_week: FieldValues,
    days: DayMatching,
}

/// How the two fields for days go together.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum DayMatching {
    /// One of them is a star: both must match.
    Both,
    /// Each names days: one must match.
    Either,
}

/// A time zone of the IANA database, by its name; as Go's `time.LoadLocation`, which knows `UTC`
/// and heeds the case. The database is built in.
pub fn time_zone(name: &str) -> Option<TimeZone> {
    if name == "UTC" {
        return Some(TimeZone::UTC);
    }
    let zone = TimeZoneDatabase::bundled().get(name).ok()?;
    (zone.iana_name() == Some(name)).then_some(zone)
}

/// A time as clocks in a zone show it, in whole seconds with the distance to UTC (RFC 3339); in UTC
/// when the zone is not known.
pub fn in_zone(at: Tick, zone: &str) -> String {
    let zone = time_zone(zone).filter(|zone| *zone != TimeZone::UTC);
    match zone.and_then(|zone| wall(at, &zone)) {
        // RFC 3339 as Go writes it: no distance is a `Z`, whatever the zone is called.
        Some(local) if !local.offset().is_zero() => {
            local.strftime("%Y-%m-%dT%H:%M:%S%:z").to_string()
        }
        Some(_) | None => at.whole_second().to_time().0.to_string(),
    }
}

impl Schedule {
    /// Reads a schedule.
    ///
    /// # Errors
    /// When it is none, in the words of robfig/cron.
    pub fn parse(text: &str, zone: TimeZone) -> Result<Self, ParseError> {
        Ok(Self { pattern: parse::pattern(text)?, zone })
    }

    /// The first time later than `after`; none when none comes within five years.
    pub fn next_after(&self, after: Tick) -> Option<Tick> {
        match &self.pattern {
            SchedulePattern::Every(span) => Some(after.whole_second() + *span),
            SchedulePattern::Fields(fields) => fields.next_after(after, &self.zone),
        }
    }

    /// The last time that is later than `after` and not later than `until`.
    pub fn last_between(&self, after: Tick, until: Tick) -> Option<Tick> {
        let first = self.next_after(after).filter(|first| *first <= until)?;
        match &self.pattern {
            SchedulePattern::Every(span) => {
                let rounds = until.since(first).as_micros() / span.as_micros();
                Some(first + span.saturating_mul(rounds))
            }
            SchedulePattern::Fields(_) => Some(self.bisect(first, until)),
        }
    }

    /// The last time from `first`, which is one, to `until`: after any earlier point one comes in
    /// time, after it none does.
    fn bisect(&self, first: Tick, until: Tick) -> Tick {
        let comes_after = |point| self.next_after(point).filter(|next| *next <= until);
        let (mut last, mut end) = (first, until);
        while last < end {
            let middle = Tick::from_micros(last.as_micros().midpoint(end.as_micros()));
            let middle = last.max(next_minute(middle) - MINUTE);
            match comes_after(middle) {
                Some(next) => last = next,
                None if middle == last => break,
                None => end = middle,
            }
        }
        last
    }
}

impl ScheduleFields {
    fn next_after(&self, after: Tick, zone: &TimeZone) -> Option<Tick> {
        let sets = [self.minute, self.hour, self.day_of_month, self.month, self.day_of_week];
        if sets.iter().any(|values| values.is_empty()) {
            return None;
        }
        let mut at = next_minute(after);
        let mut change = next_change(at, zone);
        let last_year = wall(at, zone)?.year() + YEARS_MAX;
        loop {
            let local = wall(at, zone)?;
            if local.year() > last_year {
                return None;
            }
            let next = if !self.month.has(local.month()) {
                start_of(local.date().last_of_month().tomorrow().ok()?, zone)?
            } else if !self.is_day(local.date()) {
                start_of(local.date().tomorrow().ok()?, zone)?
            } else if !self.hour.has(local.hour()) {
                let left = 60 - u64::from(local.minute().unsigned_abs());
                at + MINUTE.saturating_mul(left)
            } else if !self.minute.has(local.minute()) {
                at + MINUTE
            } else {
                return Some(at);
            };
            // No step goes over a change of clocks: what comes behind it may be what was passed
            // already, and the start of the next day may be the midnight that came before clocks
            // went back over it.
            at = match change {
                Some(there) if next.max(at) >= there => {
                    change = next_change(there, zone);
                    there
                }
                Some(_) | None => next.max(at + MINUTE),
            };
        }
    }

    fn is_day(&self, date: Date) -> bool {
        let in_month = self.day_of_month.has(date.day());
        let in_week = self.day_of_week.has(date.weekday().since(Weekday::Sunday));
        match self.days {
            DayMatching::Both => in_month && in_week,
            DayMatching::Either => in_month || in_week,
        }
    }
}

fn next_minute(after: Tick) -> Tick {
    Tick::from_secs((after.as_micros() / MINUTE.as_micros() + 1) * 60)
}

/// The first minute after `at` that begins at or behind a change of the zone's clocks.
fn next_change(at: Tick, zone: &TimeZone) -> Option<Tick> {
    let micros = i64::try_from(at.as_micros()).ok()?;
    let change = zone.following(Timestamp::from_microsecond(micros).ok()?).next()?;
    let seconds = u64::try_from(change.timestamp().as_second()).ok()?;
    Some(Tick::from_secs(seconds.div_ceil(60) * 60))
}

/// What clocks in the zone show.
fn wall(at: Tick, zone: &TimeZone) -> Option<Zoned> {
    let micros = i64::try_from(at.as_micros()).ok()?;
    Some(Timestamp::from_microsecond(micros).ok()?.to_zoned(zone.clone()))
}

/// The first moment of a day; in some zones clocks go forward at midnight.
fn start_of(date: Date, zone: &TimeZone) -> Option<Tick> {
    let start = date.to_zoned(zone.clone()).ok()?;
    Some(Tick::from_micros(u64::try_from(start.timestamp().as_microsecond()).ok()?))
}

#[cfg(test)]
mod tests;
