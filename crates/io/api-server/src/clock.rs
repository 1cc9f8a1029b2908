//! Where the front takes the time from.

use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use rekindle_types::Tick;
use rustix::time::{ClockId, clock_gettime};

/// Tells the time. Shared by all requests.
pub type Clock = Arc<dyn Fn() -> Tick + Send + Sync>;

/// The machine's clock, monotonic: the wall clock at the start plus what has passed since, also
/// while the machine slept.
#[derive(Clone, Copy, Debug)]
pub struct SystemClock {
    started: Duration,
    started_micros: u64,
}

impl SystemClock {
    /// Reads the wall clock once.
    pub fn start() -> Self {
        let since_epoch = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        Self { started: since_boot(), started_micros: micros(since_epoch) }
    }

    /// Now.
    pub fn now(&self) -> Tick {
        let passed = micros(since_boot().saturating_sub(self.started));
        Tick::from_micros(self.started_micros.saturating_add(passed))
    }

    /// As the front wants it.
    pub fn shared(self) -> Clock {
        Arc::new(move || self.now())
    }
}

/// What `Instant` counts stands still while the machine is suspended; this does not.
fn since_boot() -> Duration {
    let time = clock_gettime(ClockId::Boottime);
    let seconds = u64::try_from(time.tv_sec).unwrap_or_default();
    Duration::new(seconds, u32::try_from(time.tv_nsec).unwrap_or_default())
}

fn micros(duration: Duration) -> u64 {
    u64::try_from(duration.as_micros()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// `/proc/uptime` counts the time in which the machine was suspended; a machine of tests never
    /// is.
    #[test]
    fn the_clock_counts_from_where_the_machine_began() {
        let uptime = || -> f64 {
            let text = std::fs::read_to_string("/proc/uptime").unwrap();
            text.split(' ').next().unwrap().parse().unwrap()
        };
        let (before, shown, after) = (uptime(), since_boot().as_secs_f64(), uptime());
        assert!((before..=after + 0.01).contains(&shown), "{before} {shown} {after}");
    }
}
