//! Question and view in, reply out: pure.
//!
//! | name below the zone | answer |
//! |---|---|
//! | `SVC.NS.svc` | its cluster IP; of a headless Service the ready endpoints; of an `ExternalName` its other name |
//! | `HOST.SVC.NS.svc` | the endpoints of that host name, or of the address `a-b-c-d` |
//! | `_PORT._PROTO.SVC.NS.svc` | the cluster IP, if it has that port; or the endpoints that have it |
//! | `a-b-c-d.NS.pod` | that address, when a pod of the namespace has it |
//! | `dns-version`, `ns.dns` | the version of this scheme, the server |
//!
//! A headless Service without endpoints has no name (the specification, 2.4.1). What is above an
//! existing name exists, and has no data.

use std::collections::BTreeSet;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use ipnet::{Ipv4Net, Ipv6Net};
use rekindle_types::{IpFamily, NamespacedName};
use serde::{Deserialize, Serialize};

use super::view::{DnsEndpoint, DnsPort, DnsService, DnsView, dashed};

#[cfg(test)]
mod tests;

/// Seconds for which an answer may be kept (CoreDNS' default).
pub(super) const TTL_S: u32 = 5;
/// The version of the scheme of names.
const VERSION: &str = "1.1.0";
/// Seconds for which it may be kept.
const VERSION_TTL_S: u32 = 28_800;
/// Records of one answer at most: more do not fit into any message.
const RECORDS_MAX: usize = 4096;
/// Names that lead to each other at most.
const ALIASES_MAX: usize = 8;
/// Host name and domain of the server itself.
const SERVER: [&str; 2] = ["ns", "dns"];

/// What the server is responsible for.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct DnsZone {
    /// The cluster's domain, in small letters: `cluster.local`.
    pub domain: String,
    /// The pods' subnet: the names of its addresses are nobody else's.
    pub subnet: Ipv4Net,
    /// That of their second addresses, if they have any.
    pub ipv6_subnet: Option<Ipv6Net>,
    /// Where the server is.
    pub server: Ipv4Addr,
}

/// What is asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum RecordQuery {
    /// IPv4 addresses.
    A,
    /// IPv6 addresses.
    Aaaa,
    /// Hosts and ports.
    Srv,
    /// The name of an address.
    Ptr,
    Txt,
    Cname,
    Soa,
    Ns,
    /// What nothing here has.
    Other,
}

impl RecordQuery {
    /// Which addresses are asked for, if addresses are.
    const fn family(self) -> Option<IpFamily> {
        match self {
            Self::A => Some(IpFamily::V4),
            Self::Aaaa => Some(IpFamily::V6),
            Self::Srv
            | Self::Ptr
            | Self::Txt
            | Self::Cname
            | Self::Soa
            | Self::Ns
            | Self::Other => None,
        }
    }
}

/// A question.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct DnsQuestion {
    /// The name's labels, in small letters.
    pub(super) labels: Vec<String>,
    pub(super) wanted: RecordQuery,
}

/// What becomes of a question.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum DnsReply {
    /// It is answered.
    Answer(DnsAnswer),
    /// The name is another one's, which somebody else has to be asked for.
    Alias { chain: Vec<DnsRecord>, target: String },
    /// Somebody else has to be asked.
    NotOurs,
}

/// An answer. One without records says, with the zone's authority, that there are none.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct DnsAnswer {
    pub(super) code: ResponseCode,
    pub(super) records: Vec<DnsRecord>,
    /// What who asked will ask next.
    pub(super) additional: Vec<DnsRecord>,
    /// The authority that says that there is nothing (more).
    pub(super) authority: Option<DnsRecord>,
}

/// How it went.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ResponseCode {
    NoError,
    /// There is no such name.
    NoName,
    /// It cannot be said now.
    Failure,
    Refused,
}

/// A record.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct DnsRecord {
    pub(super) owner: RecordOwner,
    pub(super) ttl_s: u32,
    pub(super) data: RecordData,
}

