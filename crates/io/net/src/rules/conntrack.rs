//! Flows that the kernel has in mind (conntrack). A UDP flow goes where its first packet went, for
//! as long as packets come; so flows to an endpoint that is gone are forgotten.

use std::collections::BTreeSet;
use std::io;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};

use netlink_packet_core::{DefaultNla, NLM_F_ACK};
use netlink_packet_netfilter::conntrack::{
    ConntrackAttribute, ConntrackMessage, IPTuple, ProtoTuple, Protocol, Tuple,
};
use netlink_packet_netfilter::{
    NetfilterHeader, NetfilterMessage, NetfilterMessageInner, NetfilterProtoFamily,
};
use rekindle_services::{Frontend, StaleFlow, TransportProtocol};
use rustix::io::Errno;

use crate::rules::socket::NetfilterSocket;

/// `CTA_ID`: tells a flow from a later one with the same addresses.
const ID: u16 = 12;
/// `CTA_ZONE`.
const ZONE: u16 = 18;
/// `CTA_FILTER`, nested.
const FILTER: u16 = 25 | netlink_packet_core::NLA_F_NESTED;
/// `CTA_FILTER_ORIG_FLAGS` with `CTA_FILTER_F_CTA_PROTO_NUM`: compare the protocol only.
const FILTER_BY: u16 = 1;
const BY_PROTOCOL: u32 = 1 << 3;

/// Removes those flows and tells how many there were.
pub(super) fn forget_udp_flows(
    socket: &mut NetfilterSocket,
    stale: &BTreeSet<StaleFlow>,
) -> io::Result<usize> {
    let mut forgotten = 0;
    for flow in udp_flows(socket)?.into_iter().filter(|flow| is_stale(flow, stale)) {
        let attributes = flow.into_iter().filter(|attribute| match attribute {
            ConntrackAttribute::CtaTupleOrig(_) => true,
            ConntrackAttribute::Other(other) => {
                matches!(netlink_packet_core::Nla::kind(other), ID | ZONE)
            }
            _ => false,
        });
        let delete = of_flows(ConntrackMessage::Delete(attributes.collect()));
        match socket.request(delete, NLM_F_ACK) {
            Ok(_) => forgotten += 1,
            Err(error) if Errno::from_io_error(&error) == Some(Errno::NOENT) => {}
            Err(error) => return Err(error),
        }
    }
    Ok(forgotten)
}

/// The kernel lists flows of UDP only; one before Linux 5.8 lists all.
fn udp_flows(socket: &mut NetfilterSocket) -> io::Result<Vec<Vec<ConntrackAttribute>>> {
    let by = DefaultNla::new(FILTER_BY, BY_PROTOCOL.to_ne_bytes().to_vec());
    let mut filter = vec![0; netlink_packet_core::Emitable::buffer_len(&by)];
    netlink_packet_core::Emitable::emit(&by, &mut filter);
    let udp = Tuple::Proto(vec![ProtoTuple::Protocol(Protocol::Udp)]);
    let attributes = vec![
        ConntrackAttribute::CtaTupleOrig(vec![udp]),
        ConntrackAttribute::Other(DefaultNla::new(FILTER, filter)),
    ];
    let mut flows = Vec::new();
    let list = of_flows(ConntrackMessage::Get(attributes));
    let listed = socket.dump(list, |message| match message {
        NetfilterMessageInner::Conntrack(ConntrackMessage::New(flow)) => flows.push(flow),
        _ => {}
    });
    match listed {
        // flows come and go all the time; those of interest were there before
        Err(error) if error.kind() != io::ErrorKind::Interrupted => Err(error),
        Ok(()) | Err(_) => Ok(flows),
    }
}

fn is_stale(flow: &[ConntrackAttribute], stale: &BTreeSet<StaleFlow>) -> bool {
    let ends = |original: bool| {
        flow.iter().find_map(|attribute| match attribute {
            ConntrackAttribute::CtaTupleOrig(tuple) if original => destination(tuple),
            ConntrackAttribute::CtaTupleReply(tuple) if !original => source(tuple),
            _ => None,
        })
    };
    let (Some(sent_to), Some(endpoint)) = (ends(true), ends(false)) else {
        return false;
    };
    [sent_to.ip(), Ipv4Addr::UNSPECIFIED.into()].into_iter().any(|address| {
        let frontend = Frontend { address, protocol: TransportProtocol::Udp, port: sent_to.port() };
        stale.contains(&StaleFlow { frontend, endpoint })
    })
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

fn of_flows(message: ConntrackMessage) -> NetfilterMessage {
    NetfilterMessage::new(NetfilterHeader::new(NetfilterProtoFamily::IPv4, 0, 0), message)
}
