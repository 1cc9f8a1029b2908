//! Connections that wait until their Service has an endpoint again (docs/adr/0060).

use std::collections::BTreeSet;

use rekindle_net::rules::HeldPacket;
use rekindle_services::{Frontend, RuleChanges, RuleElement, ServiceRouter};
use tokio::time::Instant;

/// Their first packets, which the kernel keeps, and until when.
#[derive(Debug, Default)]
pub(super) struct Holds {
    /// In the order in which they came.
    packets: Vec<HeldPacket>,
    /// When those that wait for a frontend have waited long enough.
    ends: BTreeSet<(Instant, Frontend)>,
}

impl Holds {
    /// When the next ones have waited long enough.
    pub(super) fn next_end(&self) -> Option<Instant> {
        self.ends.first().map(|(at, _)| *at)
    }

    /// The frontend for which that is so.
    pub(super) fn pop_end(&mut self) -> Option<Frontend> {
        self.ends.pop_first().map(|(_, frontend)| frontend)
    }

    /// Notes where these changes have connections begin to wait, and where they do so no more.
    pub(super) fn note(&mut self, changes: &RuleChanges, router: &ServiceRouter) {
        let ended: BTreeSet<Frontend> = held_frontends(&changes.removed).collect();
        self.ends.retain(|(_, frontend)| !ended.contains(frontend));
        for frontend in held_frontends(&changes.added) {
            let time = router.hold(frontend).unwrap_or_default();
            self.ends.insert((Instant::now() + time.to_std(), frontend));
        }
    }

    /// Connections that have begun to wait. Answers those that need not: the rules have changed
    /// since.
    pub(super) fn add(
        &mut self,
        packets: Vec<HeldPacket>,
        router: &ServiceRouter,
    ) -> Vec<HeldPacket> {
        let (waiting, free) = packets.into_iter().partition(|packet| waits(packet, router));
        self.packets.extend::<Vec<_>>(waiting);
        free
    }

    /// Those that may go on now that the rules are as the router has them.
    pub(super) fn take_free(&mut self, router: &ServiceRouter) -> Vec<HeldPacket> {
        self.packets.extract_if(.., |packet| !waits(packet, router)).collect()
    }
}

/// Whether these changes may let connections go on.
pub(super) fn end_holds(changes: &RuleChanges) -> bool {
    held_frontends(&changes.removed).next().is_some()
}

fn waits(packet: &HeldPacket, router: &ServiceRouter) -> bool {
    packet.frontends().any(|frontend| router.hold(frontend).is_some())
}

fn held_frontends(elements: &[RuleElement]) -> impl Iterator<Item = Frontend> {
    elements.iter().filter_map(|element| match *element {
        RuleElement::Held(frontend) => Some(frontend),
        RuleElement::Pick(..)
        | RuleElement::Endpoint(..)
        | RuleElement::Member(..)
        | RuleElement::Refused(..)
        | RuleElement::Guarded(_)
        | RuleElement::Source(..)
        | RuleElement::HostPort(_)
        | RuleElement::Hairpin(_) => None,
    })
}
