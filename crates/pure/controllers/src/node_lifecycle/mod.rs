//! What is known of a node becomes taints: a node that lacks memory, disk or processes, that is not
//! ready, not heard of (`silence`) or cordoned gets no further pods. What taints do to pods that
//! run is in `eviction`, what is said of nodes that come and go in `news`.
//!
//! ```text
//!  condition MemoryPressure=True ─► taint node.kubernetes.io/memory-pressure:NoSchedule    (DiskPressure, PIDPressure alike)
//!  condition MemoryPressure=False ─► the taint goes
//!  condition Ready=False ─► taint node.kubernetes.io/not-ready:NoSchedule;  Ready=Unknown ─► node.kubernetes.io/unreachable:NoSchedule
//!  the same, as fast as `zones` lets it ─► the same taints with effect NoExecute, which go when the node is back;
//!      one that takes the other's place keeps its timeAdded
//!  spec.unschedulable ─► taint node.kubernetes.io/unschedulable:NoSchedule
//!  a taint NoExecute without timeAdded ─► timeAdded: now: from then on tolerationSeconds are counted
//! ```
//! Source: Kubernetes documentation, "Taints and Tolerations", "Taint Nodes by Condition". Other
//! taints of a node are left alone.

pub(crate) mod eviction;
mod heartbeats;
pub(crate) mod news;
mod not_ready;
mod silence;
mod zones;

use std::collections::BTreeSet;

use k8s_openapi::api::core::v1::{Node, Taint};
use rekindle_types::taints::{self, NO_EXECUTE, NO_SCHEDULE, OUT_OF_SERVICE, UNSCHEDULABLE};
use rekindle_types::{Tick, nodes};
use serde_json::json;
use silence::Hearing;
use zones::Sentence;

pub(crate) use heartbeats::Heartbeats;
pub use silence::Settings;
pub(crate) use zones::Zones;

use crate::plan::{Part, Write};
use crate::{Change, Key, Kind, NamespacedName, Object, ObjectId, Plan, View};

pub(crate) fn affected(view: &View, change: &Change, keys: &mut BTreeSet<Key>) {
    let key = || Key::NodeLifecycle(change.id.name.name.clone());
    match (&change.before, &change.after) {
        // from then on it looks again by itself; a renewal wakes nobody
        (None, Some(Object::Lease(_) | Object::Node(_))) => {
            keys.insert(key());
        }
        // at whatever time: only whether something is to be changed matters here
        (_, Some(Object::Node(node)))
            if by_conditions(node, Tick::ZERO) != taints::of_node(node) =>
        {
            keys.insert(key());
        }
        _ => {}
    }
    if health(change.before.as_ref()) != health(change.after.as_ref()) {
        // what becomes of the others that are down depends on how many are
        for (id, object) in view.of_kind(Kind::Node) {
            let Object::Node(node) = object else { continue };
            if zones::asked_for(node).is_some() || zones::present(node).is_some() {
                keys.insert(Key::NodeLifecycle(id.name.name.clone()));
            }
        }
    }
}

/// What of a node counts for the taints of others, and for its own; none for what is no node.
type Health<'a> = Option<((&'a str, &'a str), Option<&'a str>, Option<&'a str>)>;

fn health(object: Option<&Object>) -> Health<'_> {
    let Some(Object::Node(node)) = object else { return None };
    let tainted = zones::present(node).map(|taint| taint.key.as_str());
    Some((zones::zone_of(node), nodes::readiness(node), tainted))
}

pub(crate) fn reconcile(view: &View, name: &str, now: Tick) -> Plan {
    let mut plan = Plan::default();
    let Some(node) = view.node(name) else { return plan };
    match silence::hearing(view, name, now) {
        Hearing::Heard(None) => {}
        Hearing::Heard(Some(next)) => plan.look_again(next),
        Hearing::Silent => {
            silence::give_up(&Object::Node(node.clone()), node, now, &mut plan);
            let is_news = plan.writes().next().is_some();
            not_ready::mark(view, name, now, &mut plan);
            if is_news {
                return plan; // what is written becomes taints when it is seen
            }
        }
    }
    let (taints, look) = wanted(view, node, now);
    if let Some(at) = look {
        plan.look_again(at);
    }
    if taints != taints::of_node(node) {
        plan.then(Write::Patch {
            id: ObjectId::new(Kind::Node, NamespacedName::new("", name)),
            part: Part::Whole,
            patch: json!({
                "metadata": {"uid": node.metadata.uid, "resourceVersion": node.metadata.resource_version},
                "spec": {"taints": taints},
            }),
        });
    }
    plan
}

/// True for a node that is not ready and that somebody has declared out of service, by a taint:
/// nothing of it runs any more.
pub(crate) fn is_out_of_service(node: &Node) -> bool {
    zones::asked_for(node).is_some()
        && taints::of_node(node).iter().any(|taint| taint.key == OUT_OF_SERVICE)
}

/// The taints as they should be, and when another look at them is due.
fn wanted(view: &View, node: &Node, now: Tick) -> (Vec<Taint>, Option<Tick>) {
    let mut taints = by_conditions(node, now);
    let is_of_two = |t: &Taint| t.effect == NO_EXECUTE && zones::KEYS.contains(&t.key.as_str());
    let look = match zones::sentence(view, node, now) {
        Sentence::None => {
            taints.retain(|taint| !is_of_two(taint));
            None
        }
        Sentence::Taint(key) => {
            // The time that pods have left goes on when one takes the other's place, as upstream.
            let times = taints.iter().filter(|taint| is_of_two(taint));
            let since = times.filter_map(|taint| taint.time_added.as_ref().map(Tick::from)).min();
            taints.retain(|taint| !is_of_two(taint) || taint.key == key);
            if !taints.iter().any(is_of_two) {
                taints.push(Taint {
                    key: key.to_owned(),
                    effect: NO_EXECUTE.to_owned(),
                    time_added: Some(since.map_or(now, |since| since.min(now)).to_time()),
                    ..Taint::default()
                });
            }
            None
        }
        Sentence::Waits(look) => look,
    };
    (taints, look)
}

/// The taints that follow from the node alone: those with effect NoSchedule, and the times of those
/// with NoExecute.
fn by_conditions(node: &Node, now: Tick) -> Vec<Taint> {
    let conditions = node.status.iter().flat_map(|status| status.conditions.iter().flatten());
    let says = |type_: &str, status: &str| {
        conditions.clone().any(|c| c.type_ == type_ && c.status == status)
    };
    let of_conditions =
        taints::OF_CONDITIONS.map(|(type_, status, key)| (says(type_, status), key));
    let present = taints::of_node(node);
    let mut taints = present.to_vec();
    for (applies, key) in
        of_conditions.into_iter().chain([(nodes::is_cordoned(node), UNSCHEDULABLE)])
    {
        let is_this = |taint: &Taint| taint.key == key && taint.effect == NO_SCHEDULE;
        match (applies, present.iter().any(is_this)) {
            (true, false) => taints.push(Taint {
                key: key.to_owned(),
                effect: NO_SCHEDULE.to_owned(),
                ..Taint::default()
            }),
            (false, true) => taints.retain(|taint| !is_this(taint)),
            (true, true) | (false, false) => {}
        }
    }
    for taint in taints.iter_mut().filter(|taint| taint.effect == NO_EXECUTE) {
        taint.time_added.get_or_insert_with(|| now.to_time());
    }
    taints
}
