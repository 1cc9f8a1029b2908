//! Figures for a monitoring system: counters and histograms that are cheap to raise, and the
//! Prometheus text format (0.0.4) that they are told in. See docs/adr/0014.
#![forbid(unsafe_code)]

mod family;
mod histogram;
mod process;
mod source;
mod text;

pub use family::{LABEL_SETS_MAX, MetricFamily};
pub use histogram::{Histogram, SECONDS};
pub use process::ProcessFiles;
pub use source::MetricsSource;
pub use text::{MetricKind, Text};

use std::sync::atomic::{AtomicU64, Ordering};

/// The media type of the text format.
pub const CONTENT_TYPE: &str = "text/plain; version=0.0.4; charset=utf-8";

/// A number that only grows.
#[derive(Debug, Default)]
pub struct Counter(AtomicU64);

impl Counter {
    /// One more.
    pub fn raise(&self) {
        self.0.fetch_add(1, Ordering::Relaxed);
    }

    /// So many more.
    pub fn add(&self, more: u64) {
        self.0.fetch_add(more, Ordering::Relaxed);
    }

    /// So far.
    pub fn get(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }
}

/// A number that grows and shrinks.
#[derive(Debug, Default)]
pub struct Gauge(AtomicU64);

impl Gauge {
    /// One more.
    pub fn raise(&self) {
        self.0.fetch_add(1, Ordering::Relaxed);
    }

    /// One less; every call follows one of [`raise`](Self::raise).
    pub fn lower(&self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }

    /// Now.
    pub fn get(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }
}
