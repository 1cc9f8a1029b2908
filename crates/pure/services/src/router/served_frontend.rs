//! A frontend as the rules have it.

use std::collections::{BTreeMap, BTreeSet};
use std::net::{IpAddr, SocketAddr};
use std::num::NonZeroU16;

use rekindle_types::TickDuration;
use rekindle_types::connection_hold::ConnectionHold;

use super::endpoints::FoundEndpoints;
use crate::frontend::{ClientView, Clients, Frontend, TransportProtocol};
use crate::routed::RoutedService;
use crate::rules::{EndpointPick, Refusal, RuleElement};
use crate::source_range::SourceRange;

/// A frontend as it is in the rules.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct ServedFrontend {
    pub(super) everyone: Route,
    /// Where clients on some nodes are led elsewhere.
    pub(super) by_client: BTreeMap<SourceRange, Route>,
}

/// Where the connections of some clients go.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Route {
    /// Its endpoints. One keeps its number while others come, and the last takes the number of one
    /// that goes: so few elements change.
    pub(super) numbered: Vec<SocketAddr>,
    /// Its elements beside those.
    pub(super) others: Vec<RuleElement>,
}

impl ServedFrontend {
    /// One that leads to one pod whatever Services say.
    pub(super) fn of_host_port(frontend: Frontend, endpoint: SocketAddr) -> Self {
        let pick = EndpointPick { endpoints: NonZeroU16::MIN, sticky_s: None };
        let pick = RuleElement::Pick(frontend.into(), pick);
        let others = vec![RuleElement::HostPort(frontend), pick];
        let everyone = Route { numbered: vec![endpoint], others };
        Self { everyone, by_client: BTreeMap::new() }
    }

    pub(super) fn elements(&self, frontend: Frontend) -> impl Iterator<Item = RuleElement> + '_ {
        let by_client = self.by_client.iter().flat_map(move |(range, route)| {
            route.elements(ClientView { frontend, clients: Clients::Within(*range) })
        });
        self.everyone.elements(frontend.into()).chain(by_client)
    }

    /// The addresses that it leads to, as often as it does.
    pub(super) fn addresses(&self) -> impl Iterator<Item = IpAddr> + '_ {
        let routes = std::iter::once(&self.everyone).chain(self.by_client.values());
        routes.flat_map(|route| route.numbered.iter().map(SocketAddr::ip))
    }

    pub(super) fn route(&self, clients: Clients) -> Option<&Route> {
        match clients {
            Clients::All => Some(&self.everyone),
            Clients::Within(range) => self.by_client.get(&range),
        }
    }

    pub(super) fn route_mut(&mut self, clients: Clients) -> Option<&mut Route> {
        match clients {
            Clients::All => Some(&mut self.everyone),
            Clients::Within(range) => self.by_client.get_mut(&range),
        }
    }
}

impl Route {
    /// Where connections of these clients are to go, who went by `old` until now.
    pub(super) fn new(
        view: ClientView,
        service: &RoutedService,
        found: FoundEndpoints,
        old: &Self,
    ) -> Self {
        let ClientView { frontend, clients } = view;
        // only TCP has a first packet after which the client waits for an answer
        let waits = frontend.protocol == TransportProtocol::Tcp
            && (old.holds() || hold_begins(old, service, &found));
        let is_elsewhere = found.is_elsewhere;
        let usable = found.usable(waits);
        let count = u16::try_from(usable.len()).ok().and_then(NonZeroU16::new);
        let Some(count) = count else {
            let refused = match (clients, is_elsewhere) {
                (Clients::Within(range), _) => RuleElement::OnOtherNodes(frontend, range),
                (Clients::All, true) => RuleElement::Refused(frontend, Refusal::Drop),
                (Clients::All, false) => RuleElement::Refused(frontend, Refusal::Reject),
            };
            let held = waits.then_some(RuleElement::Held(view));
            let others = std::iter::once(refused).chain(held).collect();
            return Self { numbered: Vec::new(), others };
        };
        let pick = EndpointPick { endpoints: count, sticky_s: service.sticky_s };
        let mut others = vec![RuleElement::Pick(view, pick)];
        if service.sticky_s.is_some() && clients == Clients::All {
            others.extend(usable.iter().map(|e| RuleElement::Member(frontend, *e)));
        }
        Self { numbered: old.renumbered(&usable), others }
    }

    fn elements(&self, view: ClientView) -> impl Iterator<Item = RuleElement> + '_ {
        let endpoints = (0_u16..).zip(&self.numbered);
        let endpoints = endpoints.map(move |(n, e)| RuleElement::Endpoint(view, n, *e));
        endpoints.chain(self.others.iter().copied())
    }

    /// These endpoints with numbers. Those that are there already keep theirs if they can.
    fn renumbered(&self, wanted: &BTreeSet<SocketAddr>) -> Vec<SocketAddr> {
        let mut numbered = self.numbered.clone();
        let mut number = 0;
        while number < numbered.len() {
            match wanted.contains(&numbered[number]) {
                true => number += 1,
                false => drop(numbered.swap_remove(number)),
            }
        }
        let known: BTreeSet<SocketAddr> = numbered.iter().copied().collect();
        numbered.extend(wanted.difference(&known));
        numbered
    }

    /// Whether new connections wait.
    pub(super) fn holds(&self) -> bool {
        self.others.iter().any(|element| matches!(element, RuleElement::Held(_)))
    }
}

impl FoundEndpoints {
    /// Those that connections go to, which may rather wait.
    pub(super) fn usable(self, waits: bool) -> BTreeSet<SocketAddr> {
        match (self.ready.is_empty(), waits) {
            (false, _) => self.ready,
            // what is being ended may not answer any more
            (true, true) => BTreeSet::new(),
            (true, false) => self.last_resort,
        }
    }
}

/// Whether new connections to a frontend that has no endpoint begin to wait for one. Where they
/// have waited in vain they do not begin again.
fn hold_begins(old: &Route, service: &RoutedService, found: &FoundEndpoints) -> bool {
    let has_lost_its_last = !old.numbered.is_empty();
    match service.hold {
        ConnectionHold::OfRestarts => has_lost_its_last && found.is_restarting,
        ConnectionHold::For(TickDuration::ZERO) => false,
        ConnectionHold::For(_) => has_lost_its_last || *old == Route::default(),
    }
}