/// Whose a record is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum RecordOwner {
    /// The name that was asked for, as it was written.
    Asked,
    Name(String),
}

/// What a record says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum RecordData {
    Address(IpAddr),
    Host { weight: u16, port: u16, target: String },
    Pointer(String),
    Alias(String),
    Text(&'static str),
    NameServer(String),
    Authority { server: String, mailbox: String, serial: u32 },
}

impl DnsAnswer {
    fn from_records(records: Vec<DnsRecord>) -> Self {
        Self { code: ResponseCode::NoError, records, additional: Vec::new(), authority: None }
    }

    /// One that says nothing but this.
    pub(super) fn bare(code: ResponseCode) -> Self {
        Self { code, ..Self::from_records(Vec::new()) }
    }
}

/// Answers a question. `turn` says which of several addresses comes first, so that they take turns.
pub(super) fn reply(view: &DnsView, zone: &DnsZone, question: &DnsQuestion, turn: u16) -> DnsReply {
    let mut chain: Vec<DnsRecord> = Vec::new();
    let mut question = question.clone();
    loop {
        let found = match below(&zone.domain, &question.labels) {
            Some(below) => Some(in_zone(view, zone, below, question.wanted, turn)),
            None => reversed(&question.labels)
                .and_then(|address| of_address(view, zone, address, question.wanted)),
        };
        let Some(found) = found else {
            return match chain.is_empty() {
                true => DnsReply::NotOurs,
                false => DnsReply::Alias { chain, target: question.labels.join(".") },
            };
        };
        let (code, mut records, additional) = match found {
            NameLookup::NoName => (ResponseCode::NoName, Vec::new(), Vec::new()),
            NameLookup::NoData => (ResponseCode::NoError, Vec::new(), Vec::new()),
            NameLookup::Records(records, additional) => {
                (ResponseCode::NoError, records, additional)
            }
            NameLookup::Alias(target) => {
                chain.push(record(owner_of(&chain), RecordData::Alias(target.clone())));
                if question.wanted == RecordQuery::Cname {
                    return DnsReply::Answer(DnsAnswer::from_records(chain));
                }
                if chain.len() > ALIASES_MAX {
                    return DnsReply::Answer(DnsAnswer::bare(ResponseCode::Failure));
                }
                question.labels = target.split('.').map(str::to_ascii_lowercase).collect();
                continue;
            }
        };
        let authority = records.is_empty().then(|| authority(view, zone));
        if let RecordOwner::Name(name) = owner_of(&chain) {
            for record in &mut records {
                record.owner = RecordOwner::Name(name.clone());
            }
        }
        chain.append(&mut records);
        return DnsReply::Answer(DnsAnswer { code, records: chain, additional, authority });
    }
}

/// Whose the next record is: what the last alias leads to.
fn owner_of(chain: &[DnsRecord]) -> RecordOwner {
    match chain.last().map(|last| &last.data) {
        Some(RecordData::Alias(target)) => RecordOwner::Name(target.clone()),
        Some(_) | None => RecordOwner::Asked,
    }
}

/// What is known of a name.
enum NameLookup {
    NoName,
    /// It exists, and has nothing of what is asked for.
    NoData,
    Records(Vec<DnsRecord>, Vec<DnsRecord>),
    Alias(String),
}

fn record(owner: RecordOwner, data: RecordData) -> DnsRecord {
    DnsRecord { owner, ttl_s: TTL_S, data }
}

fn authority(view: &DnsView, zone: &DnsZone) -> DnsRecord {
    let owner = RecordOwner::Name(zone.domain.clone());
    let mailbox = format!("hostmaster.{}", zone.domain);
    record(owner, RecordData::Authority { server: server(zone), mailbox, serial: view.serial() })
}

fn server(zone: &DnsZone) -> String {
    format!("{}.{}.{}", SERVER[0], SERVER[1], zone.domain)
}

/// The labels before those of `domain`.
fn below<'a>(domain: &str, labels: &'a [String]) -> Option<&'a [String]> {
    let count = domain.split('.').count();
    let (below, rest) = labels.split_at(labels.len().checked_sub(count)?);
    rest.iter().map(String::as_str).eq(domain.split('.')).then_some(below)
}

