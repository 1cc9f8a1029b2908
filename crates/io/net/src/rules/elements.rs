//! Elements of the rules as elements of nftables' sets, and back.
//!
//! A key is a concatenation: each part fills a multiple of four bytes, as registers do. Addresses
//! and ports are in network byte order. Numbers are as the processor has them, because the rules
//! load them so.

use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::num::{NonZeroU16, NonZeroU32};

use netlink_packet_core::{DecodeError, NlasIterator, parse_u64_be};
use netlink_packet_netfilter::nftables::{DataAttribute, ListAttribute, SetElementAttribute};
use rekindle_services::{
    EndpointPick, Frontend, Refusal, RuleElement, SourceRange, TransportProtocol,
};

use crate::rules::error::RuleError;
use crate::rules::expressions::verdict_go_to;
use crate::rules::schema::{ElementSet, NeededChain};

/// An element of a set as a message has it.
pub(super) type EncodedElement = ListAttribute<SetElementAttribute>;

/// The set that an element belongs to.
pub(super) fn set_of(element: &RuleElement) -> ElementSet {
    match element {
        RuleElement::Pick(..) => ElementSet::Services,
        RuleElement::Endpoint(..) => ElementSet::Endpoints,
        RuleElement::Member(..) => ElementSet::Members,
        RuleElement::Refused(_, Refusal::Reject) => ElementSet::Rejected,
        RuleElement::Refused(_, Refusal::Drop) => ElementSet::Dropped,
        RuleElement::Held(_) => ElementSet::Held,
        RuleElement::Guarded(_) => ElementSet::Guarded,
        RuleElement::Source(..) => ElementSet::Sources,
        RuleElement::HostPort(_) => ElementSet::HostPorts,
        RuleElement::Hairpin(_) => ElementSet::Hairpins,
    }
}

/// What identifies the element in its set, and what the set maps that to.
pub(super) fn encode(element: &RuleElement) -> Result<EncodedElement, RuleError> {
    let only_ipv4 = || RuleError::Ipv6 { element: Box::new(*element) };
    let (key, data) = key_and_data(element).ok_or_else(only_ipv4)?;
    let data = data.map(|data| SetElementAttribute::Data(DataAttribute::Value(data)));
    let key = SetElementAttribute::Key(DataAttribute::Value(key));
    Ok(ListAttribute::Element([Some(key), data].into_iter().flatten().collect()))
}

/// The same without what the key maps to: for a removal.
pub(super) fn key_only(element: EncodedElement) -> EncodedElement {
    let is_key = |attribute: &SetElementAttribute| matches!(attribute, SetElementAttribute::Key(_));
    match element {
        ListAttribute::Element(attributes) => {
            ListAttribute::Element(attributes.into_iter().filter(is_key).collect())
        }
        other => other,
    }
}

/// None: an address is IPv6.
fn key_and_data(element: &RuleElement) -> Option<(Vec<u8>, Option<Vec<u8>>)> {
    Some(match element {
        RuleElement::Pick(frontend, pick) => {
            (frontend_key(frontend)?.to_vec(), Some(pick_bytes(*pick).to_vec()))
        }
        RuleElement::Endpoint(frontend, number, endpoint) => {
            let number = u32::from(*number).to_ne_bytes();
            let key = [frontend_key(frontend)?.as_slice(), &number].concat();
            (key, Some(endpoint_bytes(endpoint)?.to_vec()))
        }
        RuleElement::Member(frontend, endpoint) => {
            ([frontend_key(frontend)?.as_slice(), &endpoint_bytes(endpoint)?].concat(), None)
        }
        RuleElement::Refused(frontend, _)
        | RuleElement::Held(frontend)
        | RuleElement::Guarded(frontend)
        | RuleElement::HostPort(frontend) => (frontend_key(frontend)?.to_vec(), None),
        RuleElement::Source(frontend, SourceRange { network, prefix }) => {
            let range = [network.octets(), SourceRange::netmask(*prefix).octets()];
            ([frontend_key(frontend)?.as_slice(), range.as_flattened()].concat(), None)
        }
        RuleElement::Hairpin(address) => (ipv4(*address)?.repeat(2), None),
    })
}

