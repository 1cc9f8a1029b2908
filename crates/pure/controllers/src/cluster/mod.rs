//! What the scheduler knows of the nodes and of the pods on them, kept up to date object by object:
//! a look at a pod goes through the nodes, never through the pods that are there.
//!
//! ```text
//!   nodes     what each can give, what its pods ask for, which of its ports are taken
//!   crowds    how many pods with the same labels are on which node      (spreading, affinity of a pod that comes)
//!   opinions  how many pods with the same affinity are on which node    (affinity of the pods that are there)
//!   images    which nodes have an image, and how large it is
//!   machines  which nodes are one machine and share its ports
//!   attempts  which waiting pods fitted nowhere, how often, and when last
//! ```
//! A pod counts from its binding until it is finished or gone.

mod crowds;
mod images;
mod machines;
mod node_state;
mod nodes;
mod numbers;
mod opinions;
mod ports;
mod requests;

#[cfg(test)]
mod tests;

use std::sync::Arc;

use k8s_openapi::api::core::v1::Node;
use rekindle_types::held::HeldPod;

use crate::{ViewObject, pods};
pub(crate) use crowds::PodCrowds;
pub(crate) use images::{ImageNodes, NodeImageIndex};
use machines::NodeAddresses;
pub(crate) use machines::addresses;
pub(crate) use node_state::{NodeState, is_ready, is_silent};
use nodes::ClusterNodes;
pub(crate) use nodes::{NodeEntry, NodeNumber, ZoneNumber};
pub(crate) use opinions::Opinions;
pub(crate) use ports::PodHostPorts;
pub use requests::{NonzeroRequests, ResourceAmounts};

/// The index.
#[derive(Clone, Debug, Default)]
pub(crate) struct ClusterIndex {
    nodes: ClusterNodes,
    crowds: PodCrowds,
    opinions: Opinions,
    images: NodeImageIndex,
    machines: NodeAddresses,
}

/// Whether a pod comes to its node or leaves it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum PodShift {
    /// It comes.
    In,
    /// It leaves.
    Out,
}

impl PodShift {
    /// By how much a count of pods changes.
    pub(crate) const fn sign(self) -> i64 {
        match self {
            PodShift::In => 1,
            PodShift::Out => -1,
        }
    }
}

impl ClusterIndex {
    /// An object came into the view.
    pub(crate) fn insert(&mut self, object: &ViewObject) {
        match object {
            ViewObject::Pod(pod) => self.shift(pod, PodShift::In),
            ViewObject::Node(node) => {
                let name = name_of(node);
                self.images.insert(name, node);
                self.machines.insert(name, node);
                self.nodes.appear(name, node);
            }
            _ => {}
        }
    }

    /// An object left the view.
    pub(crate) fn remove(&mut self, object: &ViewObject) {
        match object {
            ViewObject::Pod(pod) => self.shift(pod, PodShift::Out),
            ViewObject::Node(node) => {
                let name = name_of(node);
                self.images.remove(name, node);
                self.machines.remove(name, node);
                self.nodes.disappear(name);
            }
            _ => {}
        }
    }

    fn shift(&mut self, pod: &HeldPod, shift: PodShift) {
        let Some(node) = pods::node(pod).filter(|_| !pods::is_finished(pod)) else { return };
        let number = self.nodes.shift(node, pod, shift);
        self.crowds.shift(pod, number, shift);
        self.opinions.shift(pod, number, shift);
        match shift {
            PodShift::In => {}
            PodShift::Out => self.nodes.drop_if_void(node),
        }
    }

    /// The nodes that exist, by name.
    pub(crate) fn nodes(&self) -> impl Iterator<Item = NodeEntry<'_>> {
        self.nodes.iter()
    }

    /// How many they are.
    pub(crate) fn node_count(&self) -> usize {
        self.nodes.count()
    }

    /// A node that exists.
    pub(crate) fn node(&self, name: &str) -> Option<NodeEntry<'_>> {
        self.nodes.named(name)
    }

    /// The number of a node, if anything is known of it.
    pub(crate) fn number_of(&self, name: &str) -> Option<NodeNumber> {
        self.nodes.number(name)
    }

    /// The node of a number, if it exists.
    pub(crate) fn numbered(&self, number: NodeNumber) -> Option<&Arc<Node>> {
        self.nodes.numbered(number)
    }

    /// The zone of a node, if a label says so.
    pub(crate) fn zone_of(&self, node: NodeNumber) -> Option<ZoneNumber> {
        self.nodes.zone_of(node)
    }

    /// A table of all nodes has so many places.
    pub(crate) fn node_places(&self) -> usize {
        self.nodes.bound()
    }

    /// A table of all zones has so many places.
    pub(crate) fn zone_places(&self) -> usize {
        self.nodes.zone_bound()
    }

    /// The other nodes on the machine of this one, which share its ports.
    pub(crate) fn beside<'a>(
        &'a self,
        node: &'a Node,
    ) -> impl Iterator<Item = (&'a str, &'a NodeState)> {
        let names = self.machines.beside(node);
        names.filter_map(|name| Some((name, self.nodes.state(name)?)))
    }

    /// What the pods of a node ask for, all together.
    pub(crate) fn requested_on(&self, node: &str) -> ResourceAmounts {
        self.nodes.state(node).map(|state| state.used().clone()).unwrap_or_default()
    }

    /// The pods that are there, by their labels.
    pub(crate) fn crowds(&self) -> &PodCrowds {
        &self.crowds
    }

    /// The pods that are there, by what they think of others.
    pub(crate) fn opinions(&self) -> &Opinions {
        &self.opinions
    }

    /// The images that are there.
    pub(crate) fn images(&self) -> &NodeImageIndex {
        &self.images
    }
}

fn name_of(node: &Node) -> &str {
    node.metadata.name.as_deref().unwrap_or_default()
}
