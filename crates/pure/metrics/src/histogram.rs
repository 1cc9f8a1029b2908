//! How long things take, in buckets.

use std::sync::atomic::{AtomicU64, Ordering};

use super::Text;
use super::text::number;
use rekindle_types::TickDuration;

/// Upper bounds in seconds for what takes milliseconds to a minute.
pub const SECONDS: &[f64] =
    &[0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0];

/// Durations, counted by the first bound that is not below them.
#[derive(Debug)]
pub struct Histogram {
    bounds: &'static [f64],
    /// One more than bounds: for what is above all of them.
    buckets: Box<[AtomicU64]>,
    sum_us: AtomicU64,
}

impl Default for Histogram {
    fn default() -> Self {
        Self::new(SECONDS)
    }
}

impl AsRef<Histogram> for Histogram {
    fn as_ref(&self) -> &Histogram {
        self
    }
}

impl Histogram {
    /// An empty one with these upper bounds in seconds, ascending.
    pub fn new(bounds: &'static [f64]) -> Self {
        let buckets = (0..=bounds.len()).map(|_| AtomicU64::new(0)).collect();
        Self { bounds, buckets, sum_us: AtomicU64::new(0) }
    }

    /// Counts one.
    pub fn observe(&self, duration: TickDuration) {
        let seconds = duration.to_std().as_secs_f64();
        let bucket = self.bounds.partition_point(|bound| *bound < seconds);
        self.buckets[bucket].fetch_add(1, Ordering::Relaxed);
        self.sum_us.fetch_add(duration.as_micros(), Ordering::Relaxed);
    }

    /// Its samples in the family that was begun last.
    pub fn write(&self, text: &mut Text, labels: &[(&str, &str)]) {
        let mut count = 0;
        let bounds = self.bounds.iter().copied().chain([f64::INFINITY]);
        for (bound, bucket) in bounds.zip(&self.buckets) {
            count += bucket.load(Ordering::Relaxed);
            let bound = number(bound);
            let labels: Vec<(&str, &str)> =
                labels.iter().copied().chain([("le", bound.as_str())]).collect();
            text.suffixed("_bucket", &labels, whole(count), None);
        }
        let sum_us = self.sum_us.load(Ordering::Relaxed);
        text.suffixed("_sum", labels, whole(sum_us) / 1e6, None);
        text.suffixed("_count", labels, whole(count), None);
    }
}

fn whole(number: u64) -> f64 {
    number as f64
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::MetricKind;

    #[test]
    fn buckets_hold_all_that_is_not_above_them() {
        let histogram = Histogram::new(&[0.1, 1.0]);
        for millis in [50, 100, 500, 2000] {
            histogram.observe(TickDuration::from_micros(millis * 1000));
        }
        let mut text = Text::default();
        text.family("h", MetricKind::Histogram, "x");
        histogram.write(&mut text, &[("verb", "GET")]);
        let text = text.into_string();
        let samples: Vec<&str> = text.lines().skip(2).collect();
        assert_eq!(
            samples,
            [
                "h_bucket{verb=\"GET\",le=\"0.1\"} 2",
                "h_bucket{verb=\"GET\",le=\"1\"} 3",
                "h_bucket{verb=\"GET\",le=\"+Inf\"} 4",
                "h_sum{verb=\"GET\"} 2.65",
                "h_count{verb=\"GET\"} 4",
            ]
        );
    }
}