/// Seconds of affinity, endpoints, whether there is affinity: the last two are the key of `picks`.
fn pick_bytes(pick: EndpointPick) -> [u8; 12] {
    let sticky_s = pick.sticky_s.map_or(0, NonZeroU32::get);
    let sticky = u32::from(pick.sticky_s.is_some());
    join([sticky_s, pick.endpoints.get().into(), sticky].map(u32::to_ne_bytes))
}

/// The element that leads from a frontend with affinity to the chain that remembers its clients.
pub(super) fn encode_sticky(element: &RuleElement) -> Option<EncodedElement> {
    let RuleElement::Pick(frontend, _) = element else {
        return None;
    };
    let chain = NeededChain::of_element(element)
        .find(|chain| matches!(chain, NeededChain::Remember { .. }))?;
    let verdict = DataAttribute::Verdict(verdict_go_to(&chain.name()));
    let key = DataAttribute::Value(frontend_key(frontend)?.to_vec());
    let attributes = vec![SetElementAttribute::Key(key), SetElementAttribute::Data(verdict)];
    Some(ListAttribute::Element(attributes))
}

fn frontend_key(frontend: &Frontend) -> Option<[u8; 12]> {
    let address = ipv4(frontend.address)?;
    Some(join([address, [frontend.protocol.number(), 0, 0, 0], port_bytes(frontend.port)]))
}

fn endpoint_bytes(endpoint: &SocketAddr) -> Option<[u8; 8]> {
    Some(join([ipv4(endpoint.ip())?, port_bytes(endpoint.port())]))
}

fn port_bytes(port: u16) -> [u8; 4] {
    let [high, low] = port.to_be_bytes();
    [high, low, 0, 0]
}

fn ipv4(address: IpAddr) -> Option<[u8; 4]> {
    match address {
        IpAddr::V4(address) => Some(address.octets()),
        IpAddr::V6(_) => None,
    }
}

fn join<const PARTS: usize, const BYTES: usize>(parts: [[u8; 4]; PARTS]) -> [u8; BYTES] {
    let mut bytes = [0; BYTES];
    bytes.copy_from_slice(parts.as_flattened());
    bytes
}

/// An element as the kernel lists it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct ListedElement {
    pub(super) key: Vec<u8>,
    pub(super) data: Vec<u8>,
    /// Both in milliseconds.
    timeout: Option<u64>,
    expiration: Option<u64>,
}

impl ListedElement {
    /// The elements in the attributes of a message. Not by the library's types: they would write
    /// the whole message into the text of an error, which there may be, for each element.
    pub(super) fn read_all(attributes: &[u8], into: &mut Vec<Self>) -> Result<(), DecodeError> {
        const ELEMENTS: u16 = 3;
        for list in NlasIterator::new(attributes) {
            let list = list?;
            if list.kind() == ELEMENTS {
                for element in NlasIterator::new(list.value()) {
                    into.push(Self::read(element?.value())?);
                }
            }
        }
        Ok(())
    }

    fn read(attributes: &[u8]) -> Result<Self, DecodeError> {
        const KEY: u16 = 1;
        const DATA: u16 = 2;
        const TIMEOUT: u16 = 4;
        const EXPIRATION: u16 = 5;
        let mut element = Self::default();
        for attribute in NlasIterator::new(attributes) {
            let attribute = attribute?;
            match attribute.kind() {
                KEY => element.key = value_in(attribute.value())?,
                DATA => element.data = value_in(attribute.value())?,
                TIMEOUT => element.timeout = Some(parse_u64_be(attribute.value())?),
                EXPIRATION => element.expiration = Some(parse_u64_be(attribute.value())?),
                _ => {}
            }
        }
        Ok(element)
    }

    /// To be added again, with the time that is left to it.
    pub(super) fn encode(self) -> EncodedElement {
        let attributes = [
            Some(SetElementAttribute::Key(DataAttribute::Value(self.key))),
            Some(SetElementAttribute::Data(DataAttribute::Value(self.data))),
            self.timeout.map(SetElementAttribute::Timeout),
            self.expiration.map(SetElementAttribute::Expiration),
        ];
        ListAttribute::Element(attributes.into_iter().flatten().collect())
    }
}

