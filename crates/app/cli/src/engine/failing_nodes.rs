//! When a node counts as failed: one setting of the user, from which follows how often nodes give a
//! sign of life.

use rekindle_operator::NodeLifecycleSettings;
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
    pub fn settings(&self) -> NodeLifecycleSettings {
        NodeLifecycleSettings {
            grace: self.grace(),
            eviction_interval: interval(self.node_eviction_rate),
            eviction_interval_disrupted: interval(self.secondary_node_eviction_rate),
            unhealthy_zone_ppm: ppm(self.unhealthy_zone_threshold),
            large_zone_nodes: usize::try_from(self.large_cluster_size_threshold)
                .unwrap_or(usize::MAX),
            missing_node_grace: self.missing_node_grace_period.into(),
        }
    }

    fn grace(&self) -> TickDuration {
        self.node_monitor_grace_period.into()
    }
}

/// The time between two of so many in a second.
fn interval(rate: f64) -> TickDuration {
    std::time::Duration::from_secs_f64(1.0 / rate).into()
}

#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "a part is between 0 and 1"
)]
fn ppm(part: f64) -> u32 {
    (part * 1e6).round() as u32
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
        assert_eq!(failing.settings(), NodeLifecycleSettings::default());
        assert_eq!(failing.heartbeat_period(), TickDuration::from_secs(10));
    }

    #[test]
    fn signs_of_life_follow_from_the_grace_period() {
        let failing = given(&["--node-monitor-grace-period", "2s", "--node-eviction-rate", "10"]);
        assert_eq!(failing.heartbeat_period(), TickDuration::from_millis(400));
        assert_eq!(failing.settings().grace, TickDuration::from_secs(2));
        assert_eq!(failing.settings().eviction_interval, TickDuration::from_millis(100));
    }

    #[test]
    fn what_becomes_of_pods_on_failed_nodes_is_set_by_flags() {
        let failing = given(&[
            "--secondary-node-eviction-rate=0.5",
            "--unhealthy-zone-threshold=0.333",
            "--large-cluster-size-threshold=7",
            "--missing-node-grace-period=3s",
        ]);
        let expected = NodeLifecycleSettings {
            eviction_interval_disrupted: TickDuration::from_secs(2),
            unhealthy_zone_ppm: 333_000,
            large_zone_nodes: 7,
            missing_node_grace: TickDuration::from_secs(3),
            ..NodeLifecycleSettings::default()
        };
        assert_eq!(failing.settings(), expected);
    }

    #[test]
    fn what_cannot_be_meant_is_refused_and_says_what_can() {
        for (flag, value, why) in [
            ("--node-monitor-grace-period", "10ms", "give 1s to 1h"),
            ("--node-eviction-rate", "0", "give 0.0001 to 1000"),
            ("--secondary-node-eviction-rate", "-1", "give 0.0001 to 1000"),
            ("--secondary-node-eviction-rate", "NaN", "give 0.0001 to 1000"),
            ("--unhealthy-zone-threshold", "1.1", "give 0 to 1"),
            ("--unhealthy-zone-threshold", "55%", "invalid float literal"),
            ("--large-cluster-size-threshold", "-1", "-1 is not in 0..=4294967295"),
            ("--missing-node-grace-period", "0s", "give 1s to 1h"),
        ] {
            let given = format!("{flag}={value}");
            for command in ["up", "controllers"] {
                let error = Cli::try_parse_from(["rekindle", command, &given]).unwrap_err();
                assert!(error.to_string().contains(why), "{given}: {error}");
            }
        }
    }
}
