//! The table of an engine: its sets, chains and rules.
//!
//! ```text
//!  prerouting, output (filter, -125) ──► guard: in `guarded`? only from `sources`, else dropped
//!  prerouting, output (filter, -120) ──► hold: in `held`? wait in the engine's queue
//!  prerouting, output (filter, -110) ──► refuse: in `rejected`? in `dropped`?
//!  prerouting, output (nat, -100) ─────► route: `services` ─► 3 endpoints ─► `picks` ─► pick-3
//!         pick-3: a random number below 3 ─► `endpoints` ─► destination is that address and port
//!  prerouting, output (filter, -95) ───► remember: client and endpoint ─► `affinity`
//!  prerouting, output (filter, -90) ───► vacant: still for the Services' range? no Service has it
//!  postrouting (nat, 100) ─────────────► hide-source: hairpins, 127.0.0.1, pods that leave
//! ```
//! A chain `pick-…` exists once for each number of endpoints that some Service has. NodePorts have
//! chains of their own (`…-node`), which take 0.0.0.0 for the address. A Service is elements only,
//! and they name no chain. Otherwise the kernel would look through the elements of all Services
//! for loops whenever one changes (2 ms for 5,000). Only affinity names the chain for its time.
//!
//! One connection may see elements of two transactions, because the kernel takes each lookup by
//! itself. Then a number may have no endpoint any more, and number 0 is taken.
//!
//! # What `nft` makes of it
//! `nft list ruleset` must work for everyone on the machine. It ends with a failed assertion on a
//! key that contains what another map said. So such a lookup writes from one register before that
//! part of the key on. nft shows what was loaded there earlier: in `route` the packet's mark
//! instead of what `services` says, in sticky chains the source instead of what `affinity` says.

use std::num::{NonZeroU16, NonZeroU32};

use ipnet::Ipv4Net;
use netlink_packet_netfilter::nftables::Register;
use rekindle_services::{RuleElement, SourceRange};

use crate::rules::expressions::{
    Expression, SetUpdate, SubnetTest, accept_packet, comes_in_by, comes_in_not_by, drop_packet,
    go_to, is_for_this_machine, is_in, is_ipv4, is_new_connection, is_redirected, jump,
    leaves_not_by, load_any_address, load_any_original_address, load_destination,
    load_destination_port, load_mark, load_original_destination, load_original_destination_port,
    load_protocol, load_random, load_source, load_source_port, load_source_within, look_up,
    masquerade, redirect, register, reject, subnet, update_map, wait_in_queue,
};
use crate::rules::{LoopbackNodePorts, PodEgress, RuleTableConfig};

/// The map of the clients that stay with their endpoint; packets add to it.
pub(super) const AFFINITY: &str = "affinity";
/// Leads from a frontend with affinity to the chain that remembers its clients.
pub(super) const STICKY: &str = "sticky";
pub(super) const PICKS: &str = "picks";
pub(super) const NODE_PICKS: &str = "node-picks";
const GUARD: &str = "guard";
const HOLD: &str = "hold";
const REFUSE: &str = "refuse";
const ROUTE: &str = "route";
const REMEMBER: &str = "remember";
const VACANT: &str = "vacant";
const TURN_AWAY: &str = "turn-away";
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
    Held,
    Guarded,
    Sources,
    HostPorts,
    Hairpins,
}

impl ElementSet {
    pub(super) const ALL: [Self; 10] = [
        Self::Services,
        Self::Endpoints,
        Self::Members,
        Self::Rejected,
        Self::Dropped,
        Self::Held,
        Self::Guarded,
        Self::Sources,
        Self::HostPorts,
        Self::Hairpins,
    ];

