//! A netlink socket to netfilter.
//!
//! The kernel carries a request out inside the call that sends it, and its answers are there when
//! the call returns. So nothing here waits; who calls from async code moves to a blocking thread,
//! because the call itself may last: a full state is some 100 ms of work in the kernel.

use std::io;

use netlink_packet_core::{
    DecodeError, NLM_F_ACK, NLM_F_DUMP, NLM_F_REQUEST, NLMSG_DONE, NLMSG_ERROR, NetlinkBuffer,
    NetlinkHeader, NetlinkMessage, NetlinkPayload, NlasIterator,
};
use netlink_packet_netfilter::NetfilterMessage;
use netlink_sys::{Socket, protocols::NETLINK_NETFILTER};
use rustix::io::Errno;
use rustix::net::sockopt;

/// The kernel sends no more in one piece.
pub(crate) const ANSWER_MAX: usize = 64 << 10;
/// Tries to list what changes while it is listed.
const LIST_ATTEMPTS: u32 = 20;
/// What the kernel needs in the send buffer beside the message.
const SEND_OVERHEAD: usize = 4 << 10;
/// `NLM_F_DUMP_INTR`: the table changed while it was being listed.
const FLAG_DUMP_INTERRUPTED: u16 = 0x10;
/// `NLM_F_CAPPED`: an error repeats only the header of the message that failed.
const FLAG_CAPPED: u16 = 0x100;
/// `NLM_F_ACK_TLVS`: attributes follow an error.
const FLAG_HAS_ATTRIBUTES: u16 = 0x200;
/// `NLMSGERR_ATTR_OFFS`: where in the message the attribute is that failed.
const ATTRIBUTE_OFFSET: u16 = 2;
const HEADER_LENGTH: usize = 16;
/// Family, version and number of the subsystem, before the attributes.
pub(crate) const NETFILTER_HEADER_LENGTH: usize = 4;

/// See the module.
pub(crate) struct NetfilterSocket {
    socket: Socket,
    port: u32,
    sequence: u32,
    answers: Vec<u8>,
}

/// Why a transaction was not made.
#[derive(Debug)]
pub(crate) struct RefusedTransaction {
    /// The message that failed, if one can be named, from 0.
    pub(crate) message: Option<usize>,
    /// The attribute in it that failed, as an offset in bytes.
    pub(crate) offset: Option<usize>,
    pub(crate) source: io::Error,
}

/// An answer that says how a message fared.
struct MessageOutcome {
    sequence: u32,
    error: Option<io::Error>,
    offset: Option<usize>,
}

impl NetfilterSocket {
    /// In the network namespace of the calling thread.
    pub(crate) fn open() -> io::Result<Self> {
        let mut socket = Socket::new(NETLINK_NETFILTER)?;
        socket.set_non_blocking(true)?;
        let port = socket.bind_auto()?.port_number();
        // both only make errors more precise
        let _older_kernels_lack_it =
            socket.set_cap_ack(true).and_then(|()| socket.set_ext_ack(true));
        Ok(Self { socket, port, sequence: 0, answers: Vec::with_capacity(ANSWER_MAX) })
    }

    /// Its number: notifications of what it changed carry it.
    pub(crate) fn port(&self) -> u32 {
        self.port
    }

    /// Sends messages that take effect together or not at all: the first begins the batch, the last
    /// ends it, and the one before the last asks for an acknowledgement.
    pub(crate) fn transact(
        &mut self,
        messages: Vec<(NetfilterMessage, u16)>,
    ) -> Result<(), RefusedTransaction> {
        let failed = |source| RefusedTransaction { message: None, offset: None, source };
        let first = self.sequence.wrapping_add(1);
        let acknowledged = first.wrapping_add(messages.len() as u32 - 2);
        let mut bytes = Vec::new();
        for (message, flags) in messages {
            self.append(&mut bytes, message, flags);
        }
        self.send(&bytes).map_err(failed)?;
        drop(bytes);
        let mut refused: Option<RefusedTransaction> = None;
        loop {
            if let Err(error) = self.receive() {
                // errors of thousands of messages may not have found room: the first one has
                return Err(refused.unwrap_or_else(|| failed(error)));
            }
            for outcome in outcomes(&self.answers).map_err(failed)? {
                let index = outcome.sequence.wrapping_sub(first);
                if let Some(source) = outcome.error {
                    let message = index.checked_sub(1).map(|index| index as usize);
                    let error = RefusedTransaction { message, offset: outcome.offset, source };
                    if index == 0 {
                        // the batch as a whole: nothing else follows
                        return Err(refused.unwrap_or(error));
                    }
                    refused.get_or_insert(error);
                }
                if outcome.sequence == acknowledged {
                    return refused.map_or(Ok(()), Err);
                }
            }
        }
    }

