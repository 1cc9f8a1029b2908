//! Firewalls of the machine that stand in the way of what pods send: to the node, which answers
//! cluster DNS, and through it. Nothing of them is changed: the user gets the command that does.

use std::collections::BTreeMap;
use std::fmt;
use std::io;

use netlink_packet_core::{DecodeError, NlasIterator};
use netlink_packet_netfilter::nftables::{ChainMessage, NfTablesMessage, RuleMessage};
use netlink_packet_netfilter::{NetfilterHeader, NetfilterMessage, NetfilterProtoFamily};

use crate::rules::error::RuleError;
use crate::rules::failed;
use crate::rules::socket::NetfilterSocket;

/// `NFTA_CHAIN_TABLE` and `NFTA_RULE_TABLE`.
const TABLE: u16 = 1;
const CHAIN_NAME: u16 = 3;
const CHAIN_HOOK: u16 = 4;
const CHAIN_POLICY: u16 = 5;
/// `NFTA_HOOK_HOOKNUM`, `NF_INET_LOCAL_IN`, `NF_INET_FORWARD`.
const HOOK_NUMBER: u16 = 1;
const INPUT: u32 = 1;
const FORWARD: u32 = 2;
/// `NF_DROP`.
const POLICY_DROP: u32 = 0;
/// Ends its chains with rules that reject packets, and not by a policy.
const FIREWALLD: &str = "firewalld";

/// A firewall that does not know the pods' bridge, and so drops packets from and to it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DroppingFirewall {
    /// The table of nftables that drops.
    pub table: String,
    kind: FirewallKind,
    drops: DroppedPackets,
    bridge: String,
}

/// What of pods is dropped.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum DroppedPackets {
    /// What goes through the node.
    Forwarded,
    /// What is for the node.
    ForNode,
    Both,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum FirewallKind {
    Docker,
    Firewalld,
    Ufw,
    Other,
}

impl DroppingFirewall {
    /// What the user may do about it.
    pub fn remedy(&self) -> String {
        let bridge = &self.bridge;
        match self.kind {
            FirewallKind::Docker => {
                let forward = ["-i", "-o"]
                    .map(|way| format!("iptables -I DOCKER-USER {way} {bridge} -j ACCEPT"))
                    .join(" && ");
                match self.drops {
                    DroppedPackets::Forwarded => forward,
                    DroppedPackets::ForNode | DroppedPackets::Both => {
                        format!("{forward} && iptables -I INPUT -i {bridge} -j ACCEPT")
                    }
                }
            }
            FirewallKind::Firewalld => {
                format!(
                    "firewall-cmd --permanent --zone=trusted --add-interface={bridge} && firewall-cmd --reload"
                )
            }
            FirewallKind::Ufw => {
                format!(
                    "ufw allow in on {bridge} && ufw route allow in on {bridge} && ufw route allow out on {bridge}"
                )
            }
            FirewallKind::Other => {
                let table = &self.table;
                match self.drops {
                    DroppedPackets::Forwarded => {
                        format!("accept forwarded packets from and to {bridge} in table {table}")
                    }
                    DroppedPackets::ForNode => {
                        format!("accept packets from {bridge} in table {table}")
                    }
                    DroppedPackets::Both => {
                        format!("accept packets from and to {bridge} in table {table}")
                    }
                }
            }
        }
    }
}

impl fmt::Display for DroppingFirewall {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self.kind {
            FirewallKind::Docker => "Docker's firewall",
            FirewallKind::Firewalld => "firewalld",
            FirewallKind::Ufw => "ufw",
            FirewallKind::Other => "a firewall",
        })
    }
}

/// A chain as the kernel lists it.
struct ListedChain {
    table: String,
    name: String,
    /// Which packets it is called for, if it drops those that no rule accepts.
    drops: Option<DroppedPackets>,
}

/// The firewalls in nftables (so those of `iptables-nft`, too) that drop packets and have no rule
/// that names this bridge. Firewalls of the older `iptables-legacy` are not seen.
pub fn dropping_firewalls(bridge: &str) -> Result<Vec<DroppingFirewall>, RuleError> {
    find(bridge).map_err(|source| failed("look for firewalls that drop what pods send", source))
}

