//! Where the front takes the time from.

use std::sync::Arc;
use std::time::{Instant, SystemTime, UNIX_EPOCH};

use rekindle_types::Tick;

/// Tells the time. Shared by all requests.
pub type Clock = Arc<dyn Fn() -> Tick + Send + Sync>;

/// The machine's clock, monotonic: the wall clock at the start plus what has passed since.
#[derive(Clone, Copy, Debug)]
pub struct SystemClock {
    started: Instant,
    started_micros: u64,
}

impl SystemClock {
    /// Reads the wall clock once.
    pub fn start() -> Self {
        let since_epoch = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        Self {
            started: Instant::now(),
            started_micros: u64::try_from(since_epoch.as_micros()).unwrap_or(u64::MAX),
        }
    }

    /// Now.
    pub fn now(&self) -> Tick {
        let passed = u64::try_from(self.started.elapsed().as_micros()).unwrap_or(u64::MAX);
        Tick::from_micros(self.started_micros.saturating_add(passed))
    }

    /// As the front wants it.
    pub fn shared(self) -> Clock {
        Arc::new(move || self.now())
    }
}
