//! When a node counts as failed: one setting of the user, from which follows how often nodes give a sign of life.

use rekindle_operator::NodeSettings;
use rekindle_types::TickDuration;

use crate::args::FailingNodes;

/// Signs of life within the time that a node may be silent.
const HEARTBEATS: u64 = 5;
/// Between two signs of life at most; the kubelet's.
const HEARTBEAT_PERIOD_MAX: TickDuration = TickDuration::from_secs(10);

impl FailingNodes {
    /// How often a node gives a sign of life.
    pub fn heartbeat_period(&self) -> TickDuration {
        let fifth = self.grace().as_micros() / HEARTBEATS;
        TickDuration::from_micros(fifth).min(HEARTBEAT_PERIOD_MAX)
    }

    /// What the controllers go by.
    pub fn settings(&self) -> NodeSettings {
        let default = NodeSettings::default();
        let interval = std::time::Duration::from_secs_f64(1.0 / self.node_eviction_rate);
        NodeSettings { grace: self.grace(), eviction_interval: interval.into(), ..default }
    }

    fn grace(&self) -> TickDuration {
        self.node_monitor_grace_period.into()
    }
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;
    use crate::args::{Cli, Command};

    fn given(arguments: &[&str]) -> FailingNodes {
        let all = ["rekindle", "up"].iter().chain(arguments);
        match Cli::try_parse_from(all).unwrap().command {
            Command::Up(up) => up.failing,
            _ => panic!("it is up"),
        }
    }

    #[test]
    fn without_flags_everything_is_as_upstream() {
        let failing = given(&[]);
        assert_eq!(failing.settings(), NodeSettings::default());
        assert_eq!(failing.heartbeat_period(), TickDuration::from_secs(10));
    }

    #[test]
    fn signs_of_life_follow_from_the_grace_period() {
        let failing = given(&["--node-monitor-grace-period", "2s", "--node-eviction-rate", "10"]);
        assert_eq!(failing.heartbeat_period(), TickDuration::from_millis(400));
        assert_eq!(failing.settings().grace, TickDuration::from_secs(2));
        assert_eq!(failing.settings().eviction_interval, TickDuration::from_millis(100));
        for wrong in [["--node-monitor-grace-period", "10ms"], ["--node-eviction-rate", "0"]] {
            assert!(Cli::try_parse_from(["rekindle", "up"].iter().chain(&wrong)).is_err());
        }
    }
}
