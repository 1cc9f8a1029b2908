//! Question and view in, reply out: pure.
//!
//! | name below the zone | answer |
//! |---|---|
//! | `SVC.NS.svc` | the ready endpoints; of a Service `ExternalName` its other name |
//! | `HOST.SVC.NS.svc` | the endpoints of that host name, or of the address `a-b-c-d` |
//! | `_PORT._PROTO.SVC.NS.svc` | the endpoints that have that port |
//! | `a-b-c-d.NS.pod` | that address, when a pod of the namespace has it |
//! | `dns-version`, `ns.dns` | the version of this scheme, the server |
//!
//! A Service without endpoints has no name (the specification, 2.4.1). What is above an existing
//! name exists, and has no data.

use std::collections::BTreeSet;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use ipnet::Ipv4Net;

use super::view::{Endpoint, Key, Port, Service, View, dashed};

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
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Zone {
    /// The cluster's domain, in small letters: `cluster.local`.
    pub domain: String,
    /// The pods' subnet: the names of its addresses are nobody else's.
    pub subnet: Ipv4Net,
    /// Where the server is.
    pub server: Ipv4Addr,
}

/// What is asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Wanted {
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

/// Kinds of addresses.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Family {
    V4,
    V6,
}

impl Wanted {
    /// Which addresses are asked for, if addresses are.
    const fn family(self) -> Option<Family> {
        match self {
            Self::A => Some(Family::V4),
            Self::Aaaa => Some(Family::V6),
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
pub(super) struct Question {
    /// The name's labels, in small letters.
    pub(super) labels: Vec<String>,
    pub(super) wanted: Wanted,
}

/// What becomes of a question.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Reply {
    /// It is answered.
    Answer(Answer),
    /// The name is another one's, which somebody else has to be asked for.
    Alias { chain: Vec<Record>, target: String },
    /// Somebody else has to be asked.
    NotOurs,
}

/// An answer. One without records says, with the zone's authority, that there are none.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Answer {
    pub(super) code: Code,
    pub(super) records: Vec<Record>,
    /// What who asked will ask next.
    pub(super) additional: Vec<Record>,
    /// The authority that says that there is nothing (more).
    pub(super) authority: Option<Record>,
}

/// How it went.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Code {
    NoError,
    /// There is no such name.
    NoName,
    /// It cannot be said now.
    Failure,
    Refused,
}

/// A record.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Record {
    pub(super) owner: Owner,
    pub(super) ttl_s: u32,
    pub(super) data: Data,
}

/// Whose a record is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Owner {
    /// The name that was asked for, as it was written.
    Asked,
    Name(String),
}

/// What a record says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Data {
    Address(IpAddr),
    Host { weight: u16, port: u16, target: String },
    Pointer(String),
    Alias(String),
    Text(&'static str),
    NameServer(String),
    Authority { server: String, mailbox: String, serial: u32 },
}

impl Answer {
    fn of(records: Vec<Record>) -> Self {
        Self { code: Code::NoError, records, additional: Vec::new(), authority: None }
    }

    /// One that says nothing but this.
    pub(super) fn bare(code: Code) -> Self {
        Self { code, ..Self::of(Vec::new()) }
    }
}

/// Answers a question. `turn` says which of several addresses comes first, so that they take turns.
pub(super) fn reply(view: &View, zone: &Zone, question: &Question, turn: u16) -> Reply {
    let mut chain: Vec<Record> = Vec::new();
    let mut question = question.clone();
    loop {
        let found = match below(&zone.domain, &question.labels) {
            Some(below) => Some(in_zone(view, zone, below, question.wanted, turn)),
            None => reversed(&question.labels)
                .and_then(|address| of_address(view, zone, address, question.wanted)),
        };
        let Some(found) = found else {
            return match chain.is_empty() {
                true => Reply::NotOurs,
                false => Reply::Alias { chain, target: question.labels.join(".") },
            };
        };
        let (code, mut records, additional) = match found {
            Found::NoName => (Code::NoName, Vec::new(), Vec::new()),
            Found::NoData => (Code::NoError, Vec::new(), Vec::new()),
            Found::Records(records, additional) => (Code::NoError, records, additional),
            Found::Alias(target) => {
                chain.push(record(owner_of(&chain), Data::Alias(target.clone())));
                if question.wanted == Wanted::Cname {
                    return Reply::Answer(Answer::of(chain));
                }
                if chain.len() > ALIASES_MAX {
                    return Reply::Answer(Answer::bare(Code::Failure));
                }
                question.labels = target.split('.').map(str::to_ascii_lowercase).collect();
                continue;
            }
        };
        let authority = records.is_empty().then(|| authority(view, zone));
        if let Owner::Name(name) = owner_of(&chain) {
            for record in &mut records {
                record.owner = Owner::Name(name.clone());
            }
        }
        chain.append(&mut records);
        return Reply::Answer(Answer { code, records: chain, additional, authority });
    }
}

