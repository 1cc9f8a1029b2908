//! What classes of pods may send to each other.

use std::collections::{BTreeMap, BTreeSet};

use rekindle_services::TransportProtocol;

use crate::class::ClassNumber;
use crate::element::PolicyElement;
use crate::peer_pod::{NamedPort, PeerPod};
use crate::policy_rule::{AllowedPorts, PeerSelector, PolicyDirection, PolicyRule};
use crate::range::{AddressRange, PortRange, disjoint, joined_addresses, joined_ports};

type PortsByName = BTreeMap<NamedPort, BTreeSet<u16>>;

/// What isolated pods have in common.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct IsolatedClass {
    direction: PolicyDirection,
    /// Of all policies that select them.
    rules: BTreeSet<PolicyRule>,
    /// For ingress: which numbers the names in these rules stand for.
    ports: PortsByName,
}

/// What peers have in common.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct PeerClass {
    selectors: BTreeSet<PeerSelector>,
    /// Which numbers the names in rules for egress stand for.
    ports: PortsByName,
}

impl PeerClass {
    pub(super) fn new(
        selectors: BTreeSet<PeerSelector>,
        ports: &PortsByName,
        names: &BTreeSet<NamedPort>,
    ) -> Self {
        Self { selectors, ports: only(ports, names.iter()) }
    }

    pub(super) fn selectors(&self) -> impl Iterator<Item = &PeerSelector> {
        self.selectors.iter()
    }
}

fn only<'a>(ports: &PortsByName, names: impl Iterator<Item = &'a NamedPort>) -> PortsByName {
    names.filter_map(|name| Some((name.clone(), ports.get(name)?.clone()))).collect()
}

/// What some rules allow together.
enum PortUnion {
    All,
    Some(BTreeMap<TransportProtocol, Vec<PortRange>>),
}

impl IsolatedClass {
    pub(super) fn new(
        direction: PolicyDirection,
        rules: BTreeSet<PolicyRule>,
        pod: &PeerPod,
    ) -> Self {
        let ports = match direction {
            PolicyDirection::Ingress => {
                only(&pod.ports, rules.iter().flat_map(|rule| rule.ports.names()))
            }
            PolicyDirection::Egress => PortsByName::new(),
        };
        Self { direction, rules, ports }
    }

    /// Those of all its rules.
    pub(super) fn selectors(&self) -> impl Iterator<Item = &PeerSelector> {
        self.rules.iter().flat_map(|rule| &rule.selectors)
    }

    /// What may pass between the two: nothing if they have no selector in common.
    pub(super) fn allowed(
        &self,
        number: ClassNumber,
        peer: &PeerClass,
        peer_number: ClassNumber,
    ) -> Vec<PolicyElement> {
        let names = match self.direction {
            PolicyDirection::Ingress => &self.ports,
            PolicyDirection::Egress => &peer.ports,
        };
        let selecting =
            self.rules.iter().filter(|rule| !rule.selectors.is_disjoint(&peer.selectors));
        match union(selecting.map(|rule| &rule.ports), names) {
            PortUnion::All => vec![PolicyElement::AllowedPeer(number, peer_number)],
            PortUnion::Some(ports) => {
                let element = |(protocol, ranges): (TransportProtocol, Vec<PortRange>)| {
                    joined_ports(ranges).into_iter().map(move |ports| {
                        PolicyElement::AllowedPeerPorts(number, peer_number, protocol, ports)
                    })
                };
                ports.into_iter().flat_map(element).collect()
            }
        }
    }

    /// Which addresses it may talk to, whether pods have them or not.
    pub(super) fn blocks(&self, number: ClassNumber) -> Vec<PolicyElement> {
        let mut open: Vec<AddressRange> = Vec::new();
        let mut at_ports: BTreeMap<TransportProtocol, Vec<(AddressRange, PortRange)>> =
            BTreeMap::new();
        for rule in self.rules.iter().filter(|rule| !rule.blocks.is_empty()) {
            match union(std::iter::once(&rule.ports), &self.ports) {
                PortUnion::All => open.extend(&rule.blocks),
                PortUnion::Some(ports) => {
                    for (protocol, ranges) in ports {
                        let pairs = rule
                            .blocks
                            .iter()
                            .flat_map(|block| ranges.iter().map(move |ports| (*block, *ports)));
                        at_ports.entry(protocol).or_default().extend(pairs);
                    }
                }
            }
        }
        let open = joined_addresses(open);
        let open = open.into_iter().map(|block| PolicyElement::AllowedBlock(number, block));
        let at_ports = at_ports.into_iter().flat_map(|(protocol, rectangles)| {
            disjoint(&rectangles).into_iter().map(move |(block, ports)| {
                PolicyElement::AllowedBlockPorts(number, block, protocol, ports)
            })
        });
        open.chain(at_ports).collect()
    }
}

fn union<'a>(rules: impl Iterator<Item = &'a AllowedPorts>, names: &PortsByName) -> PortUnion {
    let mut union: BTreeMap<TransportProtocol, Vec<PortRange>> = BTreeMap::new();
    for ports in rules {
        match ports {
            AllowedPorts::All => return PortUnion::All,
            AllowedPorts::Some { numbers, names: asked } => {
                for (protocol, range) in numbers {
                    union.entry(*protocol).or_default().push(*range);
                }
                for (name, numbers) in asked.iter().filter_map(|name| names.get_key_value(name)) {
                    let ranges = numbers.iter().map(|number| PortRange::one(*number));
                    union.entry(name.0).or_default().extend(ranges);
                }
            }
        }
    }
    PortUnion::Some(union)
}
