//! Ports of the node: two pods with the same one do not fit on it.

use k8s_openapi::api::core::v1::{ContainerPort, Node, Pod};

use super::{Cluster, NodeState};

/// The address that stands for all of the node.
const ALL_ADDRESSES: &str = "0.0.0.0";

/// A port of a node. Ordered so that those which may collide stand together.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct HostPort {
    pub(crate) port: i32,
    pub(crate) protocol: String,
    pub(crate) address: String,
}

/// The ports of the node that a pod asks for.
#[derive(Clone)]
pub(crate) struct Ports<'a>(Vec<&'a ContainerPort>);

impl<'a> Ports<'a> {
    /// Those of its containers and sidecars; other init containers are over before anybody else could miss their port.
    pub(crate) fn of(pod: &'a Pod) -> Self {
        let Some(spec) = &pod.spec else { return Self(Vec::new()) };
        let sidecars = spec
            .init_containers
            .iter()
            .flatten()
            .filter(|container| container.restart_policy.as_deref() == Some("Always"));
        let ports =
            spec.containers.iter().chain(sidecars).flat_map(|container| container.ports.iter());
        Self(ports.flatten().filter(|port| port.host_port.is_some_and(|port| port > 0)).collect())
    }

    /// The same, as the node counts them.
    pub(super) fn into_taken(self) -> impl Iterator<Item = HostPort> {
        self.0.into_iter().map(|port| HostPort {
            port: port.host_port.unwrap_or_default(),
            protocol: protocol(port).to_owned(),
            address: address(port).to_owned(),
        })
    }

    /// True when there are none.
    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// True when a pod on another node of the same machine has one of them.
    pub(crate) fn are_taken_beside(&self, cluster: &Cluster, node: &Node) -> bool {
        !self.is_empty() && cluster.beside(node).any(|(_, beside)| self.are_taken_on(beside))
    }

    /// True when one of the node's pods has one of them. Those that terminate have their ports until they are gone.
    pub(crate) fn are_taken_on(&self, node: &NodeState) -> bool {
        self.0.iter().any(|port| {
            let mut taken = node.taken_ports(port.host_port.unwrap_or_default(), protocol(port));
            taken.any(|taken| collide(address(port), &taken.address))
        })
    }
}

/// Addresses collide when they are the same, or one of them is all of the node.
fn collide(a: &str, b: &str) -> bool {
    a == b || a == ALL_ADDRESSES || b == ALL_ADDRESSES
}

fn protocol(port: &ContainerPort) -> &str {
    port.protocol.as_deref().unwrap_or("TCP")
}

fn address(port: &ContainerPort) -> &str {
    port.host_ip.as_deref().filter(|address| !address.is_empty()).unwrap_or(ALL_ADDRESSES)
}
