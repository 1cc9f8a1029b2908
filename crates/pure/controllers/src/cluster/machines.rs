//! Which nodes are one machine: those that have an InternalIP in common, as the nodes of one engine
//! do. They share its ports, whoever of them has opened one. On a cluster each node has an address
//! of its own.

use std::collections::{BTreeMap, BTreeSet};

use k8s_openapi::api::core::v1::Node;

/// The nodes at each address.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct NodeAddresses(BTreeMap<String, BTreeSet<String>>);

impl NodeAddresses {
    pub(super) fn insert(&mut self, name: &str, node: &Node) {
        for address in addresses(node) {
            self.0.entry(address.to_owned()).or_default().insert(name.to_owned());
        }
    }

    pub(super) fn remove(&mut self, name: &str, node: &Node) {
        for address in addresses(node) {
            let Some(nodes) = self.0.get_mut(address) else { continue };
            nodes.remove(name);
            if nodes.is_empty() {
                self.0.remove(address);
            }
        }
    }

    /// The other nodes of the node's machine. One that has several addresses in common comes as
    /// often.
    pub(super) fn beside<'a>(&'a self, node: &'a Node) -> impl Iterator<Item = &'a str> {
        let own = node.metadata.name.as_deref();
        let there = addresses(node).filter_map(|address| self.0.get(address));
        there.flatten().map(String::as_str).filter(move |name| own != Some(*name))
    }
}

/// The addresses at which a node is reached by others.
pub(crate) fn addresses(node: &Node) -> impl Iterator<Item = &str> {
    let all = node.status.iter().flat_map(|status| status.addresses.iter().flatten());
    all.filter(|address| address.type_ == "InternalIP").map(|address| address.address.as_str())
}
