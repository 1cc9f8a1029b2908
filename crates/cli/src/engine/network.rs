//! The pod network of an engine: a bridge of its own name on a subnet of its own.

use anyhow::Context;
use rekindle_net::{Config, Forwarding, Network, SubnetChoice};

use super::data_dir::DataDir;
use crate::args::Up;

/// Opens the network that the arguments ask for, or one named after the engine on a free subnet.
pub async fn open(args: &Up, data_dir: &DataDir) -> anyhow::Result<Network> {
    let bridge =
        args.bridge.clone().unwrap_or_else(|| format!("rk-{}", &data_dir.engine_id()[..6]));
    let subnet = match &args.pod_cidr {
        Some(cidr) => SubnetChoice::Fixed(cidr.parse().with_context(|| {
            format!("--pod-cidr {cidr:?}: give an IPv4 subnet such as 10.88.0.0/16")
        })?),
        None => SubnetChoice::Auto,
    };
    Network::open(Config {
        bridge: bridge.clone(),
        subnet,
        state_dir: data_dir.join("net"),
        mtu: 1500,
        forwarding: Forwarding::Leave,
    })
    .await
    .with_context(|| format!("prepare the pods' bridge {bridge}"))
}
