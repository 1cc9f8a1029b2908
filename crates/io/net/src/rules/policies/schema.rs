//! The table of NetworkPolicies: its sets, chains and rules.
//!
//! ```text
//!  forward (filter, -10) ─┬─ answer? ─► policy-answers  ┐  for the pod that is entered and the one
//!                         └─ else ───► policy-requests ─┴─ that is left: in `ingress`, `egress`?
//!        in it ─► check-…: itself? its class and the peer, by address or class, allowed? or drop
//! ```
//! Every packet is judged, not only the first of a connection: one that a policy forbids ends when
//! the policy comes. An answer is judged as the request that it answers, whose source and port of
//! destination it carries the other way round.
//!
//! Packets come here after the rules of Services have changed their destination, and before their
//! source is changed. Pods send to the gateway only, also to a pod of the same bridge, so that all
//! packets between pods are forwarded. What the node itself sends and receives is not.
//!
//! `nft` cannot show a key that contains what another map said. So the mark is loaded there
//! first, and the map writes from one register before on: nft shows the mark. For that, a class is
//! the second number of two.

use netlink_packet_netfilter::nftables::Register;
use rekindle_types::{IpFamily, IpStack};

use crate::rules::expressions::{
    Expression, accept_packet, drop_packet, go_to, is_answer, is_in, is_of_family, is_related,
    jump, load_destination, load_destination_port, load_mark, load_protocol, load_source,
    load_source_port, look_up, register, return_packet, words,
};
use crate::rules::schema::{
    ChainDefinition, ChainHook, FamilyName, PartType, SetData, SetDefinition, SetGrowth,
    family_suffix,
};

pub(super) const INGRESS: FamilyName = FamilyName::new(["ingress", "ingress-v6"]);
pub(super) const EGRESS: FamilyName = FamilyName::new(["egress", "egress-v6"]);
pub(super) const PEERS: FamilyName = FamilyName::new(["peers", "peers-v6"]);
pub(super) const ITSELF: FamilyName = FamilyName::new(["itself", "itself-v6"]);
pub(super) const ALLOWED_PEERS: &str = "allowed-peers";
pub(super) const ALLOWED_PEER_PORTS: &str = "allowed-peer-ports";
pub(super) const ALLOWED_BLOCKS: FamilyName =
    FamilyName::new(["allowed-blocks", "allowed-blocks-v6"]);
pub(super) const ALLOWED_BLOCK_PORTS: FamilyName =
    FamilyName::new(["allowed-block-ports", "allowed-block-ports-v6"]);

const REQUESTS: &str = "policy-requests";
const ANSWERS: &str = "policy-answers";
/// The register that an address is looked up from, behind all keys.
const SCRATCH: u32 = 8;

pub(super) fn sets(stack: IpStack) -> Vec<SetDefinition> {
    use PartType::{Number, Port, Protocol};
    let of = |name, key, data, growth| SetDefinition { name, key, data, growth };
    let ranges = |name, key| of(name, key, SetData::None, SetGrowth::Ranges);
    let fixed = |name, key| of(name, key, SetData::None, SetGrowth::Static);
    let mut sets = vec![
        fixed(ALLOWED_PEERS, vec![Number, Number]),
        ranges(ALLOWED_PEER_PORTS, vec![Number, Number, Protocol, Port]),
    ];
    for family in stack.families().iter().copied() {
        let address = PartType::address(family);
        let class = |name: FamilyName| {
            let data = SetData::Parts(vec![Number, Number]);
            of(name.of(family), vec![address], data, SetGrowth::Static)
        };
        let block_ports = vec![Number, address, Protocol, Port];
        sets.extend([
            class(INGRESS),
            class(EGRESS),
            class(PEERS),
            fixed(ITSELF.of(family), vec![address, address]),
            ranges(ALLOWED_BLOCKS.of(family), vec![Number, address]),
            ranges(ALLOWED_BLOCK_PORTS.of(family), block_ports),
        ]);
    }
    sets
}

