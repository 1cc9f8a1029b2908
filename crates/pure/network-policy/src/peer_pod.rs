//! What NetworkPolicies need to know of a pod.

use std::collections::{BTreeMap, BTreeSet};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use k8s_openapi::api::core::v1::{Pod, PodSpec};
use rekindle_services::TransportProtocol;
use rekindle_types::labels::Labels;

/// A port as its pod names it.
pub(crate) type NamedPort = (TransportProtocol, String);

/// A pod with addresses of its own.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PeerPod {
    pub(crate) labels: Labels,
    /// One, or one of each IP family.
    pub(crate) addresses: BTreeSet<IpAddr>,
    /// Its ports that have a name.
    pub(crate) ports: BTreeMap<NamedPort, BTreeSet<u16>>,
}

impl PeerPod {
    /// At the addresses that its status has. None: it has none of its own, or no more.
    pub fn of_status(pod: &Pod) -> Option<Self> {
        let status = pod.status.as_ref()?;
        if matches!(status.phase.as_deref(), Some("Succeeded" | "Failed")) {
            // another pod may have its address by now
            return None;
        }
        let listed = status.pod_ips.iter().flatten().map(|listed| listed.ip.as_str());
        let addresses = listed.chain(status.pod_ip.as_deref());
        Self::at(pod, addresses.filter_map(|address| address.parse().ok()))
    }

    /// With a second address that follows from its first one, unless it has one.
    pub fn with_second_address(mut self, second: impl Fn(Ipv4Addr) -> Ipv6Addr) -> Self {
        let derived = |address: &IpAddr| match address {
            IpAddr::V4(first) => Some(IpAddr::V6(second(*first))),
            IpAddr::V6(_) => None,
        };
        if self.addresses.iter().all(IpAddr::is_ipv4) {
            let second: Vec<IpAddr> = self.addresses.iter().filter_map(derived).collect();
            self.addresses.extend(second);
        }
        self
    }

    /// At these addresses, which its status may not have yet. None: it has none, or it uses the
    /// node's network, where no policy reaches it.
    pub fn at(pod: &Pod, addresses: impl IntoIterator<Item = IpAddr>) -> Option<Self> {
        let spec = pod.spec.as_ref()?;
        let addresses: BTreeSet<IpAddr> = addresses.into_iter().collect();
        if spec.host_network == Some(true) || addresses.is_empty() {
            return None;
        }
        let labels = pod.metadata.labels.clone().unwrap_or_default();
        Some(Self { labels, addresses, ports: named_ports(spec) })
    }
}

/// Those of sidecars, too.
fn named_ports(spec: &PodSpec) -> BTreeMap<NamedPort, BTreeSet<u16>> {
    let containers = spec.init_containers.iter().flatten().chain(&spec.containers);
    let mut ports: BTreeMap<NamedPort, BTreeSet<u16>> = BTreeMap::new();
    for port in containers.flat_map(|container| container.ports.iter().flatten()) {
        let protocol = TransportProtocol::parse(port.protocol.as_deref());
        let number = u16::try_from(port.container_port).ok();
        if let (Some(name), Some(protocol), Some(number)) = (&port.name, protocol, number) {
            ports.entry((protocol, name.clone())).or_default().insert(number);
        }
    }
    ports
}
