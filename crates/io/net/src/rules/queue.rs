//! Connections that wait. The kernel keeps their first packet in a queue and says so to this
//! process. When it is released, the packet goes on and meets the rules of that moment. So nothing
//! is copied, the client's address stays, and a connection that has gone on needs this process no
//! more (linux/netfilter/nfnetlink_queue.h).

use std::future::poll_fn;
use std::io;
use std::net::IpAddr;

use netlink_packet_core::{DefaultNla, NlasIterator};
use netlink_packet_netfilter::{
    NetfilterHeader, NetfilterMessage, NetfilterMessageInner, NetfilterProtoFamily,
    NetfilterSubsystem,
};
use netlink_sys::protocols::NETLINK_NETFILTER;
use netlink_sys::{AsyncSocket, SocketAddr, TokioSocket};
use rekindle_services::{Frontend, TransportProtocol};
use rustix::io::Errno;
use rustix::net::sockopt;

use crate::rules::socket::{
    ANSWER_MAX, NETFILTER_HEADER_LENGTH, is_overrun, pieces, request, tell,
};

/// `NFNL_SUBSYS_QUEUE`.
const SUBSYSTEM: NetfilterSubsystem = NetfilterSubsystem::Other(3);
const MESSAGE_PACKET: u8 = 0;
const MESSAGE_VERDICT: u8 = 1;
const MESSAGE_CONFIG: u8 = 2;
/// `NFQA_CFG_CMD`, `NFQNL_CFG_CMD_BIND`.
const CONFIG_COMMAND: u16 = 1;
const COMMAND_BIND: u8 = 1;
/// `NFQA_CFG_PARAMS`, `NFQNL_COPY_PACKET`.
const CONFIG_COPY: u16 = 2;
const COPY_PACKET: u8 = 2;
const CONFIG_LENGTH_MAX: u16 = 3;
const CONFIG_MASK: u16 = 4;
const CONFIG_FLAGS: u16 = 5;
/// `NFQA_CFG_F_FAIL_OPEN`: a packet for which there is no room goes on at once.
const FAIL_OPEN: u32 = 1;
const PACKET_HEADER: u16 = 1;
const VERDICT_HEADER: u16 = 2;
const PAYLOAD: u16 = 10;
const ACCEPT: u32 = 1;
/// Packets that wait at most; each has less than 2 KiB of the kernel's memory.
const PACKETS_MAX: u32 = 8192;
/// Of a packet, enough for the longest header of IPv4, or that of IPv6, and the ports.
const COPIED_BYTES: u32 = 64;
/// For what the kernel tells of many packets at once.
const RECEIVE_BUFFER_BYTES: usize = 8 << 20;
/// Numbers of queues that are tried: others on the machine may have some.
const NUMBERS: u16 = 64;

/// See the module.
pub(super) struct PacketQueue {
    socket: TokioSocket,
    number: u16,
}

/// A connection that waits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct HeldPacket {
    /// The kernel's number of it.
    id: u32,
    /// Where it comes from, and where it is addressed to; none for what cannot be read.
    way: Option<(IpAddr, Frontend)>,
}

impl HeldPacket {
    /// The frontends that it may have been held for: that of its address, and that of the node;
    /// each with the client.
    pub fn frontends(&self) -> impl Iterator<Item = (Frontend, IpAddr)> {
        self.way.into_iter().flat_map(|(client, frontend)| {
            [frontend, frontend.of_node()].map(|frontend| (frontend, client))
        })
    }
}

impl PacketQueue {
    /// Takes a queue that no process has, `first` or one of those after it. In the network
    /// namespace of the calling thread, inside a tokio runtime.
    pub(super) fn open(first: u16) -> io::Result<Self> {
        let mut socket = TokioSocket::new(NETLINK_NETFILTER)?;
        socket.socket_mut().bind(&SocketAddr::new(0, 0))?;
        // else the default is what there is: fewer connections can wait
        let _only_root_may =
            sockopt::set_socket_recv_buffer_size_force(socket.socket_ref(), RECEIVE_BUFFER_BYTES);
        let mut queue = Self { socket, number: first };
        while let Err(error) = queue.bind() {
            let is_taken = matches!(
                Errno::from_io_error(&error),
                Some(Errno::BUSY | Errno::PERM) if queue.number - first < NUMBERS
            );
            if !is_taken {
                return Err(error);
            }
            queue.number += 1;
        }
        let copy = [COPIED_BYTES.to_be_bytes().as_slice(), &[COPY_PACKET]].concat();
        let word = |kind, value: u32| DefaultNla::new(kind, value.to_be_bytes().to_vec());
        queue.configure(vec![
            DefaultNla::new(CONFIG_COPY, copy),
            word(CONFIG_LENGTH_MAX, PACKETS_MAX),
            word(CONFIG_MASK, FAIL_OPEN),
            word(CONFIG_FLAGS, FAIL_OPEN),
        ])?;
        Ok(queue)
    }

    fn bind(&self) -> io::Result<()> {
        self.configure(vec![DefaultNla::new(CONFIG_COMMAND, vec![COMMAND_BIND, 0, 0, 0])])
    }

    /// Before the first packet comes, or its message would be taken for an answer.
    fn configure(&self, settings: Vec<DefaultNla>) -> io::Result<()> {
        let message = self.message(MESSAGE_CONFIG, settings);
        request(self.socket.socket_ref(), 0, message, &mut Vec::new())
    }