/// Which end of a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum PacketEnd {
    Source,
    Destination,
}

impl PacketEnd {
    fn other(self) -> Self {
        match self {
            Self::Source => Self::Destination,
            Self::Destination => Self::Source,
        }
    }

    fn load_address(self, family: IpFamily, to: Register) -> Expression {
        match self {
            Self::Source => load_source(family, to),
            Self::Destination => load_destination(family, to),
        }
    }

    fn load_port(self, to: Register) -> Expression {
        match self {
            Self::Source => load_source_port(to),
            Self::Destination => load_destination_port(to),
        }
    }
}

/// Callees first.
pub(super) fn chains(stack: IpStack) -> Vec<ChainDefinition> {
    let plain = |name: &str, rules| ChainDefinition { name: name.to_owned(), base: None, rules };
    let (mut chains, mut forward) = (Vec::new(), Vec::new());
    for family in stack.families().iter().copied() {
        let named = |name: &str| [name, family_suffix(family)].concat();
        // of a request the server is the destination, of an answer the source
        for (caller, server) in [(REQUESTS, PacketEnd::Destination), (ANSWERS, PacketEnd::Source)] {
            let mut calls = Vec::new();
            for (map, pod) in [(INGRESS, server), (EGRESS, server.other())] {
                let map_name = map.of(family);
                let name = format!("{caller}-{map_name}");
                chains.push(plain(&name, check_rules(family, map, pod, server)));
                let address = register(SCRATCH);
                let call = vec![
                    pod.load_address(family, address),
                    look_up(map_name, address, register(1)),
                    jump(&name),
                ];
                calls.push(call);
            }
            chains.push(plain(&named(caller), calls));
        }
        forward.extend([
            [is_of_family(family), is_related(), vec![accept_packet()]].concat(),
            [is_of_family(family), is_answer(), vec![go_to(&named(ANSWERS))]].concat(),
            [is_of_family(family), vec![go_to(&named(REQUESTS))]].concat(),
        ]);
    }
    let base = Some(("filter", ChainHook::Forward, -10));
    chains.push(ChainDefinition { name: "policy-forward".to_owned(), base, rules: forward });
    chains
}

/// For a pod that is isolated: `map` has its class.
fn check_rules(
    family: IpFamily,
    map: FamilyName,
    pod: PacketEnd,
    server: PacketEnd,
) -> Vec<Vec<Expression>> {
    let (peer, w, scratch) = (pod.other(), words(family), register(SCRATCH));
    let end = |set: &str| vec![is_in(set, register(1)), return_packet()];
    // both write from the register before on: the peer's class goes first
    let peer_class = || {
        vec![
            peer.load_address(family, scratch),
            load_mark(register(2)),
            look_up(PEERS.of(family), scratch, register(1)),
        ]
    };
    let own_class = || {
        vec![
            pod.load_address(family, scratch),
            load_mark(register(1)),
            look_up(map.of(family), scratch, register(0)),
        ]
    };
    let ports_at =
        |first| vec![load_protocol(register(first)), server.load_port(register(first + 1))];
    let peer_address = || vec![peer.load_address(family, register(2))];
    let itself = vec![load_source(family, register(1)), load_destination(family, register(1 + w))];
    let (blocks, block_ports) = (ALLOWED_BLOCKS.of(family), ALLOWED_BLOCK_PORTS.of(family));
    vec![
        [itself, end(ITSELF.of(family))].concat(),
        [peer_class(), own_class(), end(ALLOWED_PEERS)].concat(),
        [own_class(), peer_address(), end(blocks)].concat(),
        [peer_class(), own_class(), ports_at(3), end(ALLOWED_PEER_PORTS)].concat(),
        [own_class(), peer_address(), ports_at(2 + w), end(block_ports)].concat(),
        vec![drop_packet()],
    ]
}
