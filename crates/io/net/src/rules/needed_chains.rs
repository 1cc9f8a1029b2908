//! Chains of the table that exist because some element needs them.

use std::num::{NonZeroU16, NonZeroU32};

use netlink_packet_netfilter::nftables::Register;
use rekindle_services::{ClientView, RuleElement, SourceRange};
use rekindle_types::IpFamily;

use crate::rules::expressions::{
    Expression, SetUpdate, drop_packet, go_to, is_in, is_new_connection, is_of_family,
    load_destination, load_destination_port, load_network_of_source, load_random, load_source,
    load_source_port, load_source_within, look_up, redirect, register, update_map, words,
};
use crate::rules::schema::{
    AFFINITY, AddressKind, ChainDefinition, ClientStep, ElementSet, FrontendScope, NODE_PICKS,
    PICKS, WAIT, family_suffix, load_frontend, load_original_frontend, pick,
};

const MILLIS_PER_SECOND: u64 = 1000;

/// A chain that exists because some Service needs it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum NeededChain {
    /// Picks one of so many endpoints. Of those that clients have by their network, `prefix` bits
    /// of the client's address count.
    Pick {
        family: IpFamily,
        scope: FrontendScope,
        prefix: Option<u8>,
        endpoints: NonZeroU16,
        sticky: bool,
    },
    /// Remembers clients for so long.
    Remember { family: IpFamily, scope: FrontendScope, sticky_s: NonZeroU32 },
    /// Looks whether clients are led elsewhere by so many bits of their address.
    ByClient { family: IpFamily, step: ClientStep, prefix: u8 },
}

/// How an endpoint is picked: whether there is affinity, and how many bits of the client's address
/// count. `picks` leads from there to a chain.
pub(super) fn way_of_picking(sticky: bool, prefix: Option<u8>) -> u32 {
    u32::from(sticky) | u32::from(prefix.unwrap_or(0)) << 1
}

/// The number of the first endpoint. It says how many bits of the client's address count, too: the
/// key has their value only.
pub(super) fn first_number(prefix: Option<u8>) -> u32 {
    u32::from(prefix.unwrap_or(0)) << u16::BITS
}

impl NeededChain {
    /// Those that an element needs.
    pub(super) fn of_element(element: &RuleElement) -> impl Iterator<Item = Self> {
        let by_client = |step, family, prefix: Option<u8>| {
            prefix.map(|prefix| Self::ByClient { family, step, prefix })
        };
        let chains = match *element {
            RuleElement::Pick(ClientView { frontend, clients }, pick) => {
                let scope = match frontend.is_node_port() {
                    true => FrontendScope::Node,
                    false => FrontendScope::Service,
                };
                let (family, endpoints) = (frontend.family(), pick.endpoints);
                let (sticky, prefix) = (pick.sticky_s.is_some(), clients.prefix());
                let remember = |sticky_s| Self::Remember { family, scope, sticky_s };
                [
                    Some(Self::Pick { family, scope, prefix, endpoints, sticky }),
                    pick.sticky_s.map(remember),
                    by_client(ClientStep::Route, family, prefix),
                ]
            }
            RuleElement::OnOtherNodes(frontend, range) => {
                [by_client(ClientStep::Refuse, frontend.family(), Some(range.prefix)), None, None]
            }
            RuleElement::Held(ClientView { frontend, clients }) => {
                [by_client(ClientStep::Hold, frontend.family(), clients.prefix()), None, None]
            }
            RuleElement::Endpoint(..)
            | RuleElement::Member(..)
            | RuleElement::Refused(..)
            | RuleElement::Guarded(_)
            | RuleElement::Source(..)
            | RuleElement::HostPort(_)
            | RuleElement::Hairpin(_) => [None; 3],
        };
        chains.into_iter().flatten()
    }

    pub(super) fn name(self) -> String {
        match self {
            Self::Pick { family, scope, prefix, endpoints, sticky } => {
                let sticky = if sticky { "-sticky" } else { "" };
                let clients = prefix.map(|prefix| format!("-by-client-{prefix}"));
                let end = [scope.suffix(), family_suffix(family)].concat();
                format!("pick-{endpoints}{sticky}{}{end}", clients.unwrap_or_default())
            }
            Self::Remember { family, scope, sticky_s } => {
                format!("remember-{sticky_s}{}{}", scope.suffix(), family_suffix(family))
            }
            // there already: it gets one more rule
            Self::ByClient { step, .. } => step.chain().to_owned(),
        }
    }

