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
use silence::NodeLiveness;
use zones::TaintDecision;

pub(crate) use heartbeats::NodeHeartbeats;
pub use silence::NodeLifecycleSettings;
pub(crate) use zones::Zones;

use crate::plan::{PatchTarget, WriteOperation};
use crate::{
    ClusterView, ControllerKey, NamespacedName, ObjectChange, ObjectId, ResourceKind, ViewObject,
    WritePlan,
};

pub(crate) fn affected(
    view: &ClusterView,
    change: &ObjectChange,
    keys: &mut BTreeSet<ControllerKey>,
) {
    let key = || ControllerKey::NodeLifecycle(change.id.name.name.clone());
    match (&change.before, &change.after) {
        // from then on it looks again by itself; a renewal wakes nobody
        (None, Some(ViewObject::Lease(_) | ViewObject::Node(_))) => {
            keys.insert(key());
        }
        // at whatever time: only whether something is to be changed matters here
        (_, Some(ViewObject::Node(node)))
            if by_conditions(node, Tick::ZERO) != taints::node_taints(node) =>
        {
            keys.insert(key());
        }
        _ => {}
    }
    if health(change.before.as_ref()) != health(change.after.as_ref()) {
        // what becomes of the others that are down depends on how many are
        for (id, object) in view.of_kind(ResourceKind::Node) {
            let ViewObject::Node(node) = object else { continue };
            if zones::asked_for(node).is_some() || zones::present(node).is_some() {
                keys.insert(ControllerKey::NodeLifecycle(id.name.name.clone()));
            }
        }
    }
}

/// What of a node counts for the taints of others, and for its own; none for what is no node.
type Health<'a> = Option<((&'a str, &'a str), Option<&'a str>, Option<&'a str>)>;

fn health(object: Option<&ViewObject>) -> Health<'_> {
    let Some(ViewObject::Node(node)) = object else { return None };
    let tainted = zones::present(node).map(|taint| taint.key.as_str());
    Some((zones::zone_of(node), nodes::readiness(node), tainted))
}

pub(crate) fn reconcile(view: &ClusterView, name: &str, now: Tick) -> WritePlan {
    let mut plan = WritePlan::default();
    let Some(node) = view.node(name) else { return plan };
    match silence::hearing(view, name, now) {
        NodeLiveness::Heard(None) => {}
        NodeLiveness::Heard(Some(next)) => plan.look_again(next),
        NodeLiveness::Silent => {
            silence::give_up(&ViewObject::Node(node.clone()), node, now, &mut plan);
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
    if taints != taints::node_taints(node) {
        plan.then(WriteOperation::Patch {
            id: ObjectId::new(ResourceKind::Node, NamespacedName::new("", name)),
            part: PatchTarget::Whole,
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
        && taints::node_taints(node).iter().any(|taint| taint.key == OUT_OF_SERVICE)
}

/// The taints as they should be, and when another look at them is due.
fn wanted(view: &ClusterView, node: &Node, now: Tick) -> (Vec<Taint>, Option<Tick>) {
    let mut taints = by_conditions(node, now);
    let is_of_two = |t: &Taint| t.effect == NO_EXECUTE && zones::KEYS.contains(&t.key.as_str());
    let look = match zones::sentence(view, node, now) {
        TaintDecision::None => {
            taints.retain(|taint| !is_of_two(taint));
            None
        }
        TaintDecision::Taint(key) => {
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
        TaintDecision::Waits(look) => look,
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
    let present = taints::node_taints(node);
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
