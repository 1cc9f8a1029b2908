//! The table of an engine: its sets, chains and rules.
//!
//! ```text
//!  prerouting, output (filter, -110) ──► refuse: in `rejected`? in `dropped`?
//!  prerouting, output (nat, -100) ─────► route:  `services` ─► how many endpoints ─► `picks` ─► pick-3
//!      pick-3: a random number below 3 ─► `endpoints` ─► the connection goes to that address and port
//!  prerouting, output (filter, -90) ───► vacant: still for the Services' range? nobody has it
//!  postrouting (nat, 100) ─────────────► masquerade: hairpins, 127.0.0.1, pods that leave the machine
//! ```
//! A chain `pick-…` exists once for each number of endpoints and time of affinity that some Service
//! has. NodePorts have chains of their own (`pick-…-node`), which take 0.0.0.0 for the address. A
//! Service is elements only, and none of them names a chain: otherwise the kernel would look through
//! the elements of all Services for loops whenever one changes.
//!
//! One connection may see elements of two transactions, because the kernel takes each lookup by
//! itself. Then a number may have no endpoint any more, and number 0 is taken.

use std::num::NonZeroU16;

use ipnet::Ipv4Net;
use netlink_packet_netfilter::nftables::Register;
use rekindle_services::{EndpointPick, RuleElement};

use crate::rules::expressions::{
    Expression, SetUpdate, SubnetTest, comes_in_by, drop_packet, go_to, is_for_this_machine, is_in,
    is_ipv4, is_new_connection, is_redirected, jump, leaves_not_by, load_destination,
    load_destination_port, load_protocol, load_random, load_source, load_value, look_up,
    masquerade, redirect, register, reject, subnet, to_network_order, update_map,
};
use crate::rules::{LoopbackNodePorts, PodEgress, RuleTableConfig};

/// The map of the clients that stay with their endpoint; packets add to it.
pub(super) const AFFINITY: &str = "affinity";
const PICKS: &str = "picks";
const NODE_PICKS: &str = "node-picks";
/// Clients with affinity at most; more are served without it.
const AFFINITY_CLIENTS_MAX: u32 = 65_536;
const MILLIS_PER_SECOND: u64 = 1000;

/// A set or map whose elements are [`RuleElement`]s.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum ElementSet {
    Services,
    Endpoints,
    Members,
    Rejected,
    Dropped,
    Hairpins,
}

impl ElementSet {
    pub(super) const ALL: [Self; 6] = [
        Self::Services,
        Self::Endpoints,
        Self::Members,
        Self::Rejected,
        Self::Dropped,
        Self::Hairpins,
    ];

    pub(super) const fn name(self) -> &'static str {
        match self {
            Self::Services => "services",
            Self::Endpoints => "endpoints",
            Self::Members => "members",
            Self::Rejected => "rejected",
            Self::Dropped => "dropped",
            Self::Hairpins => "hairpins",
        }
    }
}

/// What a part of a key or of data is, as `nft` shows it. The numbers are nft's own.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub(super) enum PartType {
    Address = 7,
    Protocol = 12,
    Port = 13,
    /// A number of four bytes.
    Number = 19,
}

/// What a set maps its keys to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum SetData {
    /// Nothing: it is no map.
    None,
    Parts(&'static [PartType]),
    /// How the packet goes on.
    Verdict,
}

/// Whether packets add elements.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum SetGrowth {
    Static,
    Dynamic { size: u32 },
}

/// A set to be made.
#[derive(Clone, Copy, Debug)]
pub(super) struct SetDefinition {
    pub(super) name: &'static str,
    pub(super) key: &'static [PartType],
    pub(super) data: SetData,
    pub(super) growth: SetGrowth,
}

/// Where a base chain is called (`nf_inet_hooks`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ChainHook {
    Prerouting,
    Output,
    Postrouting,
}

