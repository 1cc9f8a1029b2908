//! Ports of the node: two pods with the same one do not fit on it.

use k8s_openapi::api::core::v1::ContainerPort;
use rekindle_types::held::HeldPod;
use rekindle_types::node_ports::collide;
use rekindle_types::pods::AnySpec;

use super::NodeState;

/// A port of a node. Ordered so that those which may collide stand together.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct HostPortUse {
    pub(crate) port: i32,
    pub(crate) protocol: String,
    pub(crate) address: String,
    pub(crate) listener: PortListener,
}

/// Who listens at a port of the node.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum PortListener {
    /// The machine's rules, which lead to the pod. Without an agent of the node nothing can say
    /// that the pod has ended, so the next pod that asks gets the port.
    Rules,
    /// The pod itself, which is on the node's network.
    Pod,
}

/// The ports of the node that a pod asks for.
#[derive(Clone)]
pub(crate) struct PodHostPorts<'a> {
    ports: Vec<&'a ContainerPort>,
    listener: PortListener,
}

impl<'a> PodHostPorts<'a> {
    /// Those of its containers and sidecars; other init containers are over before anybody else
    /// could miss their port.
    pub(crate) fn from_pod(pod: &'a HeldPod) -> Self {
        let spec = pod.spec.as_ref();
        let is_of_node = spec.and_then(|spec| spec.host_network) == Some(true);
        let ports = spec.into_iter().flat_map(|spec| spec.lasting()).flat_map(|c| &c.ports);
        Self {
            ports: ports.filter(|port| port.host_port.is_some_and(|port| port > 0)).collect(),
            listener: if is_of_node { PortListener::Pod } else { PortListener::Rules },
        }
    }

    /// The same, as the node counts them.
    pub(super) fn into_taken(self) -> impl Iterator<Item = HostPortUse> {
        let listener = self.listener;
        self.ports.into_iter().map(move |port| HostPortUse {
            port: number(port),
            protocol: protocol(port).to_owned(),
            address: address(port).to_owned(),
            listener,
        })
    }

    /// True when there are none.
    pub(crate) fn is_empty(&self) -> bool {
        self.ports.is_empty()
    }

    /// True when one of the node's pods has one of them. Those that terminate have their ports
    /// until they are gone.
    pub(crate) fn are_taken_on(&self, node: &NodeState) -> bool {
        self.collide_on(node, |_| true)
    }

    /// The same as the other nodes of its machine see it: an agent that is not heard of is taken
    /// for one that does not run. Should it run after all, the port is refused as in use.
    pub(crate) fn are_held_on(&self, node: &NodeState) -> bool {
        self.collide_on(node, |listener| match listener {
            PortListener::Rules => !node.is_silent(),
            PortListener::Pod => true,
        })
    }

    fn collide_on(&self, node: &NodeState, listens: impl Fn(PortListener) -> bool) -> bool {
        self.ports.iter().any(|port| {
            let mut taken = node.taken_ports(number(port), protocol(port));
            taken.any(|taken| listens(taken.listener) && collide(address(port), &taken.address))
        })
    }

    /// True when two pods ask for the same one.
    pub(crate) fn collide_with(&self, other: &Self) -> bool {
        self.ports.iter().any(|a| {
            other.ports.iter().any(|b| {
                number(a) == number(b)
                    && protocol(a) == protocol(b)
                    && collide(address(a), address(b))
            })
        })
    }
}

fn number(port: &ContainerPort) -> i32 {
    port.host_port.unwrap_or_default()
}

fn protocol(port: &ContainerPort) -> &str {
    port.protocol.as_deref().unwrap_or("TCP")
}

fn address(port: &ContainerPort) -> &str {
    port.host_ip.as_deref().unwrap_or_default()
}
