//! Which nodes that are not ready lose their pods, and how fast: the taint NoExecute, zone by zone.
//!
//! ```text
//!  zone        what is not ready in it          taints NoExecute
//!  normal      less than 55 %, or up to two     one node in 10 s     (--node-eviction-rate)
//!  partial     55 % and more                    one in 100 s; in a zone of up to 50 nodes none
//!  full        every node                       as in a normal one: another zone is there to go to
//!  all zones are full                           none, and those that are there go: it is us who cannot see
//! ```
//! Source: Kubernetes documentation, "Nodes", "Rate limits on eviction"; upstream's node lifecycle controller. The rate follows from
//! the times in the taints themselves, so that an engine that is started again does not begin anew.

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::{Node, NodeCondition, Taint};
use rekindle_types::Tick;
use rekindle_types::taints::{self, NO_EXECUTE, NOT_READY, UNREACHABLE};

use super::Settings;
use crate::{Kind, Object, View};

/// Taints of nodes whose pods have to go, one at a time.
pub(super) const KEYS: [&str; 2] = [NOT_READY, UNREACHABLE];
/// So many nodes of a zone may be down together without it being called disrupted.
const ALWAYS_NORMAL: usize = 2;
const REGION: &str = "topology.kubernetes.io/region";
const ZONE: &str = "topology.kubernetes.io/zone";

/// What is to become of a node's taint.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Sentence {
    /// Neither of the two.
    None,
    /// This one.
    Taint(&'static str),
    /// Not yet; worth another look then, or when nodes have changed.
    Waits(Option<Tick>),
}

/// How a zone does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    Normal,
    Partial,
    Full,
}

/// A zone's nodes.
#[derive(Clone, Copy, Debug, Default)]
struct Zone<'a> {
    ready: usize,
    not_ready: usize,
    /// When one of them got its taint last.
    tainted_at: Option<Tick>,
    /// Who gets it next: of those that are down and have none, the one that went down first. Nodes that go down together are
    /// looked at together, before the taint of the first is seen.
    next: Option<(Option<Tick>, &'a str)>,
}

impl Zone<'_> {
    fn state(&self, settings: &Settings) -> State {
        let all = self.ready + self.not_ready;
        if self.ready == 0 && self.not_ready > 0 {
            State::Full
        } else if self.not_ready > ALWAYS_NORMAL
            && self.not_ready * 100 >= usize::from(settings.unhealthy_zone_percent) * all
        {
            State::Partial
        } else {
            State::Normal
        }
    }
}

/// What the node's condition Ready asks for; none when it is ready, or nothing is known of it.
pub(super) fn asked_for(node: &Node) -> Option<&'static str> {
    match readiness(node)? {
        "False" => Some(NOT_READY),
        "Unknown" => Some(UNREACHABLE),
        _ => None,
    }
}

/// What the condition Ready says.
pub(super) fn readiness(node: &Node) -> Option<&str> {
    ready_condition(node).map(|ready| ready.status.as_str())
}

fn ready_condition(node: &Node) -> Option<&NodeCondition> {
    let mut conditions = node.status.iter().flat_map(|s| s.conditions.iter().flatten());
    conditions.find(|c| c.type_ == "Ready")
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
    taints::of_node(node)
        .iter()
        .find(|taint| taint.effect == NO_EXECUTE && KEYS.contains(&taint.key.as_str()))
}

/// What is to become of the node.
pub(super) fn sentence(view: &View, node: &Node, now: Tick) -> Sentence {
    let Some(key) = asked_for(node) else { return Sentence::None };
    let settings = view.node_settings();
    let zones = zones(view);
    if zones.values().all(|zone| zone.state(settings) == State::Full) {
        return Sentence::None;
    }
    if present(node).is_some() {
        return Sentence::Taint(key); // it changes its name at most
    }
    let zone = zones.get(&zone_of(node)).copied().unwrap_or_default();
    let interval = match zone.state(settings) {
        State::Normal | State::Full => settings.eviction_interval,
        State::Partial if zone.ready + zone.not_ready > settings.large_zone_nodes => {
            settings.eviction_interval_disrupted
        }
        State::Partial => return Sentence::Waits(None),
    };
    match zone.tainted_at.map(|at| at + interval) {
        Some(next) if next > now => Sentence::Waits(Some(next)),
        Some(_) | None if zone.next == Some(turn(node)) => Sentence::Taint(key),
        Some(_) | None => Sentence::Waits(None),
    }
}

/// In which order nodes of a zone that are down get their taints.
fn turn(node: &Node) -> (Option<Tick>, &str) {
    let since = ready_condition(node).and_then(|ready| ready.last_transition_time.as_ref());
    (since.map(Tick::from), node.metadata.name.as_deref().unwrap_or_default())
}

fn zones(view: &View) -> BTreeMap<(&str, &str), Zone<'_>> {
    let mut zones: BTreeMap<(&str, &str), Zone<'_>> = BTreeMap::new();
    for (_, object) in view.of_kind(Kind::Node) {
        let Object::Node(node) = object else { continue };
        let zone = zones.entry(zone_of(node)).or_default();
        match readiness(node) {
            Some("True") => zone.ready += 1,
            Some(_) | None => zone.not_ready += 1,
        }
        let tainted_at = present(node).and_then(|t| t.time_added.as_ref()).map(Tick::from);
        zone.tainted_at = zone.tainted_at.max(tainted_at);
        if asked_for(node).is_some() && present(node).is_none() {
            let turn = turn(node);
            zone.next = Some(zone.next.map_or(turn, |next| next.min(turn)));
        }
    }
    zones
}
