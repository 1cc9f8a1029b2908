//! What NetworkPolicies say, as elements of sets and maps of the rules.

use std::collections::BTreeSet;
use std::net::IpAddr;

use rekindle_services::TransportProtocol;

use crate::class::ClassNumber;
use crate::range::{AddressRange, PortRange};

/// Everything that NetworkPolicies say.
pub type PolicyElements = BTreeSet<PolicyElement>;

/// One element of a set or map.
///
/// A packet to a pod that has an [`Ingress`](Self::Ingress) class is dropped unless an element
/// allows its source; one from a pod that has an [`Egress`](Self::Egress) class, unless an element
/// allows its destination. Pods without such a class are open.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum PolicyElement {
    /// The pod with this address is isolated for ingress.
    Ingress(IpAddr, ClassNumber),
    /// The pod with this address is isolated for egress.
    Egress(IpAddr, ClassNumber),
    /// The isolated pod with this address may talk to itself, which it does by way of a Service.
    Itself(IpAddr),
    /// The pod with this address is selected as a peer.
    Peer(IpAddr, ClassNumber),
    /// An isolated class, and a class of peers that may send and receive everything.
    AllowedPeer(ClassNumber, ClassNumber),
    /// The same at some ports of the destination only.
    AllowedPeerPorts(ClassNumber, ClassNumber, TransportProtocol, PortRange),
    /// An isolated class, and addresses that may send and receive everything.
    AllowedBlock(ClassNumber, AddressRange),
    /// The same at some ports of the destination only. Those of one class and protocol do not
    /// overlap.
    AllowedBlockPorts(ClassNumber, AddressRange, TransportProtocol, PortRange),
}

/// From one set of elements to another, in one transaction: first what goes, then what comes.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PolicyChanges {
    /// What goes.
    pub removed: PolicyElements,
    /// What comes.
    pub added: PolicyElements,
}

impl PolicyChanges {
    /// What leads from one set to the other.
    pub fn between(before: &PolicyElements, after: &PolicyElements) -> Self {
        Self {
            removed: before.difference(after).copied().collect(),
            added: after.difference(before).copied().collect(),
        }
    }

    /// Whether all stays as it is.
    pub fn is_empty(&self) -> bool {
        self.removed.is_empty() && self.added.is_empty()
    }

    pub(crate) fn remove(&mut self, element: PolicyElement) {
        if !self.added.remove(&element) {
            self.removed.insert(element);
        }
    }

    pub(crate) fn add(&mut self, element: PolicyElement) {
        if !self.removed.remove(&element) {
            self.added.insert(element);
        }
    }
}
