//! Messages: bytes in and out, pure. Any bytes are a query, or are answered with what is wrong with
//! them, or with nothing.
//!
//! Nothing that was sent is repeated but the question and, where somebody else was asked, their
//! answer; and no answer over UDP is larger than 1232 bytes: whoever wants more comes over TCP.

use std::net::IpAddr;

use domain::base::iana::{Class, Opcode, OptRcode, Rcode};
use domain::base::message_builder::{AdditionalBuilder, AnswerBuilder};
use domain::base::name::ToName;
use domain::base::record::ComposeRecord;
use domain::base::wire::Composer;
use domain::base::{
    Message, MessageBuilder, Name, ParsedRecord, Rtype, Serial, StaticCompressor, Ttl,
};
use domain::rdata::{A, Aaaa, Cname, Ns, Ptr, Soa, Srv, Txt};

use super::answer::{
    DnsAnswer, DnsQuestion, DnsRecord, RecordData, RecordOwner, RecordQuery, ResponseCode, TTL_S,
};

#[cfg(test)]
mod tests;

/// Bytes of an answer over UDP to a client that does not say more (RFC 1035).
const UDP_BYTES_MIN: u16 = 512;
/// Bytes of an answer over UDP at most: what passes every usual network unfragmented.
const UDP_BYTES_MAX: u16 = 1232;
/// Bytes of an answer over TCP.
const TCP_BYTES_MAX: usize = 65_535;
/// Bytes of an OPT record without options.
const OPT_BYTES: usize = 11;
/// Records that a query may have beside its question: OPT and a signature.
const EXTRAS_MAX: u16 = 2;

/// What bytes are.
#[derive(Debug)]
pub(super) enum IncomingMessage {
    /// A question that can be looked at.
    Query(Box<DnsQuery>),
    /// Something that is answered with this at once.
    Wrong(Vec<u8>),
    /// Nothing that is answered.
    Nothing,
}

/// How an answer travels.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum DnsTransport {
    Udp,
    Tcp,
}

/// A query.
#[derive(Debug)]
pub(super) struct DnsQuery {
    id: u16,
    recursion_desired: bool,
    checking_disabled: bool,
    /// As it was written.
    name: Name<Vec<u8>>,
    rtype: Rtype,
    edns: Option<EdnsOptions>,
    pub(super) question: DnsQuestion,
}

/// What a client says of itself.
#[derive(Clone, Copy, Debug)]
struct EdnsOptions {
    udp_bytes: u16,
    dnssec_ok: bool,
}

type Target = StaticCompressor<Vec<u8>>;

/// Reads a message of a client.
pub(super) fn read(bytes: &[u8]) -> IncomingMessage {
    let Ok(message) = Message::from_octets(bytes) else { return IncomingMessage::Nothing };
    let header = message.header();
    if header.qr() {
        // an answer to an answer could go on for ever
        return IncomingMessage::Nothing;
    }
    let wrong = |code| IncomingMessage::Wrong(bare_reply(message, code));
    if header.opcode() != Opcode::QUERY {
        return wrong(Rcode::NOTIMP);
    }
    let counts = message.header_counts();
    let is_query = counts.qdcount() == 1
        && counts.ancount() == 0
        && counts.nscount() == 0
        && counts.arcount() <= EXTRAS_MAX;
    let (true, Ok(question)) = (is_query, message.sole_question()) else {
        return wrong(Rcode::FORMERR);
    };
    let name = question.qname().to_vec();
    let labels = name.iter().filter(|label| !label.is_root());
    let labels = labels.map(|l| String::from_utf8_lossy(l.as_slice()).to_ascii_lowercase());
    let opt = message.opt();
    let query = DnsQuery {
        id: header.id(),
        recursion_desired: header.rd(),
        checking_disabled: header.cd(),
        question: DnsQuestion { labels: labels.collect(), wanted: wanted(question.qtype()) },
        rtype: question.qtype(),
        edns: opt.as_ref().map(|opt| EdnsOptions {
            udp_bytes: opt.udp_payload_size(),
            dnssec_ok: opt.dnssec_ok(),
        }),
        name,
    };
    if opt.is_some_and(|opt| opt.version() != 0) {
        return IncomingMessage::Wrong(query.bad_version());
    }
    let is_transfer = matches!(query.rtype, Rtype::AXFR | Rtype::IXFR);
    if question.qclass() != Class::IN || is_transfer {
        return IncomingMessage::Wrong(
            query.answer(&DnsAnswer::bare(ResponseCode::Refused), DnsTransport::Udp),
        );
    }
    IncomingMessage::Query(Box::new(query))
}

