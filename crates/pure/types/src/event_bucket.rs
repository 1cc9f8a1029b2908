//! How many Events may be written about one object: client-go's spam filter.

use crate::{Tick, TickDuration};

/// Events of one object at once.
const BURST: u64 = 25;
/// After these, one in this time.
const REFILL: TickDuration = TickDuration::from_secs(300);

/// The token bucket of one object. A full one earns nothing.
#[derive(Clone, Copy, Debug)]
pub struct EventBucket {
    left: u64,
    /// From when on the next refill is counted.
    since: Tick,
}

impl EventBucket {
    /// The bucket of an object that has not been written about.
    pub const fn full(now: Tick) -> Self {
        Self { left: BURST, since: now }
    }

    /// Whether it is as good as one of an object that has not been written about.
    pub fn is_full(&self, now: Tick) -> bool {
        self.left.saturating_add(self.earned(now)) >= BURST
    }

    /// Takes one Event; false when there is none left.
    pub fn take(&mut self, now: Tick) -> bool {
        if self.is_full(now) {
            *self = Self::full(now);
        } else {
            let earned = self.earned(now);
            self.left += earned;
            self.since = self.since + REFILL.saturating_mul(earned);
        }
        if self.left == 0 {
            return false;
        }
        self.left -= 1;
        true
    }

    fn earned(&self, now: Tick) -> u64 {
        now.since(self.since).as_micros() / REFILL.as_micros()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A burst of 25, then one every 5 minutes.
    #[test]
    fn a_burst_is_followed_by_one_event_in_each_refill() {
        let at = |secs| Tick::ZERO + TickDuration::from_secs(secs);
        let mut bucket = EventBucket::full(at(0));
        assert_eq!((0..100).filter(|_| bucket.take(at(0))).count(), 25);
        assert!(!bucket.take(at(299)));
        assert!(bucket.take(at(300)));
        assert!(!bucket.take(at(301)));
        assert!(!bucket.is_full(at(300 + 24 * 300)));
        assert!(bucket.is_full(at(300 + 25 * 300)));
        assert_eq!((0..100).filter(|_| bucket.take(at(100_000))).count(), 25);
    }

    #[test]
    fn a_full_bucket_earns_nothing() {
        let at = |secs| Tick::ZERO + TickDuration::from_secs(secs);
        let mut bucket = EventBucket::full(at(0));
        assert_eq!((0..100).filter(|_| bucket.take(at(299))).count(), 25);
        assert!(!bucket.take(at(300)), "what was full at 299 s has earned nothing by 300 s");
        assert!(bucket.take(at(599)));
    }
}
