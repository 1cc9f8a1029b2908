//! Flows that the kernel has in mind (conntrack). A UDP flow goes where its first packet went, for
//! as long as packets come; so flows to an endpoint that is gone are forgotten. All flows of pods
//! are forgotten when their engine is taken down.

use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::net::{IpAddr, SocketAddr, UdpSocket};

use ipnet::IpNet;
use netlink_packet_core::{DefaultNla, Emitable, NLA_F_NESTED, Nla, NlasIterator, Parseable};
use netlink_packet_netfilter::conntrack::{
    ConntrackAttribute, ConntrackMessage, ConntrackMessageType, IPTuple, ProtoTuple, Protocol,
    Tuple,
};
use netlink_packet_netfilter::{
    NetfilterHeader, NetfilterMessage, NetfilterMessageInner, NetfilterProtoFamily,
    NetfilterSubsystem,
};
use rekindle_services::{Frontend, RuleElement, RuleElements, StaleFlow, TransportProtocol};
use rekindle_types::{IpFamily, IpStack};
use rustix::io::Errno;

use crate::rules::socket::{NetfilterSocket, malformed};

/// `CTA_ID`: tells a flow from a later one with the same addresses.
const ID: u16 = 12;
/// `CTA_ZONE`.
const ZONE: u16 = 18;
/// `CTA_TUPLE_ORIG`.
const TUPLE_ORIGINAL: u16 = 1;
/// `CTA_FILTER`.
const FILTER: u16 = 25;
/// `CTA_FILTER_ORIG_FLAGS` with `CTA_FILTER_F_CTA_PROTO_NUM`: compare the protocol only.
const FILTER_BY: u16 = 1;
const BY_PROTOCOL: u32 = 1 << 3;

/// Removes those flows and tells how many there were. In the network namespace of the calling
/// thread.
pub(super) fn forget_udp_flows(
    socket: &mut NetfilterSocket,
    stack: IpStack,
    stale: &BTreeSet<StaleFlow>,
) -> io::Result<usize> {
    forget(socket, stack, |flow| is_stale(flow, stale, is_of_machine))
}

/// Removes the flows through frontends of these elements that end at none of the frontend's
/// endpoints, and gives their number. It works without the earlier elements.
pub(super) fn forget_stray_udp_flows(
    socket: &mut NetfilterSocket,
    stack: IpStack,
    elements: &RuleElements,
) -> io::Result<usize> {
    let served = ServedUdp::new(elements);
    match served.frontends.is_empty() {
        true => Ok(0),
        false => forget(socket, stack, |flow| served.is_stray(flow, is_of_machine)),
    }
}

/// Removes all flows, of any protocol, that have an address of these subnets.
pub(super) fn forget_flows_within(
    socket: &mut NetfilterSocket,
    subnets: &[IpNet],
) -> io::Result<usize> {
    let mut forgotten = 0;
    for subnet in subnets {
        let family = IpFamily::from_address(subnet.addr());
        let flows = listed_flows(socket, family, Vec::new())?;
        let is_within =
            |flow: &[ConntrackAttribute]| addresses(flow).any(|it| subnet.contains(&it));
        forgotten += forget_those(socket, family, flows, is_within)?;
    }
    Ok(forgotten)
}

fn forget(
    socket: &mut NetfilterSocket,
    stack: IpStack,
    is_over: impl Fn(&[ConntrackAttribute]) -> bool,
) -> io::Result<usize> {
    let mut forgotten = 0;
    for family in stack.families() {
        let flows = udp_flows(socket, *family)?;
        forgotten += forget_those(socket, *family, flows, &is_over)?;
    }
    Ok(forgotten)
}

fn forget_those(
    socket: &mut NetfilterSocket,
    family: IpFamily,
    flows: Vec<Vec<ConntrackAttribute>>,
    is_over: impl Fn(&[ConntrackAttribute]) -> bool,
) -> io::Result<usize> {
    let mut forgotten = 0;
    for flow in flows.into_iter().filter(|flow| is_over(flow)) {
        let attributes = flow.into_iter().filter(|attribute| match attribute {
            ConntrackAttribute::CtaTupleOrig(_) => true,
            ConntrackAttribute::Other(other) => {
                matches!(other.kind(), ID | ZONE)
            }
            _ => false,
        });
        let delete = of_flows(family, ConntrackMessage::Delete(attributes.collect()));
        match socket.request(delete) {
            Ok(()) => forgotten += 1,
            Err(error) if Errno::from_io_error(&error) == Some(Errno::NOENT) => {}
            Err(error) => return Err(error),
        }
    }
    Ok(forgotten)
}

