//! Connections that wait until their Service has an endpoint again (docs/adr/0060).

use std::collections::BTreeSet;

use rekindle_net::rules::HeldPacket;
use rekindle_services::{ClientView, RuleChanges, RuleElement, ServiceRouter};
use tokio::time::Instant;

/// Their first packets, which the kernel keeps, and until when.
#[derive(Debug, Default)]
pub(super) struct Holds {
    /// In the order in which they came.
    packets: Vec<HeldPacket>,
    /// When those that wait for a frontend have waited long enough.
    ends: BTreeSet<(Instant, ClientView)>,
}

impl Holds {
    /// When the next ones have waited long enough.
    pub(super) fn next_end(&self) -> Option<Instant> {
        self.ends.first().map(|(at, _)| *at)
    }

    /// The frontend, and of which clients, for which that is so.
    pub(super) fn pop_end(&mut self) -> Option<ClientView> {
        self.ends.pop_first().map(|(_, view)| view)
    }

    /// Notes where these changes have connections begin to wait, and where they do so no more.
    pub(super) fn note(&mut self, changes: &RuleChanges, router: &ServiceRouter) {
        let ended: BTreeSet<ClientView> = held(&changes.removed).collect();
        self.ends.retain(|(_, view)| !ended.contains(view));
        for view in held(&changes.added) {
            let time = router.hold(view).unwrap_or_default();
            self.ends.insert((Instant::now() + time.to_std(), view));
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
    held(&changes.removed).next().is_some()
}

fn waits(packet: &HeldPacket, router: &ServiceRouter) -> bool {
    packet.frontends().any(|(frontend, client)| router.waits(frontend, client))
}

fn held(elements: &[RuleElement]) -> impl Iterator<Item = ClientView> {
    elements.iter().filter_map(|element| match *element {
        RuleElement::Held(view) => Some(view),
        RuleElement::Pick(..)
        | RuleElement::Endpoint(..)
        | RuleElement::Member(..)
        | RuleElement::Refused(..)
        | RuleElement::OnOtherNodes(..)
        | RuleElement::Guarded(_)
        | RuleElement::Source(..)
        | RuleElement::HostPort(_)
        | RuleElement::Hairpin(_) => None,
    })
}
