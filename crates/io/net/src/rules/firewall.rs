//! Firewalls of the machine that stand in the way of what pods send: to the node, which answers
//! cluster DNS, and through it. Nothing of them is changed: the user gets the command that does.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::io;

use rekindle_types::IpStack;

use crate::rules::error::RuleError;
use crate::rules::failed;
use crate::rules::listed_rules::{
    BaseChain, HookPoint, ListedChain, TableFamily, TableName, TableRules, list_chains,
};
use crate::rules::packet_path::{BridgeName, PacketPath, PodTraffic};
use crate::rules::socket::NetfilterSocket;

/// Ends its chains with rules that reject packets, and not by a policy.
const FIREWALLD: &str = "firewalld";
/// The table of iptables, its chains, and the one that Docker leaves to users.
const IPTABLES: &str = "filter";
const INPUT: &str = "INPUT";
const FORWARD: &str = "FORWARD";
const DOCKER_USER: &str = "DOCKER-USER";

/// A firewall that does not know the pods' bridge, and so drops packets from or to it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DroppingFirewall {
    /// The table of nftables that drops.
    pub table: TableName,
    /// Who writes it.
    pub kind: FirewallKind,
    /// What is dropped.
    pub drops: BTreeSet<PodTraffic>,
    /// The pods' bridge.
    pub bridge: String,
}

/// Who writes the rules of a firewall.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FirewallKind {
    /// Docker, with a chain for rules of users.
    Docker,
    /// Docker without that chain, as its table of IPv6 may be.
    DockerWithoutUserChain,
    /// `firewalld`.
    Firewalld,
    /// `ufw`.
    Ufw,
    /// Another program, by `iptables`.
    Iptables,
    /// Another program, by other means.
    Other,
}

impl DroppingFirewall {
    /// What fails as long as it drops.
    pub fn effect(&self) -> &'static str {
        let drops_forwarded = self.drops.iter().any(|traffic| *traffic != PodTraffic::ForNode);
        match (self.drops.contains(&PodTraffic::ForNode), drops_forwarded) {
            (false, _) => "pods reach neither each other through Services nor the outside",
            (true, false) => "names do not resolve in pods and pods do not reach the API",
            (true, true) => {
                "names do not resolve in pods, and pods reach neither the API nor each other through Services nor the outside"
            }
        }
    }

    /// What the user may do about it.
    pub fn remedy(&self) -> String {
        let bridge = &self.bridge;
        let for_each = |remedy: &dyn Fn(PodTraffic) -> String| {
            let remedies: Vec<String> = self.drops.iter().map(|traffic| remedy(*traffic)).collect();
            remedies.join(" && ")
        };
        match self.kind {
            FirewallKind::Docker => for_each(&|traffic| self.iptables(traffic, DOCKER_USER)),
            FirewallKind::DockerWithoutUserChain | FirewallKind::Iptables => {
                for_each(&|traffic| self.iptables(traffic, FORWARD))
            }
            FirewallKind::Firewalld => {
                format!(
                    "firewall-cmd --permanent --zone=trusted --add-interface={bridge} && firewall-cmd --reload"
                )
            }
            FirewallKind::Ufw => for_each(&|traffic| match traffic {
                PodTraffic::ForNode => format!("ufw allow in on {bridge}"),
                PodTraffic::FromPods => format!("ufw route allow in on {bridge}"),
                PodTraffic::ToPods => format!("ufw route allow out on {bridge}"),
            }),
            FirewallKind::Other => {
                let whats = self.drops.iter().map(|traffic| match traffic {
                    PodTraffic::ForNode => "packets from",
                    PodTraffic::FromPods => "forwarded packets from",
                    PodTraffic::ToPods => "forwarded packets to",
                });
                let whats: Vec<String> = whats.map(|what| format!("{what} {bridge}")).collect();
                format!("accept {} in table {}", whats.join(" and "), self.table)
            }
        }
    }

    fn iptables(&self, traffic: PodTraffic, forward_chain: &str) -> String {
        let command = match self.table.family {
            TableFamily::Ip | TableFamily::Inet => "iptables",
            TableFamily::Ip6 => "ip6tables",
        };
        let (chain, side) = match traffic {
            PodTraffic::ForNode => (INPUT, "-i"),
            PodTraffic::FromPods => (forward_chain, "-i"),
            PodTraffic::ToPods => (forward_chain, "-o"),
        };
        format!("{command} -I {chain} {side} {} -j ACCEPT", self.bridge)
    }

    /// Whether all that it drops was dropped by one of these.
    pub fn is_among(&self, earlier: &[Self]) -> bool {
        let is_same =
            |other: &Self| other.table == self.table && other.drops.is_superset(&self.drops);
        earlier.iter().any(is_same)
    }
}

