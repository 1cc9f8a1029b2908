//! Tables of nftables that are not ours, as the kernel lists them: their chains, and of their rules
//! what decides about packets of pods.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::io;

use netlink_packet_core::{DecodeError, NlasIterator};
use netlink_packet_netfilter::nftables::{
    ChainMessage, NfTablesMessage, RuleAttribute, RuleMessage, SetElementList, SetElementMessage,
};
use netlink_packet_netfilter::{NetfilterHeader, NetfilterMessage, NetfilterProtoFamily};
use rekindle_types::{IpFamily, IpStack};
use rustix::io::Errno;

use crate::rules::socket::NetfilterSocket;

/// `NFTA_LIST_ELEM`.
const LIST_ITEM: u16 = 1;
/// `NFTA_DATA_VALUE` and `NFTA_DATA_VERDICT`.
const DATA_VALUE: u16 = 1;
const DATA_VERDICT: u16 = 2;
/// `NFTA_VERDICT_CODE` and `NFTA_VERDICT_CHAIN`.
const VERDICT_CODE: u16 = 1;
const VERDICT_CHAIN: u16 = 2;
/// `NFT_REG_VERDICT`.
const VERDICT_REGISTER: u32 = 0;
/// `NFT_META_IIFNAME` and `NFT_META_OIFNAME`.
const META_INPUT_NAME: u32 = 6;
const META_OUTPUT_NAME: u32 = 7;

/// A table of nftables. Each family has its own names.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct TableName {
    /// What kind of packets it sees.
    pub family: TableFamily,
    /// Its name among those of the family.
    pub name: String,
}

/// The family of a table that sees packets of IP.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum TableFamily {
    /// `ip`: IPv4.
    Ip,
    /// `ip6`: IPv6.
    Ip6,
    /// `inet`: both.
    Inet,
}

impl TableFamily {
    fn parse(number: u8) -> Option<Self> {
        [Self::Ip, Self::Ip6, Self::Inet].into_iter().find(|it| u8::from(it.number()) == number)
    }

    const fn number(self) -> NetfilterProtoFamily {
        match self {
            Self::Ip => NetfilterProtoFamily::IPv4,
            Self::Ip6 => NetfilterProtoFamily::IPv6,
            Self::Inet => NetfilterProtoFamily::Inet,
        }
    }

    /// Whether its tables see packets of this family.
    pub(super) const fn sees(self, family: IpFamily) -> bool {
        match (self, family) {
            (Self::Ip | Self::Inet, IpFamily::V4) | (Self::Ip6 | Self::Inet, IpFamily::V6) => true,
            (Self::Ip, IpFamily::V6) | (Self::Ip6, IpFamily::V4) => false,
        }
    }

    /// Whether its tables see packets that an engine with these families routes.
    pub(super) fn is_routed(self, stack: IpStack) -> bool {
        stack.families().iter().any(|family| self.sees(*family))
    }
}

impl fmt::Display for TableName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let family = match self.family {
            TableFamily::Ip => "ip",
            TableFamily::Ip6 => "ip6",
            TableFamily::Inet => "inet",
        };
        write!(f, "{family} {}", self.name)
    }
}

/// A chain of a table of IP.
pub(super) struct ListedChain {
    pub(super) table: TableName,
    pub(super) name: String,
    /// Where the kernel calls it, if it does.
    pub(super) base: Option<BaseChain>,
}