fn in_zone(
    view: &DnsView,
    zone: &DnsZone,
    below: &[String],
    wanted: RecordQuery,
    turn: u16,
) -> NameLookup {
    let below: Vec<&str> = below.iter().map(String::as_str).collect();
    match below.as_slice() {
        [] => of_zone(view, zone, wanted),
        ["dns-version"] if wanted == RecordQuery::Txt => {
            let data = RecordData::Text(VERSION);
            let version = DnsRecord { owner: RecordOwner::Asked, ttl_s: VERSION_TTL_S, data };
            NameLookup::Records(vec![version], Vec::new())
        }
        ["dns-version"] => NameLookup::NoData,
        name if name == SERVER => addresses(&[IpAddr::V4(zone.server)], wanted, turn),
        ["dns" | "svc" | "pod"] => NameLookup::NoData,
        [namespace, "svc" | "pod"] if view.has_namespace(namespace) => NameLookup::NoData,
        [address, namespace, "pod"] => of_pod(view, address, namespace, wanted, turn),
        [service, namespace, "svc"] => {
            of_service(view, zone, (namespace, service), EndpointPart::All, wanted, turn)
        }
        [host, service, namespace, "svc"] => {
            of_service(view, zone, (namespace, service), EndpointPart::Host(host), wanted, turn)
        }
        [port, protocol, service, namespace, "svc"] => {
            match (port.strip_prefix('_'), protocol.strip_prefix('_')) {
                (Some(port), Some(protocol)) => {
                    let part = EndpointPart::Port(port, protocol);
                    of_service(view, zone, (namespace, service), part, wanted, turn)
                }
                (Some(_) | None, _) => NameLookup::NoName,
            }
        }
        _ => NameLookup::NoName,
    }
}

/// The domain itself.
fn of_zone(view: &DnsView, zone: &DnsZone, wanted: RecordQuery) -> NameLookup {
    let own = |data| record(RecordOwner::Asked, data);
    match wanted {
        RecordQuery::Soa => NameLookup::Records(vec![own(authority(view, zone).data)], Vec::new()),
        RecordQuery::Ns => {
            let glue = RecordData::Address(IpAddr::V4(zone.server));
            let glue = record(RecordOwner::Name(server(zone)), glue);
            NameLookup::Records(vec![own(RecordData::NameServer(server(zone)))], vec![glue])
        }
        RecordQuery::A
        | RecordQuery::Aaaa
        | RecordQuery::Srv
        | RecordQuery::Ptr
        | RecordQuery::Txt
        | RecordQuery::Cname
        | RecordQuery::Other => NameLookup::NoData,
    }
}

/// Which endpoints of a Service are meant.
#[derive(Clone, Copy)]
enum EndpointPart<'a> {
    All,
    Host(&'a str),
    /// Name and protocol.
    Port(&'a str, &'a str),
}

impl EndpointPart<'_> {
    /// Whether this port is meant.
    fn has(self, port: &DnsPort) -> bool {
        match self {
            Self::All | Self::Host(_) => true,
            Self::Port(name, protocol) => port.name == name && port.protocol == protocol,
        }
    }
}