    /// Sends one message and returns when the kernel has done it.
    pub(crate) fn request(&mut self, message: NetfilterMessage) -> io::Result<()> {
        self.sequence = self.sequence.wrapping_add(1);
        request(&self.socket, self.sequence, message, &mut self.answers)
    }

    /// Sends one question and returns the attributes of its answer.
    pub(crate) fn ask(&mut self, message: NetfilterMessage) -> io::Result<Vec<u8>> {
        let mut bytes = Vec::new();
        self.append(&mut bytes, message, 0);
        let sequence = self.sequence;
        self.send(&bytes)?;
        loop {
            self.receive()?;
            for buffer in pieces(&self.answers) {
                let buffer = buffer?;
                if buffer.sequence_number() != sequence {
                    continue;
                }
                if buffer.message_type() == NLMSG_ERROR {
                    let no_answer = || io::ErrorKind::InvalidData.into();
                    return Err(outcome(&buffer).error.unwrap_or_else(no_answer));
                }
                let attributes = buffer.payload().get(NETFILTER_HEADER_LENGTH..);
                return Ok(attributes.unwrap_or_default().to_vec());
            }
        }
    }

    /// Everything that the kernel lists, as `read` makes it of the attributes of each message. What
    /// changes while it is listed is listed again.
    pub(crate) fn list<T>(
        &mut self,
        message: &NetfilterMessage,
        mut read: impl FnMut(&[u8], &mut Vec<T>) -> Result<(), DecodeError>,
    ) -> io::Result<Vec<T>> {
        self.list_with_family(message, |_family, attributes, found| read(attributes, found))
    }

    /// The same, with the number of the family that each message is about.
    pub(crate) fn list_with_family<T>(
        &mut self,
        message: &NetfilterMessage,
        mut read: impl FnMut(u8, &[u8], &mut Vec<T>) -> Result<(), DecodeError>,
    ) -> io::Result<Vec<T>> {
        let mut attempt = 0;
        loop {
            attempt += 1;
            let mut found = Vec::new();
            let listed = self.dump(message.clone(), |family, attributes| {
                read(family, attributes, &mut found).map_err(malformed)
            });
            match listed {
                Err(error)
                    if error.kind() == io::ErrorKind::Interrupted && attempt < LIST_ATTEMPTS => {}
                Err(error) => return Err(error),
                Ok(()) => return Ok(found),
            }
        }
    }

    /// Hands out everything that the kernel lists: of each message the family and the attributes,
    /// not parsed.
    /// `ErrorKind::Interrupted`: it changed while it was read.
    pub(crate) fn dump(
        &mut self,
        message: NetfilterMessage,
        mut each: impl FnMut(u8, &[u8]) -> io::Result<()>,
    ) -> io::Result<()> {
        let mut bytes = Vec::new();
        self.append(&mut bytes, message, NLM_F_DUMP);
        let sequence = self.sequence;
        self.send(&bytes)?;
        let (mut interrupted, mut result) = (false, Ok(()));
        loop {
            self.receive()?;
            for buffer in pieces(&self.answers) {
                let buffer = buffer?;
                if buffer.sequence_number() != sequence {
                    continue;
                }
                interrupted |= buffer.flags() & FLAG_DUMP_INTERRUPTED != 0;
                match buffer.message_type() {
                    NLMSG_DONE if interrupted => return Err(io::ErrorKind::Interrupted.into()),
                    NLMSG_DONE => return result,
                    NLMSG_ERROR => return outcome(&buffer).error.map_or(Ok(()), Err),
                    // what is left is read all the same, or the next request would find it
                    _ if result.is_ok() => {
                        let (family, attributes) = split_header(buffer.payload());
                        result = each(family, attributes);
                    }
                    _ => {}
                }
            }
        }
    }

    fn append(&mut self, bytes: &mut Vec<u8>, message: NetfilterMessage, flags: u16) {
        self.sequence = self.sequence.wrapping_add(1);
        append(bytes, message, flags, self.sequence);
    }

    /// All in one call: a message that is sent in parts is not one transaction.
    fn send(&self, bytes: &[u8]) -> io::Result<()> {
        let needed = bytes.len() + SEND_OVERHEAD;
        // the kernel doubles what it is told, and tells the doubled value
        if sockopt::socket_send_buffer_size(&self.socket)? < needed
            && sockopt::set_socket_send_buffer_size_force(&self.socket, needed).is_err()
        {
            sockopt::set_socket_send_buffer_size(&self.socket, needed)?;
        }
        let sent = self.socket.send(bytes, 0)?;
        if sent == bytes.len() { Ok(()) } else { Err(io::ErrorKind::WriteZero.into()) }
    }

