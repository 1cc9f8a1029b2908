//! Time as the pure crates see it: a number handed in by the driver.
//!
//! A driver keeps ticks monotonic: it reads the wall clock once at start and adds what the
//! monotonic clock says has passed since. So durations never jump when somebody sets the clock, and
//! a tick still names a time of day for status fields, also across restarts of the agent and of the
//! machine.

use std::ops::{Add, Sub};

use k8s_openapi::apimachinery::pkg::apis::meta::v1::{MicroTime, Time};
use serde::{Deserialize, Serialize};

/// A point in time: microseconds since the Unix epoch.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize,
)]
#[serde(transparent)]
pub struct Tick(u64);

/// A span of time in microseconds. Its own type, so that a point and a span cannot be mixed up.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize,
)]
#[serde(transparent)]
pub struct TickDuration(u64);

impl Tick {
    /// The earliest tick.
    pub const ZERO: Tick = Tick(0);

    /// The tick this many microseconds after the Unix epoch.
    pub const fn from_micros(micros: u64) -> Self {
        Self(micros)
    }

    /// The tick this many seconds after the Unix epoch, or the latest there is.
    pub const fn from_secs(secs: u64) -> Self {
        Self(secs.saturating_mul(1_000_000))
    }

    /// Microseconds since the Unix epoch.
    pub const fn as_micros(self) -> u64 {
        self.0
    }

    /// The beginning of the second that it is in, as the API tells times that have no fraction.
    #[must_use]
    pub const fn whole_second(self) -> Tick {
        Tick::from_secs(self.0 / 1_000_000)
    }

    /// How long ago `earlier` was; zero if it is not in the past.
    pub const fn since(self, earlier: Tick) -> TickDuration {
        TickDuration(self.0.saturating_sub(earlier.0))
    }

    /// How far apart the two are, whichever is earlier: the clock of another machine may be ahead.
    pub const fn abs_diff(self, other: Tick) -> TickDuration {
        TickDuration(self.0.abs_diff(other.0))
    }

    /// As a status field shows it: whole seconds, UTC. What is written so equals what is read back.
    pub fn to_time(self) -> Time {
        Time(self.whole_second().to_timestamp())
    }

    /// As an Event or a Lease shows it: microseconds, UTC.
    pub fn to_micro_time(self) -> MicroTime {
        MicroTime(self.to_timestamp())
    }

    fn to_timestamp(self) -> jiff::Timestamp {
        let micros = i64::try_from(self.0).unwrap_or(i64::MAX);
        jiff::Timestamp::from_microsecond(micros).unwrap_or(jiff::Timestamp::MAX)
    }
}

impl From<&Time> for Tick {
    fn from(time: &Time) -> Self {
        Self(u64::try_from(time.0.as_microsecond()).unwrap_or(0))
    }
}

impl From<&MicroTime> for Tick {
    fn from(time: &MicroTime) -> Self {
        Self(u64::try_from(time.0.as_microsecond()).unwrap_or(0))
    }
}

impl TickDuration {
    /// No time at all.
    pub const ZERO: TickDuration = TickDuration(0);

    /// A span of microseconds.
    pub const fn from_micros(micros: u64) -> Self {
        Self(micros)
    }

    /// A span of milliseconds; what does not fit is as long as can be.
    pub const fn from_millis(millis: u64) -> Self {
        Self(millis.saturating_mul(1_000))
    }

    /// A span of seconds; what does not fit is as long as can be.
    pub const fn from_secs(secs: u64) -> Self {
        Self(secs.saturating_mul(1_000_000))
    }

    /// A span of seconds as a field of an object has it: a negative one is none at all.
    pub fn of_field(secs: impl Into<i64>) -> Self {
        Self::from_secs(u64::try_from(secs.into()).unwrap_or(0))
    }

    /// In microseconds.
    pub const fn as_micros(self) -> u64 {
        self.0
    }

    /// In whole seconds, rounded down.
    pub const fn as_secs(self) -> u64 {
        self.0 / 1_000_000
    }

    /// As the standard library's duration.
    pub const fn to_std(self) -> std::time::Duration {
        std::time::Duration::from_micros(self.0)
    }

    /// This span `factor` times, without overflow.
    pub const fn saturating_mul(self, factor: u64) -> Self {
        Self(self.0.saturating_mul(factor))
    }
}

impl From<std::time::Duration> for TickDuration {
    /// In whole microseconds, rounded down; what does not fit is as long as can be.
    fn from(duration: std::time::Duration) -> Self {
        Self(u64::try_from(duration.as_micros()).unwrap_or(u64::MAX))
    }
}

impl Add<TickDuration> for Tick {
    type Output = Tick;
    fn add(self, span: TickDuration) -> Tick {
        Tick(self.0.saturating_add(span.0))
    }
}

impl Sub<TickDuration> for Tick {
    type Output = Tick;
    fn sub(self, span: TickDuration) -> Tick {
        Tick(self.0.saturating_sub(span.0))
    }
}

impl Add for TickDuration {
    type Output = TickDuration;
    fn add(self, other: TickDuration) -> TickDuration {
        TickDuration(self.0.saturating_add(other.0))
    }
}

impl Sub for TickDuration {
    type Output = TickDuration;
    fn sub(self, other: TickDuration) -> TickDuration {
        TickDuration(self.0.saturating_sub(other.0))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_distance_of_two_ticks_has_no_sign() {
        let (early, late) = (Tick::from_secs(10), Tick::from_secs(13));
        assert_eq!([late.abs_diff(early), early.abs_diff(late)], [TickDuration::from_secs(3); 2]);
        assert_eq!(early.since(late), TickDuration::ZERO);
    }

    #[test]
    fn seconds_of_a_field_are_a_span_whatever_they_are() {
        let micros = |secs: i64| TickDuration::of_field(secs).as_micros();
        assert_eq!([i64::MIN, -1, 0, 1].map(micros), [0, 0, 0, 1_000_000]);
        assert_eq!(micros(i64::MAX), u64::MAX);
        assert_eq!(TickDuration::from_millis(u64::MAX).as_micros(), u64::MAX);
        assert_eq!(Tick::from_secs(u64::MAX), Tick::ZERO + TickDuration::of_field(i64::MAX));
    }
}
