//! Cluster DNS at the bridge's address, for the pods of all nodes.

use std::net::Ipv4Addr;

use kube::Client;
use rekindle_net::BridgeNetwork;
use rekindle_node::{ClusterDns, NodeSettings, RESOLV_CONF, ServiceNames};
use rekindle_types::causes;

/// Serves until `stop` resolves, and answers where. A machine on which something else has the port
/// does without: pods use the node's resolvers, and are told.
pub async fn start(
    network: &BridgeNetwork,
    settings: &NodeSettings,
    client: Client,
    names: ServiceNames,
    stop: impl Future<Output = ()> + Send + 'static,
) -> Option<Ipv4Addr> {
    let resolv_conf = settings.resolv_conf.clone().unwrap_or_else(|| RESOLV_CONF.into());
    let subnets = (network.subnet(), network.ipv6_subnet());
    match ClusterDns::open(network.gateway(), subnets, resolv_conf).await {
        Ok(dns) => {
            let address = dns.address();
            tokio::spawn(async move {
                tokio::select! {
                    () = stop => {}
                    () = dns.serve(client, names) => tracing::error!("failed to keep cluster DNS running: its server ended"),
                }
            });
            Some(address)
        }
        Err(error) => {
            tracing::warn!(
                error = causes(&error),
                "failed to start cluster DNS: new pods use the node's resolvers and cannot resolve Services"
            );
            None
        }
    }
}
