//! Elements of NetworkPolicies as elements of nftables' sets.

use std::net::IpAddr;

use netlink_packet_core::DefaultNla;
use netlink_packet_netfilter::nftables::{DataAttribute, ListAttribute, SetElementAttribute};
use rekindle_network_policy::{ClassNumber, PolicyElement};
use rekindle_services::TransportProtocol;
use rekindle_types::IpFamily;

use super::schema;
use crate::rules::elements::EncodedElement;
use crate::rules::expressions::octets;
use crate::rules::schema::FamilyName;

/// `NFTA_DATA_VALUE`.
const VALUE: u16 = 1;

type Words = Vec<[u8; 4]>;

/// The set, and the element without what it maps to.
pub(super) fn encode_key(element: &PolicyElement) -> (&'static str, EncodedElement) {
    let (set, first, last, _) = parts(element);
    (set, ListAttribute::Element(key_attributes(&first, last.as_ref())))
}

/// The set, and the element.
pub(super) fn encode(element: &PolicyElement) -> (&'static str, EncodedElement) {
    let (set, first, last, data) = parts(element);
    let mut attributes = key_attributes(&first, last.as_ref());
    let data = data.map(|class| [[0; 4], number(class)].as_flattened().to_vec());
    attributes.extend(data.map(|data| SetElementAttribute::Data(DataAttribute::Value(data))));
    (set, ListAttribute::Element(attributes))
}

fn key_attributes(first: &Words, last: Option<&Words>) -> Vec<SetElementAttribute> {
    let key = DataAttribute::Value(first.as_flattened().to_vec());
    let mut attributes = vec![SetElementAttribute::Key(key)];
    attributes.extend(last.map(|last| {
        let value = DefaultNla::new(VALUE, last.as_flattened().to_vec());
        SetElementAttribute::KeyEnd(vec![value])
    }));
    attributes
}

/// Set, key, where the key's range ends, and what it maps to.
fn parts(element: &PolicyElement) -> (&'static str, Words, Option<Words>, Option<ClassNumber>) {
    let class = |set: FamilyName, address: IpAddr, class| {
        (set.of(IpFamily::from_address(address)), address_words(address), None, Some(class))
    };
    match *element {
        PolicyElement::Ingress(address, number) => class(schema::INGRESS, address, number),
        PolicyElement::Egress(address, number) => class(schema::EGRESS, address, number),
        PolicyElement::Peer(address, number) => class(schema::PEERS, address, number),
        PolicyElement::Itself(address) => {
            let set = schema::ITSELF.of(IpFamily::from_address(address));
            (set, address_words(address).repeat(2), None, None)
        }
        PolicyElement::AllowedPeer(own, peer) => {
            (schema::ALLOWED_PEERS, vec![number(own), number(peer)], None, None)
        }
        PolicyElement::AllowedPeerPorts(own, peer, of, ports) => {
            let key = |at| vec![number(own), number(peer), protocol(of), port(at)];
            (schema::ALLOWED_PEER_PORTS, key(ports.first), Some(key(ports.last)), None)
        }
        PolicyElement::AllowedBlock(own, block) => {
            let key = |address| [vec![number(own)], address_words(address)].concat();
            let set = schema::ALLOWED_BLOCKS.of(block.family());
            (set, key(block.first), Some(key(block.last)), None)
        }
        PolicyElement::AllowedBlockPorts(own, block, of, ports) => {
            let key = |address, at| {
                let of_ports = vec![protocol(of), port(at)];
                [vec![number(own)], address_words(address), of_ports].concat()
            };
            let (first, last) = (key(block.first, ports.first), key(block.last, ports.last));
            (schema::ALLOWED_BLOCK_PORTS.of(block.family()), first, Some(last), None)
        }
    }
}

fn address_words(address: IpAddr) -> Words {
    octets(address).as_chunks().0.to_vec()
}

fn number(class: ClassNumber) -> [u8; 4] {
    class.get().to_ne_bytes()
}

fn protocol(protocol: TransportProtocol) -> [u8; 4] {
    [protocol.number(), 0, 0, 0]
}

fn port(port: u16) -> [u8; 4] {
    let [high, low] = port.to_be_bytes();
    [high, low, 0, 0]
}