    pub(super) const fn name(self) -> &'static str {
        match self {
            Self::Services => "services",
            Self::Endpoints => "endpoints",
            Self::Members => "members",
            Self::Rejected => "rejected",
            Self::Dropped => "dropped",
            Self::Held => "held",
            Self::Guarded => "guarded",
            Self::Sources => "sources",
            Self::HostPorts => "host-ports",
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

impl PartType {
    /// How many bytes of the part count; it fills a multiple of four.
    pub(super) const fn bytes(self) -> u32 {
        match self {
            Self::Address | Self::Number => 4,
            Self::Port => 2,
            Self::Protocol => 1,
        }
    }
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
    Dynamic {
        size: u32,
    },
    /// They do not, and each part of a key is a range.
    Ranges,
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
    Forward,
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
    let fixed = |name, key, data| SetDefinition { name, key, data, growth: SetGrowth::Static };
    let of = |set: ElementSet, key, data| fixed(set.name(), key, data);
    let endpoint_key = &[Address, Protocol, Port, Number];
    let member_key = &[Address, Protocol, Port, Address, Port];
    let pick: &[PartType] = &[Number, Number];
    vec![
        // seconds of affinity, endpoints, whether there is affinity
        of(ElementSet::Services, FRONTEND, SetData::Parts(&[Number, Number, Number])),
        of(ElementSet::Endpoints, endpoint_key, SetData::Parts(&[Address, Port])),
        of(ElementSet::Members, member_key, SetData::None),
        of(ElementSet::Rejected, FRONTEND, SetData::None),
        of(ElementSet::Dropped, FRONTEND, SetData::None),
        of(ElementSet::Held, FRONTEND, SetData::None),
        of(ElementSet::Guarded, FRONTEND, SetData::None),
        // a range of sources: its first address and its mask
        of(ElementSet::Sources, &[Address, Protocol, Port, Address, Address], SetData::None),
        of(ElementSet::HostPorts, FRONTEND, SetData::None),
        of(ElementSet::Hairpins, &[Address, Address], SetData::None),
        SetDefinition {
            name: AFFINITY,
            // client and frontend
            key: &[Address, Address, Protocol, Port],
            // the frontend's port, the endpoint
            data: SetData::Parts(&[Port, Address, Port]),
            growth: SetGrowth::Dynamic { size: AFFINITY_CLIENTS_MAX },
        },
        fixed(STICKY, FRONTEND, SetData::Verdict),
        fixed(PICKS, pick, SetData::Verdict),
        fixed(NODE_PICKS, pick, SetData::Verdict),
    ]
}

/// All chains that do not depend on elements, callees first. Connections wait in `queue`, if there
/// is one.
pub(super) fn chains(config: &RuleTableConfig, queue: Option<u16>) -> Vec<ChainDefinition> {
    use ChainHook::{Output, Postrouting, Prerouting};
    let plain = |name: &str, rules| ChainDefinition { name: name.to_owned(), base: None, rules };
    let base = |name: &str, kind, hook, priority, rules| ChainDefinition {
        name: name.to_owned(),
        base: Some((kind, hook, priority)),
        rules,
    };
    let calls = |chain: &str, kind, priority| {
        let call = || vec![vec![jump(chain)]];
        [
            base(&format!("{chain}-prerouting"), kind, Prerouting, priority, call()),
            base(&format!("{chain}-output"), kind, Output, priority, call()),
        ]
    };
    let mut chains = vec![
        plain(TURN_AWAY, reject().to_vec()),
        plain(
            REFUSE,
            [
                new_connections_in(config, ElementSet::Rejected, &go_to(TURN_AWAY)),
                new_connections_in(config, ElementSet::Dropped, &drop_packet()),
            ]
            .concat(),
        ),
        plain(ROUTE, route_rules(config)),
        plain(REMEMBER, remember_rules()),
        plain(&admit(FrontendScope::Service), admit_rules(FrontendScope::Service)),
        plain(&admit(FrontendScope::Node), admit_rules(FrontendScope::Node)),
        plain(GUARD, guarded_rules(config)),
        base("guard-loopback", "filter", Prerouting, -300, guard_rules(config)),
        base("hide-source", "nat", Postrouting, 100, hide_source_rules(config)),
    ];
    chains.extend(calls(GUARD, "filter", -125));
    if let Some(queue) = queue {
        let wait = wait_in_queue(queue);
        chains.push(plain(HOLD, new_connections_in(config, ElementSet::Held, &wait)));
        chains.extend(calls(HOLD, "filter", -120));
    }
    chains.extend(calls(REFUSE, "filter", -110));
    chains.extend(calls(ROUTE, "nat", -100));
    chains.extend(calls(REMEMBER, "filter", -95));
    if let Some(range) = config.services {
        let in_range = subnet(SubnetTest::Destination, range);
        chains.push(plain(VACANT, vec![[is_ipv4(), in_range, vec![go_to(TURN_AWAY)]].concat()]));
        chains.extend(calls(VACANT, "filter", -90));
    }
    chains
}

/// What kind of address a frontend has.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum FrontendScope {
    /// The Service's own.
    Service,
    /// Any address of the node.
    Node,
}

impl FrontendScope {
    /// What names of its chains end with.
    const fn suffix(self) -> &'static str {
        match self {
            Self::Service => "",
            Self::Node => "-node",
        }
    }
}

