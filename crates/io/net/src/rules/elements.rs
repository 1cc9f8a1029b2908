//! Elements of the rules as elements of nftables' sets, and back.
//!
//! A key is a concatenation: each part fills a multiple of four bytes, as registers do. Addresses
//! and ports are in network byte order. Numbers are as the processor has them, because the rules
//! load them so.

use std::net::{IpAddr, SocketAddr};
use std::num::{NonZeroU16, NonZeroU32};

use netlink_packet_core::{DecodeError, NlasIterator, parse_u64_be};
use netlink_packet_netfilter::nftables::{DataAttribute, ListAttribute, SetElementAttribute};
use rekindle_services::{
    ClientView, Clients, EndpointPick, Frontend, Refusal, RuleElement, SourceRange,
    TransportProtocol,
};
use rekindle_types::IpFamily;

use crate::rules::error::RuleError;
use crate::rules::expressions::{octets, verdict_go_to};
use crate::rules::needed_chains::{NeededChain, first_number, way_of_picking};
use crate::rules::schema::ElementSet;

/// An element of a set as a message has it.
pub(super) type EncodedElement = ListAttribute<SetElementAttribute>;

/// The set that an element belongs to.
pub(super) fn set_of(element: &RuleElement) -> ElementSet {
    let of_view = |view: &ClientView, [all, by_client]: [ElementSet; 2]| match view.clients {
        Clients::All => all,
        Clients::Within(_) => by_client,
    };
    match element {
        RuleElement::Pick(view, _) => {
            of_view(view, [ElementSet::Services, ElementSet::ServicesByClient])
        }
        RuleElement::Endpoint(view, ..) => {
            of_view(view, [ElementSet::Endpoints, ElementSet::EndpointsByClient])
        }
        RuleElement::Held(view) => of_view(view, [ElementSet::Held, ElementSet::HeldByClient]),
        RuleElement::Member(..) => ElementSet::Members,
        RuleElement::Refused(_, Refusal::Reject) => ElementSet::Rejected,
        RuleElement::Refused(_, Refusal::Drop) => ElementSet::Dropped,
        RuleElement::OnOtherNodes(..) => ElementSet::DroppedByClient,
        RuleElement::Guarded(_) => ElementSet::Guarded,
        RuleElement::Source(..) => ElementSet::Sources,
        RuleElement::HostPort(_) => ElementSet::HostPorts,
        RuleElement::Hairpin(_) => ElementSet::Hairpins,
    }
}

/// The family of its addresses.
pub(super) const fn family_of(element: &RuleElement) -> IpFamily {
    match element {
        RuleElement::Hairpin(address) => IpFamily::from_address(*address),
        RuleElement::Pick(view, _) | RuleElement::Endpoint(view, ..) | RuleElement::Held(view) => {
            view.frontend.family()
        }
        RuleElement::Member(frontend, _)
        | RuleElement::Refused(frontend, _)
        | RuleElement::OnOtherNodes(frontend, _)
        | RuleElement::Guarded(frontend)
        | RuleElement::Source(frontend, _)
        | RuleElement::HostPort(frontend) => frontend.family(),
    }
}