/// Whose the next record is: what the last alias leads to.
fn owner_of(chain: &[Record]) -> Owner {
    match chain.last().map(|last| &last.data) {
        Some(Data::Alias(target)) => Owner::Name(target.clone()),
        Some(_) | None => Owner::Asked,
    }
}

/// What is known of a name.
enum Found {
    NoName,
    /// It exists, and has nothing of what is asked for.
    NoData,
    Records(Vec<Record>, Vec<Record>),
    Alias(String),
}

fn record(owner: Owner, data: Data) -> Record {
    Record { owner, ttl_s: TTL_S, data }
}

fn authority(view: &View, zone: &Zone) -> Record {
    let owner = Owner::Name(zone.domain.clone());
    let mailbox = format!("hostmaster.{}", zone.domain);
    record(owner, Data::Authority { server: server(zone), mailbox, serial: view.serial() })
}

fn server(zone: &Zone) -> String {
    format!("{}.{}.{}", SERVER[0], SERVER[1], zone.domain)
}

/// The labels before those of `domain`.
fn below<'a>(domain: &str, labels: &'a [String]) -> Option<&'a [String]> {
    let count = domain.split('.').count();
    let (below, rest) = labels.split_at(labels.len().checked_sub(count)?);
    rest.iter().map(String::as_str).eq(domain.split('.')).then_some(below)
}

fn in_zone(view: &View, zone: &Zone, below: &[String], wanted: Wanted, turn: u16) -> Found {
    let below: Vec<&str> = below.iter().map(String::as_str).collect();
    match below.as_slice() {
        [] => of_zone(view, zone, wanted),
        ["dns-version"] if wanted == Wanted::Txt => {
            let data = Data::Text(VERSION);
            let version = Record { owner: Owner::Asked, ttl_s: VERSION_TTL_S, data };
            Found::Records(vec![version], Vec::new())
        }
        ["dns-version"] => Found::NoData,
        name if name == SERVER => addresses(&[IpAddr::V4(zone.server)], wanted, turn),
        ["dns" | "svc" | "pod"] => Found::NoData,
        [namespace, "svc" | "pod"] if view.has_namespace(namespace) => Found::NoData,
        [address, namespace, "pod"] => of_pod(view, address, namespace, wanted, turn),
        [service, namespace, "svc"] => {
            of_service(view, zone, (namespace, service), Part::All, wanted, turn)
        }
        [host, service, namespace, "svc"] => {
            of_service(view, zone, (namespace, service), Part::Host(host), wanted, turn)
        }
        [port, protocol, service, namespace, "svc"] => {
            match (port.strip_prefix('_'), protocol.strip_prefix('_')) {
                (Some(port), Some(protocol)) => {
                    let part = Part::Port(port, protocol);
                    of_service(view, zone, (namespace, service), part, wanted, turn)
                }
                (Some(_) | None, _) => Found::NoName,
            }
        }
        _ => Found::NoName,
    }
}

/// The domain itself.
fn of_zone(view: &View, zone: &Zone, wanted: Wanted) -> Found {
    let own = |data| record(Owner::Asked, data);
    match wanted {
        Wanted::Soa => Found::Records(vec![own(authority(view, zone).data)], Vec::new()),
        Wanted::Ns => {
            let glue = Data::Address(IpAddr::V4(zone.server));
            let glue = record(Owner::Name(server(zone)), glue);
            Found::Records(vec![own(Data::NameServer(server(zone)))], vec![glue])
        }
        Wanted::A
        | Wanted::Aaaa
        | Wanted::Srv
        | Wanted::Ptr
        | Wanted::Txt
        | Wanted::Cname
        | Wanted::Other => Found::NoData,
    }
}

/// Which endpoints of a Service are meant.
#[derive(Clone, Copy)]
enum Part<'a> {
    All,
    Host(&'a str),
    /// Name and protocol.
    Port(&'a str, &'a str),
}