/// A chain that exists because some Service needs it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum NeededChain {
    /// Picks one of so many endpoints.
    Pick { scope: FrontendScope, endpoints: NonZeroU16, sticky: bool },
    /// Remembers clients for so long.
    Remember { scope: FrontendScope, sticky_s: NonZeroU32 },
}

impl NeededChain {
    /// Those that an element needs.
    pub(super) fn of_element(element: &RuleElement) -> impl Iterator<Item = Self> {
        let chains = match element {
            RuleElement::Pick(frontend, pick) => {
                let scope = match frontend.is_node_port() {
                    true => FrontendScope::Node,
                    false => FrontendScope::Service,
                };
                let sticky = pick.sticky_s.is_some();
                let remember = pick.sticky_s.map(|sticky_s| Self::Remember { scope, sticky_s });
                [Some(Self::Pick { scope, endpoints: pick.endpoints, sticky }), remember]
            }
            RuleElement::Endpoint(..)
            | RuleElement::Member(..)
            | RuleElement::Refused(..)
            | RuleElement::Held(_)
            | RuleElement::Guarded(_)
            | RuleElement::Source(..)
            | RuleElement::HostPort(_)
            | RuleElement::Hairpin(_) => [None, None],
        };
        chains.into_iter().flatten()
    }

    fn scope(self) -> FrontendScope {
        match self {
            Self::Pick { scope, .. } | Self::Remember { scope, .. } => scope,
        }
    }

    pub(super) fn name(self) -> String {
        let node = self.scope().suffix();
        match self {
            Self::Pick { endpoints, sticky: true, .. } => format!("pick-{endpoints}-sticky{node}"),
            Self::Pick { endpoints, sticky: false, .. } => format!("pick-{endpoints}{node}"),
            Self::Remember { sticky_s, .. } => format!("remember-{sticky_s}{node}"),
        }
    }

    /// The map that leads to it from a number of endpoints.
    pub(super) fn map(self) -> Option<(&'static str, [u32; 2])> {
        match self {
            Self::Pick { scope, endpoints, sticky } => {
                let map = match scope {
                    FrontendScope::Service => PICKS,
                    FrontendScope::Node => NODE_PICKS,
                };
                Some((map, [endpoints.get().into(), sticky.into()]))
            }
            Self::Remember { .. } => None,
        }
    }

    pub(super) fn definition(self) -> ChainDefinition {
        let rules = match self {
            Self::Pick { scope, endpoints, sticky } => pick_rules(scope, endpoints, sticky),
            Self::Remember { scope, sticky_s } => vec![remember_client(scope, sticky_s)],
        };
        ChainDefinition { name: self.name(), base: None, rules }
    }
}

/// In the order in which they are tried.
fn pick_rules(scope: FrontendScope, endpoints: NonZeroU16, sticky: bool) -> Vec<Vec<Expression>> {
    let mut rules = Vec::new();
    if sticky {
        rules.extend([stay(scope), forget_client(scope)]);
    }
    if endpoints != NonZeroU16::MIN {
        rules.push(pick_below(scope, endpoints.get().into()));
    }
    rules.push(pick_below(scope, 1));
    rules
}

