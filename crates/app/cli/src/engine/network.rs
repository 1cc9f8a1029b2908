//! The pod network of an engine: a bridge of its own name on a subnet of its own, for the pods of
//! all its nodes.

use anyhow::Context;
use rekindle_net::{
    BridgeNetwork, BridgeShare, EmbeddingPrefix, Ipv4Net, NetError, NetworkConfig, SubnetChoice,
};

use super::data_dir::DataDir;
use super::ipv6_range::Ipv6Range;
use super::settings::EngineSettings;

/// Bytes of a packet on pod interfaces.
const MTU: u32 = 1500;

/// What a network is opened for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NetworkUse {
    /// To run pods.
    Pods,
    /// To end what a killed agent left, also where the machine has no IPv6 any more.
    End,
}

/// Opens the network that the settings ask for, on their subnet or a free one.
pub async fn open(
    settings: &EngineSettings,
    data_dir: &DataDir,
    purpose: NetworkUse,
) -> anyhow::Result<BridgeNetwork> {
    let subnet = match &settings.pod_cidr {
        Some(cidr) => SubnetChoice::Fixed(cidr.parse().with_context(|| {
            format!("--pod-cidr {cidr:?}: give an IPv4 subnet such as 10.88.0.0/16")
        })?),
        None => SubnetChoice::Auto,
    };
    let config = NetworkConfig {
        bridge: settings.bridge.clone(),
        subnet,
        ipv6: settings.ipv6_range(data_dir)?.map(Ipv6Range::pods),
        share: BridgeShare::Owner,
        state_dir: data_dir.join("net"),
        mtu: MTU,
    };
    let opened = open_for(config, purpose).await;
    opened.with_context(|| format!("prepare the pods' bridge {}", settings.bridge))
}

async fn open_for(config: NetworkConfig, purpose: NetworkUse) -> Result<BridgeNetwork, NetError> {
    match purpose {
        NetworkUse::Pods => BridgeNetwork::open(config).await,
        NetworkUse::End => BridgeNetwork::open_to_end(config).await,
    }
}

/// Opens a further node's part of the engine's network.
pub async fn join(
    bridge: &str,
    (subnet, ipv6): (Ipv4Net, Option<EmbeddingPrefix>),
    guest: u8,
    data_dir: &DataDir,
    purpose: NetworkUse,
) -> anyhow::Result<BridgeNetwork> {
    let config = NetworkConfig {
        bridge: bridge.to_owned(),
        subnet: SubnetChoice::Fixed(subnet),
        ipv6,
        share: BridgeShare::Guest(guest),
        state_dir: data_dir.join("net"),
        mtu: MTU,
    };
    open_for(config, purpose).await.with_context(|| format!("join the pods' bridge {bridge}"))
}
