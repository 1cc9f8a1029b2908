//! Whether this process leads, for probes and for monitoring.

use std::sync::atomic::{AtomicU8, Ordering};

use rekindle_metrics::{MetricKind, MetricsSource, Text};

/// What a candidate knows of its Lease. Set by the one that runs, read by monitoring.
#[derive(Debug, Default)]
pub struct Leadership(AtomicU8);

/// What a candidate does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LeadershipState {
    /// It has not learned yet who leads.
    Undecided,
    /// Another one leads.
    StandsBy,
    /// It leads.
    Leads,
}

impl Leadership {
    /// What it does now.
    pub fn state(&self) -> LeadershipState {
        match self.0.load(Ordering::Acquire) {
            0 => LeadershipState::Undecided,
            1 => LeadershipState::StandsBy,
            _ => LeadershipState::Leads,
        }
    }

    pub(crate) fn set(&self, state: LeadershipState) {
        let number = match state {
            LeadershipState::Undecided => 0,
            LeadershipState::StandsBy => 1,
            LeadershipState::Leads => 2,
        };
        self.0.store(number, Ordering::Release);
    }
}

/// By the name that client-go's leader election has for it.
impl MetricsSource for Leadership {
    fn write(&self, text: &mut Text) {
        text.family(
            "leader_election_master_status",
            MetricKind::Gauge,
            "Whether this process holds its lease: 1 is leading, 0 is standing by.",
        );
        let leads = self.state() == LeadershipState::Leads;
        text.sample(&[("name", "rekindle-operator")], f64::from(u8::from(leads)));
    }
}