/// Of data that is a value and no verdict.
fn value_in(data: &[u8]) -> Result<Vec<u8>, DecodeError> {
    const VALUE: u16 = 1;
    for attribute in NlasIterator::new(data) {
        let attribute = attribute?;
        if attribute.kind() == VALUE {
            return Ok(attribute.value().to_vec());
        }
    }
    Ok(Vec::new())
}

/// The element that the kernel has in `set`. An error says what is not as we write it.
pub(super) fn decode(set: ElementSet, element: &ListedElement) -> Result<RuleElement, String> {
    let ListedElement { key, data, .. } = element;
    decode_parts(set, words(key), words(data))
        .ok_or_else(|| format!("unknown element with key {key:02x?} and data {data:02x?}"))
}

fn words(bytes: &[u8]) -> &[[u8; 4]] {
    bytes.as_chunks().0
}

fn decode_parts(set: ElementSet, key: &[[u8; 4]], data: &[[u8; 4]]) -> Option<RuleElement> {
    let frontend = || decode_frontend(key);
    match (set, key, data) {
        (ElementSet::Services, [_, _, _], [sticky_s, endpoints, _]) => {
            let endpoints = u16::try_from(u32::from_ne_bytes(*endpoints)).ok()?;
            let pick = EndpointPick {
                endpoints: NonZeroU16::new(endpoints)?,
                sticky_s: NonZeroU32::new(u32::from_ne_bytes(*sticky_s)),
            };
            Some(RuleElement::Pick(frontend()?, pick))
        }
        (ElementSet::Endpoints, [_, _, _, number], endpoint) => {
            let number = u16::try_from(u32::from_ne_bytes(*number)).ok()?;
            Some(RuleElement::Endpoint(frontend()?, number, decode_endpoint(endpoint)?))
        }
        (ElementSet::Members, [_, _, _, endpoint @ ..], []) => {
            Some(RuleElement::Member(frontend()?, decode_endpoint(endpoint)?))
        }
        (ElementSet::Rejected, [_, _, _], []) => {
            Some(RuleElement::Refused(frontend()?, Refusal::Reject))
        }
        (ElementSet::Dropped, [_, _, _], []) => {
            Some(RuleElement::Refused(frontend()?, Refusal::Drop))
        }
        (ElementSet::Held, [_, _, _], []) => Some(RuleElement::Held(frontend()?)),
        (ElementSet::Guarded, [_, _, _], []) => Some(RuleElement::Guarded(frontend()?)),
        (ElementSet::Sources, [_, _, _, network, mask], []) => {
            let prefix = u8::try_from(u32::from_be_bytes(*mask).leading_ones()).ok()?;
            let range = SourceRange { network: Ipv4Addr::from(*network), prefix };
            Some(RuleElement::Source(frontend()?, range))
        }
        (ElementSet::HostPorts, [_, _, _], []) => Some(RuleElement::HostPort(frontend()?)),
        (ElementSet::Hairpins, [from, to], []) if from == to => {
            Some(RuleElement::Hairpin(Ipv4Addr::from(*from).into()))
        }
        _ => None,
    }
}

fn decode_frontend(key: &[[u8; 4]]) -> Option<Frontend> {
    let [address, [protocol, ..], [high, low, ..], ..] = key else {
        return None;
    };
    let protocol = TransportProtocol::ALL.into_iter().find(|known| known.number() == *protocol)?;
    let address = Ipv4Addr::from(*address).into();
    Some(Frontend { address, protocol, port: u16::from_be_bytes([*high, *low]) })
}

fn decode_endpoint(bytes: &[[u8; 4]]) -> Option<SocketAddr> {
    let [address, [high, low, ..]] = bytes else {
        return None;
    };
    Some(SocketAddr::from((Ipv4Addr::from(*address), u16::from_be_bytes([*high, *low]))))
}

#[cfg(test)]
mod tests;
