//! Which nodes that are not ready lose their pods, and how fast: the taint NoExecute, zone by zone.
//!
//! ```text
//!  zone        what is not ready in it          taints NoExecute
//!  normal      less than 55 %, or up to two     one node in 10 s     (--node-eviction-rate)
//!  partial     55 % and more                    one in 100 s; in a zone of up to 50 nodes none
//!  full        every node                       as in a normal one: another zone is there to go to
//!  all zones are full                           none, and those that are there go: it is us who cannot see
//! ```
//! Source: Kubernetes documentation, "Nodes", "Rate limits on eviction"; upstream's node lifecycle
//! controller. The rate follows from the times in the taints themselves, so that an engine that is
//! started again does not begin anew.

use std::collections::{BTreeMap, BTreeSet};

use k8s_openapi::api::core::v1::{Node, Taint};
use rekindle_types::labels::{REGION, ZONE};
use rekindle_types::taints::{self, NO_EXECUTE, NOT_READY, UNREACHABLE};
use rekindle_types::{Tick, nodes};

use super::NodeLifecycleSettings;
use crate::{ClusterView, ViewObject};

/// Taints of nodes whose pods have to go, one at a time.
pub(super) const KEYS: [&str; 2] = [NOT_READY, UNREACHABLE];
/// So many nodes of a zone may be down together without it being called disrupted.
const ALWAYS_NORMAL: usize = 2;

/// What is to become of a node's taint.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum TaintDecision {
    /// Neither of the two.
    None,
    /// This one.
    Taint(&'static str),
    /// Not yet; worth another look then, or when nodes have changed.
    Waits(Option<Tick>),
}

/// How a zone does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum ZoneState {
    Normal,
    Partial,
    Full,
}

/// The zones and what of their nodes counts here, kept up to date node by node: when hundreds go
/// down together each of them asks.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Zones {
    by_name: BTreeMap<(String, String), ZoneNodes>,
}

/// A zone's nodes.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct ZoneNodes {
    ready: usize,
    not_ready: usize,
    /// When those that have their taint got it.
    tainted: BTreeSet<(Tick, String)>,
    /// Those that are down and have none, the one that went down first before the others: it gets
    /// its taint next. Nodes that go down together are looked at together, before the taint of the
    /// first is seen.
    waiting: BTreeSet<Turn>,
}

/// When a node went down, and its name.
type Turn = (Option<Tick>, String);

impl Zones {
    /// A node came, changed or went.
    pub(crate) fn follow(&mut self, before: Option<&ViewObject>, after: Option<&ViewObject>) {
        if let Some(ViewObject::Node(node)) = before {
            self.remove(node);
        }
        if let Some(ViewObject::Node(node)) = after {
            self.insert(node);
        }
    }

    fn insert(&mut self, node: &Node) {
        let (region, zone) = zone_of(node);
        let zone = self.by_name.entry((region.to_owned(), zone.to_owned())).or_default();
        *zone.count_of(node) += 1;
        zone.tainted.extend(tainted(node));
        zone.waiting.extend(waits(node));
    }

    /// A node is there no more, or not as it was here.
    pub(crate) fn remove(&mut self, node: &Node) {
        let (region, zone) = zone_of(node);
        let name = (region.to_owned(), zone.to_owned());
        let Some(zone) = self.by_name.get_mut(&name) else { return };
        *zone.count_of(node) -= 1;
        if let Some(tainted) = tainted(node) {
            zone.tainted.remove(&tainted);
        }
        if let Some(turn) = waits(node) {
            zone.waiting.remove(&turn);
        }
        if zone.ready + zone.not_ready == 0 {
            self.by_name.remove(&name);
        }
    }
}

impl ZoneNodes {
    fn count_of(&mut self, node: &Node) -> &mut usize {
        match nodes::readiness(node) {
            Some("True") => &mut self.ready,
            Some(_) | None => &mut self.not_ready,
        }
    }

    /// When a node of it got its taint last. A time that is not yet was not written here, or by
    /// another clock, and holds nobody up.
    fn last_tainted(&self, now: Tick) -> Option<Tick> {
        self.tainted.iter().rev().map(|(at, _)| *at).find(|at| *at <= now)
    }

    fn state(&self, settings: &NodeLifecycleSettings) -> ZoneState {
        let all = self.ready + self.not_ready;
        if self.ready == 0 && self.not_ready > 0 {
            ZoneState::Full
        } else if self.not_ready > ALWAYS_NORMAL
            && self.not_ready.saturating_mul(1_000_000)
                >= all.saturating_mul(
                    usize::try_from(settings.unhealthy_zone_ppm).unwrap_or(usize::MAX),
                )
        {
            ZoneState::Partial
        } else {
            ZoneState::Normal
        }
    }
}

/// What the node's condition Ready asks for; none when it is ready, or nothing is known of it.
pub(super) fn asked_for(node: &Node) -> Option<&'static str> {
    match nodes::readiness(node)? {
        "False" => Some(NOT_READY),
        "Unknown" => Some(UNREACHABLE),
        _ => None,
    }
}

/// What names a node's zone.
pub(super) fn zone_of(node: &Node) -> (&str, &str) {
    let label = |key: &str| {
        let labels = node.metadata.labels.as_ref();
        labels.and_then(|labels| labels.get(key)).map_or("", String::as_str)
    };
    (label(REGION), label(ZONE))
}

/// The taint of these two that the node has.
pub(super) fn present(node: &Node) -> Option<&Taint> {
    taints::node_taints(node)
        .iter()
        .find(|taint| taint.effect == NO_EXECUTE && KEYS.contains(&taint.key.as_str()))
}

/// What is to become of the node.
pub(super) fn sentence(view: &ClusterView, node: &Node, now: Tick) -> TaintDecision {
    let Some(key) = asked_for(node) else { return TaintDecision::None };
    let settings = view.node_settings();
    let zones = &view.memories().zones.by_name;
    if zones.values().all(|zone| zone.state(settings) == ZoneState::Full) {
        return TaintDecision::None;
    }
    if present(node).is_some() {
        return TaintDecision::Taint(key); // it changes its name at most
    }
    let (region, zone) = zone_of(node);
    let Some(zone) = zones.get(&(region.to_owned(), zone.to_owned())) else {
        return TaintDecision::Waits(None);
    };
    let interval = match zone.state(settings) {
        ZoneState::Normal | ZoneState::Full => settings.eviction_interval,
        ZoneState::Partial if zone.ready + zone.not_ready > settings.large_zone_nodes => {
            settings.eviction_interval_disrupted
        }
        ZoneState::Partial => return TaintDecision::Waits(None),
    };
    match zone.last_tainted(now).map(|at| at + interval) {
        Some(next) if next > now => TaintDecision::Waits(Some(next)),
        Some(_) | None if zone.waiting.first() == waits(node).as_ref() => TaintDecision::Taint(key),
        Some(_) | None => TaintDecision::Waits(None),
    }
}

/// When the node got its taint.
fn tainted(node: &Node) -> Option<(Tick, String)> {
    let at = present(node)?.time_added.as_ref()?;
    Some((Tick::from(at), node.metadata.name.clone().unwrap_or_default()))
}

/// The turn of a node that is down and has no taint.
fn waits(node: &Node) -> Option<Turn> {
    if asked_for(node).is_none() || present(node).is_some() {
        return None;
    }
    let since = nodes::ready_condition(node).and_then(|ready| ready.last_transition_time.as_ref());
    Some((since.map(Tick::from), node.metadata.name.clone().unwrap_or_default()))
}