#[derive(Clone, Copy)]
pub(super) struct BaseChain {
    pub(super) hook: HookPoint,
    /// Of type `nat`.
    pub(super) is_nat: bool,
    /// Drops what no rule accepts.
    pub(super) drops: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum HookPoint {
    Input,
    Forward,
    Postrouting,
    Elsewhere,
}

/// The rules of one table, by chain and in their order, and the sets that they look interfaces up
/// in.
#[derive(Default)]
pub(super) struct TableRules {
    pub(super) chains: BTreeMap<String, Vec<Vec<RuleExpression>>>,
    pub(super) sets: BTreeMap<String, Vec<SetMember>>,
}

/// A part of a rule. Parts that have no part in what becomes of a packet are left out.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum RuleExpression {
    /// Loads the name of an interface of the packet.
    LoadInterface { register: u32, side: InterfaceSide },
    /// Loads something else.
    LoadOther,
    /// Goes on if the register begins with these bytes, or if it does not.
    Compare { register: u32, value: Vec<u8>, is_negated: bool },
    /// Goes on if the set has what is in the register, or if it has not.
    Lookup { register: u32, set: String, is_negated: bool },
    /// Does what the map says of what is in the register, or nothing.
    LookupVerdict { register: u32, map: String },
    /// Goes on under a condition that is about more than interfaces.
    OtherCondition,
    /// Ends the rule.
    Verdict(RuleVerdict),
    /// Gives the packet another source.
    SourceNat,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum InterfaceSide {
    Input,
    Output,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum RuleVerdict {
    Accept,
    /// Drops or rejects.
    Drop,
    Return,
    Jump(String),
    Goto(String),
}

/// An element of a set or map.
pub(super) struct SetMember {
    pub(super) key: Vec<u8>,
    pub(super) verdict: Option<RuleVerdict>,
}

/// The chains of all tables of IP.
pub(super) fn list_chains(socket: &mut NetfilterSocket) -> io::Result<Vec<ListedChain>> {
    let list = NfTablesMessage::GetChain(ChainMessage { attributes: Vec::new() });
    let list = about(NetfilterProtoFamily::Unspec, list);
    socket.list_with_family(&list, |family, attributes, chains| {
        if let Some(family) = TableFamily::parse(family) {
            chains.extend(ListedChain::read(family, attributes)?);
        }
        Ok(())
    })
}

impl TableRules {
    pub(super) fn list(socket: &mut NetfilterSocket, table: &TableName) -> io::Result<Self> {
        let attributes = vec![RuleAttribute::Table(table.name.clone())];
        let list = NfTablesMessage::GetRule(RuleMessage { attributes });
        let rules = socket.list(&about(table.family.number(), list), |attributes, rules| {
            rules.extend(read_rule(attributes)?);
            Ok(())
        })?;
        let mut listed = Self::default();
        for (chain, rule) in rules {
            listed.chains.entry(chain).or_default().push(rule);
        }
        for set in listed.interface_sets() {
            let members = list_set(socket, table, &set)?;
            listed.sets.insert(set, members);
        }
        Ok(listed)
    }

    pub(super) fn expressions(&self) -> impl Iterator<Item = &RuleExpression> {
        self.chains.values().flatten().flatten()
    }

    /// The sets in which the name of an interface is looked up, and perhaps a few others.
    fn interface_sets(&self) -> BTreeSet<String> {
        let rules = self.chains.values().flatten();
        let about_interfaces = rules.filter(|rule| {
            rule.iter().any(|it| matches!(it, RuleExpression::LoadInterface { .. }))
        });
        let sets = about_interfaces.flatten().filter_map(|expression| match expression {
            RuleExpression::Lookup { set, .. } | RuleExpression::LookupVerdict { map: set, .. } => {
                Some(set.clone())
            }
            RuleExpression::LoadInterface { .. }
            | RuleExpression::LoadOther
            | RuleExpression::Compare { .. }
            | RuleExpression::OtherCondition
            | RuleExpression::Verdict(_)
            | RuleExpression::SourceNat => None,
        });
        sets.collect()
    }
}

fn list_set(
    socket: &mut NetfilterSocket,
    table: &TableName,
    set: &str,
) -> io::Result<Vec<SetMember>> {
    const ELEMENTS: u16 = 3;
    let attributes =
        vec![SetElementList::Table(table.name.clone()), SetElementList::Set(set.to_owned())];
    let list = NfTablesMessage::GetSetElement(SetElementMessage { attributes });
    let listed = socket.list(&about(table.family.number(), list), |attributes, members| {
        for member in items(value(attributes, ELEMENTS)?.unwrap_or_default()) {
            members.extend(SetMember::read(member?)?);
        }
        Ok(())
    });
    match listed {
        // it is gone since the rules were listed
        Err(error) if Errno::from_io_error(&error) == Some(Errno::NOENT) => Ok(Vec::new()),
        listed => listed,
    }
}

impl ListedChain {
    fn read(family: TableFamily, attributes: &[u8]) -> Result<Option<Self>, DecodeError> {
        const TABLE: u16 = 1;
        const NAME: u16 = 3;
        const HOOK: u16 = 4;
        const POLICY: u16 = 5;
        const TYPE: u16 = 7;
        /// `NFTA_HOOK_HOOKNUM`.
        const HOOK_NUMBER: u16 = 1;
        /// `NF_DROP`.
        const POLICY_DROP: u32 = 0;
        let (Some(table), Some(name)) = (text(attributes, TABLE)?, text(attributes, NAME)?) else {
            return Ok(None);
        };
        let hook = match value(attributes, HOOK)? {
            Some(hook) => number(hook, HOOK_NUMBER)?,
            None => None,
        };
        let base = match hook {
            Some(hook) => Some(BaseChain {
                hook: HookPoint::parse(hook),
                is_nat: text(attributes, TYPE)?.as_deref() == Some("nat"),
                drops: number(attributes, POLICY)? == Some(POLICY_DROP),
            }),
            None => None,
        };
        Ok(Some(Self { table: TableName { family, name: table }, name, base }))
    }
}

impl HookPoint {
    /// By `NF_INET_LOCAL_IN` and the like.
    const fn parse(number: u32) -> Self {
        match number {
            1 => Self::Input,
            2 => Self::Forward,
            4 => Self::Postrouting,
            _ => Self::Elsewhere,
        }
    }
}

/// A rule and its chain.
fn read_rule(attributes: &[u8]) -> Result<Option<(String, Vec<RuleExpression>)>, DecodeError> {
    const CHAIN: u16 = 2;
    const EXPRESSIONS: u16 = 4;
    let Some(chain) = text(attributes, CHAIN)? else { return Ok(None) };
    let mut expressions = Vec::new();
    for expression in items(value(attributes, EXPRESSIONS)?.unwrap_or_default()) {
        expressions.extend(RuleExpression::read(expression?)?);
    }
    Ok(Some((chain, expressions)))
}

impl RuleExpression {
    fn read(expression: &[u8]) -> Result<Option<Self>, DecodeError> {
        /// `NFTA_EXPR_NAME` and `NFTA_EXPR_DATA`.
        const NAME: u16 = 1;
        const DATA: u16 = 2;
        /// `NFTA_TARGET_NAME` and `NFTA_MATCH_NAME`: extensions of iptables.
        const EXTENSION: u16 = 1;
        /// `NFTA_NAT_TYPE`, `NFT_NAT_SNAT`.
        const NAT_TYPE: u16 = 1;
        const NAT_SOURCE: u32 = 0;
        let name = text(expression, NAME)?.unwrap_or_default();
        let data = value(expression, DATA)?.unwrap_or_default();
        Ok(match name.as_str() {
            "meta" => Self::read_meta(data)?,
            "cmp" => Some(Self::read_comparison(data)?),
            "lookup" => Some(Self::read_lookup(data)?),
            "immediate" => Self::read_immediate(data)?,
            "reject" => Some(Self::Verdict(RuleVerdict::Drop)),
            "masq" => Some(Self::SourceNat),
            "nat" if number(data, NAT_TYPE)? == Some(NAT_SOURCE) => Some(Self::SourceNat),
            "target" => match text(data, EXTENSION)?.as_deref() {
                Some("REJECT") => Some(Self::Verdict(RuleVerdict::Drop)),
                Some("MASQUERADE" | "SNAT") => Some(Self::SourceNat),
                Some(_) | None => None,
            },
            "match" if text(data, EXTENSION)?.as_deref() == Some("comment") => None,
            "bitwise" | "byteorder" | "ct" | "exthdr" | "fib" | "hash" | "numgen" | "payload"
            | "rt" | "socket" => Some(Self::LoadOther),
            "counter" | "last" | "log" | "nat" | "notrack" | "objref" => None,
            _ => Some(Self::OtherCondition),
        })
    }

    fn read_meta(data: &[u8]) -> Result<Option<Self>, DecodeError> {
        const REGISTER: u16 = 1;
        const KEY: u16 = 2;
        // one that sets a mark loads nothing
        let Some(register) = number(data, REGISTER)? else { return Ok(None) };
        Ok(Some(match number(data, KEY)? {
            Some(META_INPUT_NAME) => Self::LoadInterface { register, side: InterfaceSide::Input },
            Some(META_OUTPUT_NAME) => Self::LoadInterface { register, side: InterfaceSide::Output },
            Some(_) | None => Self::LoadOther,
        }))
    }

    fn read_comparison(data: &[u8]) -> Result<Self, DecodeError> {
        const REGISTER: u16 = 1;
        const OPERATOR: u16 = 2;
        const DATA: u16 = 3;
        /// `NFT_CMP_EQ` and `NFT_CMP_NEQ`.
        const EQUAL: u32 = 0;
        const NOT_EQUAL: u32 = 1;
        let operand = value(value(data, DATA)?.unwrap_or_default(), DATA_VALUE)?;
        let (Some(register), Some(operator), Some(operand)) =
            (number(data, REGISTER)?, number(data, OPERATOR)?, operand)
        else {
            return Ok(Self::OtherCondition);
        };
        Ok(match operator {
            EQUAL | NOT_EQUAL => Self::Compare {
                register,
                value: operand.to_vec(),
                is_negated: operator == NOT_EQUAL,
            },
            _ => Self::OtherCondition,
        })
    }

    fn read_lookup(data: &[u8]) -> Result<Self, DecodeError> {
        const SET: u16 = 1;
        const SOURCE: u16 = 2;
        const DESTINATION: u16 = 3;
        const FLAGS: u16 = 5;
        /// `NFT_LOOKUP_F_INV`.
        const INVERTED: u32 = 1;
        let (Some(set), Some(register)) = (text(data, SET)?, number(data, SOURCE)?) else {
            return Ok(Self::OtherCondition);
        };
        Ok(match number(data, DESTINATION)? {
            Some(VERDICT_REGISTER) => Self::LookupVerdict { register, map: set },
            Some(_) => Self::OtherCondition,
            None => {
                let is_negated = number(data, FLAGS)?.unwrap_or_default() & INVERTED != 0;
                Self::Lookup { register, set, is_negated }
            }
        })
    }

    fn read_immediate(data: &[u8]) -> Result<Option<Self>, DecodeError> {
        const REGISTER: u16 = 1;
        const DATA: u16 = 2;
        if number(data, REGISTER)? != Some(VERDICT_REGISTER) {
            return Ok(Some(Self::LoadOther));
        }
        let verdict = RuleVerdict::read(value(data, DATA)?.unwrap_or_default())?;
        Ok(verdict.map(Self::Verdict))
    }
}

impl RuleVerdict {
    /// One that neither decides nor leads elsewhere is none.
    fn read(data: &[u8]) -> Result<Option<Self>, DecodeError> {
        // NF_DROP, NF_ACCEPT, NFT_JUMP, NFT_GOTO and NFT_RETURN
        const DROP: i32 = 0;
        const ACCEPT: i32 = 1;
        const JUMP: i32 = -3;
        const GOTO: i32 = -4;
        const RETURN: i32 = -5;
        let Some(verdict) = value(data, DATA_VERDICT)? else { return Ok(None) };
        let chain = text(verdict, VERDICT_CHAIN)?;
        let code = number(verdict, VERDICT_CODE)?.map(u32::cast_signed);
        Ok(match (code, chain) {
            (Some(DROP), _) => Some(Self::Drop),
            (Some(ACCEPT), _) => Some(Self::Accept),
            (Some(RETURN), _) => Some(Self::Return),
            (Some(JUMP), Some(chain)) => Some(Self::Jump(chain)),
            (Some(GOTO), Some(chain)) => Some(Self::Goto(chain)),
            (Some(_) | None, _) => None,
        })
    }
}

impl SetMember {
    fn read(attributes: &[u8]) -> Result<Option<Self>, DecodeError> {
        const KEY: u16 = 1;
        const DATA: u16 = 2;
        let Some(key) = value(value(attributes, KEY)?.unwrap_or_default(), DATA_VALUE)? else {
            return Ok(None);
        };
        let verdict = RuleVerdict::read(value(attributes, DATA)?.unwrap_or_default())?;
        Ok(Some(Self { key: key.to_vec(), verdict }))
    }
}

/// The items of a list.
fn items(list: &[u8]) -> impl Iterator<Item = Result<&[u8], DecodeError>> {
    attributes(list)
        .filter(|item| item.as_ref().map_or(true, |(kind, _)| *kind == LIST_ITEM))
        .map(|item| item.map(|(_, value)| value))
}

fn value(bytes: &[u8], wanted: u16) -> Result<Option<&[u8]>, DecodeError> {
    for attribute in attributes(bytes) {
        let (kind, value) = attribute?;
        if kind == wanted {
            return Ok(Some(value));
        }
    }
    Ok(None)
}

fn attributes(bytes: &[u8]) -> impl Iterator<Item = Result<(u16, &[u8]), DecodeError>> {
    const HEADER_LENGTH: usize = 4;
    NlasIterator::new(bytes).map(|attribute| {
        let attribute = attribute?;
        let (kind, end) = (attribute.kind(), usize::from(attribute.length()));
        // the iterator has checked the length
        Ok((kind, attribute.into_inner().get(HEADER_LENGTH..end).unwrap_or_default()))
    })
}

fn number(attributes: &[u8], kind: u16) -> Result<Option<u32>, DecodeError> {
    let value = value(attributes, kind)?;
    Ok(value.and_then(|value| Some(u32::from_be_bytes(*value.first_chunk()?))))
}

fn text(attributes: &[u8], kind: u16) -> Result<Option<String>, DecodeError> {
    let value = value(attributes, kind)?;
    Ok(value.map(|value| String::from_utf8_lossy(value).trim_end_matches('\0').to_owned()))
}

fn about(family: NetfilterProtoFamily, message: NfTablesMessage) -> NetfilterMessage {
    NetfilterMessage::new(NetfilterHeader::new(family, 0, 0), message)
}