/// Frontend in registers 0 to 2, number in 3, endpoint in 4 and 5.
fn pick_below(scope: FrontendScope, endpoints: u32) -> Vec<Expression> {
    let (endpoint, port) = (register(4), register(5));
    let pick = vec![
        load_random(endpoints, register(3)),
        look_up(ElementSet::Endpoints.name(), register(0), endpoint),
        redirect(endpoint, port),
    ];
    [is_ipv4(), load_frontend(scope, 0), pick].concat()
}

/// Client in register 0, frontend in 1 to 3, endpoint in 4 and 5. What the map says begins in
/// register 3 with the port that is there already (see above).
fn stay(scope: FrontendScope) -> Vec<Expression> {
    let (client, frontend) = (register(0), register(1));
    let (endpoint, port) = (register(4), register(5));
    let checks = vec![
        look_up(AFFINITY, client, register(3)),
        load_destination_port(register(3)),
        is_in(ElementSet::Members.name(), frontend),
        redirect(endpoint, port),
    ];
    [client_and_frontend(scope), source_instead(), checks].concat()
}

/// The client's endpoint is gone. To renew an element would not change what it says.
fn forget_client(scope: FrontendScope) -> Vec<Expression> {
    let remove = update_map(AFFINITY, SetUpdate::Remove, register(0), register(3));
    [client_and_frontend(scope), source_instead(), vec![remove]].concat()
}

fn client_and_frontend(scope: FrontendScope) -> Vec<Expression> {
    [is_ipv4(), vec![load_source(register(0))], load_frontend(scope, 1)].concat()
}

/// Where the endpoint will be.
fn source_instead() -> Vec<Expression> {
    vec![load_source(register(4)), load_source_port(register(5))]
}

/// After the pick, so that the endpoint is the packet's destination.
fn remember_client(scope: FrontendScope, sticky_s: NonZeroU32) -> Vec<Expression> {
    let timeout_ms = u64::from(sticky_s.get()) * MILLIS_PER_SECOND;
    let endpoint = vec![load_destination(register(4)), load_destination_port(register(5))];
    let update = update_map(AFFINITY, SetUpdate::Renew { timeout_ms }, register(0), register(3));
    let original = load_original_frontend(scope, 1);
    [is_ipv4(), vec![load_source(register(0))], original, endpoint, vec![update]].concat()
}

fn remember_rules() -> Vec<Vec<Expression>> {
    let rule = |scope| {
        let remember = look_up(STICKY, register(0), Register::Verdict);
        let original = load_original_frontend(scope, 0);
        [is_new_connection(), is_redirected(), is_ipv4(), original, vec![remember]].concat()
    };
    vec![rule(FrontendScope::Service), rule(FrontendScope::Node)]
}

fn load_frontend(scope: FrontendScope, first: u32) -> Vec<Expression> {
    let mut load = match scope {
        FrontendScope::Service => vec![load_destination(register(first))],
        FrontendScope::Node => load_any_address(register(first)),
    };
    load.extend([load_protocol(register(first + 1)), load_destination_port(register(first + 2))]);
    load
}

/// The same when the destination is changed already.
fn load_original_frontend(scope: FrontendScope, first: u32) -> Vec<Expression> {
    let mut load = match scope {
        FrontendScope::Service => vec![load_original_destination(register(first))],
        FrontendScope::Node => load_any_original_address(register(first)),
    };
    load.push(load_protocol(register(first + 1)));
    load.push(load_original_destination_port(register(first + 2)));
    load
}

/// Whether the packet may be for a NodePort.
fn is_for_node(config: &RuleTableConfig) -> Vec<Expression> {
    let not_loopback = match config.loopback_node_ports {
        LoopbackNodePorts::Serve => Vec::new(),
        LoopbackNodePorts::Leave => subnet(SubnetTest::NotDestination, loopback()),
    };
    [is_for_this_machine(), not_loopback].concat()
}

/// Frontend in registers 0 to 2; what `services` says in 3 to 5, of which 4 and 5 are the key of
/// `picks` (see above).
fn route_rules(config: &RuleTableConfig) -> Vec<Vec<Expression>> {
    let pick = |map| {
        vec![
            load_mark(register(4)),
            load_mark(register(5)),
            look_up(ElementSet::Services.name(), register(0), register(3)),
            look_up(map, register(4), Register::Verdict),
        ]
    };
    let service = load_frontend(FrontendScope::Service, 0);
    let node = load_frontend(FrontendScope::Node, 0);
    vec![
        [is_ipv4(), service, pick(PICKS)].concat(),
        [is_ipv4(), is_for_node(config), node, pick(NODE_PICKS)].concat(),
    ]
}