fn wanted(rtype: Rtype) -> RecordQuery {
    match rtype {
        Rtype::A => RecordQuery::A,
        Rtype::AAAA => RecordQuery::Aaaa,
        Rtype::SRV => RecordQuery::Srv,
        Rtype::PTR => RecordQuery::Ptr,
        Rtype::TXT => RecordQuery::Txt,
        Rtype::CNAME => RecordQuery::Cname,
        Rtype::SOA => RecordQuery::Soa,
        Rtype::NS => RecordQuery::Ns,
        _ => RecordQuery::Other,
    }
}

/// To somebody whose question cannot be read.
fn bare_reply(message: Message<&[u8]>, code: Rcode) -> Vec<u8> {
    let mut reply = MessageBuilder::new_vec();
    let asked = message.header();
    let header = reply.header_mut();
    header.set_id(asked.id());
    header.set_qr(true);
    header.set_opcode(asked.opcode());
    header.set_rd(asked.rd());
    header.set_rcode(code);
    reply.finish()
}

impl DnsQuery {
    /// A number that differs from query to query.
    pub(super) fn turn(&self) -> u16 {
        self.id
    }

    /// The answer in bytes. What does not fit is left out, and said to be missing over UDP.
    pub(super) fn answer(&self, answer: &DnsAnswer, transport: DnsTransport) -> Vec<u8> {
        let (code, authoritative) = match answer.code {
            ResponseCode::NoError => (Rcode::NOERROR, true),
            ResponseCode::NoName => (Rcode::NXDOMAIN, true),
            ResponseCode::Failure => (Rcode::SERVFAIL, false),
            ResponseCode::Refused => (Rcode::REFUSED, false),
        };
        let mut reply = self.begin(code, transport);
        reply.header_mut().set_aa(authoritative);
        self.push_all(&mut reply, &answer.records, transport);
        let mut authority = reply.authority();
        for record in answer.authority.iter().filter_map(|record| self.wire(record)) {
            if authority.push(record).is_err() {
                break; // the answer is the same without it, and known for a shorter time
            }
        }
        let mut additional = authority.additional();
        for record in answer.additional.iter().filter_map(|record| self.wire(record)) {
            if additional.push(record).is_err() {
                break; // it can be asked for
            }
        }
        self.end(additional)
    }

    /// What another server is asked: the same question, or the one for `target`, under this id.
    /// `None`: the name is none.
    pub(super) fn to_upstream(&self, id: u16, target: Option<&str>) -> Option<Vec<u8>> {
        let name = match target {
            Some(target) => Name::vec_from_str(target).ok()?,
            None => self.name.clone(),
        };
        let mut query = MessageBuilder::new_vec();
        let header = query.header_mut();
        header.set_id(id);
        header.set_rd(self.recursion_desired);
        header.set_cd(self.checking_disabled);
        let mut question = query.question();
        question.push((name, self.rtype)).ok()?;
        let mut additional = question.additional();
        if let Some(edns) = self.edns {
            let opt = additional.opt(|opt| {
                opt.set_udp_payload_size(UDP_BYTES_MAX);
                opt.set_dnssec_ok(edns.dnssec_ok);
                Ok(())
            });
            opt.ok()?;
        }
        Some(additional.finish())
    }

    /// The answer of another server to the same question, as it is; over UDP one that is too long
    /// is left out and said to be.
    pub(super) fn pass_on(&self, mut reply: Vec<u8>, transport: DnsTransport) -> Vec<u8> {
        if reply.len() > self.bytes_max(transport) {
            let mut reply = self.begin(Rcode::NOERROR, transport);
            reply.header_mut().set_tc(true);
            return self.end(reply.additional());
        }
        if let Some(id) = reply.first_chunk_mut::<2>() {
            *id = self.id.to_be_bytes();
        }
        reply
    }

