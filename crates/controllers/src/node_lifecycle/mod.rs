//! What a node says of itself becomes taints: a node that lacks memory, disk or processes gets no further pods. What taints do to
//! pods that run is in `eviction`.
//!
//! ```text
//!  condition MemoryPressure=True ─► taint node.kubernetes.io/memory-pressure:NoSchedule    (DiskPressure, PIDPressure alike)
//!  condition MemoryPressure=False ─► the taint goes
//!  a taint NoExecute without timeAdded ─► timeAdded: now: from then on tolerationSeconds are counted
//! ```
//! Source: Kubernetes documentation, "Taints and Tolerations", "Taint Nodes by Condition". Other taints of a node are left alone;
//! whether it is ready the scheduler sees for itself.

pub(crate) mod eviction;

use std::collections::BTreeSet;

use k8s_openapi::api::core::v1::{Node, Taint};
use rekindle_types::Tick;
use serde_json::json;

use crate::plan::{Part, Write};
use crate::{Change, Key, Kind, NamespacedName, Object, ObjectId, Plan, View, pods};

/// Conditions and their taints.
const TAINTS: [(&str, &str); 3] = [
    ("MemoryPressure", "node.kubernetes.io/memory-pressure"),
    ("DiskPressure", "node.kubernetes.io/disk-pressure"),
    ("PIDPressure", "node.kubernetes.io/pid-pressure"),
];
const EFFECT: &str = "NoSchedule";
/// The effect that ends pods.
const NO_EXECUTE: &str = "NoExecute";

pub(crate) fn affected(_view: &View, change: &Change, keys: &mut BTreeSet<Key>) {
    if let Some(Object::Node(node)) = &change.after
        // at whatever time: only whether something is to be changed matters here
        && wanted(node, Tick::ZERO).is_some()
    {
        keys.insert(Key::NodeLifecycle(change.id.name.name.clone()));
    }
}

pub(crate) fn reconcile(view: &View, name: &str, now: Tick) -> Plan {
    let mut plan = Plan::default();
    let name = NamespacedName::new("", name);
    let Some(node) = view.node(&name) else { return plan };
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
    let is_true = |type_: &str| conditions.clone().any(|c| c.type_ == type_ && c.status == "True");
    let present = taints_of(node);
    let mut taints = present.to_vec();
    for (condition, key) in TAINTS {
        let is_this = |taint: &Taint| taint.key == key && taint.effect == EFFECT;
        match (is_true(condition), present.iter().any(is_this)) {
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