/// The kernel lists flows of UDP only; one before Linux 5.8 lists all.
fn udp_flows(
    socket: &mut NetfilterSocket,
    family: IpFamily,
) -> io::Result<Vec<Vec<ConntrackAttribute>>> {
    let by = DefaultNla::new(FILTER_BY, BY_PROTOCOL.to_ne_bytes().to_vec());
    let udp = Tuple::Proto(vec![ProtoTuple::Protocol(Protocol::Udp)]);
    // not by the library's types: they lose the flag that a filter is nested
    listed_flows(socket, family, vec![nested(TUPLE_ORIGINAL, &udp), nested(FILTER, &by)])
}

/// The flows that match these attributes.
fn listed_flows(
    socket: &mut NetfilterSocket,
    family: IpFamily,
    attributes: Vec<DefaultNla>,
) -> io::Result<Vec<Vec<ConntrackAttribute>>> {
    let header = NetfilterHeader::new(protocol(family), 0, 0);
    let inner = NetfilterMessageInner::Other {
        subsys: NetfilterSubsystem::Conntrack,
        message_type: ConntrackMessageType::Get.into(),
        attributes,
    };
    let list = NetfilterMessage::new(header, inner);
    let mut flows = Vec::new();
    let listed = socket.dump(list, |_family, attributes| {
        let parse = |attribute: Result<_, _>| attribute.and_then(|a| ConntrackAttribute::parse(&a));
        let flow: Result<_, _> = NlasIterator::new(attributes).map(parse).collect();
        flows.push(flow.map_err(malformed)?);
        Ok(())
    });
    match listed {
        // flows come and go all the time; those of interest were there before
        Err(error) if error.kind() != io::ErrorKind::Interrupted => Err(error),
        Ok(()) | Err(_) => Ok(flows),
    }
}

fn nested(kind: u16, attribute: &impl Emitable) -> DefaultNla {
    let mut value = vec![0; attribute.buffer_len()];
    attribute.emit(&mut value);
    DefaultNla::new(kind | NLA_F_NESTED, value)
}

fn is_stale(
    flow: &[ConntrackAttribute],
    stale: &BTreeSet<StaleFlow>,
    is_of_machine: impl Fn(IpAddr) -> bool,
) -> bool {
    let Some((sent_to, endpoint)) = ends(flow) else { return false };
    let exact = udp_frontend(sent_to);
    let is_stale_at = |frontend: Frontend| {
        let to_machine = SocketAddr::new(frontend.address, frontend.port);
        stale.contains(&StaleFlow { frontend, endpoint })
            || endpoint == sent_to && stale.contains(&StaleFlow { frontend, endpoint: to_machine })
    };
    // a flow that only shares the port with a frontend of the node is to another machine, or past
    // the frontend to the pod itself
    is_stale_at(exact) || is_stale_at(exact.of_node()) && is_of_machine(sent_to.ip())
}

/// Where the flow was sent, and what answers.
fn ends(flow: &[ConntrackAttribute]) -> Option<(SocketAddr, SocketAddr)> {
    let end = |original: bool| {
        flow.iter().find_map(|attribute| match attribute {
            ConntrackAttribute::CtaTupleOrig(tuple) if original => destination(tuple),
            ConntrackAttribute::CtaTupleReply(tuple) if !original => source(tuple),
            _ => None,
        })
    };
    Some((end(true)?, end(false)?))
}

/// The addresses of a flow and of its answers.
fn addresses(flow: &[ConntrackAttribute]) -> impl Iterator<Item = IpAddr> + '_ {
    let tuples = flow.iter().filter_map(|attribute| match attribute {
        ConntrackAttribute::CtaTupleOrig(tuple) | ConntrackAttribute::CtaTupleReply(tuple) => {
            Some(tuple)
        }
        _ => None,
    });
    let parts = tuples.flatten().filter_map(|part| match part {
        Tuple::Ip(parts) => Some(parts),
        _ => None,
    });
    parts.flatten().filter_map(|part| match part {
        IPTuple::SourceAddress(address) | IPTuple::DestinationAddress(address) => Some(*address),
        _ => None,
    })
}

fn udp_frontend(at: SocketAddr) -> Frontend {
    Frontend { address: at.ip(), protocol: TransportProtocol::Udp, port: at.port() }
}

/// The frontends of UDP that the rules have.
#[derive(Debug, Default)]
struct ServedUdp {
    frontends: BTreeMap<Frontend, UdpEndpoints>,
}

/// Those of one frontend.
#[derive(Debug, Default)]
struct UdpEndpoints {
    addresses: BTreeSet<SocketAddr>,
    is_host_port: bool,
}

