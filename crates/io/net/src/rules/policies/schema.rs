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

use crate::rules::expressions::{
    Expression, accept_packet, drop_packet, go_to, is_answer, is_in, is_ipv4, is_related, jump,
    load_destination, load_destination_port, load_mark, load_protocol, load_source,
    load_source_port, look_up, register, return_packet,
};
use crate::rules::schema::{
    ChainDefinition, ChainHook, PartType, SetData, SetDefinition, SetGrowth,
};

pub(super) const INGRESS: &str = "ingress";
pub(super) const EGRESS: &str = "egress";
pub(super) const PEERS: &str = "peers";
pub(super) const ITSELF: &str = "itself";
pub(super) const ALLOWED_PEERS: &str = "allowed-peers";
pub(super) const ALLOWED_PEER_PORTS: &str = "allowed-peer-ports";
pub(super) const ALLOWED_BLOCKS: &str = "allowed-blocks";
pub(super) const ALLOWED_BLOCK_PORTS: &str = "allowed-block-ports";

const REQUESTS: &str = "policy-requests";
const ANSWERS: &str = "policy-answers";

pub(super) fn sets() -> Vec<SetDefinition> {
    use PartType::{Address, Number, Port, Protocol};
    let of = |name, key, data, growth| SetDefinition { name, key, data, growth };
    let class = |name| of(name, &[Address], SetData::Parts(&[Number, Number]), SetGrowth::Static);
    let ranges = |name, key| of(name, key, SetData::None, SetGrowth::Ranges);
    vec![
        class(INGRESS),
        class(EGRESS),
        class(PEERS),
        of(ITSELF, &[Address, Address], SetData::None, SetGrowth::Static),
        of(ALLOWED_PEERS, &[Number, Number], SetData::None, SetGrowth::Static),
        ranges(ALLOWED_PEER_PORTS, &[Number, Number, Protocol, Port]),
        ranges(ALLOWED_BLOCKS, &[Number, Address]),
        ranges(ALLOWED_BLOCK_PORTS, &[Number, Address, Protocol, Port]),
    ]
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

    fn load_address(self, to: Register) -> Expression {
        match self {
            Self::Source => load_source(to),
            Self::Destination => load_destination(to),
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
pub(super) fn chains() -> Vec<ChainDefinition> {
    let plain = |name: &str, rules| ChainDefinition { name: name.to_owned(), base: None, rules };
    let mut chains = Vec::new();
    // of a request the server is the destination, of an answer the source
    for (caller, server) in [(REQUESTS, PacketEnd::Destination), (ANSWERS, PacketEnd::Source)] {
        let mut calls = Vec::new();
        for (map, pod) in [(INGRESS, server), (EGRESS, server.other())] {
            let name = format!("{caller}-{map}");
            chains.push(plain(&name, check_rules(map, pod, server)));
            let call = vec![
                pod.load_address(register(0)),
                look_up(map, register(0), register(1)),
                jump(&name),
            ];
            calls.push(call);
        }
        chains.push(plain(caller, calls));
    }
    let forward = vec![
        [is_ipv4(), is_related(), vec![accept_packet()]].concat(),
        [is_ipv4(), is_answer(), vec![go_to(ANSWERS)]].concat(),
        [is_ipv4(), vec![go_to(REQUESTS)]].concat(),
    ];
    let base = Some(("filter", ChainHook::Forward, -10));
    chains.push(ChainDefinition { name: "policy-forward".to_owned(), base, rules: forward });
    chains
}

/// For a pod that is isolated: `map` has its class.
fn check_rules(map: &str, pod: PacketEnd, server: PacketEnd) -> Vec<Vec<Expression>> {
    let peer = pod.other();
    let end = |set: &str| vec![is_in(set, register(1)), return_packet()];
    // both write from the register before on: the peer's class goes first
    let peer_class = || {
        vec![
            peer.load_address(register(8)),
            load_mark(register(2)),
            look_up(PEERS, register(8), register(1)),
        ]
    };
    let own_class = || {
        vec![
            pod.load_address(register(8)),
            load_mark(register(1)),
            look_up(map, register(8), register(0)),
        ]
    };
    let ports = || vec![load_protocol(register(3)), server.load_port(register(4))];
    let peer_address = || vec![peer.load_address(register(2))];
    let itself = vec![load_source(register(1)), load_destination(register(2))];
    vec![
        [itself, end(ITSELF)].concat(),
        [peer_class(), own_class(), end(ALLOWED_PEERS)].concat(),
        [own_class(), peer_address(), end(ALLOWED_BLOCKS)].concat(),
        [peer_class(), own_class(), ports(), end(ALLOWED_PEER_PORTS)].concat(),
        [own_class(), peer_address(), ports(), end(ALLOWED_BLOCK_PORTS)].concat(),
        vec![drop_packet()],
    ]
}
