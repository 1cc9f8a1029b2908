//! How controllers stand by for each other.

use std::time::Duration;

use anyhow::Context;
use clap::Args;
use rekindle_operator::{Candidacy, ElectionTiming, NamespacedName};

/// The Lease that whoever acts holds.
const LEASE: (&str, &str) = ("kube-system", "rekindle-controllers");

/// When controllers and ladders take over from others that hold their Lease.
#[derive(Args, Clone, Copy, Debug)]
pub struct LeaderElection {
    /// How long others wait after they last saw the leader renew its lease
    #[arg(long, value_name = "DURATION", default_value = "15s", value_parser = humantime::parse_duration)]
    pub leader_elect_lease_duration: Duration,
    /// How long a leader that cannot renew its lease goes on; shorter than the lease
    #[arg(long, value_name = "DURATION", default_value = "10s", value_parser = humantime::parse_duration)]
    pub leader_elect_renew_deadline: Duration,
    /// Between two attempts
    #[arg(long, value_name = "DURATION", default_value = "2s", value_parser = humantime::parse_duration)]
    pub leader_elect_retry_period: Duration,
}

impl LeaderElection {
    /// The candidacy of this identity.
    ///
    /// # Errors
    /// When the periods do not fit together.
    pub fn candidacy(&self, identity: String) -> anyhow::Result<Candidacy> {
        let (namespace, name) = LEASE;
        self.candidacy_for(NamespacedName::new(namespace, name), identity)
    }

    /// The same for another Lease.
    ///
    /// # Errors
    /// When the periods do not fit together.
    pub fn candidacy_for(
        &self,
        lease: NamespacedName,
        identity: String,
    ) -> anyhow::Result<Candidacy> {
        let timing = ElectionTiming {
            lease_duration: self.leader_elect_lease_duration.into(),
            renew_deadline: self.leader_elect_renew_deadline.into(),
            retry_period: self.leader_elect_retry_period.into(),
        };
        let timing = timing.check().context("--leader-elect-...")?;
        Ok(Candidacy { lease, identity, timing })
    }
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;

    #[derive(Debug, Parser)]
    struct Line {
        #[command(flatten)]
        election: LeaderElection,
    }

    fn timing(words: &[&str]) -> Result<ElectionTiming, String> {
        let words = ["rekindle"].iter().chain(words);
        let line = Line::try_parse_from(words).map_err(|error| error.to_string())?;
        let candidacy = line.election.candidacy("me".to_owned());
        candidacy.map(|candidacy| candidacy.timing).map_err(|error| format!("{error:#}"))
    }

    #[test]
    fn without_flags_the_periods_are_those_of_kubernetes_components() {
        assert_eq!(timing(&[]), Ok(ElectionTiming::default()));
    }

    #[test]
    fn a_leader_that_would_act_beyond_its_lease_is_refused() {
        let error =
            timing(&["--leader-elect-renew-deadline=15s"]).expect_err("as long as the lease");
        assert!(error.contains("must be longer than the renew deadline"), "{error}");
    }
}
