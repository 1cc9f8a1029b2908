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
//! Everything that holds addresses is there once for each IP family: names of IPv6's end with
//! `-v6`. `w` is the number of registers that an address takes, 1 or 4.
//!
//! One connection may see elements of two transactions, because the kernel takes each lookup by
//! itself. Then a number may have no endpoint any more, and number 0 is taken.
//!
//! # What `nft` makes of it
//! `nft list ruleset` must work for everyone on the machine. It ends with a failed assertion on a
//! key that contains what another map said. So such a lookup writes from one register before that
//! part of the key on. nft shows what was loaded there earlier: in `route` the packet's mark
//! instead of what `services` says, in sticky chains the source instead of what `affinity` says.

use std::net::{Ipv4Addr, Ipv6Addr};
use std::num::{NonZeroU16, NonZeroU32};

use ipnet::IpNet;
use netlink_packet_netfilter::nftables::Register;
use rekindle_services::{RuleElement, SourceRange};
use rekindle_types::IpFamily;

use crate::rules::expressions::{
    Expression, SetUpdate, SubnetTest, accept_packet, comes_in_by, comes_in_not_by, drop_packet,
    go_to, is_for_this_machine, is_in, is_new_connection, is_of_family, is_redirected, jump,
    leaves_not_by, load_any_address, load_any_original_address, load_destination,
    load_destination_port, load_mark, load_original_destination, load_original_destination_port,
    load_protocol, load_random, load_source, load_source_port, load_source_within, look_up,
    masquerade, redirect, register, reject, subnet, update_map, wait_in_queue, words,
};
use crate::rules::{LoopbackNodePorts, PodEgress, RuleTableConfig};

/// The map of the clients that stay with their endpoint; packets add to it.
pub(super) const AFFINITY: FamilyName = FamilyName(["affinity", "affinity-v6"]);
/// Leads from a frontend with affinity to the chain that remembers its clients.
pub(super) const STICKY: FamilyName = FamilyName(["sticky", "sticky-v6"]);
pub(super) const PICKS: FamilyName = FamilyName(["picks", "picks-v6"]);
pub(super) const NODE_PICKS: FamilyName = FamilyName(["node-picks", "node-picks-v6"]);
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

/// What a set or map of each family is called.
#[derive(Clone, Copy, Debug)]
pub(super) struct FamilyName([&'static str; 2]);

impl FamilyName {
    pub(super) const fn new(names: [&'static str; 2]) -> Self {
        Self(names)
    }

    pub(super) const fn of(self, family: IpFamily) -> &'static str {
        let [first, second] = self.0;
        match family {
            IpFamily::V4 => first,
            IpFamily::V6 => second,
        }
    }
}

/// What names of chains of a family end with.
pub(super) const fn family_suffix(family: IpFamily) -> &'static str {
    match family {
        IpFamily::V4 => "",
        IpFamily::V6 => "-v6",
    }
}

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

    pub(super) const fn name(self, family: IpFamily) -> &'static str {
        let names = match self {
            Self::Services => ["services", "services-v6"],
            Self::Endpoints => ["endpoints", "endpoints-v6"],
            Self::Members => ["members", "members-v6"],
            Self::Rejected => ["rejected", "rejected-v6"],
            Self::Dropped => ["dropped", "dropped-v6"],
            Self::Held => ["held", "held-v6"],
            Self::Guarded => ["guarded", "guarded-v6"],
            Self::Sources => ["sources", "sources-v6"],
            Self::HostPorts => ["host-ports", "host-ports-v6"],
            Self::Hairpins => ["hairpins", "hairpins-v6"],
        };
        FamilyName(names).of(family)
    }
}

/// What a part of a key or of data is, as `nft` shows it. The numbers are nft's own.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub(super) enum PartType {
    Ipv4Address = 7,
    Ipv6Address = 8,
    Protocol = 12,
    Port = 13,
    /// A number of four bytes.
    Number = 19,
}

