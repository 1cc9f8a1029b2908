//! The pod network of an engine: a bridge of its own name on a subnet of its own.

use anyhow::Context;
use rekindle_net::{Config, Forwarding, Network, SubnetChoice};

use super::data_dir::DataDir;
use super::settings::Settings;

/// Opens the network that the settings ask for, on their subnet or a free one.
pub async fn open(settings: &Settings, data_dir: &DataDir) -> anyhow::Result<Network> {
    let subnet = match &settings.pod_cidr {
        Some(cidr) => SubnetChoice::Fixed(cidr.parse().with_context(|| {
            format!("--pod-cidr {cidr:?}: give an IPv4 subnet such as 10.88.0.0/16")
        })?),
        None => SubnetChoice::Auto,
    };
    Network::open(Config {
        bridge: settings.bridge.clone(),
        subnet,
        state_dir: data_dir.join("net"),
        mtu: 1500,
        forwarding: Forwarding::Leave,
    })
    .await
    .with_context(|| format!("prepare the pods' bridge {}", settings.bridge))
}