/// A chain to be made.
#[derive(Clone, Debug)]
pub(super) struct ChainDefinition {
    pub(super) name: String,
    /// Type, hook and priority of a base chain.
    pub(super) base: Option<(&'static str, ChainHook, i32)>,
    pub(super) rules: Vec<Vec<Expression>>,
}

/// All sets. Maps to verdicts name chains, so their elements come after the chains.
pub(super) fn sets() -> Vec<SetDefinition> {
    use PartType::{Address, Number, Port, Protocol};
    const FRONTEND: &[PartType] = &[Address, Protocol, Port];
    const ENDPOINT: SetData = SetData::Parts(&[Address, Port]);
    let fixed = |name, key, data| SetDefinition { name, key, data, growth: SetGrowth::Static };
    let of = |set: ElementSet, key, data| fixed(set.name(), key, data);
    let endpoint_key = &[Address, Protocol, Port, Number];
    let member_key = &[Address, Protocol, Port, Address, Port];
    let pick: &[PartType] = &[Number, Number];
    vec![
        of(ElementSet::Services, FRONTEND, SetData::Parts(pick)),
        of(ElementSet::Endpoints, endpoint_key, ENDPOINT),
        of(ElementSet::Members, member_key, SetData::None),
        of(ElementSet::Rejected, FRONTEND, SetData::None),
        of(ElementSet::Dropped, FRONTEND, SetData::None),
        of(ElementSet::Hairpins, &[Address, Address], SetData::None),
        SetDefinition {
            name: AFFINITY,
            key: &[Address, Address, Protocol, Port],
            data: ENDPOINT,
            growth: SetGrowth::Dynamic { size: AFFINITY_CLIENTS_MAX },
        },
        fixed(PICKS, pick, SetData::Verdict),
        fixed(NODE_PICKS, pick, SetData::Verdict),
    ]
}

/// All chains but those that pick, callees first.
pub(super) fn chains(config: &RuleTableConfig) -> Vec<ChainDefinition> {
    let plain = |name: &str, rules| ChainDefinition { name: name.to_owned(), base: None, rules };
    let base = |name: &str, kind, hook, priority, rules| ChainDefinition {
        name: name.to_owned(),
        base: Some((kind, hook, priority)),
        rules,
    };
    let call = |chain: &str| vec![[is_ipv4(), vec![jump(chain)]].concat()];
    let mut chains = vec![
        plain("reject", reject().to_vec()),
        plain("refuse", refuse_rules(config)),
        plain("route", route_rules(config)),
        base("guard-prerouting", "filter", ChainHook::Prerouting, -300, guard_rules(config)),
        base("refuse-prerouting", "filter", ChainHook::Prerouting, -110, call("refuse")),
        base("refuse-output", "filter", ChainHook::Output, -110, call("refuse")),
        base("route-prerouting", "nat", ChainHook::Prerouting, -100, call("route")),
        base("route-output", "nat", ChainHook::Output, -100, call("route")),
        base("masquerade", "nat", ChainHook::Postrouting, 100, masquerade_rules(config)),
    ];
    if let Some(range) = config.services {
        let vacant =
            vec![[subnet(SubnetTest::DestinationIn, range), vec![go_to("reject")]].concat()];
        chains.extend([
            plain("vacant", vacant),
            base("vacant-prerouting", "filter", ChainHook::Prerouting, -90, call("vacant")),
            base("vacant-output", "filter", ChainHook::Output, -90, call("vacant")),
        ]);
    }
    chains
}

/// Whose address a frontend has.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum FrontendScope {
    /// The Service's own.
    Service,
    /// Any address of the node.
    Node,
}

/// A way to pick an endpoint; it has a chain.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct PickChain {
    pub(super) pick: EndpointPick,
    pub(super) scope: FrontendScope,
}