    /// The map that leads to it from a number of endpoints and the way of picking.
    pub(super) fn map(self) -> Option<(&'static str, [u32; 2])> {
        match self {
            Self::Pick { family, scope, prefix, endpoints, sticky } => {
                let map = match scope {
                    FrontendScope::Service => PICKS,
                    FrontendScope::Node => NODE_PICKS,
                };
                let way = way_of_picking(sticky, prefix);
                Some((map.of(family), [endpoints.get().into(), way]))
            }
            Self::Remember { .. } | Self::ByClient { .. } => None,
        }
    }

    pub(super) fn definition(self) -> ChainDefinition {
        let rules = match self {
            Self::Pick { family, scope, prefix, endpoints, sticky } => {
                pick_rules((family, scope), prefix, endpoints, sticky)
            }
            Self::Remember { family, scope, sticky_s } => {
                vec![remember_client((family, scope), sticky_s)]
            }
            Self::ByClient { family, step, prefix } => by_client_rule(family, step, prefix),
        };
        ChainDefinition { name: self.name(), base: None, rules }
    }
}

/// In the order in which they are tried.
fn pick_rules(
    kind: AddressKind,
    prefix: Option<u8>,
    endpoints: NonZeroU16,
    sticky: bool,
) -> Vec<Vec<Expression>> {
    let mut rules = Vec::new();
    if sticky {
        rules.extend([stay(kind), forget_client(kind)]);
    }
    if endpoints != NonZeroU16::MIN {
        rules.push(pick_below(kind, prefix, endpoints.get().into()));
    }
    rules.push(pick_below(kind, prefix, 1));
    rules
}

/// Frontend in registers 0 to w + 1, then the client's network if that counts, then the number,
/// then the endpoint.
fn pick_below(kind: AddressKind, prefix: Option<u8>, endpoints: u32) -> Vec<Expression> {
    let (family, _) = kind;
    let w = words(family);
    let network = prefix.and_then(|prefix| SourceRange::netmask(family, prefix));
    let network = network.map(|mask| load_network_of_source(mask, register(w + 2)));
    let (set, n) = match network {
        None => (ElementSet::Endpoints, w + 2),
        Some(_) => (ElementSet::EndpointsByClient, 2 * w + 2),
    };
    let (endpoint, port) = (register(n + 1), register(n + 1 + w));
    let pick = vec![
        load_random(first_number(prefix), endpoints, register(n)),
        look_up(set.name(family), register(0), endpoint),
        redirect(family, endpoint, port),
    ];
    let network = network.into_iter().flatten().collect();
    [is_of_family(family), load_frontend(kind, 0), network, pick].concat()
}

/// Where so many bits of a client's address lead it elsewhere. Frontend in registers 0 to w + 1,
/// then the client's network.
fn by_client_rule(family: IpFamily, step: ClientStep, prefix: u8) -> Vec<Vec<Expression>> {
    let w = words(family);
    let Some(mask) = SourceRange::netmask(family, prefix) else { return Vec::new() };
    let frontend = load_frontend((family, FrontendScope::Service), 0);
    let new_in = |set: ElementSet, verdict| {
        let source = load_source_within(mask, [register(w + 2), register(2 * w + 2)]);
        let end = vec![is_in(set.name(family), register(0)), verdict];
        [is_new_connection(), is_of_family(family), frontend.clone(), source, end].concat()
    };
    let rule = match step {
        ClientStep::Hold => new_in(ElementSet::HeldByClient, go_to(WAIT)),
        ClientStep::Refuse => new_in(ElementSet::DroppedByClient, drop_packet()),
        ClientStep::Route => {
            let network = load_network_of_source(mask, register(w + 2)).to_vec();
            let end = pick(ElementSet::ServicesByClient, PICKS, family, 2 * w + 2);
            [is_of_family(family), frontend, network, end].concat()
        }
    };
    vec![rule]
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
