//! What all ladders together may do: so many pods of a workload at once, and a token bucket for
//! each namespace and for the cluster. A ladder's own budget may be narrower, never wider.
//!
//! A bucket has no state of its own: it is filled up in thought from the times of the restarts that
//! the ledgers tell of, so it is the same before and after a crash (the generic cell rate
//! algorithm, as ATM and most rate limiters have it).

use rekindle_types::{Tick, TickDuration};

const MINUTE_MICROS: u64 = 60_000_000;

/// Limits over all ladders. Restarts above Container count.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RestartLimits {
    /// Of each namespace.
    pub namespace: TokenBucket,
    /// Of the cluster.
    pub cluster: TokenBucket,
    /// Pods of one controller that may be restarted at the same time; at least 1.
    pub per_workload: usize,
}

impl Default for RestartLimits {
    /// Ten at once and 30 a minute in a namespace, 20 at once and 60 a minute in the cluster, 5
    /// pods of a controller.
    fn default() -> Self {
        Self {
            namespace: TokenBucket::new(10, 30),
            cluster: TokenBucket::new(20, 60),
            per_workload: 5,
        }
    }
}

/// So many at once, so many a minute in the long run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TokenBucket {
    burst: u32,
    per_minute: u32,
}

impl TokenBucket {
    /// A bucket with at least one token a minute. What may come at once is no more than what may
    /// come in a minute. It is filled from the restarts of the last minute alone, so that a minute
    /// may see the burst beside the rate.
    pub fn new(burst: u32, per_minute: u32) -> Self {
        let per_minute = per_minute.max(1);
        Self { burst: burst.clamp(1, per_minute), per_minute }
    }

    /// At once.
    pub fn burst(self) -> u32 {
        self.burst
    }

    /// In the long run.
    pub fn per_minute(self) -> u32 {
        self.per_minute
    }

    /// Between two tokens.
    pub(crate) fn interval(self) -> TickDuration {
        TickDuration::from_micros(MINUTE_MICROS / u64::from(self.per_minute))
    }

    /// When the next token is there, after restarts at these times, the oldest first; none when one
    /// is there now.
    pub(crate) fn free_at(self, now: Tick, restarts: &[Tick]) -> Option<Tick> {
        let interval = self.interval();
        let full = restarts.iter().fold(Tick::ZERO, |full, at| full.max(*at) + interval);
        let slack = interval.saturating_mul(u64::from(self.burst - 1));
        // `full` is when the bucket is full again; a token is there when all but one are missing at
        // most
        (full > now + slack).then(|| full - slack)
    }
}

/// What the restarts of other ladders' pods take of the limits.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LimitUsage {
    /// When restarts were decided in the pod's namespace, or went on after they were held back,
    /// within the last minute; the oldest first.
    pub namespace: Vec<Tick>,
    /// … and in the whole cluster.
    pub cluster: Vec<Tick>,
    /// Restarts of other pods of the same controller that are under way: since when, the oldest
    /// first.
    pub workload: Vec<Tick>,
}

/// The share of an interval by which a pod comes later than it might, so that those that were held
/// back together do not come together: 0 to just under 1 interval, the same for the same pod at any
/// time.
pub(crate) fn jitter(uid: &str, interval: TickDuration) -> TickDuration {
    // Fibonacci hashing: UIDs that are alike do not come together
    let hash = u64::from(rekindle_types::digest::fold(uid).wrapping_mul(0x9e37_79b1) >> 8);
    TickDuration::from_micros(interval.as_micros().saturating_mul(hash) >> 24)
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOW: Tick = Tick::from_secs(10_000);

    fn ago(secs: u64) -> Tick {
        NOW - TickDuration::from_secs(secs)
    }

    #[test]
    fn a_bucket_gives_its_burst_at_once_and_then_its_rate() {
        let bucket = TokenBucket::new(3, 6);
        assert_eq!(bucket.free_at(NOW, &[]), None);
        assert_eq!(bucket.free_at(NOW, &[NOW, NOW]), None);
        assert_eq!(bucket.free_at(NOW, &[NOW; 3]), Some(NOW + TickDuration::from_secs(10)));
        assert_eq!(bucket.free_at(NOW, &[ago(10); 3]), None, "one came back");
        let spent = [ago(10), ago(10), ago(10), NOW];
        assert_eq!(bucket.free_at(NOW, &spent), Some(NOW + TickDuration::from_secs(10)));
    }

    #[test]
    fn no_minute_sees_more_than_the_rate_and_the_burst() {
        let bucket = TokenBucket::new(5, 30);
        let mut granted: Vec<Tick> = Vec::new();
        let mut now = NOW;
        let end = NOW + TickDuration::from_secs(600);
        while now < end {
            let minute: Vec<Tick> =
                granted.iter().copied().filter(|at| now.since(*at).as_secs() < 60).collect();
            match bucket.free_at(now, &minute) {
                None => granted.push(now),
                Some(at) => {
                    assert!(at > now);
                    now = at;
                }
            }
        }
        for first in &granted {
            let minute =
                granted.iter().filter(|at| *at >= first && at.since(*first).as_secs() < 60);
            assert!(minute.count() <= 35);
        }
        assert!((300..=350).contains(&granted.len()), "{}", granted.len());
    }

    #[test]
    fn jitter_is_the_same_for_a_pod_and_spreads_many() {
        let interval = TickDuration::from_secs(2);
        let of = |n: u32| jitter(&format!("uid-{n}"), interval);
        assert_eq!(of(7), of(7));
        assert!((0..100).all(|n| of(n) < interval));
        let mut spread: Vec<u64> = (0..100).map(|n| of(n).as_micros() / 200_000).collect();
        spread.sort_unstable();
        spread.dedup();
        assert_eq!(spread.len(), 10, "every tenth of the interval has some");
    }
}