impl PickChain {
    /// The one that an element needs.
    pub(super) fn of_element(element: &RuleElement) -> Option<Self> {
        match element {
            RuleElement::Pick(frontend, pick) => {
                let scope = match frontend.is_node_port() {
                    true => FrontendScope::Node,
                    false => FrontendScope::Service,
                };
                Some(Self { pick: *pick, scope })
            }
            RuleElement::Endpoint(..)
            | RuleElement::Member(..)
            | RuleElement::Refused(..)
            | RuleElement::Hairpin(_) => None,
        }
    }

    /// The map that leads to it.
    pub(super) fn map(self) -> &'static str {
        match self.scope {
            FrontendScope::Service => PICKS,
            FrontendScope::Node => NODE_PICKS,
        }
    }

    pub(super) fn definition(self) -> ChainDefinition {
        let sticky = self.pick.sticky_s.map(|time| format!("-sticky-{time}")).unwrap_or_default();
        let node = match self.scope {
            FrontendScope::Service => "",
            FrontendScope::Node => "-node",
        };
        let name = format!("pick-{}{sticky}{node}", self.pick.endpoints);
        ChainDefinition { name, base: None, rules: self.rules() }
    }

    /// In the order in which they are tried.
    fn rules(self) -> Vec<Vec<Expression>> {
        let mut rules = Vec::new();
        if let Some(time) = self.pick.sticky_s {
            let timeout_ms = u64::from(time.get()) * MILLIS_PER_SECOND;
            rules.push(self.stay(timeout_ms));
            rules.push(self.pick_and_remember(timeout_ms));
        }
        if self.pick.endpoints != NonZeroU16::MIN {
            rules.push(self.pick_one(self.random_number(register(3))));
        }
        rules.push(self.pick_one(load_value([0; 4], register(3))));
        rules
    }

    fn random_number(self, to: Register) -> Expression {
        match self.pick.endpoints {
            NonZeroU16::MIN => load_value([0; 4], to),
            endpoints => load_random(u32::from(endpoints.get()), to),
        }
    }

    /// Frontend in registers 0 to 2, number in 3, endpoint in 4 and 5.
    fn pick_one(self, number: Expression) -> Vec<Expression> {
        let (endpoint, port) = (register(4), register(5));
        let find = look_up(ElementSet::Endpoints.name(), register(0), endpoint);
        [self.load_frontend(0), vec![number, find, redirect(endpoint, port)]].concat()
    }

    /// Client in register 0, frontend in 1 to 3, endpoint in 4 and 5: each key is a run of them.
    fn stay(self, timeout_ms: u64) -> Vec<Expression> {
        let (client, frontend) = (register(0), register(1));
        let (endpoint, port) = (register(4), register(5));
        let checks = vec![
            look_up(AFFINITY, client, endpoint),
            is_in(ElementSet::Members.name(), frontend),
            update_map(AFFINITY, SetUpdate::Renew, client, endpoint, timeout_ms),
            redirect(endpoint, port),
        ];
        [vec![load_source(client)], self.load_frontend(1), checks].concat()
    }

    /// The same with the number in register 4 and the endpoint in 5 and 6. What was remembered is
    /// removed first: to renew an element does not change what it maps to.
    fn pick_and_remember(self, timeout_ms: u64) -> Vec<Expression> {
        let (client, frontend) = (register(0), register(1));
        let (endpoint, port) = (register(5), register(6));
        let pick = vec![
            self.random_number(register(4)),
            look_up(ElementSet::Endpoints.name(), frontend, endpoint),
            update_map(AFFINITY, SetUpdate::Remove, client, endpoint, timeout_ms),
            update_map(AFFINITY, SetUpdate::Renew, client, endpoint, timeout_ms),
            redirect(endpoint, port),
        ];
        [vec![load_source(client)], self.load_frontend(1), pick].concat()
    }

    fn load_frontend(self, first: u32) -> Vec<Expression> {
        let load_address = match self.scope {
            FrontendScope::Service => load_destination,
            FrontendScope::Node => load_any_address,
        };
        load_frontend(load_address, first)
    }
}

