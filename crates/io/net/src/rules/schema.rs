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
//! Pods of some nodes are led elsewhere: the elements of sets `…-by-client` have the client's
//! network in their key. Rules for them exist once for each length of such a network. The hook for
//! packets that come in has chains for them before `hold`, `refuse` and `route`, which are empty
//! until there is such an element.
//!
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

use ipnet::IpNet;
use netlink_packet_netfilter::nftables::Register;
use rekindle_services::SourceRange;
use rekindle_types::IpFamily;

use crate::rules::expressions::{
    Expression, SubnetTest, accept_packet, comes_in_by, comes_in_not_by, drop_packet, go_to,
    is_for_this_machine, is_in, is_new_connection, is_of_family, is_redirected, jump,
    leaves_not_by, load_any_address, load_any_original_address, load_destination,
    load_destination_port, load_mark, load_original_destination, load_original_destination_port,
    load_protocol, load_source, load_source_within, look_up, masquerade, register, reject, subnet,
    wait_in_queue, words,
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
pub(super) const WAIT: &str = "wait";
const REFUSE: &str = "refuse";
const ROUTE: &str = "route";
const REMEMBER: &str = "remember";
const VACANT: &str = "vacant";
const TURN_AWAY: &str = "turn-away";
/// Clients with affinity at most; more are served without it.
const AFFINITY_CLIENTS_MAX: u32 = 65_536;

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
    ServicesByClient,
    Endpoints,
    EndpointsByClient,
    Members,
    Rejected,
    Dropped,
    DroppedByClient,
    Held,
    HeldByClient,
    Guarded,
    Sources,
    HostPorts,
    Hairpins,
}

impl ElementSet {
    pub(super) const ALL: [Self; 14] = [
        Self::Services,
        Self::ServicesByClient,
        Self::Endpoints,
        Self::EndpointsByClient,
        Self::Members,
        Self::Rejected,
        Self::Dropped,
        Self::DroppedByClient,
        Self::Held,
        Self::HeldByClient,
        Self::Guarded,
        Self::Sources,
        Self::HostPorts,
        Self::Hairpins,
    ];

    pub(super) const fn name(self, family: IpFamily) -> &'static str {
        let names = match self {
            Self::Services => ["services", "services-v6"],
            Self::ServicesByClient => ["services-by-client", "services-by-client-v6"],
            Self::Endpoints => ["endpoints", "endpoints-v6"],
            Self::EndpointsByClient => ["endpoints-by-client", "endpoints-by-client-v6"],
            Self::Members => ["members", "members-v6"],
            Self::Rejected => ["rejected", "rejected-v6"],
            Self::Dropped => ["dropped", "dropped-v6"],
            Self::DroppedByClient => ["dropped-by-client", "dropped-by-client-v6"],
            Self::Held => ["held", "held-v6"],
            Self::HeldByClient => ["held-by-client", "held-by-client-v6"],
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
        // seconds of affinity, endpoints, how one is picked
        of(ElementSet::Services, frontend(), SetData::Parts(vec![Number; 3])),
        of(ElementSet::Endpoints, and(&[Number]), SetData::Parts(vec![address, Port])),
        // with the client's network
        of(ElementSet::ServicesByClient, and(&[address]), SetData::Parts(vec![Number; 3])),
        of(
            ElementSet::EndpointsByClient,
            and(&[address, Number]),
            SetData::Parts(vec![address, Port]),
        ),
        // and its mask
        of(ElementSet::DroppedByClient, and(&[address, address]), SetData::None),
        of(ElementSet::HeldByClient, and(&[address, address]), SetData::None),
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
        // the machine itself is a client of each node, whatever its address
        let by_client = ClientStep::ALL.into_iter().find(|step| step.before() == chain);
        let from_pods = by_client.map(|step| vec![jump(step.chain())]);
        let all = from_pods.into_iter().chain(call()).collect();
        [
            base(&format!("{chain}-prerouting"), kind, Prerouting, priority, all),
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
    chains.push(plain(WAIT, queue.map(|queue| vec![wait_in_queue(queue)]).into_iter().collect()));
    chains.extend(ClientStep::ALL.map(|step| plain(step.chain(), Vec::new())));
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
    if queue.is_some() {
        chains.push(plain(HOLD, new_in(ElementSet::Held, &go_to(WAIT))));
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
    pub(super) const fn suffix(self) -> &'static str {
        match self {
            Self::Service => "",
            Self::Node => "-node",
        }
    }
}

/// What may differ between clients.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum ClientStep {
    Hold,
    Refuse,
    Route,
}

impl ClientStep {
    const ALL: [Self; 3] = [Self::Hold, Self::Refuse, Self::Route];

    /// The chain that decides for all others.
    const fn before(self) -> &'static str {
        match self {
            Self::Hold => HOLD,
            Self::Refuse => REFUSE,
            Self::Route => ROUTE,
        }
    }

    pub(super) const fn chain(self) -> &'static str {
        match self {
            Self::Hold => "hold-by-client",
            Self::Refuse => "refuse-by-client",
            Self::Route => "route-by-client",
        }
    }
}

/// What a frontend's address is.
pub(super) type AddressKind = (IpFamily, FrontendScope);

/// From the key in registers 0 to `end` - 1 to the chain that picks. What `services` says lies in
/// the next 3, of which the last 2 are the key of `picks` (see above).
pub(super) fn pick(
    services: ElementSet,
    picks: FamilyName,
    family: IpFamily,
    end: u32,
) -> Vec<Expression> {
    vec![
        load_mark(register(end + 1)),
        load_mark(register(end + 2)),
        look_up(services.name(family), register(0), register(end)),
        look_up(picks.of(family), register(end + 1), Register::Verdict),
    ]
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

pub(super) fn load_frontend((family, scope): AddressKind, first: u32) -> Vec<Expression> {
    let mut load = match scope {
        FrontendScope::Service => vec![load_destination(family, register(first))],
        FrontendScope::Node => load_any_address(family, register(first)),
    };
    let next = first + words(family);
    load.extend([load_protocol(register(next)), load_destination_port(register(next + 1))]);
    load
}

/// The same when the destination is changed already.
pub(super) fn load_original_frontend((family, scope): AddressKind, first: u32) -> Vec<Expression> {
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

/// Frontend in registers 0 to w + 1.
fn route_rules(config: &RuleTableConfig, family: IpFamily) -> Vec<Vec<Expression>> {
    let pick = |picks| pick(ElementSet::Services, picks, family, words(family) + 2);
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