impl ServedUdp {
    fn new(elements: &RuleElements) -> Self {
        let mut served = Self::default();
        for element in elements {
            let udp = |it: &Frontend| it.protocol == TransportProtocol::Udp;
            let Some(frontend) = element.frontend().filter(udp) else { continue };
            let of = served.frontends.entry(frontend).or_default();
            of.is_host_port |= matches!(element, RuleElement::HostPort(_));
            if let RuleElement::Endpoint(_, _, endpoint) = *element {
                of.addresses.insert(endpoint);
            }
        }
        served
    }

    /// Whether the rules send new packets of this client to other endpoints than its flow. A flow
    /// that no rule has rewritten ends at the machine itself. It is stray if its port is a host
    /// port now.
    fn is_stray(
        &self,
        flow: &[ConntrackAttribute],
        is_of_machine: impl Fn(IpAddr) -> bool,
    ) -> bool {
        let Some((sent_to, endpoint)) = ends(flow) else { return false };
        let exact = udp_frontend(sent_to);
        let of_node =
            || self.frontends.get(&exact.of_node()).filter(|_| is_of_machine(exact.address));
        let Some(served) = self.frontends.get(&exact).or_else(of_node) else { return false };
        !served.addresses.contains(&endpoint) && (endpoint != sent_to || served.is_host_port)
    }
}

/// Whether the machine has this address: another one cannot be bound to.
fn is_of_machine(address: IpAddr) -> bool {
    !address.is_multicast() && UdpSocket::bind((address, 0)).is_ok()
}

fn destination(tuple: &[Tuple]) -> Option<SocketAddr> {
    udp_end(
        tuple,
        |part| match part {
            IPTuple::DestinationAddress(address) => Some(*address),
            _ => None,
        },
        |part| match part {
            ProtoTuple::DestinationPort(port) => Some(*port),
            _ => None,
        },
    )
}

fn source(tuple: &[Tuple]) -> Option<SocketAddr> {
    udp_end(
        tuple,
        |part| match part {
            IPTuple::SourceAddress(address) => Some(*address),
            _ => None,
        },
        |part| match part {
            ProtoTuple::SourcePort(port) => Some(*port),
            _ => None,
        },
    )
}

fn udp_end(
    tuple: &[Tuple],
    address: fn(&IPTuple) -> Option<IpAddr>,
    port: fn(&ProtoTuple) -> Option<u16>,
) -> Option<SocketAddr> {
    let address = tuple.iter().find_map(|part| match part {
        Tuple::Ip(parts) => parts.iter().find_map(address),
        _ => None,
    })?;
    let parts = tuple.iter().find_map(|part| match part {
        Tuple::Proto(parts) => Some(parts),
        _ => None,
    })?;
    let is_udp = parts.contains(&ProtoTuple::Protocol(Protocol::Udp));
    Some(SocketAddr::new(address, parts.iter().find_map(port).filter(|_| is_udp)?))
}

fn of_flows(family: IpFamily, message: ConntrackMessage) -> NetfilterMessage {
    NetfilterMessage::new(NetfilterHeader::new(protocol(family), 0, 0), message)
}