fn load_frontend(load_address: fn(Register) -> Expression, first: u32) -> Vec<Expression> {
    vec![
        load_address(register(first)),
        load_protocol(register(first + 1)),
        load_destination_port(register(first + 2)),
    ]
}

fn load_any_address(to: Register) -> Expression {
    load_value([0; 4], to)
}

/// Whether the packet may be for a NodePort.
fn is_for_node(config: &RuleTableConfig) -> Vec<Expression> {
    let not_loopback = match config.loopback_node_ports {
        LoopbackNodePorts::Serve => Vec::new(),
        LoopbackNodePorts::Leave => subnet(SubnetTest::DestinationNotIn, loopback()),
    };
    [is_for_this_machine(), not_loopback].concat()
}

fn route_rules(config: &RuleTableConfig) -> Vec<Vec<Expression>> {
    let services = ElementSet::Services.name();
    let pick = |map| {
        vec![
            look_up(services, register(0), register(4)),
            to_network_order(register(4), 8),
            look_up(map, register(4), Register::Verdict),
        ]
    };
    let of_service = [load_frontend(load_destination, 0), pick(PICKS)];
    let of_node = [is_for_node(config), load_frontend(load_any_address, 0), pick(NODE_PICKS)];
    vec![of_service.concat(), of_node.concat()]
}

fn refuse_rules(config: &RuleTableConfig) -> Vec<Vec<Expression>> {
    let sets = [(ElementSet::Rejected, go_to("reject")), (ElementSet::Dropped, drop_packet())];
    let rules = sets.into_iter().flat_map(|(set, verdict)| {
        let end = vec![is_in(set.name(), register(0)), verdict];
        let service = [is_new_connection(), load_frontend(load_destination, 0), end.clone()];
        let any = load_frontend(load_any_address, 0);
        let node = [is_new_connection(), is_for_node(config), any, end];
        [service.concat(), node.concat()]
    });
    rules.collect()
}

/// A pod reaches no service of the host that listens on the loopback, although the bridge may carry
/// such addresses (`route_localnet`).
fn guard_rules(config: &RuleTableConfig) -> Vec<Vec<Expression>> {
    let to_loopback = subnet(SubnetTest::DestinationIn, loopback());
    let from_pods = [is_ipv4(), comes_in_by(&config.bridge), to_loopback, vec![drop_packet()]];
    vec![from_pods.concat()]
}

fn masquerade_rules(config: &RuleTableConfig) -> Vec<Vec<Expression>> {
    let hairpin = vec![
        load_source(register(0)),
        load_destination(register(1)),
        is_in(ElementSet::Hairpins.name(), register(0)),
        masquerade(),
    ];
    let mut rules = vec![[is_ipv4(), is_redirected(), hairpin].concat()];
    match config.loopback_node_ports {
        LoopbackNodePorts::Serve => {
            let from_loopback = subnet(SubnetTest::SourceIn, loopback());
            let elsewhere = leaves_not_by("lo");
            let rule = [is_ipv4(), is_redirected(), from_loopback, elsewhere, vec![masquerade()]];
            rules.push(rule.concat());
        }
        LoopbackNodePorts::Leave => {}
    }
    match config.egress {
        PodEgress::Masquerade => {
            let from_pods = subnet(SubnetTest::SourceIn, config.pods);
            let beyond = subnet(SubnetTest::DestinationNotIn, config.pods);
            let elsewhere = leaves_not_by(&config.bridge);
            rules.push([is_ipv4(), from_pods, beyond, elsewhere, vec![masquerade()]].concat());
        }
        PodEgress::Leave => {}
    }
    rules
}

fn loopback() -> Ipv4Net {
    Ipv4Net::new_assert(std::net::Ipv4Addr::new(127, 0, 0, 0), 8)
}
