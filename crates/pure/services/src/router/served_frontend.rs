//! A frontend as the rules have it.

use std::collections::BTreeSet;
use std::net::SocketAddr;
use std::num::NonZeroU16;

use rekindle_types::TickDuration;
use rekindle_types::connection_hold::ConnectionHold;

use super::endpoints::FoundEndpoints;
use crate::frontend::Frontend;
use crate::routed::RoutedService;
use crate::rules::{EndpointPick, RuleElement};

/// A frontend as it is in the rules.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct ServedFrontend {
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
        let others = vec![RuleElement::HostPort(frontend), RuleElement::Pick(frontend, pick)];
        Self { numbered: vec![endpoint], others }
    }

    pub(super) fn elements(&self, frontend: Frontend) -> impl Iterator<Item = RuleElement> + '_ {
        let endpoints = (0_u16..).zip(&self.numbered);
        let endpoints = endpoints.map(move |(n, e)| RuleElement::Endpoint(frontend, n, *e));
        endpoints.chain(self.others.iter().copied())
    }

    /// These endpoints with numbers. Those that are there already keep theirs if they can.
    pub(super) fn renumbered(&self, wanted: &BTreeSet<SocketAddr>) -> Vec<SocketAddr> {
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

    pub(super) fn holds(&self, frontend: Frontend) -> bool {
        self.others.contains(&RuleElement::Held(frontend))
    }
}

/// Whether new connections to a frontend that has no endpoint begin to wait for one. Where they
/// have waited in vain they do not begin again.
pub(super) fn hold_begins(
    old: &ServedFrontend,
    service: &RoutedService,
    found: &FoundEndpoints,
) -> bool {
    let has_lost_its_last = !old.numbered.is_empty();
    match service.hold {
        ConnectionHold::OfRestarts => has_lost_its_last && found.is_restarting,
        ConnectionHold::For(TickDuration::ZERO) => false,
        ConnectionHold::For(_) => has_lost_its_last || *old == ServedFrontend::default(),
    }
}