    /// Our `chain` of aliases, and what another server said of the last one.
    pub(super) fn continue_with(
        &self,
        chain: &[DnsRecord],
        reply: &[u8],
        transport: DnsTransport,
    ) -> Vec<u8> {
        let failure = || self.answer(&DnsAnswer::bare(ResponseCode::Failure), transport);
        let Ok(theirs) = Message::from_octets(reply) else { return failure() };
        let mut own = self.begin(theirs.header().rcode(), transport);
        self.push_all(&mut own, chain, transport);
        let Ok(records) = theirs.answer() else { return failure() };
        for record in records {
            let Ok(record) = record else { return failure() };
            match push_theirs(&mut own, &record) {
                Ok(()) => {}
                Err(RecordPushError::Unreadable) => return failure(),
                Err(RecordPushError::Full) => {
                    own.header_mut().set_tc(transport == DnsTransport::Udp);
                    break;
                }
            }
        }
        if theirs.header().tc() {
            own.header_mut().set_tc(transport == DnsTransport::Udp);
        }
        self.end(own.additional())
    }

    /// To a client that speaks a version of EDNS which does not exist yet.
    fn bad_version(&self) -> Vec<u8> {
        let code = OptRcode::BADVERS;
        let mut additional = self.begin(code.rcode(), DnsTransport::Udp).additional();
        additional.clear_push_limit();
        let pushed = additional.opt(|opt| {
            opt.set_udp_payload_size(UDP_BYTES_MAX);
            opt.set_rcode(code);
            Ok(())
        });
        pushed.expect("a vector grows, and there is no limit");
        additional.finish().into_target()
    }

    fn bytes_max(&self, transport: DnsTransport) -> usize {
        match (transport, self.edns) {
            (DnsTransport::Tcp, _) => TCP_BYTES_MAX,
            (DnsTransport::Udp, None) => UDP_BYTES_MIN.into(),
            (DnsTransport::Udp, Some(edns)) => {
                edns.udp_bytes.clamp(UDP_BYTES_MIN, UDP_BYTES_MAX).into()
            }
        }
    }

    /// Header and question of a reply.
    fn begin(&self, code: Rcode, transport: DnsTransport) -> AnswerBuilder<Target> {
        let mut reply =
            MessageBuilder::from_target(StaticCompressor::new(Vec::new())).expect("a vector grows");
        // what is pushed stays below the limit
        reply.set_push_limit(self.bytes_max(transport) + 1 - OPT_BYTES);
        let header = reply.header_mut();
        header.set_id(self.id);
        header.set_qr(true);
        header.set_rd(self.recursion_desired);
        header.set_cd(self.checking_disabled);
        header.set_ra(true);
        header.set_rcode(code);
        let mut question = reply.question();
        question.push((&self.name, self.rtype)).expect("a name has at most 255 bytes");
        question.answer()
    }

    fn push_all(
        &self,
        reply: &mut AnswerBuilder<Target>,
        records: &[DnsRecord],
        transport: DnsTransport,
    ) {
        for record in records.iter().filter_map(|record| self.wire(record)) {
            if reply.push(record).is_err() {
                // over TCP there is no more to be had
                reply.header_mut().set_tc(transport == DnsTransport::Udp);
                return;
            }
        }
    }

    /// Who speaks EDNS is answered in EDNS.
    fn end(&self, mut additional: AdditionalBuilder<Target>) -> Vec<u8> {
        additional.clear_push_limit();
        if let Some(edns) = self.edns {
            let pushed = additional.opt(|opt| {
                opt.set_udp_payload_size(UDP_BYTES_MAX);
                opt.set_dnssec_ok(edns.dnssec_ok);
                Ok(())
            });
            pushed.expect("a vector grows, and there is no limit");
        }
        additional.finish().into_target()
    }

