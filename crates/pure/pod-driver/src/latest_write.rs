//! Of many values only the newest is written: one write in flight, retried with backoff. So an
//! older value is never written over a newer one.
//!
//! ```text
//!            poll               written
//!  waiting ────────► in flight ─────────► waiting for a newer value
//!     ▲                  │ │
//!     └──── backoff ◄────┘ └─ the object is gone ─► nothing is written again
//! ```

use rekindle_types::{Tick, TickDuration};

/// How long a value waits that is expected to be replaced soon.
const HOLD: TickDuration = TickDuration::from_millis(10);
/// The first wait after a failed write.
const RETRY_MIN: TickDuration = TickDuration::from_millis(50);
/// The longest wait between writes that fail.
const RETRY_MAX: TickDuration = TickDuration::from_secs(10);

/// When a value is to be written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Urgency {
    /// At once.
    Now,
    /// After 10 ms, unless one that is to be written at once replaces it. Each write costs an
    /// fsync, and the one that matters would wait for it.
    Soon,
}

/// What became of one write.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WriteOutcome {
    /// It stands in the API.
    Written,
    /// It could not be written now.
    Retry,
    /// The object is gone: nothing will ever be written again.
    Gone,
}

/// How far the writing is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum WriteState {
    Ready,
    /// The value of this number is being written.
    InFlight(u64),
    /// The last write failed.
    Backoff {
        until: Tick,
    },
    Gone,
}

/// The newest of many values, and how far it is written.
#[derive(Clone, Debug)]
pub struct LatestWrite<T> {
    newest: T,
    /// Counts the values; 0 is the one that stood in the API first.
    number: u64,
    written: u64,
    /// Since the newest value may wait: until then.
    held_until: Option<Tick>,
    state: WriteState,
    /// The wait after the next failure.
    wait: TickDuration,
}

impl<T: Clone> LatestWrite<T> {
    /// With the value that stands in the API already.
    pub const fn new(written: T) -> Self {
        Self {
            newest: written,
            number: 0,
            written: 0,
            held_until: None,
            state: WriteState::Ready,
            wait: RETRY_MIN,
        }
    }

    /// The newest value, written or not.
    pub const fn newest(&self) -> &T {
        &self.newest
    }

    /// Takes a newer value in place of the newest. Values that may wait do not wait for ever: each
    /// wait begins with the first of them.
    pub fn submit(&mut self, now: Tick, value: T, urgency: Urgency) {
        self.held_until = match urgency {
            Urgency::Now => None,
            Urgency::Soon => Some(self.held_until.unwrap_or(now + HOLD)),
        };
        self.newest = value;
        self.number += 1;
    }

    /// Nothing is expected to replace the newest value any more.
    pub fn release(&mut self) {
        self.held_until = None;
    }

    /// The value to be written now, if there is one. Answer with [`settle`](Self::settle).
    pub fn poll(&mut self, now: Tick) -> Option<T> {
        let is_ready = match self.state {
            WriteState::Ready => true,
            WriteState::Backoff { until } => until <= now,
            WriteState::InFlight(_) | WriteState::Gone => false,
        };
        let is_held = self.held_until.is_some_and(|until| now < until);
        if !is_ready || is_held || self.number == self.written {
            return None;
        }
        self.held_until = None;
        self.state = WriteState::InFlight(self.number);
        Some(self.newest.clone())
    }

    /// What became of the write in flight; without one, nothing changes.
    pub fn settle(&mut self, now: Tick, outcome: WriteOutcome) {
        let WriteState::InFlight(number) = self.state else { return };
        self.state = match outcome {
            WriteOutcome::Written => {
                (self.written, self.wait) = (number, RETRY_MIN);
                WriteState::Ready
            }
            WriteOutcome::Retry => {
                let until = now + self.wait;
                self.wait = self.wait.saturating_mul(2).min(RETRY_MAX);
                WriteState::Backoff { until }
            }
            WriteOutcome::Gone => WriteState::Gone,
        };
    }

