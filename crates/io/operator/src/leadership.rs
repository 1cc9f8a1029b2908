//! Whether this process leads, for probes and for monitoring.

use rekindle_metrics::{MetricKind, MetricsSource, Text};
use tokio::sync::watch;

/// What a candidate knows of its Lease. Set by the one that runs, read by monitoring.
#[derive(Debug, Default)]
pub struct Leadership(watch::Sender<LeadershipState>);

/// What a candidate does.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum LeadershipState {
    /// It has not learned yet who leads.
    #[default]
    Undecided,
    /// Another one leads.
    StandsBy,
    /// It leads.
    Leads,
}

impl Leadership {
    /// What it does now.
    pub fn state(&self) -> LeadershipState {
        *self.0.borrow()
    }

    pub(crate) fn set(&self, state: LeadershipState) {
        self.0.send_replace(state);
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