fn of_service(
    view: &DnsView,
    zone: &DnsZone,
    (namespace, name): (&str, &str),
    part: EndpointPart<'_>,
    wanted: RecordQuery,
    turn: u16,
) -> NameLookup {
    let key = NamespacedName::new(namespace, name);
    match (view.service(&key), part) {
        (None, _)
        | (Some(DnsService::External(_)), EndpointPart::Host(_) | EndpointPart::Port(..)) => {
            return NameLookup::NoName;
        }
        // no port is known of it
        (Some(DnsService::External(_)), EndpointPart::All) if wanted == RecordQuery::Srv => {
            return NameLookup::NoData;
        }
        (Some(DnsService::External(target)), EndpointPart::All) => {
            return NameLookup::Alias(target.trim_end_matches('.').to_owned());
        }
        (
            Some(DnsService::Addresses(all, ports)),
            part @ (EndpointPart::All | EndpointPart::Port(..)),
        ) => {
            let ports: Vec<&DnsPort> = ports.iter().filter(|port| part.has(port)).collect();
            return match (ports.is_empty(), part) {
                (true, EndpointPart::Port(..)) => NameLookup::NoName,
                (false, _) if wanted == RecordQuery::Srv => service_ports(zone, &key, all, &ports),
                (_, _) => addresses(all, wanted, turn),
            };
        }
        (Some(DnsService::Addresses(..)), EndpointPart::Host(_))
        | (Some(DnsService::Endpoints), _) => {}
    }
    let mut meant: Vec<(&DnsEndpoint, Vec<&DnsPort>)> = Vec::new();
    for slice in view.slices_of(&key) {
        let ports: Vec<&DnsPort> = slice.ports.iter().filter(|port| part.has(port)).collect();
        let room = RECORDS_MAX.saturating_sub(meant.len());
        let endpoints = slice.endpoints.iter().filter(|endpoint| match part {
            EndpointPart::All => true,
            EndpointPart::Host(host) => endpoint.label() == host,
            EndpointPart::Port(..) => !ports.is_empty(),
        });
        meant.extend(endpoints.take(room).map(|endpoint| (endpoint, ports.clone())));
    }
    if meant.is_empty() {
        return NameLookup::NoName;
    }
    if wanted == RecordQuery::Srv {
        return hosts(zone, &key, &meant);
    }
    let all: BTreeSet<IpAddr> = meant.iter().map(|(endpoint, _)| endpoint.address).collect();
    addresses(&all.into_iter().collect::<Vec<_>>(), wanted, turn)
}

/// Each port of a Service with addresses of its own, and where that is.
fn service_ports(
    zone: &DnsZone,
    service: &NamespacedName,
    addresses: &[IpAddr],
    ports: &[&DnsPort],
) -> NameLookup {
    let target = format!("{}.{}.svc.{}", service.name, service.namespace, zone.domain);
    let weight = u16::try_from(100 / ports.len().max(1)).unwrap_or(1).max(1);
    let host = |port: &&DnsPort| {
        let host = RecordData::Host { weight, port: port.number, target: target.clone() };
        record(RecordOwner::Asked, host)
    };
    let glue =
        |address: &IpAddr| record(RecordOwner::Name(target.clone()), RecordData::Address(*address));
    NameLookup::Records(ports.iter().map(host).collect(), addresses.iter().map(glue).collect())
}

/// Each endpoint with each of its ports, and where they are.
fn hosts(
    zone: &DnsZone,
    service: &NamespacedName,
    meant: &[(&DnsEndpoint, Vec<&DnsPort>)],
) -> NameLookup {
    let NamespacedName { namespace, name } = service;
    let count = meant.iter().map(|(_, ports)| ports.len()).sum::<usize>().max(1);
    // as CoreDNS divides them
    let weight = u16::try_from(100 / count).unwrap_or(1).max(1);
    let (mut records, mut additional, mut known) = (Vec::new(), Vec::new(), BTreeSet::new());
    for (endpoint, ports) in meant {
        let target = format!("{}.{name}.{namespace}.svc.{}", endpoint.label(), zone.domain);
        for port in ports.iter().take(RECORDS_MAX.saturating_sub(records.len())) {
            let host = RecordData::Host { weight, port: port.number, target: target.clone() };
            records.push(record(RecordOwner::Asked, host));
        }
        if !ports.is_empty() && known.insert((target.clone(), endpoint.address)) {
            additional
                .push(record(RecordOwner::Name(target), RecordData::Address(endpoint.address)));
        }
    }
    match records.is_empty() {
        true => NameLookup::NoData,
        false => NameLookup::Records(records, additional),
    }
}