impl PartType {
    /// How many bytes of the part count; it fills a multiple of four.
    pub(super) const fn bytes(self) -> u32 {
        match self {
            Self::Ipv4Address | Self::Number => 4,
            Self::Ipv6Address => 16,
            Self::Port => 2,
            Self::Protocol => 1,
        }
    }

    pub(super) const fn address(family: IpFamily) -> Self {
        match family {
            IpFamily::V4 => Self::Ipv4Address,
            IpFamily::V6 => Self::Ipv6Address,
        }
    }
}

/// What a set maps its keys to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum SetData {
    /// Nothing: it is no map.
    None,
    Parts(Vec<PartType>),
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
#[derive(Clone, Debug)]
pub(super) struct SetDefinition {
    pub(super) name: &'static str,
    pub(super) key: Vec<PartType>,
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
pub(super) fn sets(config: &RuleTableConfig) -> Vec<SetDefinition> {
    config.stack().families().iter().flat_map(|family| sets_of(*family)).collect()
}

fn sets_of(family: IpFamily) -> Vec<SetDefinition> {
    use PartType::{Number, Port, Protocol};
    let address = PartType::address(family);
    let frontend = || vec![address, Protocol, Port];
    let and = |more: &[PartType]| [frontend().as_slice(), more].concat();
    let fixed = |name, key, data| SetDefinition { name, key, data, growth: SetGrowth::Static };
    let of = |set: ElementSet, key, data| fixed(set.name(family), key, data);
    let pick = || vec![Number, Number];
    vec![
        // seconds of affinity, endpoints, whether there is affinity
        of(ElementSet::Services, frontend(), SetData::Parts(vec![Number, Number, Number])),
        of(ElementSet::Endpoints, and(&[Number]), SetData::Parts(vec![address, Port])),
        of(ElementSet::Members, and(&[address, Port]), SetData::None),
        of(ElementSet::Rejected, frontend(), SetData::None),
        of(ElementSet::Dropped, frontend(), SetData::None),
        of(ElementSet::Held, frontend(), SetData::None),
        of(ElementSet::Guarded, frontend(), SetData::None),
        // a range of sources: its first address and its mask
        of(ElementSet::Sources, and(&[address, address]), SetData::None),
        of(ElementSet::HostPorts, frontend(), SetData::None),
        of(ElementSet::Hairpins, vec![address, address], SetData::None),
        SetDefinition {
            name: AFFINITY.of(family),
            // client and frontend
            key: [vec![address], frontend()].concat(),
            // the frontend's port, the endpoint
            data: SetData::Parts(vec![Port, address, Port]),
            growth: SetGrowth::Dynamic { size: AFFINITY_CLIENTS_MAX },
        },
        fixed(STICKY.of(family), frontend(), SetData::Verdict),
        fixed(PICKS.of(family), pick(), SetData::Verdict),
        fixed(NODE_PICKS.of(family), pick(), SetData::Verdict),
    ]
}

/// All chains that do not depend on elements, callees first. Connections wait in `queue`, if there
/// is one. Users have added `further` ranges of Services.
pub(super) fn chains(
    config: &RuleTableConfig,
    queue: Option<u16>,
    further: &[IpNet],
) -> Vec<ChainDefinition> {
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
    let families = config.stack().families();
    let each = |rules: &dyn Fn(IpFamily) -> Vec<Vec<Expression>>| {
        families.iter().flat_map(|family| rules(*family)).collect::<Vec<_>>()
    };
    let new_in =
        |set, verdict: &Expression| each(&|of| new_connections_in(config, of, set, verdict));
    let mut chains = vec![plain(TURN_AWAY, reject().to_vec())];
    let refused = new_in(ElementSet::Rejected, &go_to(TURN_AWAY));
    let dropped = new_in(ElementSet::Dropped, &drop_packet());
    chains.push(plain(REFUSE, [refused, dropped].concat()));
    chains.push(plain(ROUTE, each(&|family| route_rules(config, family))));
    chains.push(plain(REMEMBER, each(&remember_rules)));
    for family in families {
        for scope in FrontendScope::ALL {
            chains.push(plain(&admit(*family, scope), admit_rules(*family, scope)));
        }
    }
    chains.push(plain(GUARD, each(&|family| guarded_rules(config, family))));
    chains.push(base("guard-loopback", "filter", Prerouting, -300, guard_rules(config)));
    let hide = each(&|family| hide_source_rules(config, family));
    chains.push(base("hide-source", "nat", Postrouting, 100, hide));
    chains.extend(calls(GUARD, "filter", -125));
    if let Some(queue) = queue {
        chains.push(plain(HOLD, new_in(ElementSet::Held, &wait_in_queue(queue))));
        chains.extend(calls(HOLD, "filter", -120));
    }
    chains.extend(calls(REFUSE, "filter", -110));
    chains.extend(calls(ROUTE, "nat", -100));
    chains.extend(calls(REMEMBER, "filter", -95));
    let vacant = each(&|family| {
        let in_range = |range| subnet(SubnetTest::Destination, range);
        let turn_away = |range| [is_of_family(family), in_range(range), vec![go_to(TURN_AWAY)]];
        let further = further
            .iter()
            .filter(|range| matches!(range, IpNet::V4(_)) == (family == IpFamily::V4));
        let ranges = config.services(family).into_iter().chain(further.copied());
        ranges.map(|range| turn_away(range).concat()).collect()
    });
    if !vacant.is_empty() {
        chains.push(plain(VACANT, vacant));
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
    const ALL: [Self; 2] = [Self::Service, Self::Node];

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
    Pick { family: IpFamily, scope: FrontendScope, endpoints: NonZeroU16, sticky: bool },
    /// Remembers clients for so long.
    Remember { family: IpFamily, scope: FrontendScope, sticky_s: NonZeroU32 },
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
                let (family, sticky) = (frontend.family(), pick.sticky_s.is_some());
                let remember = |sticky_s| Self::Remember { family, scope, sticky_s };
                let remember = pick.sticky_s.map(remember);
                [Some(Self::Pick { family, scope, endpoints: pick.endpoints, sticky }), remember]
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

    pub(super) fn name(self) -> String {
        let (Self::Pick { family, scope, .. } | Self::Remember { family, scope, .. }) = self;
        let end = [scope.suffix(), family_suffix(family)].concat();
        match self {
            Self::Pick { endpoints, sticky: true, .. } => format!("pick-{endpoints}-sticky{end}"),
            Self::Pick { endpoints, sticky: false, .. } => format!("pick-{endpoints}{end}"),
            Self::Remember { sticky_s, .. } => format!("remember-{sticky_s}{end}"),
        }
    }

    /// The map that leads to it from a number of endpoints.
    pub(super) fn map(self) -> Option<(&'static str, [u32; 2])> {
        match self {
            Self::Pick { family, scope, endpoints, sticky } => {
                let map = match scope {
                    FrontendScope::Service => PICKS,
                    FrontendScope::Node => NODE_PICKS,
                };
                Some((map.of(family), [endpoints.get().into(), sticky.into()]))
            }
            Self::Remember { .. } => None,
        }
    }

    pub(super) fn definition(self) -> ChainDefinition {
        let rules = match self {
            Self::Pick { family, scope, endpoints, sticky } => {
                pick_rules((family, scope), endpoints, sticky)
            }
            Self::Remember { family, scope, sticky_s } => {
                vec![remember_client((family, scope), sticky_s)]
            }
        };
        ChainDefinition { name: self.name(), base: None, rules }
    }
}

/// What a frontend's address is.
type AddressKind = (IpFamily, FrontendScope);

/// In the order in which they are tried.
fn pick_rules(kind: AddressKind, endpoints: NonZeroU16, sticky: bool) -> Vec<Vec<Expression>> {
    let mut rules = Vec::new();
    if sticky {
        rules.extend([stay(kind), forget_client(kind)]);
    }
    if endpoints != NonZeroU16::MIN {
        rules.push(pick_below(kind, endpoints.get().into()));
    }
    rules.push(pick_below(kind, 1));
    rules
}

/// Frontend in registers 0 to w + 1, then the number, then the endpoint.
fn pick_below(kind: AddressKind, endpoints: u32) -> Vec<Expression> {
    let (family, _) = kind;
    let w = words(family);
    let (endpoint, port) = (register(w + 3), register(2 * w + 3));
    let pick = vec![
        load_random(endpoints, register(w + 2)),
        look_up(ElementSet::Endpoints.name(family), register(0), endpoint),
        redirect(family, endpoint, port),
    ];
    [is_of_family(family), load_frontend(kind, 0), pick].concat()
}

/// Where client, frontend and endpoint are in rules for affinity.
struct AffinityRegisters {
    client: Register,
    frontend: Register,
    /// The frontend's port, where what the map says begins (see above).
    data: Register,
    endpoint: Register,
    endpoint_port: Register,
}

fn affinity_registers(family: IpFamily) -> AffinityRegisters {
    let w = words(family);
    AffinityRegisters {
        client: register(0),
        frontend: register(w),
        data: register(2 * w + 1),
        endpoint: register(2 * w + 2),
        endpoint_port: register(3 * w + 2),
    }
}

fn stay(kind: AddressKind) -> Vec<Expression> {
    let (family, _) = kind;
    let at = affinity_registers(family);
    let checks = vec![
        look_up(AFFINITY.of(family), at.client, at.data),
        load_destination_port(at.data),
        is_in(ElementSet::Members.name(family), at.frontend),
        redirect(family, at.endpoint, at.endpoint_port),
    ];
    [client_and_frontend(kind), source_instead(family), checks].concat()
}

/// The client's endpoint is gone. To renew an element would not change what it says.
fn forget_client(kind: AddressKind) -> Vec<Expression> {
    let (family, _) = kind;
    let at = affinity_registers(family);
    let remove = update_map(AFFINITY.of(family), SetUpdate::Remove, at.client, at.data);
    [client_and_frontend(kind), source_instead(family), vec![remove]].concat()
}

fn client_and_frontend(kind: AddressKind) -> Vec<Expression> {
    let (family, _) = kind;
    let client = load_source(family, affinity_registers(family).client);
    [is_of_family(family), vec![client], load_frontend(kind, words(family))].concat()
}

/// Where the endpoint will be.
fn source_instead(family: IpFamily) -> Vec<Expression> {
    let at = affinity_registers(family);
    vec![load_source(family, at.endpoint), load_source_port(at.endpoint_port)]
}

/// After the pick, so that the endpoint is the packet's destination.
fn remember_client(kind: AddressKind, sticky_s: NonZeroU32) -> Vec<Expression> {
    let (family, _) = kind;
    let at = affinity_registers(family);
    let timeout_ms = u64::from(sticky_s.get()) * MILLIS_PER_SECOND;
    let endpoint =
        vec![load_destination(family, at.endpoint), load_destination_port(at.endpoint_port)];
    let renew = SetUpdate::Renew { timeout_ms };
    let update = update_map(AFFINITY.of(family), renew, at.client, at.data);
    let original = load_original_frontend(kind, words(family));
    let client = vec![load_source(family, at.client)];
    [is_of_family(family), client, original, endpoint, vec![update]].concat()
}

fn remember_rules(family: IpFamily) -> Vec<Vec<Expression>> {
    let rule = |scope| {
        let remember = look_up(STICKY.of(family), register(0), Register::Verdict);
        let original = load_original_frontend((family, scope), 0);
        let of_family = is_of_family(family);
        [is_new_connection(), is_redirected(), of_family, original, vec![remember]].concat()
    };
    vec![rule(FrontendScope::Service), rule(FrontendScope::Node)]
}

fn load_frontend((family, scope): AddressKind, first: u32) -> Vec<Expression> {
    let mut load = match scope {
        FrontendScope::Service => vec![load_destination(family, register(first))],
        FrontendScope::Node => load_any_address(family, register(first)),
    };
    let next = first + words(family);
    load.extend([load_protocol(register(next)), load_destination_port(register(next + 1))]);
    load
}

/// The same when the destination is changed already.
fn load_original_frontend((family, scope): AddressKind, first: u32) -> Vec<Expression> {
    let mut load = match scope {
        FrontendScope::Service => vec![load_original_destination(family, register(first))],
        FrontendScope::Node => load_any_original_address(family, register(first)),
    };
    let next = first + words(family);
    load.push(load_protocol(register(next)));
    load.push(load_original_destination_port(register(next + 1)));
    load
}

/// Whether the packet may be for a NodePort. At `::1` there is none: the kernel takes no answer to
/// it from another interface, and has no `route_localnet` for IPv6.
fn is_for_node(config: &RuleTableConfig, family: IpFamily) -> Vec<Expression> {
    let not_loopback = match (family, config.loopback_node_ports) {
        (IpFamily::V4, LoopbackNodePorts::Serve) => Vec::new(),
        (IpFamily::V4, LoopbackNodePorts::Leave) | (IpFamily::V6, _) => {
            subnet(SubnetTest::NotDestination, loopback(family))
        }
    };
    [is_for_this_machine(), not_loopback].concat()
}

/// Frontend in registers 0 to w + 1; what `services` says in the next 3, of which the last 2 are
/// the key of `picks` (see above).
fn route_rules(config: &RuleTableConfig, family: IpFamily) -> Vec<Vec<Expression>> {
    let w = words(family);
    let pick = |map: FamilyName| {
        vec![
            load_mark(register(w + 3)),
            load_mark(register(w + 4)),
            look_up(ElementSet::Services.name(family), register(0), register(w + 2)),
            look_up(map.of(family), register(w + 3), Register::Verdict),
        ]
    };
    let service = load_frontend((family, FrontendScope::Service), 0);
    let node = load_frontend((family, FrontendScope::Node), 0);
    let of_node = is_for_node(config, family);
    vec![
        [is_of_family(family), service, pick(PICKS)].concat(),
        [is_of_family(family), of_node, node, pick(NODE_PICKS)].concat(),
    ]
}

/// What becomes of new connections to the frontends in this set.
fn new_connections_in(
    config: &RuleTableConfig,
    family: IpFamily,
    set: ElementSet,
    verdict: &Expression,
) -> Vec<Vec<Expression>> {
    new_connections_by_scope(config, family, set, |_| verdict.clone())
}

fn new_connections_by_scope(
    config: &RuleTableConfig,
    family: IpFamily,
    set: ElementSet,
    verdict: impl Fn(FrontendScope) -> Expression,
) -> Vec<Vec<Expression>> {
    let rule = |conditions, scope| {
        let end = vec![is_in(set.name(family), register(0)), verdict(scope)];
        let new = [is_new_connection(), is_of_family(family)].concat();
        [new, conditions, load_frontend((family, scope), 0), end].concat()
    };
    let of_node = rule(is_for_node(config, family), FrontendScope::Node);
    vec![rule(Vec::new(), FrontendScope::Service), of_node]
}

fn guarded_rules(config: &RuleTableConfig, family: IpFamily) -> Vec<Vec<Expression>> {
    let ask = |scope| go_to(&admit(family, scope));
    new_connections_by_scope(config, family, ElementSet::Guarded, ask)
}

/// The chain that asks where a connection to a guarded frontend comes from.
fn admit(family: IpFamily, scope: FrontendScope) -> String {
    format!("admit{}{}", scope.suffix(), family_suffix(family))
}

/// Frontend in registers 0 to w + 1, then source and mask. One rule for each length of a prefix,
/// so that a range is one element whatever its length.
fn admit_rules(family: IpFamily, scope: FrontendScope) -> Vec<Vec<Expression>> {
    let w = words(family);
    let from_range_of = |mask| {
        let source = load_source_within(mask, [register(w + 2), register(2 * w + 2)]);
        let is_source = is_in(ElementSet::Sources.name(family), register(0));
        let frontend = load_frontend((family, scope), 0);
        [is_of_family(family), frontend, source, vec![is_source, accept_packet()]].concat()
    };
    let masks = (0..=family.bits()).filter_map(|prefix| SourceRange::netmask(family, prefix));
    let mut rules: Vec<_> = masks.map(from_range_of).collect();
    rules.push(vec![drop_packet()]);
    rules
}

/// A pod reaches no service of the host that listens on the loopback, although the bridge may carry
/// such addresses (`route_localnet`). And no other machine reaches a host port there: its packets
/// would get the pod's address before the kernel looks at theirs. Of IPv6 the kernel drops such
/// packets itself.
fn guard_rules(config: &RuleTableConfig) -> Vec<Vec<Expression>> {
    let family = IpFamily::V4;
    let to_loopback = || subnet(SubnetTest::Destination, loopback(family));
    let frontend = load_frontend((family, FrontendScope::Service), 0);
    let is_host_port = is_in(ElementSet::HostPorts.name(family), register(0));
    let drop_host_ports = vec![is_host_port, drop_packet()];
    let (from_pods, drop) = (comes_in_by(&config.bridge), vec![drop_packet()]);
    let from_elsewhere = comes_in_not_by("lo");
    vec![
        [is_of_family(family), from_pods, to_loopback(), drop].concat(),
        [is_of_family(family), from_elsewhere, to_loopback(), frontend, drop_host_ports].concat(),
    ]
}

fn hide_source_rules(config: &RuleTableConfig, family: IpFamily) -> Vec<Vec<Expression>> {
    let hairpin = vec![
        load_source(family, register(0)),
        load_destination(family, register(words(family))),
        is_in(ElementSet::Hairpins.name(family), register(0)),
        masquerade(),
    ];
    let mut rules = vec![[is_of_family(family), is_redirected(), hairpin].concat()];
    match (family, config.loopback_node_ports) {
        (IpFamily::V4, LoopbackNodePorts::Serve) => {
            let from_loopback = subnet(SubnetTest::Source, loopback(family));
            let elsewhere = leaves_not_by("lo");
            let hide = vec![masquerade()];
            let of_family = is_of_family(family);
            rules.push([of_family, is_redirected(), from_loopback, elsewhere, hide].concat());
        }
        (IpFamily::V4, LoopbackNodePorts::Leave) | (IpFamily::V6, _) => {}
    }
    match (config.egress, config.pods(family)) {
        (PodEgress::Masquerade, Some(pods)) => {
            let from_pods = subnet(SubnetTest::Source, pods);
            let beyond = subnet(SubnetTest::NotDestination, pods);
            let elsewhere = leaves_not_by(&config.bridge);
            let hide = vec![masquerade()];
            rules.push([is_of_family(family), from_pods, beyond, elsewhere, hide].concat());
        }
        (PodEgress::Masquerade, None) | (PodEgress::Leave, _) => {}
    }
    rules
}

fn loopback(family: IpFamily) -> IpNet {
    match family {
        IpFamily::V4 => IpNet::new_assert(Ipv4Addr::new(127, 0, 0, 0).into(), 8),
        IpFamily::V6 => IpNet::new_assert(Ipv6Addr::LOCALHOST.into(), 128),
    }
}