impl fmt::Display for DroppingFirewall {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self.kind {
            FirewallKind::Docker | FirewallKind::DockerWithoutUserChain => "Docker's firewall",
            FirewallKind::Firewalld => "firewalld",
            FirewallKind::Ufw => "ufw",
            FirewallKind::Iptables => "a firewall of iptables",
            FirewallKind::Other => "a firewall",
        })
    }
}

/// The firewalls in nftables (so those of `iptables-nft`, too) that drop packets of an engine with
/// this bridge and these families. Firewalls of the older `iptables-legacy` are not seen.
pub fn dropping_firewalls(
    bridge: &str,
    stack: IpStack,
) -> Result<Vec<DroppingFirewall>, RuleError> {
    find(bridge, stack)
        .map_err(|source| failed("look for firewalls that drop what pods send", source))
}

fn find(bridge: &str, stack: IpStack) -> io::Result<Vec<DroppingFirewall>> {
    let mut socket = NetfilterSocket::open()?;
    let chains = list_chains(&mut socket)?;
    let mut tables: BTreeMap<&TableName, Vec<&ListedChain>> = BTreeMap::new();
    for chain in chains.iter().filter(|chain| chain.table.family.is_routed(stack)) {
        tables.entry(&chain.table).or_default().push(chain);
    }
    let mut found = Vec::new();
    for (table, chains) in tables {
        let filters = filters(table, &chains);
        if filters.is_empty() {
            continue;
        }
        let rules = TableRules::list(&mut socket, table)?;
        let bridge_name = BridgeName::new(bridge);
        let drops = |(chain, traffic): &(&ListedChain, PodTraffic)| {
            if table.name == FIREWALLD {
                !bridge_name.is_named_in(&rules)
            } else {
                !PacketPath::new(&rules, bridge_name, *traffic).is_let_through(&chain.name)
            }
        };
        let drops: BTreeSet<PodTraffic> =
            filters.into_iter().filter(drops).map(|(_, traffic)| traffic).collect();
        if !drops.is_empty() {
            let (table, bridge) = (table.clone(), bridge.to_owned());
            let kind = FirewallKind::of_table(&table, &chains);
            found.push(DroppingFirewall { table, kind, drops, bridge });
        }
    }
    Ok(found)
}

/// The chains of a table that drop what no rule accepts, and which packets of pods come to each.
fn filters<'a>(
    table: &TableName,
    chains: &[&'a ListedChain],
) -> Vec<(&'a ListedChain, PodTraffic)> {
    let mut filters = Vec::new();
    for chain in chains {
        let Some(BaseChain { hook, drops, .. }) = chain.base else { continue };
        if !drops && table.name != FIREWALLD {
            continue;
        }
        match hook {
            HookPoint::Input => filters.push((*chain, PodTraffic::ForNode)),
            HookPoint::Forward => {
                filters.extend([PodTraffic::FromPods, PodTraffic::ToPods].map(|it| (*chain, it)));
            }
            HookPoint::Postrouting | HookPoint::Elsewhere => {}
        }
    }
    filters
}

impl FirewallKind {
    fn of_table(table: &TableName, chains: &[&ListedChain]) -> Self {
        let begins = |begin: &str| chains.iter().any(|chain| chain.name.starts_with(begin));
        let is_of_iptables = table.family != TableFamily::Inet
            && table.name == IPTABLES
            && chains.iter().all(|chain| match chain.base {
                // iptables names its base chains after their hooks
                Some(BaseChain { hook: HookPoint::Input, .. }) => chain.name == INPUT,
                Some(BaseChain { hook: HookPoint::Forward, .. }) => chain.name == FORWARD,
                Some(BaseChain { hook: HookPoint::Postrouting | HookPoint::Elsewhere, .. })
                | None => true,
            });
        if table.name == FIREWALLD {
            Self::Firewalld
        } else if !is_of_iptables {
            Self::Other
        } else if begins(DOCKER_USER) {
            Self::Docker
        } else if begins("DOCKER") {
            Self::DockerWithoutUserChain
        } else if begins("ufw-") || begins("ufw6-") {
            Self::Ufw
        } else {
            Self::Iptables
        }
    }
}