    fn receive(&mut self) -> io::Result<()> {
        receive(&self.socket, &mut self.answers)
    }
}

/// Sends one message and returns when the kernel has done it.
pub(crate) fn request(
    socket: &Socket,
    sequence: u32,
    message: NetfilterMessage,
    answers: &mut Vec<u8>,
) -> io::Result<()> {
    let mut bytes = Vec::new();
    append(&mut bytes, message, NLM_F_ACK, sequence);
    socket.send(&bytes, 0)?;
    loop {
        receive(socket, answers)?;
        for outcome in outcomes(answers)? {
            if outcome.sequence == sequence {
                return outcome.error.map_or(Ok(()), Err);
            }
        }
    }
}

/// Sends one message to which the kernel gives no answer.
pub(crate) fn tell(socket: &Socket, message: NetfilterMessage) -> io::Result<()> {
    let mut bytes = Vec::new();
    append(&mut bytes, message, 0, 0);
    socket.send(&bytes, 0).map(drop)
}

fn append(bytes: &mut Vec<u8>, message: NetfilterMessage, flags: u16, sequence: u32) {
    let mut header = NetlinkHeader::default();
    header.flags = flags | NLM_F_REQUEST;
    header.sequence_number = sequence;
    let mut message = NetlinkMessage::new(header, NetlinkPayload::InnerMessage(message));
    message.finalize();
    let start = bytes.len();
    bytes.resize(start + message.buffer_len().next_multiple_of(4), 0);
    message.serialize(&mut bytes[start..]);
}

/// Reads what is there into `into`. `ErrorKind::WouldBlock`: nothing.
pub(crate) fn receive(socket: &Socket, into: &mut Vec<u8>) -> io::Result<()> {
    into.clear();
    into.reserve(ANSWER_MAX);
    loop {
        match socket.recv(into, 0) {
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
            Ok(_) => return Ok(()),
        }
    }
}

/// The messages in what was read.
pub(crate) fn pieces(bytes: &[u8]) -> impl Iterator<Item = io::Result<NetlinkBuffer<&[u8]>>> {
    let mut rest = bytes;
    std::iter::from_fn(move || {
        if rest.is_empty() {
            return None;
        }
        let piece = NetlinkBuffer::new_checked(rest).map_err(malformed);
        let length = piece.as_ref().map_or(rest.len(), |piece| piece.length() as usize);
        rest = &rest[length.next_multiple_of(4).min(rest.len())..];
        Some(piece)
    })
}

/// The number of the family that a message of netfilter is about, and its attributes.
pub(crate) fn split_header(payload: &[u8]) -> (u8, &[u8]) {
    let split = payload.split_first_chunk::<NETFILTER_HEADER_LENGTH>();
    split.map_or((0, &[]), |([family, _version, _, _], attributes)| (*family, attributes))
}

fn outcomes(bytes: &[u8]) -> io::Result<Vec<MessageOutcome>> {
    let errors = pieces(bytes)
        .filter(|piece| piece.as_ref().map_or(true, |piece| piece.message_type() == NLMSG_ERROR));
    errors.map(|piece| piece.map(|piece| outcome(&piece))).collect()
}

/// Of a message of type `NLMSG_ERROR`.
fn outcome(buffer: &NetlinkBuffer<&[u8]>) -> MessageOutcome {
    let payload = buffer.payload();
    let code =
        payload.first_chunk().map_or(-Errno::PROTO.raw_os_error(), |b| i32::from_ne_bytes(*b));
    let error = (code != 0).then(|| io::Error::from_raw_os_error(-code));
    let has_offset = FLAG_CAPPED | FLAG_HAS_ATTRIBUTES;
    let attributes =
        payload.get(4 + HEADER_LENGTH..).filter(|_| buffer.flags() & has_offset == has_offset);
    let offset = attributes.and_then(|attributes| {
        let mut attributes = NlasIterator::new(attributes).filter_map(Result::ok);
        let value = attributes.find(|attribute| attribute.kind() == ATTRIBUTE_OFFSET)?;
        value.value().first_chunk().map(|bytes| u32::from_ne_bytes(*bytes) as usize)
    });
    MessageOutcome { sequence: buffer.sequence_number(), error, offset }
}

pub(crate) fn malformed(error: netlink_packet_core::DecodeError) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, error.to_string())
}

/// The kernel had more to tell than there was room for.
pub(crate) fn is_overrun(error: &io::Error) -> bool {
    Errno::from_io_error(error) == Some(Errno::NOBUFS)
}
