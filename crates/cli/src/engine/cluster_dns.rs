//! Cluster DNS at the bridge's address, for the pods of all nodes.

use std::net::Ipv4Addr;

use kube::Client;
use rekindle_net::Network;
use rekindle_node::{ClusterDns, NodeSettings, RESOLV_CONF};

/// Begins to listen. A machine on which something else has the port does without: pods use the node's resolvers, and are told.
pub async fn open(network: &Network, settings: &NodeSettings) -> Option<ClusterDns> {
    let resolv_conf = settings.resolv_conf.clone().unwrap_or_else(|| RESOLV_CONF.into());
    match ClusterDns::open(network.gateway(), network.subnet(), resolv_conf).await {
        Ok(dns) => Some(dns),
        Err(error) => {
            let cause = std::error::Error::source(&error).map(ToString::to_string);
            tracing::warn!(
                %error,
                cause,
                "there is no cluster DNS: new pods resolve names with the node's resolvers, and find no Service by its name"
            );
            None
        }
    }
}

/// Where it is.
pub fn address(dns: Option<&ClusterDns>) -> Option<Ipv4Addr> {
    dns.map(ClusterDns::address)
}

/// Serves until `stop` resolves.
pub async fn serve(dns: Option<ClusterDns>, client: Client, stop: impl Future<Output = ()>) {
    let Some(dns) = dns else { return };
    tokio::select! {
        () = stop => {}
        () = dns.serve(client) => tracing::error!("cluster DNS ended unasked"),
    }
}