const fn protocol(family: IpFamily) -> NetfilterProtoFamily {
    match family {
        IpFamily::V4 => NetfilterProtoFamily::IPv4,
        IpFamily::V6 => NetfilterProtoFamily::IPv6,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tuple(from: SocketAddr, to: SocketAddr) -> Vec<Tuple> {
        vec![
            Tuple::Ip(vec![
                IPTuple::SourceAddress(from.ip()),
                IPTuple::DestinationAddress(to.ip()),
            ]),
            Tuple::Proto(vec![
                ProtoTuple::Protocol(Protocol::Udp),
                ProtoTuple::SourcePort(from.port()),
                ProtoTuple::DestinationPort(to.port()),
            ]),
        ]
    }

    #[test]
    fn only_flows_by_a_frontend_are_stale_and_not_all_to_its_port() {
        const MACHINE: &str = "192.0.2.1";
        let frontend = |text: &str| {
            let SocketAddr::V4(at) = text.parse().unwrap() else { panic!("{text}") };
            let protocol = TransportProtocol::Udp;
            Frontend { address: IpAddr::V4(*at.ip()), protocol, port: at.port() }
        };
        let stale = |at: &str, endpoint: &str| {
            BTreeSet::from([StaleFlow {
                frontend: frontend(at),
                endpoint: endpoint.parse().unwrap(),
            }])
        };
        // frontend, where it led; flow: sent to, answered by; whether it is stale
        let cases = [
            ("0.0.0.0:53", "10.88.0.2:53", "192.0.2.1:53", "10.88.0.2:53", true),
            ("0.0.0.0:53", "10.88.0.2:53", "192.0.2.1:53", "10.88.0.3:53", false),
            ("0.0.0.0:53", "10.88.0.2:53", "10.88.0.2:53", "10.88.0.2:53", false),
            ("0.0.0.0:53", "10.88.0.2:53", "10.96.0.9:53", "10.88.0.2:53", false),
            ("10.96.0.9:53", "10.88.0.2:53", "10.96.0.9:53", "10.88.0.2:53", true),
            // a host port that begins: packets went to the machine
            ("0.0.0.0:53", "0.0.0.0:53", "192.0.2.1:53", "192.0.2.1:53", true),
            ("192.0.2.1:53", "192.0.2.1:53", "192.0.2.1:53", "192.0.2.1:53", true),
            ("0.0.0.0:53", "0.0.0.0:53", "192.0.2.77:53", "192.0.2.77:53", false),
            ("0.0.0.0:53", "0.0.0.0:53", "192.0.2.1:53", "10.88.0.2:53", false),
            ("0.0.0.0:53", "0.0.0.0:53", "192.0.2.1:54", "192.0.2.1:54", false),
        ];
        let client: SocketAddr = "192.0.2.50:40000".parse().unwrap();
        for (at, led_to, sent_to, answered_by, expected) in cases {
            let [sent_to, answered_by] = [sent_to, answered_by].map(|it| it.parse().unwrap());
            let flow = [
                ConntrackAttribute::CtaTupleOrig(tuple(client, sent_to)),
                ConntrackAttribute::CtaTupleReply(tuple(answered_by, client)),
            ];
            let is_of_machine = |address: IpAddr| address.to_string() == MACHINE;
            let found = is_stale(&flow, &stale(at, led_to), is_of_machine);
            assert_eq!(found, expected, "{at} to {led_to}: {sent_to} by {answered_by}");
        }
    }

    #[test]
    fn a_flow_is_stray_where_its_frontend_has_another_endpoint() {
        let at = |text: &str| udp_frontend(text.parse().unwrap());
        let led = |frontend: Frontend, to: &str| {
            RuleElement::Endpoint(frontend.into(), 0, to.parse().unwrap())
        };
        let (dns, node, host_port) = (at("10.96.0.9:53"), at("0.0.0.0:30053"), at("0.0.0.0:53"));
        let refused = RuleElement::Refused(at("10.96.0.8:53"), rekindle_services::Refusal::Reject);
        let tcp = Frontend { protocol: TransportProtocol::Tcp, ..at("10.96.0.7:53") };
        let elements = RuleElements::from([
            led(dns, "10.88.0.2:53"),
            led(node, "10.88.0.2:53"),
            led(host_port, "10.88.0.3:53"),
            RuleElement::HostPort(host_port),
            refused,
            led(tcp, "10.88.0.2:53"),
        ]);
        // flow: sent to, answered by; whether it is stray
        let cases = [
            ("10.96.0.9:53", "10.88.0.2:53", false),
            ("10.96.0.9:53", "10.88.0.9:53", true),
            ("10.96.0.8:53", "10.88.0.9:53", true),
            ("10.96.0.7:53", "10.88.0.9:53", false),
            ("192.0.2.1:30053", "10.88.0.2:53", false),
            ("192.0.2.1:30053", "10.88.0.9:53", true),
            ("192.0.2.77:30053", "10.88.0.9:53", false),
            ("192.0.2.1:30053", "192.0.2.1:30053", false),
            // a host port that began: packets went to the machine
            ("192.0.2.1:53", "192.0.2.1:53", true),
            ("192.0.2.1:53", "10.88.0.3:53", false),
            ("192.0.2.77:53", "192.0.2.77:53", false),
        ];
        let client: SocketAddr = "192.0.2.50:40000".parse().unwrap();
        for (sent_to, answered_by, expected) in cases {
            let flow = [
                ConntrackAttribute::CtaTupleOrig(tuple(client, sent_to.parse().unwrap())),
                ConntrackAttribute::CtaTupleReply(tuple(answered_by.parse().unwrap(), client)),
            ];
            let is_of_machine = |address: IpAddr| address.to_string() == "192.0.2.1";
            let found = ServedUdp::new(&elements).is_stray(&flow, is_of_machine);
            assert_eq!(found, expected, "{sent_to} by {answered_by}");
        }
    }

    #[test]
    fn an_address_of_the_machine_is_known() {
        for (address, expected) in [
            ("127.0.0.1", true),
            ("127.7.7.7", true),
            ("192.0.2.77", false),
            ("224.0.0.251", false),
        ] {
            assert_eq!(is_of_machine(address.parse().unwrap()), expected, "{address}");
        }
    }
}
