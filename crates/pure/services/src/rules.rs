//! The rules of the node as a set of elements, and what changes between two such sets.
//!
//! ```text
//!  packet ─► Guarded? only from a Source ─► Held? ─► Refused? ─► Pick (how many endpoints?) ─┐
//!                                     DNAT ◄─ Endpoint (frontend, number) ◄──────────────────┤
//!                                     DNAT ◄─ sticky: the client's last one, while a Member ◄┘
//! ```
//! A Service has no rules of its own: rules exist once for each number of endpoints, and all that
//! differs between Services lies in maps. So one that comes, goes or changes is a few elements, in
//! one transaction (docs/adr/0058).

use std::collections::BTreeSet;
use std::net::{IpAddr, SocketAddr};
use std::num::{NonZeroU16, NonZeroU32};

use crate::frontend::{ClientView, Frontend, TransportProtocol};
use crate::source_range::SourceRange;

/// Everything that the rules are to say.
pub type RuleElements = BTreeSet<RuleElement>;

/// One element of a set or map of the rules.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum RuleElement {
    /// New connections to the frontend go to one of its endpoints.
    Pick(ClientView, EndpointPick),
    /// The endpoint of the frontend with this number, from 0.
    Endpoint(ClientView, u16, SocketAddr),
    /// A client that was at this endpoint before may stay there (`sessionAffinity: ClientIP`).
    Member(Frontend, SocketAddr),
    /// New connections to the frontend are turned away.
    Refused(Frontend, Refusal),
    /// New connections from these clients are dropped: their node has no endpoint of the frontend,
    /// others have.
    OnOtherNodes(Frontend, SourceRange),
    /// New connections to the frontend wait before anything else is decided: the kernel keeps their
    /// first packet in a queue. It has no endpoint now, and is [`Refused`](Self::Refused), too, for
    /// when they have waited long enough.
    Held(ClientView),
    /// New connections to the frontend are dropped unless they come from one of its sources.
    Guarded(Frontend),
    /// From there connections may come to the guarded frontend.
    Source(Frontend, SourceRange),
    /// The frontend is a port of the machine that leads to one pod (`hostPort`). Later engines know
    /// it by this, and at an address of the loopback only the machine itself reaches it.
    HostPort(Frontend),
    /// An address of endpoints: a connection from it to itself gets the node's address as source,
    /// or the answer would not come back through the node.
    Hairpin(IpAddr),
}

impl RuleElement {
    /// The frontend that it is about, if it is about one.
    pub const fn frontend(&self) -> Option<Frontend> {
        match *self {
            Self::Pick(view, _) | Self::Endpoint(view, ..) | Self::Held(view) => {
                Some(view.frontend)
            }
            Self::Member(frontend, _)
            | Self::Refused(frontend, _)
            | Self::OnOtherNodes(frontend, _)
            | Self::Guarded(frontend)
            | Self::Source(frontend, _)
            | Self::HostPort(frontend) => Some(frontend),
            Self::Hairpin(_) => None,
        }
    }
}

/// How an endpoint is picked.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct EndpointPick {
    /// Among how many.
    pub endpoints: NonZeroU16,
    /// Seconds for which a client stays with its endpoint after its last new connection; none: each
    /// connection goes anywhere.
    pub sticky_s: Option<NonZeroU32>,
}

/// How a connection is turned away.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Refusal {
    /// At once, with an answer: there is no endpoint.
    Reject,
    /// Without an answer: there is none on this node, and the traffic policy says Local. A load
    /// balancer tries another node.
    Drop,
}

/// From one set of elements to another, in one transaction: first what goes, then what comes. An
/// element that is replaced is in both.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RuleChanges {
    /// What goes.
    pub removed: Vec<RuleElement>,
    /// What comes.
    pub added: Vec<RuleElement>,
}

/// A frontend that no longer leads to this endpoint. Of UDP the kernel would send on there for as
/// long as packets come. Where the endpoint is the frontend itself, packets went to the machine.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct StaleFlow {
    /// Where clients send.
    pub frontend: Frontend,
    /// Where that went.
    pub endpoint: SocketAddr,
}

impl RuleChanges {
    /// What leads from one set to the other.
    pub fn between(before: &RuleElements, after: &RuleElements) -> Self {
        Self {
            removed: before.difference(after).copied().collect(),
            added: after.difference(before).copied().collect(),
        }
    }

    /// These changes, and then the next ones, in one transaction.
    #[must_use]
    pub fn then(mut self, next: Self) -> Self {
        let (undone, removed): (Vec<_>, Vec<_>) =
            next.removed.into_iter().partition(|element| self.added.contains(element));
        self.added.retain(|element| !undone.contains(element));
        self.removed.extend(removed);
        self.added.extend(next.added);
        self
    }

    /// Whether all stays as it is.
    pub fn is_empty(&self) -> bool {
        self.removed.is_empty() && self.added.is_empty()
    }

    /// The UDP flows to be forgotten once these changes are made: what has gone and not only got
    /// another number, and what went to the machine before its port led to a pod.
    pub fn stale_flows(&self) -> BTreeSet<StaleFlow> {
        let added: BTreeSet<_> = self.added.iter().filter_map(StaleFlow::to_endpoint).collect();
        let gone = self.removed.iter().filter_map(StaleFlow::to_endpoint);
        let before = self.added.iter().filter_map(StaleFlow::to_machine);
        gone.filter(|flow| !added.contains(flow)).chain(before).collect()
    }
}

impl StaleFlow {
    /// What an element of the rules leads to, once it is gone.
    fn to_endpoint(element: &RuleElement) -> Option<Self> {
        let RuleElement::Endpoint(ClientView { frontend, .. }, _, endpoint) = *element else {
            return None;
        };
        Some(Self { frontend, endpoint }).filter(Self::is_udp)
    }

    /// Where packets went before a port led to a pod.
    fn to_machine(element: &RuleElement) -> Option<Self> {
        let RuleElement::HostPort(frontend) = *element else { return None };
        let endpoint = SocketAddr::new(frontend.address, frontend.port);
        Some(Self { frontend, endpoint }).filter(Self::is_udp)
    }

    fn is_udp(&self) -> bool {
        self.frontend.protocol == TransportProtocol::Udp
    }
}