    /// A record for the wire; `None` when it has a name that is none, as an `externalName` may be.
    fn wire(&self, record: &DnsRecord) -> Option<WireRecord> {
        let name = |text: &str| Name::vec_from_str(text).ok();
        let data = match &record.data {
            RecordData::Address(IpAddr::V4(address)) => WireData::A(A::new(*address)),
            RecordData::Address(IpAddr::V6(address)) => WireData::Aaaa(Aaaa::new(*address)),
            RecordData::Host { weight, port, target } => {
                WireData::Srv(Srv::new(0, *weight, *port, name(target)?))
            }
            RecordData::Pointer(target) => WireData::Ptr(Ptr::new(name(target)?)),
            RecordData::Alias(target) => WireData::Cname(Cname::new(name(target)?)),
            RecordData::NameServer(target) => WireData::Ns(Ns::new(name(target)?)),
            RecordData::Text(text) => WireData::Txt(Txt::build_from_slice(text.as_bytes()).ok()?),
            RecordData::Authority { server, mailbox, serial } => WireData::Soa(Soa::new(
                name(server)?,
                name(mailbox)?,
                Serial(*serial),
                REFRESH,
                RETRY,
                EXPIRE,
                Ttl::from_secs(TTL_S),
            )),
        };
        let owner = match &record.owner {
            RecordOwner::Asked => self.name.clone(),
            RecordOwner::Name(owner) => name(owner)?,
        };
        Some(WireRecord { owner, ttl_s: record.ttl_s, data })
    }
}

// What a second server would heed: as CoreDNS says it.
const REFRESH: Ttl = Ttl::from_secs(7200);
const RETRY: Ttl = Ttl::from_secs(1800);
const EXPIRE: Ttl = Ttl::from_secs(86_400);

/// A record as it is written.
struct WireRecord {
    owner: Name<Vec<u8>>,
    ttl_s: u32,
    data: WireData,
}

enum WireData {
    A(A),
    Aaaa(Aaaa),
    Srv(Srv<Name<Vec<u8>>>),
    Ptr(Ptr<Name<Vec<u8>>>),
    Cname(Cname<Name<Vec<u8>>>),
    Ns(Ns<Name<Vec<u8>>>),
    Txt(Txt<Vec<u8>>),
    Soa(Soa<Name<Vec<u8>>>),
}

impl ComposeRecord for WireRecord {
    fn compose_record<T: Composer + ?Sized>(&self, target: &mut T) -> Result<(), T::AppendError> {
        let (owner, ttl_s) = (&self.owner, self.ttl_s);
        match &self.data {
            WireData::A(data) => (owner, ttl_s, data).compose_record(target),
            WireData::Aaaa(data) => (owner, ttl_s, data).compose_record(target),
            WireData::Srv(data) => (owner, ttl_s, data).compose_record(target),
            WireData::Ptr(data) => (owner, ttl_s, data).compose_record(target),
            WireData::Cname(data) => (owner, ttl_s, data).compose_record(target),
            WireData::Ns(data) => (owner, ttl_s, data).compose_record(target),
            WireData::Txt(data) => (owner, ttl_s, data).compose_record(target),
            WireData::Soa(data) => (owner, ttl_s, data).compose_record(target),
        }
    }
}

/// Why a record of another server is not taken over.
enum RecordPushError {
    Unreadable,
    Full,
}

/// Takes a record over from another server's answer, whose names may be written as references into
/// that answer. Of the types that have names in them only aliases are: nothing else is wanted of
/// what a Service stands for.
fn push_theirs(
    own: &mut AnswerBuilder<Target>,
    record: &ParsedRecord<'_, &[u8]>,
) -> Result<(), RecordPushError> {
    let pushed = match record.rtype() {
        Rtype::A => match record.to_record::<A>() {
            Ok(Some(record)) => own.push(record),
            Ok(None) | Err(_) => return Err(RecordPushError::Unreadable),
        },
        Rtype::AAAA => match record.to_record::<Aaaa>() {
            Ok(Some(record)) => own.push(record),
            Ok(None) | Err(_) => return Err(RecordPushError::Unreadable),
        },
        Rtype::CNAME => match record.to_record::<Cname<_>>() {
            Ok(Some(record)) => own.push(record),
            Ok(None) | Err(_) => return Err(RecordPushError::Unreadable),
        },
        Rtype::TXT => match record.to_record::<Txt<_>>() {
            Ok(Some(record)) => own.push(record),
            Ok(None) | Err(_) => return Err(RecordPushError::Unreadable),
        },
        _ => Ok(()),
    };
    pushed.map_err(|_| RecordPushError::Full)
}