fn of_service(
    view: &View,
    zone: &Zone,
    (namespace, name): (&str, &str),
    part: Part<'_>,
    wanted: Wanted,
    turn: u16,
) -> Found {
    let key = Key::new(namespace, name);
    match (view.service(&key), part) {
        (None, _) | (Some(Service::External(_)), Part::Host(_) | Part::Port(..)) => {
            return Found::NoName;
        }
        // no port is known of it
        (Some(Service::External(_)), Part::All) if wanted == Wanted::Srv => return Found::NoData,
        (Some(Service::External(target)), Part::All) => {
            return Found::Alias(target.trim_end_matches('.').to_owned());
        }
        (Some(Service::Endpoints), _) => {}
    }
    let mut meant: Vec<(&Endpoint, Vec<&Port>)> = Vec::new();
    for slice in view.slices_of(&key) {
        let of_port = |port: &&Port| match part {
            Part::All | Part::Host(_) => true,
            Part::Port(name, protocol) => port.name == name && port.protocol == protocol,
        };
        let ports: Vec<&Port> = slice.ports.iter().filter(of_port).collect();
        let room = RECORDS_MAX.saturating_sub(meant.len());
        let endpoints = slice.endpoints.iter().filter(|endpoint| match part {
            Part::All => true,
            Part::Host(host) => endpoint.label() == host,
            Part::Port(..) => !ports.is_empty(),
        });
        meant.extend(endpoints.take(room).map(|endpoint| (endpoint, ports.clone())));
    }
    if meant.is_empty() {
        return Found::NoName;
    }
    if wanted == Wanted::Srv {
        return hosts(zone, &key, &meant);
    }
    let all: BTreeSet<IpAddr> = meant.iter().map(|(endpoint, _)| endpoint.address).collect();
    addresses(&all.into_iter().collect::<Vec<_>>(), wanted, turn)
}

/// Each endpoint with each of its ports, and where they are.
fn hosts(zone: &Zone, service: &Key, meant: &[(&Endpoint, Vec<&Port>)]) -> Found {
    let Key { namespace, name } = service;
    let count = meant.iter().map(|(_, ports)| ports.len()).sum::<usize>().max(1);
    // as CoreDNS divides them
    let weight = u16::try_from(100 / count).unwrap_or(1).max(1);
    let (mut records, mut additional, mut known) = (Vec::new(), Vec::new(), BTreeSet::new());
    for (endpoint, ports) in meant {
        let target = format!("{}.{name}.{namespace}.svc.{}", endpoint.label(), zone.domain);
        for port in ports.iter().take(RECORDS_MAX.saturating_sub(records.len())) {
            let host = Data::Host { weight, port: port.number, target: target.clone() };
            records.push(record(Owner::Asked, host));
        }
        if !ports.is_empty() && known.insert((target.clone(), endpoint.address)) {
            additional.push(record(Owner::Name(target), Data::Address(endpoint.address)));
        }
    }
    match records.is_empty() {
        true => Found::NoData,
        false => Found::Records(records, additional),
    }
}

/// Those of the family that is asked for, another one first each time.
fn addresses(all: &[IpAddr], wanted: Wanted, turn: u16) -> Found {
    let Some(family) = wanted.family() else { return Found::NoData };
    let of_family = |address: &&IpAddr| match family {
        Family::V4 => address.is_ipv4(),
        Family::V6 => address.is_ipv6(),
    };
    let mut records: Vec<Record> = all
        .iter()
        .filter(of_family)
        .map(|address| record(Owner::Asked, Data::Address(*address)))
        .collect();
    if records.is_empty() {
        return Found::NoData;
    }
    let first = usize::from(turn) % records.len();
    records.rotate_left(first);
    Found::Records(records, Vec::new())
}

fn of_pod(view: &View, label: &str, namespace: &str, wanted: Wanted, turn: u16) -> Found {
    let Some(address) = undashed(label) else { return Found::NoName };
    if view.pods_at(address).any(|pod| pod.namespace == namespace) {
        addresses(&[address], wanted, turn)
    } else {
        Found::NoName
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

/// Endpoints say what they are called; a pod that is no endpoint is called after its address.
/// `None`: it is none of ours.
fn of_address(view: &View, zone: &Zone, address: IpAddr, wanted: Wanted) -> Option<Found> {
    let Zone { domain, subnet, server: _ } = zone;
    let mut names: BTreeSet<String> = view
        .endpoints_at(address)
        .filter(|(service, _)| view.service(service).is_some())
        .take(RECORDS_MAX)
        .map(|(Key { namespace, name }, endpoint)| {
            format!("{}.{name}.{namespace}.svc.{domain}", endpoint.label())
        })
        .collect();
    if names.is_empty() {
        let pods = view.pods_at(address).take(RECORDS_MAX);
        names.extend(pods.map(|pod| format!("{}.{}.pod.{domain}", dashed(address), pod.namespace)));
    }
    if names.is_empty() {
        let ours = match address {
            IpAddr::V4(address) => subnet.contains(&address),
            IpAddr::V6(_) => false,
        };
        return ours.then_some(Found::NoName);
    }
    if wanted != Wanted::Ptr {
        return Some(Found::NoData);
    }
    let records = names.into_iter().map(|name| record(Owner::Asked, Data::Pointer(name)));
    Some(Found::Records(records.collect(), Vec::new()))
}