    pub(super) fn number(&self) -> u16 {
        self.number
    }

    /// Packets that have come. Safe to drop.
    pub(super) async fn next(&self) -> io::Result<Vec<HeldPacket>> {
        let mut buffer = Vec::new();
        loop {
            buffer.clear();
            buffer.reserve(ANSWER_MAX);
            match poll_fn(|cx| self.socket.poll_recv(cx, &mut buffer)).await {
                Ok(()) => return packets(&buffer),
                // the kernel has let go on what it could not tell of
                Err(error) if is_overrun(&error) => {}
                Err(error) => return Err(error),
            }
        }
    }

    /// Lets the packet go on.
    pub(super) fn release(&self, packet: HeldPacket) -> io::Result<()> {
        let verdict = [ACCEPT, packet.id].map(u32::to_be_bytes);
        let verdict = DefaultNla::new(VERDICT_HEADER, verdict.as_flattened().to_vec());
        tell(self.socket.socket_ref(), self.message(MESSAGE_VERDICT, vec![verdict]))
    }

    fn message(&self, kind: u8, attributes: Vec<DefaultNla>) -> NetfilterMessage {
        let header = NetfilterHeader::new(NetfilterProtoFamily::Unspec, 0, self.number);
        let inner =
            NetfilterMessageInner::Other { subsys: SUBSYSTEM, message_type: kind, attributes };
        NetfilterMessage::new(header, inner)
    }
}

fn packets(bytes: &[u8]) -> io::Result<Vec<HeldPacket>> {
    let mut packets = Vec::new();
    for piece in pieces(bytes) {
        let piece = piece?;
        let [subsystem, kind] = piece.message_type().to_be_bytes();
        if NetfilterSubsystem::from(subsystem) == SUBSYSTEM && kind == MESSAGE_PACKET {
            let attributes = piece.payload().get(NETFILTER_HEADER_LENGTH..).unwrap_or_default();
            packets.extend(packet(attributes));
        }
    }
    Ok(packets)
}

fn packet(attributes: &[u8]) -> Option<HeldPacket> {
    let attribute = |kind: u16| {
        let mut all = NlasIterator::new(attributes).filter_map(Result::ok);
        all.find(|attribute| attribute.kind() == kind)
    };
    let header = attribute(PACKET_HEADER)?;
    let id = u32::from_be_bytes(*header.value().first_chunk()?);
    let way = attribute(PAYLOAD).and_then(|payload| way(payload.value()));
    Some(HeldPacket { id, way })
}

/// Where a packet comes from, and where it is addressed to. One of IPv6 with headers before the
/// ports is not read.
fn way(packet: &[u8]) -> Option<(IpAddr, Frontend)> {
    let (number, [client, address], ports) = match packet.first()? >> 4 {
        6 => {
            let addresses: &[[u8; 16]; 2] = packet.get(8..)?.as_chunks().0.first_chunk()?;
            (*packet.get(6)?, addresses.map(IpAddr::from), packet.get(40..)?)
        }
        _ => {
            let header_words = packet.first()? & 0x0f;
            let addresses: &[[u8; 4]; 2] = packet.get(12..)?.as_chunks().0.first_chunk()?;
            let ports = packet.get(usize::from(header_words) * 4..)?;
            (*packet.get(9)?, addresses.map(IpAddr::from), ports)
        }
    };
    let protocol = TransportProtocol::ALL.into_iter().find(|known| known.number() == number)?;
    let port = u16::from_be_bytes(*ports.get(2..)?.first_chunk()?);
    Some((client, Frontend { address, protocol, port }))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_packet_is_addressed_to_a_frontend_of_its_address_or_of_the_node() {
        let header = [0x46, 0, 0, 64, 0, 0, 0, 0, 64, 6, 0, 0, 10, 88, 0, 2, 10, 96, 0, 10];
        let options_and_ports = [1, 1, 1, 1, 0x9c, 0x40, 0, 80];
        let packet =
            HeldPacket { id: 7, way: way(&[header.as_slice(), &options_and_ports].concat()) };
        let shown = |packet: HeldPacket| -> Vec<String> {
            packet.frontends().map(|(frontend, client)| format!("{client} to {frontend}")).collect()
        };
        let expected = ["10.88.0.2 to 10.96.0.10:80/TCP", "10.88.0.2 to 0.0.0.0:80/TCP"];
        assert_eq!(shown(packet), expected);
        let header = [0x60, 0, 0, 0, 0, 20, 6, 64];
        let [from, to] = [[0xfd; 16], [0xfe; 16]];
        let of_ipv6 = [&header[..], &from, &to, &[0x9c, 0x40, 0, 80]].concat();
        let packet = HeldPacket { id: 8, way: way(&of_ipv6) };
        let [from, to] = [from, to].map(IpAddr::from);
        assert_eq!(shown(packet)[1], format!("{from} to [::]:80/TCP"));
        assert_eq!(packet.way.map(|(_, it)| it.address), Some(to));
        assert_eq!(way(&of_ipv6[..40]), None, "cut off before the ports");
        assert_eq!(HeldPacket { id: 7, way: None }.frontends().count(), 0);
    }
}
