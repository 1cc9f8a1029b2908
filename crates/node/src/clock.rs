//! The agent's clock: the one place where ticks come from.

use rekindle_types::{Tick, TickDuration};
use tokio::time::Instant;

/// Reads the wall clock once and adds what the monotonic clock says has passed, so that ticks never jump when somebody
/// sets the clock. Cheap to copy.
#[derive(Clone, Copy, Debug)]
pub struct Clock {
    wall_at_start: Tick,
    monotonic_at_start: Instant,
}

impl Clock {
    /// A clock that starts at the machine's time of day.
    pub fn system() -> Self {
        let since_epoch =
            std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap_or_default();
        Self::starting_at(Tick::ZERO + TickDuration::from(since_epoch))
    }

    /// A clock that shows `tick` now.
    pub fn starting_at(tick: Tick) -> Self {
        Self { wall_at_start: tick, monotonic_at_start: Instant::now() }
    }

    /// The tick now.
    pub fn now(&self) -> Tick {
        let passed = self.monotonic_at_start.elapsed();
        self.wall_at_start + TickDuration::from(passed)
    }

    /// The instant at which this clock will show `tick`; not before now.
    pub fn instant_of(&self, tick: Tick) -> Instant {
        Instant::now() + tick.since(self.now()).to_std()
    }
}