/// What becomes of new connections to the frontends in this set.
fn new_connections_in(
    config: &RuleTableConfig,
    set: ElementSet,
    verdict: &Expression,
) -> Vec<Vec<Expression>> {
    new_connections_by_scope(config, set, |_| verdict.clone())
}

fn new_connections_by_scope(
    config: &RuleTableConfig,
    set: ElementSet,
    verdict: impl Fn(FrontendScope) -> Expression,
) -> Vec<Vec<Expression>> {
    let rule = |conditions, scope| {
        let end = vec![is_in(set.name(), register(0)), verdict(scope)];
        let new = [is_new_connection(), is_ipv4()].concat();
        [new, conditions, load_frontend(scope, 0), end].concat()
    };
    let of_node = rule(is_for_node(config), FrontendScope::Node);
    vec![rule(Vec::new(), FrontendScope::Service), of_node]
}

fn guarded_rules(config: &RuleTableConfig) -> Vec<Vec<Expression>> {
    let ask = |scope| go_to(&admit(scope));
    new_connections_by_scope(config, ElementSet::Guarded, ask)
}

/// The chain that asks where a connection to a guarded frontend comes from.
fn admit(scope: FrontendScope) -> String {
    format!("admit{}", scope.suffix())
}

/// Frontend in registers 0 to 2, source and mask in 3 and 4. One rule for each length of a prefix,
/// so that a range is one element whatever its length.
fn admit_rules(scope: FrontendScope) -> Vec<Vec<Expression>> {
    let from_range_of = |prefix| {
        let mask = SourceRange::netmask(prefix);
        let source = load_source_within(mask, [register(3), register(4)]);
        let is_source = is_in(ElementSet::Sources.name(), register(0));
        [is_ipv4(), load_frontend(scope, 0), source, vec![is_source, accept_packet()]].concat()
    };
    let mut rules: Vec<_> = (0..=SourceRange::PREFIX_MAX).map(from_range_of).collect();
    rules.push(vec![drop_packet()]);
    rules
}

/// A pod reaches no service of the host that listens on the loopback, although the bridge may carry
/// such addresses (`route_localnet`). And no other machine reaches a host port there: its packets
/// would get the pod's address before the kernel looks at theirs.
fn guard_rules(config: &RuleTableConfig) -> Vec<Vec<Expression>> {
    let to_loopback = || subnet(SubnetTest::Destination, loopback());
    let frontend = load_frontend(FrontendScope::Service, 0);
    let drop_host_ports = vec![is_in(ElementSet::HostPorts.name(), register(0)), drop_packet()];
    let from_elsewhere = comes_in_not_by("lo");
    vec![
        [is_ipv4(), comes_in_by(&config.bridge), to_loopback(), vec![drop_packet()]].concat(),
        [is_ipv4(), from_elsewhere, to_loopback(), frontend, drop_host_ports].concat(),
    ]
}

fn hide_source_rules(config: &RuleTableConfig) -> Vec<Vec<Expression>> {
    let hairpin = vec![
        load_source(register(0)),
        load_destination(register(1)),
        is_in(ElementSet::Hairpins.name(), register(0)),
        masquerade(),
    ];
    let mut rules = vec![[is_ipv4(), is_redirected(), hairpin].concat()];
    match config.loopback_node_ports {
        LoopbackNodePorts::Serve => {
            let from_loopback = subnet(SubnetTest::Source, loopback());
            let elsewhere = leaves_not_by("lo");
            let hide = vec![masquerade()];
            rules.push([is_ipv4(), is_redirected(), from_loopback, elsewhere, hide].concat());
        }
        LoopbackNodePorts::Leave => {}
    }
    match config.egress {
        PodEgress::Masquerade => {
            let from_pods = subnet(SubnetTest::Source, config.pods);
            let beyond = subnet(SubnetTest::NotDestination, config.pods);
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