/// Those of the family that is asked for, another one first each time.
fn addresses(all: &[IpAddr], wanted: RecordQuery, turn: u16) -> NameLookup {
    let Some(family) = wanted.family() else { return NameLookup::NoData };
    let of_family = |address: &&IpAddr| IpFamily::from_address(**address) == family;
    let mut records: Vec<DnsRecord> = all
        .iter()
        .filter(of_family)
        .map(|address| record(RecordOwner::Asked, RecordData::Address(*address)))
        .collect();
    if records.is_empty() {
        return NameLookup::NoData;
    }
    let first = usize::from(turn) % records.len();
    records.rotate_left(first);
    NameLookup::Records(records, Vec::new())
}

fn of_pod(
    view: &DnsView,
    label: &str,
    namespace: &str,
    wanted: RecordQuery,
    turn: u16,
) -> NameLookup {
    let Some(address) = undashed(label) else { return NameLookup::NoName };
    if view.pods_at(address).any(|pod| pod.namespace == namespace) {
        addresses(&[address], wanted, turn)
    } else {
        NameLookup::NoName
    }
}

/// The address that a label stands for, in its usual form only.
fn undashed(label: &str) -> Option<IpAddr> {
    let v4 = || label.replace('-', ".").parse::<Ipv4Addr>().ok().map(IpAddr::V4);
    let v6 = || label.replace('-', ":").parse::<Ipv6Addr>().ok().map(IpAddr::V6);
    v4().or_else(v6)
}

/// The address whose name is asked for.
fn reversed(labels: &[String]) -> Option<IpAddr> {
    let labels: Vec<&str> = labels.iter().map(String::as_str).collect();
    match labels.as_slice() {
        [d, c, b, a, "in-addr", "arpa"] => {
            let octet = |text: &str| text.parse::<u8>().ok().filter(|n| n.to_string() == text);
            Some(IpAddr::V4(Ipv4Addr::new(octet(a)?, octet(b)?, octet(c)?, octet(d)?)))
        }
        [nibbles @ .., "ip6", "arpa"] if nibbles.len() == 32 => {
            let nibble = |text: &&str| match text.as_bytes() {
                [_] => u8::from_str_radix(text, 16).ok(),
                _ => None,
            };
            let bits = nibbles.iter().rev().try_fold(0_u128, |bits, text| {
                nibble(text).map(|nibble| (bits << 4) | u128::from(nibble))
            });
            bits.map(|bits| IpAddr::V6(Ipv6Addr::from_bits(bits)))
        }
        _ => None,
    }
}

/// A Service's address is called after it. Endpoints say what they are called; a pod that is no
/// endpoint is called after its address.
/// `None`: it is none of ours.
fn of_address(
    view: &DnsView,
    zone: &DnsZone,
    address: IpAddr,
    wanted: RecordQuery,
) -> Option<NameLookup> {
    let DnsZone { domain, subnet, ipv6_subnet, server: _ } = zone;
    let services = view.services_at(address);
    let mut names: BTreeSet<String> = services
        .map(|NamespacedName { namespace, name }| format!("{name}.{namespace}.svc.{domain}"))
        .collect();
    let endpoints = view
        .endpoints_at(address)
        .filter(|(service, _)| view.service(service).is_some())
        .take(RECORDS_MAX)
        .map(|(NamespacedName { namespace, name }, endpoint)| {
            format!("{}.{name}.{namespace}.svc.{domain}", endpoint.label())
        });
    names.extend(endpoints);
    if names.is_empty() {
        let pods = view.pods_at(address).take(RECORDS_MAX);
        names.extend(pods.map(|pod| format!("{}.{}.pod.{domain}", dashed(address), pod.namespace)));
    }
    if names.is_empty() {
        let ours = match address {
            IpAddr::V4(address) => subnet.contains(&address),
            IpAddr::V6(address) => ipv6_subnet.is_some_and(|subnet| subnet.contains(&address)),
        };
        return ours.then_some(NameLookup::NoName);
    }
    if wanted != RecordQuery::Ptr {
        return Some(NameLookup::NoData);
    }
    let records =
        names.into_iter().map(|name| record(RecordOwner::Asked, RecordData::Pointer(name)));
    Some(NameLookup::Records(records.collect(), Vec::new()))
}
