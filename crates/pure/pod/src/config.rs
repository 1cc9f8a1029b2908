//! What the node tells every pod core.

use std::net::IpAddr;

use rekindle_types::TickDuration;

/// The node's part of a pod's behaviour.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PodConfig {
    /// The kubelet's `crashLoopBackOff.maxContainerRestartPeriod`, 1 s..300 s; below 10 s it is
    /// also the initial delay (KEP-5593).
    pub max_container_restart_period: TickDuration,
    /// The node's addresses: `status.hostIP` and `status.hostIPs`.
    pub host_ips: Vec<IpAddr>,
    /// For so long the rules that lead new connections to a pod hold back the end of its
    /// containers, at most.
    pub endpoint_withdrawal_timeout: TickDuration,
}

impl Default for PodConfig {
    /// The kubelet's own defaults, on a node without an address.
    fn default() -> Self {
        Self {
            max_container_restart_period: TickDuration::from_secs(300),
            host_ips: Vec::new(),
            endpoint_withdrawal_timeout: Self::ENDPOINT_WITHDRAWAL_TIMEOUT,
        }
    }
}

impl PodConfig {
    /// What `endpoint_withdrawal_timeout` is unless it is set.
    pub const ENDPOINT_WITHDRAWAL_TIMEOUT: TickDuration = TickDuration::from_secs(1);
}
