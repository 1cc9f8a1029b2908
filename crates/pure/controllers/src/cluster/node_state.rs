//! One node: what it can give, and what its pods take.

use std::collections::BTreeMap;
use std::sync::Arc;

use k8s_openapi::api::core::v1::Node;
use rekindle_types::held::HeldPod;
use rekindle_types::{labels, nodes};

use super::PodShift;
use super::ports::{HostPortUse, PodHostPorts, PortListener};
use super::requests::ResourceAmounts;

/// The state of one node.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct NodeState {
    /// Absent while pods are bound to a node that does not exist.
    node: Option<Arc<Node>>,
    allocatable: ResourceAmounts,
    is_ready: bool,
    is_silent: bool,
    is_open: bool,
    has_hostname: bool,
    zone: Option<String>,
    used: ResourceAmounts,
    /// How many pods have each port.
    ports: BTreeMap<HostPortUse, usize>,
}

impl NodeState {
    /// It is there, as it is now; the zone that it was in before is answered.
    pub(super) fn appear(&mut self, node: &Arc<Node>) -> Option<String> {
        self.allocatable = ResourceAmounts::allocatable(node);
        self.is_ready = is_ready(node);
        self.is_silent = is_silent(node);
        let spec = node.spec.as_ref();
        let has_taints = spec.is_some_and(|spec| spec.taints.iter().flatten().next().is_some());
        self.is_open = self.is_ready && !nodes::is_cordoned(node) && !has_taints;
        let label = |key: &str| node.metadata.labels.as_ref().and_then(|labels| labels.get(key));
        self.has_hostname = label(labels::HOSTNAME).is_some();
        let zone = label(labels::ZONE).cloned();
        self.node = Some(node.clone());
        std::mem::replace(&mut self.zone, zone)
    }

    /// It is gone; the zone that it was in is answered.
    pub(super) fn disappear(&mut self) -> Option<String> {
        let Self { used, ports, zone, .. } = std::mem::take(self);
        *self = Self { used, ports, ..Self::default() };
        zone
    }

    /// A pod comes to the node or leaves it.
    pub(crate) fn shift(&mut self, pod: &HeldPod, shift: PodShift) {
        let requests = ResourceAmounts::from_pod(pod);
        match shift {
            PodShift::In => self.used.add(&requests),
            PodShift::Out => self.used.subtract(&requests),
        }
        for port in PodHostPorts::from_pod(pod).into_taken() {
            match shift {
                PodShift::In => *self.ports.entry(port).or_default() += 1,
                PodShift::Out => {
                    let left = self.ports.get(&port).map_or(0, |count| count.saturating_sub(1));
                    if left == 0 {
                        self.ports.remove(&port);
                    } else {
                        self.ports.insert(port, left);
                    }
                }
            }
        }
    }

    /// True when nothing is known of it.
    pub(super) fn is_void(&self) -> bool {
        self.node.is_none() && self.used.pods == 0
    }

    pub(super) fn node(&self) -> Option<&Arc<Node>> {
        self.node.as_ref()
    }

    /// What it can give.
    pub(crate) fn allocatable(&self) -> &ResourceAmounts {
        &self.allocatable
    }

    /// False when it says that it is not ready, or when nobody has heard of it lately.
    pub(crate) fn is_ready(&self) -> bool {
        self.is_ready
    }

    /// True when nobody has heard of it lately.
    pub(crate) fn is_silent(&self) -> bool {
        self.is_silent
    }

    /// True when it keeps nobody away and nobody had better avoid it: it is ready, not cordoned,
    /// and has no taints.
    pub(crate) fn is_open(&self) -> bool {
        self.is_open
    }

    /// Whether a label says what its host is called.
    pub(crate) fn has_hostname(&self) -> bool {
        self.has_hostname
    }

    /// The zone that it is in, if a label says so.
    pub(super) fn zone(&self) -> Option<&str> {
        self.zone.as_deref()
    }

    /// What its pods ask for, all together.
    pub(crate) fn used(&self) -> &ResourceAmounts {
        &self.used
    }

    /// The ports of its pods with this number and protocol.
    pub(crate) fn taken_ports<'a>(
        &'a self,
        number: i32,
        protocol: &'a str,
    ) -> impl Iterator<Item = &'a HostPortUse> {
        let first = HostPortUse {
            port: number,
            protocol: protocol.to_owned(),
            address: String::new(),
            listener: PortListener::Rules,
        };
        self.ports
            .range(first..)
            .map(|(port, _)| port)
            .take_while(move |taken| taken.port == number && taken.protocol == protocol)
    }
}

/// False when the node says that it is not ready, or when nobody has heard of it lately. The node
/// lifecycle controller turns that into a taint; the scheduler looks at the condition itself, so
/// that it holds before the taint is there.
pub(crate) fn is_ready(node: &Node) -> bool {
    nodes::readiness(node).is_none_or(|status| status == "True")
}

/// True when nobody has heard of the node lately.
pub(crate) fn is_silent(node: &Node) -> bool {
    nodes::readiness(node) == Some("Unknown")
}