fn find(bridge: &str) -> io::Result<Vec<DroppingFirewall>> {
    let mut socket = NetfilterSocket::open()?;
    let list = NfTablesMessage::GetChain(ChainMessage { attributes: Vec::new() });
    let chains = socket.list(&of_all_families(list), |attributes, chains| {
        chains.extend(ListedChain::read(attributes)?);
        Ok(())
    })?;
    let mut tables: BTreeMap<&str, DroppedPackets> = BTreeMap::new();
    for chain in &chains {
        let drops = if chain.table == FIREWALLD { Some(DroppedPackets::Both) } else { chain.drops };
        let Some(drops) = drops else { continue };
        let of_table = tables.entry(&chain.table).or_insert(drops);
        if *of_table != drops {
            *of_table = DroppedPackets::Both;
        }
    }
    if tables.is_empty() {
        return Ok(Vec::new());
    }
    let list = NfTablesMessage::GetRule(RuleMessage { attributes: Vec::new() });
    let know_bridge = socket.list(&of_all_families(list), |attributes, tables| {
        // the name as rules compare it, with zeros behind it up to the length of a name
        let is_named = attributes
            .windows(bridge.len() + 1)
            .any(|bytes| bytes.strip_suffix(&[0]) == Some(bridge.as_bytes()));
        if is_named {
            tables.extend(text(attributes, TABLE)?);
        }
        Ok(())
    })?;
    let has_chain = |table: &str, begin: &str| {
        chains.iter().any(|chain| chain.table == table && chain.name.starts_with(begin))
    };
    let firewall = |(table, drops): (&str, DroppedPackets)| {
        let kind = match table {
            FIREWALLD => FirewallKind::Firewalld,
            table if has_chain(table, "DOCKER-USER") => FirewallKind::Docker,
            table if has_chain(table, "ufw-") => FirewallKind::Ufw,
            _ => FirewallKind::Other,
        };
        DroppingFirewall { table: table.to_owned(), kind, drops, bridge: bridge.to_owned() }
    };
    let knows_bridge = |table: &str| know_bridge.iter().any(|known| known == table);
    let tables = tables.into_iter().filter(|(table, _)| !knows_bridge(table));
    Ok(tables.map(firewall).collect())
}

impl ListedChain {
    fn read(attributes: &[u8]) -> Result<Option<Self>, DecodeError> {
        let (Some(table), Some(name)) = (text(attributes, TABLE)?, text(attributes, CHAIN_NAME)?)
        else {
            return Ok(None);
        };
        let hook = value(attributes, CHAIN_HOOK)?.map(|hook| number(&hook, HOOK_NUMBER));
        let called_for = match hook.transpose()?.flatten() {
            Some(INPUT) => Some(DroppedPackets::ForNode),
            Some(FORWARD) => Some(DroppedPackets::Forwarded),
            Some(_) | None => None,
        };
        let has_policy = number(attributes, CHAIN_POLICY)? == Some(POLICY_DROP);
        Ok(Some(Self { table, name, drops: called_for.filter(|_| has_policy) }))
    }
}

fn value(attributes: &[u8], kind: u16) -> Result<Option<Vec<u8>>, DecodeError> {
    for attribute in NlasIterator::new(attributes) {
        let attribute = attribute?;
        if attribute.kind() == kind {
            return Ok(Some(attribute.value().to_vec()));
        }
    }
    Ok(None)
}

fn number(attributes: &[u8], kind: u16) -> Result<Option<u32>, DecodeError> {
    let value = value(attributes, kind)?;
    Ok(value.and_then(|value| Some(u32::from_be_bytes(*value.first_chunk()?))))
}

fn text(attributes: &[u8], kind: u16) -> Result<Option<String>, DecodeError> {
    let value = value(attributes, kind)?;
    Ok(value.map(|value| String::from_utf8_lossy(&value).trim_end_matches('\0').to_owned()))
}

fn of_all_families(message: NfTablesMessage) -> NetfilterMessage {
    NetfilterMessage::new(NetfilterHeader::new(NetfilterProtoFamily::Unspec, 0, 0), message)
}
