//! The agent's clock: the one place where ticks come from.

use std::time::Duration;

use rekindle_types::{Tick, TickDuration};
use rustix::time::{ClockId, clock_gettime};
use tokio::time::Instant;

/// Begins with a time of day and adds what has passed, so that ticks never jump when somebody sets
/// the clock. Cheap to copy.
#[derive(Clone, Copy, Debug)]
pub struct Clock {
    start: Tick,
    counter: ClockCounter,
}

/// What counts, and what it showed at the start.
#[derive(Clone, Copy, Debug)]
enum ClockCounter {
    /// The time since the machine's boot, which goes on while the machine is suspended.
    Boot(Duration),
    /// The timers' time, which tests move.
    Timers(Instant),
}

impl Clock {
    /// A clock that starts at the machine's time of day.
    pub fn system() -> Self {
        let since_epoch =
            std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap_or_default();
        Self::showing(Tick::ZERO + TickDuration::from(since_epoch))
    }

    /// A clock that shows `tick` now.
    pub fn showing(tick: Tick) -> Self {
        Self { start: tick, counter: ClockCounter::Boot(since_boot()) }
    }

    /// The same that goes with the timers: for tests that move them.
    pub fn of_timers(tick: Tick) -> Self {
        Self { start: tick, counter: ClockCounter::Timers(Instant::now()) }
    }

    /// The tick now.
    pub fn now(&self) -> Tick {
        let passed = match self.counter {
            ClockCounter::Boot(started) => since_boot().saturating_sub(started),
            ClockCounter::Timers(started) => started.elapsed(),
        };
        self.start + TickDuration::from(passed)
    }

    /// The instant at which this clock will show `tick`; not before now. Timers stand still while
    /// the machine is suspended: what was due meanwhile comes when the rest has passed awake, or
    /// when something else wakes whoever waits.
    pub fn instant_of(&self, tick: Tick) -> Instant {
        Instant::now() + tick.since(self.now()).to_std()
    }
}

/// Until this instant, if there is one.
pub(crate) async fn sleep_until(at: Option<Instant>) {
    match at {
        Some(at) => tokio::time::sleep_until(at).await,
        None => std::future::pending().await,
    }
}

/// What `Instant` counts stands still while the machine is suspended; this does not.
fn since_boot() -> Duration {
    let time = clock_gettime(ClockId::Boottime);
    let seconds = u64::try_from(time.tv_sec).unwrap_or_default();
    Duration::new(seconds, u32::try_from(time.tv_nsec).unwrap_or_default())
}