/// What identifies the element in its set, and what the set maps that to.
pub(super) fn encode(element: &RuleElement) -> Result<EncodedElement, RuleError> {
    let mixed = || RuleError::MixedFamilies { element: Box::new(*element) };
    let (key, data) = key_and_data(element).ok_or_else(mixed)?;
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

/// None: its addresses are of two families.
fn key_and_data(element: &RuleElement) -> Option<(Vec<u8>, Option<Vec<u8>>)> {
    let family = family_of(element);
    let same = |address: IpAddr| Some(address).filter(|it| IpFamily::from_address(*it) == family);
    Some(match element {
        RuleElement::Pick(view, pick) => {
            (view_key(view)?, Some(pick_bytes(*pick, view.clients).to_vec()))
        }
        RuleElement::Endpoint(view, number, endpoint) => {
            same(endpoint.ip())?;
            let mut key = view_key(view)?;
            let number = u32::from(*number) + first_number(view.clients.prefix());
            key.extend(number.to_ne_bytes());
            (key, Some(endpoint_bytes(endpoint)))
        }
        RuleElement::Held(ClientView { frontend, clients: Clients::Within(range) })
        | RuleElement::OnOtherNodes(frontend, range)
        | RuleElement::Source(frontend, range) => {
            let mask = octets(SourceRange::netmask(family, range.prefix)?);
            let network = octets(same(range.network)?);
            ([frontend_key(frontend), network, mask].concat(), None)
        }
        RuleElement::Held(ClientView { frontend, clients: Clients::All }) => {
            (frontend_key(frontend), None)
        }
        RuleElement::Member(frontend, endpoint) => {
            same(endpoint.ip())?;
            ([frontend_key(frontend), endpoint_bytes(endpoint)].concat(), None)
        }
        RuleElement::Refused(frontend, _)
        | RuleElement::Guarded(frontend)
        | RuleElement::HostPort(frontend) => (frontend_key(frontend), None),
        RuleElement::Hairpin(address) => (octets(*address).repeat(2), None),
    })
}

/// Seconds of affinity, endpoints, how they are picked: the last two are the key of `picks`.
fn pick_bytes(pick: EndpointPick, clients: Clients) -> [u8; 12] {
    let sticky_s = pick.sticky_s.map_or(0, NonZeroU32::get);
    let way = way_of_picking(pick.sticky_s.is_some(), clients.prefix());
    join([sticky_s, pick.endpoints.get().into(), way].map(u32::to_ne_bytes))
}

/// The element that leads from a frontend with affinity to the chain that remembers its clients.
pub(super) fn encode_sticky(element: &RuleElement) -> Option<EncodedElement> {
    let RuleElement::Pick(ClientView { frontend, clients: Clients::All }, _) = element else {
        return None;
    };
    let chain = NeededChain::of_element(element)
        .find(|chain| matches!(chain, NeededChain::Remember { .. }))?;
    let verdict = DataAttribute::Verdict(verdict_go_to(&chain.name()));
    let key = DataAttribute::Value(frontend_key(frontend));
    let attributes = vec![SetElementAttribute::Key(key), SetElementAttribute::Data(verdict)];
    Some(ListAttribute::Element(attributes))
}

/// None: frontend and clients are of two families.
fn view_key(view: &ClientView) -> Option<Vec<u8>> {
    let mut key = frontend_key(&view.frontend);
    if let Clients::Within(range) = view.clients {
        let is_of_family = range.family() == view.frontend.family();
        key.extend(is_of_family.then(|| octets(range.network))?);
    }
    Some(key)
}

fn frontend_key(frontend: &Frontend) -> Vec<u8> {
    let mut key = octets(frontend.address);
    key.extend([frontend.protocol.number(), 0, 0, 0]);
    key.extend(port_bytes(frontend.port));
    key
}

fn endpoint_bytes(endpoint: &SocketAddr) -> Vec<u8> {
    let mut bytes = octets(endpoint.ip());
    bytes.extend(port_bytes(endpoint.port()));
    bytes
}

fn port_bytes(port: u16) -> [u8; 4] {
    let [high, low] = port.to_be_bytes();
    [high, low, 0, 0]
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

/// The element that the kernel has in this family's `set`. An error says what is not as we write
/// it.
pub(super) fn decode(
    set: ElementSet,
    family: IpFamily,
    element: &ListedElement,
) -> Result<RuleElement, String> {
    let ListedElement { key, data, .. } = element;
    decode_parts(set, family, words(key), words(data))
        .ok_or_else(|| format!("unknown element with key {key:02x?} and data {data:02x?}"))
}

fn words(bytes: &[u8]) -> &[[u8; 4]] {
    bytes.as_chunks().0
}

fn decode_parts(
    set: ElementSet,
    family: IpFamily,
    mut key: &[[u8; 4]],
    mut data: &[[u8; 4]],
) -> Option<RuleElement> {
    if set == ElementSet::Hairpins {
        let (from, to) = (take_address(family, &mut key)?, take_address(family, &mut key)?);
        let is_whole = key.is_empty() && data.is_empty();
        return (is_whole && from == to).then_some(RuleElement::Hairpin(from));
    }
    let frontend = take_frontend(family, &mut key)?;
    let element = match set {
        ElementSet::Services => {
            let (pick, _) = take_pick(&mut data)?;
            RuleElement::Pick(frontend.into(), pick)
        }
        ElementSet::ServicesByClient => {
            let network = take_address(family, &mut key)?;
            let (pick, way) = take_pick(&mut data)?;
            RuleElement::Pick(view(frontend, network, way >> 1)?, pick)
        }
        ElementSet::Endpoints => {
            let number = u16::try_from(take_number(&mut key)?).ok()?;
            RuleElement::Endpoint(frontend.into(), number, take_endpoint(family, &mut data)?)
        }
        ElementSet::EndpointsByClient => {
            let network = take_address(family, &mut key)?;
            let number = take_number(&mut key)?;
            let view = view(frontend, network, number >> u16::BITS)?;
            let number = u16::try_from(number & u32::from(u16::MAX)).ok()?;
            RuleElement::Endpoint(view, number, take_endpoint(family, &mut data)?)
        }
        ElementSet::Members => RuleElement::Member(frontend, take_endpoint(family, &mut key)?),
        ElementSet::Rejected => RuleElement::Refused(frontend, Refusal::Reject),
        ElementSet::Dropped => RuleElement::Refused(frontend, Refusal::Drop),
        ElementSet::DroppedByClient => {
            RuleElement::OnOtherNodes(frontend, take_range(family, &mut key)?)
        }
        ElementSet::Held => RuleElement::Held(frontend.into()),
        ElementSet::HeldByClient => {
            let clients = Clients::Within(take_range(family, &mut key)?);
            RuleElement::Held(ClientView { frontend, clients })
        }
        ElementSet::Guarded => RuleElement::Guarded(frontend),
        ElementSet::Sources => RuleElement::Source(frontend, take_range(family, &mut key)?),
        ElementSet::HostPorts => RuleElement::HostPort(frontend),
        ElementSet::Hairpins => return None,
    };
    (key.is_empty() && data.is_empty()).then_some(element)
}

/// What those of these clients see who have so many bits of their addresses in common.
fn view(frontend: Frontend, network: IpAddr, prefix: u32) -> Option<ClientView> {
    let range = SourceRange { network, prefix: u8::try_from(prefix).ok()? };
    Some(ClientView { frontend, clients: Clients::Within(range) })
}

/// And how it is done.
fn take_pick(words: &mut &[[u8; 4]]) -> Option<(EndpointPick, u32)> {
    let [sticky_s, endpoints, way] = [(); 3].map(|()| take_number(words));
    let endpoints = NonZeroU16::new(u16::try_from(endpoints?).ok()?)?;
    Some((EndpointPick { endpoints, sticky_s: NonZeroU32::new(sticky_s?) }, way?))
}

fn take_range(family: IpFamily, words: &mut &[[u8; 4]]) -> Option<SourceRange> {
    let network = take_address(family, words)?;
    let prefix = match take_address(family, words)? {
        IpAddr::V4(mask) => mask.to_bits().leading_ones(),
        IpAddr::V6(mask) => mask.to_bits().leading_ones(),
    };
    Some(SourceRange { network, prefix: u8::try_from(prefix).ok()? })
}

fn take_number(words: &mut &[[u8; 4]]) -> Option<u32> {
    Some(u32::from_ne_bytes(*take_word(words)?))
}

fn take_word<'w>(words: &mut &'w [[u8; 4]]) -> Option<&'w [u8; 4]> {
    words.split_off_first()
}

fn take_address(family: IpFamily, words: &mut &[[u8; 4]]) -> Option<IpAddr> {
    Some(match family {
        IpFamily::V4 => IpAddr::from(*take_word(words)?),
        IpFamily::V6 => {
            let (address, rest) = words.split_first_chunk::<4>()?;
            *words = rest;
            IpAddr::from(<[u8; 16]>::try_from(address.as_flattened()).ok()?)
        }
    })
}

fn take_port(words: &mut &[[u8; 4]]) -> Option<u16> {
    let [high, low, ..] = *take_word(words)?;
    Some(u16::from_be_bytes([high, low]))
}

fn take_frontend(family: IpFamily, words: &mut &[[u8; 4]]) -> Option<Frontend> {
    let address = take_address(family, words)?;
    let [number, ..] = *take_word(words)?;
    let protocol = TransportProtocol::ALL.into_iter().find(|known| known.number() == number)?;
    Some(Frontend { address, protocol, port: take_port(words)? })
}

fn take_endpoint(family: IpFamily, words: &mut &[[u8; 4]]) -> Option<SocketAddr> {
    let address = take_address(family, words)?;
    Some(SocketAddr::new(address, take_port(words)?))
}

#[cfg(test)]
mod tests;
