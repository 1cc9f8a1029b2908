//! What is known of a node becomes taints: a node that lacks memory, disk or processes, that is not ready, not heard of (`silence`)
//! or cordoned gets no further pods. What taints do to pods that run is in `eviction`.
//!
//! ```text
//!  condition MemoryPressure=True ─► taint node.kubernetes.io/memory-pressure:NoSchedule    (DiskPressure, PIDPressure alike)
//!  condition MemoryPressure=False ─► the taint goes
//!  condition Ready=False ─► taint node.kubernetes.io/not-ready:NoSchedule;  Ready=Unknown ─► node.kubernetes.io/unreachable:NoSchedule
//!  spec.unschedulable ─► taint node.kubernetes.io/unschedulable:NoSchedule
//!  a taint NoExecute without timeAdded ─► timeAdded: now: from then on tolerationSeconds are counted
//! ```
//! Source: Kubernetes documentation, "Taints and Tolerations", "Taint Nodes by Condition". Other taints of a node are left alone.
//! No taint NoExecute is put on a node that is silent: its pods are left to run.

pub(crate) mod eviction;
mod silence;

use std::collections::BTreeSet;

use k8s_openapi::api::core::v1::{Node, Taint};
use rekindle_types::Tick;
use serde_json::json;
use silence::Hearing;

pub use silence::Settings;

use crate::plan::{Part, Write};
use crate::{Change, Key, Kind, NamespacedName, Object, ObjectId, Plan, View, pods};

/// Conditions, what they say, and the taints that follow.
const TAINTS: [(&str, &str, &str); 5] = [
    ("Ready", "False", "node.kubernetes.io/not-ready"),
    ("Ready", "Unknown", "node.kubernetes.io/unreachable"),
    ("MemoryPressure", "True", "node.kubernetes.io/memory-pressure"),
    ("DiskPressure", "True", "node.kubernetes.io/disk-pressure"),
    ("PIDPressure", "True", "node.kubernetes.io/pid-pressure"),
];
/// The taint of a cordoned node.
const UNSCHEDULABLE: &str = "node.kubernetes.io/unschedulable";
const EFFECT: &str = "NoSchedule";
/// The effect that ends pods.
const NO_EXECUTE: &str = "NoExecute";

pub(crate) fn affected(_view: &View, change: &Change, keys: &mut BTreeSet<Key>) {
    let key = || Key::NodeLifecycle(change.id.name.name.clone());
    match (&change.before, &change.after) {
        // from then on it looks again by itself; a renewal wakes nobody
        (None, Some(Object::Lease(_) | Object::Node(_))) => {
            keys.insert(key());
        }
        // at whatever time: only whether something is to be changed matters here
        (_, Some(Object::Node(node))) if wanted(node, Tick::ZERO).is_some() => {
            keys.insert(key());
        }
        _ => {}
    }
}

pub(crate) fn reconcile(view: &View, name: &str, now: Tick) -> Plan {
    let mut plan = Plan::default();
    let name = NamespacedName::new("", name);
    let Some(node) = view.node(&name) else { return plan };
    match silence::hearing(view, &name.name, now) {
        Hearing::Heard(None) => {}
        Hearing::Heard(Some(next)) => plan.look_again(next),
        Hearing::Silent => silence::give_up(&Object::Node(node.clone()), node, now, &mut plan),
    }
    if plan.writes().next().is_some() {
        return plan; // what is written becomes taints when it is seen
    }
    if let Some(taints) = wanted(node, now) {
        plan.then(Write::Patch {
            id: ObjectId::new(Kind::Node, name),
            part: Part::Whole,
            patch: json!({
                "metadata": {"uid": node.metadata.uid, "resourceVersion": node.metadata.resource_version},
                "spec": {"taints": taints},
            }),
        });
    }
    plan
}

fn taints_of(node: &Node) -> &[Taint] {
    node.spec.as_ref().and_then(|spec| spec.taints.as_deref()).unwrap_or_default()
}

/// The taints as they should be; `None` when they are.
fn wanted(node: &Node, now: Tick) -> Option<Vec<Taint>> {
    let conditions = node.status.iter().flat_map(|status| status.conditions.iter().flatten());
    let says = |type_: &str, status: &str| {
        conditions.clone().any(|c| c.type_ == type_ && c.status == status)
    };
    let is_cordoned = node.spec.as_ref().and_then(|spec| spec.unschedulable) == Some(true);
    let of_conditions = TAINTS.map(|(type_, status, key)| (says(type_, status), key));
    let present = taints_of(node);
    let mut taints = present.to_vec();
    for (applies, key) in of_conditions.into_iter().chain([(is_cordoned, UNSCHEDULABLE)]) {
        let is_this = |taint: &Taint| taint.key == key && taint.effect == EFFECT;
        match (applies, present.iter().any(is_this)) {
            (true, false) => taints.push(Taint {
                key: key.to_owned(),
                effect: EFFECT.to_owned(),
                ..Taint::default()
            }),
            (false, true) => taints.retain(|taint| !is_this(taint)),
            (true, true) | (false, false) => {}
        }
    }
    for taint in taints.iter_mut().filter(|taint| taint.effect == NO_EXECUTE) {
        taint.time_added.get_or_insert_with(|| pods::whole_seconds(now));
    }
    (taints != present).then_some(taints)
}