    /// Nothing is to be written any more.
    pub fn close(&mut self) {
        self.state = WriteState::Gone;
    }

    /// Whether the newest value is written, or nothing can be written any more.
    pub fn is_settled(&self) -> bool {
        self.state == WriteState::Gone || self.number == self.written
    }

    /// When [`poll`](Self::poll) may have a value that it does not have now.
    pub fn poll_timeout(&self) -> Option<Tick> {
        if self.number == self.written {
            return None;
        }
        match self.state {
            WriteState::Ready => self.held_until,
            WriteState::Backoff { until } => Some(self.held_until.unwrap_or(until).max(until)),
            WriteState::InFlight(_) | WriteState::Gone => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const fn at(millis: u64) -> Tick {
        Tick::from_micros(millis * 1_000)
    }

    /// Submits values at their times, and writes as time goes: what was written when, in ms.
    fn written(values: &[(u64, &'static str, Urgency)]) -> Vec<(u64, &'static str)> {
        let (mut latest, mut log) = (LatestWrite::new("as found"), Vec::new());
        for millis in 0..100 {
            for (_, value, urgency) in values.iter().filter(|(when, ..)| *when == millis) {
                latest.submit(at(millis), *value, *urgency);
            }
            if let Some(value) = latest.poll(at(millis)) {
                log.push((millis, value));
                latest.settle(at(millis), WriteOutcome::Written);
            }
        }
        assert!(latest.is_settled());
        log
    }

    #[test]
    fn a_value_that_may_wait_gives_way_to_one_that_may_not() {
        use Urgency::{Now, Soon};
        let replaced = written(&[(0, "starting", Soon), (4, "running", Now)]);
        assert_eq!(replaced, [(4, "running")]);
        let later = written(&[(0, "pulling", Soon), (20, "running", Now)]);
        assert_eq!(later, [(10, "pulling"), (20, "running")]);
        let coming = written(&[(0, "a", Soon), (6, "b", Soon), (12, "c", Soon)]);
        assert_eq!(coming, [(10, "b"), (22, "c")]);
        assert_eq!(written(&[(0, "a", Now), (1, "b", Now)]), [(0, "a"), (1, "b")]);
    }

    #[test]
    fn a_write_that_fails_is_tried_again_with_the_newest_value_after_longer_and_longer_waits() {
        let mut latest = LatestWrite::new(0);
        latest.submit(at(0), 1, Urgency::Now);
        let mut now = at(0);
        for (value, millis) in [(1, 50), (2, 100), (3, 200), (4, 400), (5, 800), (6, 1_600)] {
            assert_eq!(latest.poll(now), Some(value));
            latest.submit(now, value + 1, Urgency::Now);
            assert_eq!(latest.poll(now), None, "one write at a time");
            latest.settle(now, WriteOutcome::Retry);
            now = now + TickDuration::from_millis(millis);
            assert_eq!(latest.poll_timeout(), Some(now));
            assert_eq!(latest.poll(Tick::from_micros(now.as_micros() - 1)), None);
        }
        assert_eq!(latest.poll(now), Some(7));
        latest.settle(now, WriteOutcome::Written);
        assert!(latest.is_settled());
        assert_eq!((latest.poll(now), latest.poll_timeout()), (None, None));
        latest.submit(now, 8, Urgency::Now);
        assert_eq!(latest.poll(now), Some(8));
        latest.settle(now, WriteOutcome::Retry);
        assert_eq!(latest.poll_timeout(), Some(now + RETRY_MIN));
    }

    #[test]
    fn nothing_is_written_to_an_object_that_is_gone() {
        let mut latest = LatestWrite::new(0);
        latest.submit(at(0), 1, Urgency::Now);
        assert_eq!(latest.poll(at(0)), Some(1));
        latest.settle(at(1), WriteOutcome::Gone);
        latest.submit(at(2), 2, Urgency::Now);
        assert_eq!((latest.poll(at(3)), latest.is_settled()), (None, true));
    }
}
