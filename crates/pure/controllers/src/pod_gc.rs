//! Clears away pods that no node will ever answer for, and those that have ended when there are too
//! many of them.
//!
//! A pod bound to a node that does not exist (for 40 s unless set otherwise, upstream's quarantine)
//! ends as Failed and is deleted; a pod that is being deleted and was never bound is removed. So is
//! one that is being deleted on a node that is not ready and that somebody has declared out of
//! service: he vouches that nothing of it runs any more. Of pods that have ended 12,500 are kept.
//!
//! Source: Kubernetes documentation, "Pod Lifecycle", "Garbage collection of Pods"; "Non-graceful
//! node shutdown".

mod lost_nodes;

use std::collections::BTreeSet;
use std::sync::Arc;

use rekindle_types::Tick;
use rekindle_types::held::Pod;
use serde_json::json;

use crate::plan::{Delete, Grace, Part, Propagation, Step, Write};
use crate::{
    Change, Key, Kind, NamespacedName, Object, ObjectId, Plan, View, node_lifecycle, pods,
};
pub(crate) use lost_nodes::LostNodes;

/// How many pods that have ended are kept (upstream's default of `--terminated-pod-gc-threshold`).
const FINISHED_MAX: usize = 12_500;

pub(crate) fn affected(view: &View, change: &Change, keys: &mut BTreeSet<Key>) {
    if change.sides().any(|side| matches!(side, Object::Pod(pod) if pods::is_finished(pod))) {
        let surplus = surplus(view).map(|pod| NamespacedName::of(&pod.metadata));
        keys.extend(surplus.map(Key::PodGc));
    }
    match &change.after {
        Some(Object::Pod(pod)) => {
            let is_lost = pods::node(pod).is_some_and(|node| !has_node(view, node));
            let is_unbound = pods::node(pod).is_none() && pods::is_terminating(pod);
            if is_lost || is_unbound || is_out_of_service(view, pod) {
                keys.insert(Key::PodGc(change.id.name.clone()));
            }
        }
        Some(Object::Node(node)) if node_lifecycle::is_out_of_service(node) => {
            let there = view.pods_on(&change.id.name.name).filter(|pod| pods::is_terminating(pod));
            keys.extend(there.map(|pod| Key::PodGc(NamespacedName::of(&pod.metadata))));
        }
        None if change.id.kind == Kind::Node => {
            let orphans = view.pods_on(&change.id.name.name);
            keys.extend(orphans.map(|pod| Key::PodGc(NamespacedName::of(&pod.metadata))));
        }
        _ => {}
    }
}

/// The pod that goes next because too many have ended. Its end brings the one after it.
fn surplus(view: &View) -> Option<&Arc<Pod>> {
    view.finished_beyond(FINISHED_MAX).find(|pod| !pods::is_terminating(pod))
}

/// True for a pod that is being deleted and whose node will not answer for it any more.
fn is_out_of_service(view: &View, pod: &Pod) -> bool {
    let node = || pods::node(pod).and_then(|node| view.node(node));
    pods::is_terminating(pod) && node().is_some_and(|node| node_lifecycle::is_out_of_service(node))
}

fn has_node(view: &View, name: &str) -> bool {
    view.node(name).is_some()
}

pub(crate) fn reconcile(view: &View, name: &NamespacedName, now: Tick) -> Plan {
    let mut plan = Plan::default();
    let Some(pod) = view.pod(name) else { return plan };
    let object = Object::Pod(pod.clone());
    let removal = Write::Delete(Delete {
        id: object.id(),
        uid: object.uid().to_owned(),
        propagation: Propagation::Default,
        grace: Grace::Now,
    });
    if surplus(view).is_some_and(|surplus| Arc::ptr_eq(surplus, pod)) {
        plan.then(removal);
        return plan;
    }
    let Some(node) = pods::node(pod) else {
        if pods::is_terminating(pod) {
            // Who holds it waits to see how it ended: no kubelet will say so.
            let is_held = pod.metadata.finalizers.iter().flatten().next().is_some();
            if is_held && !pods::is_finished(pod) {
                plan.then_all(vec![end_unbound(pod)]);
            }
            plan.then(removal);
        }
        return plan;
    };
    if is_out_of_service(view, pod) {
        if !pods::is_finished(pod) {
            plan.then_all(vec![failed(pod, "PodGC: node was out-of-service", now)]);
        }
        plan.then(removal);
        return plan;
    }
    if has_node(view, node) {
        return plan;
    }
    let node_id = ObjectId::new(Kind::Node, NamespacedName::new("", node));
    let Some(lost_at) = view.memories().lost_nodes.since(node) else { return plan };
    let end = lost_at + view.node_settings().missing_node_grace;
    if now < end {
        plan.look_again(end);
        return plan;
    }
    plan.then(Write::CheckAbsent { id: node_id, uid: None });
    if !pods::is_finished(pod) {
        plan.then_all(vec![failed(pod, "PodGC: node no longer exists", now)]);
    }
    plan.then(removal);
    plan
}

/// Ends a pod as Failed that never came to a node.
fn end_unbound(pod: &Pod) -> Step {
    Step::from(Write::Patch {
        id: ObjectId::new(Kind::Pod, NamespacedName::of(&pod.metadata)),
        part: Part::Status,
        patch: json!({"metadata": {"uid": pod.metadata.uid}, "status": {"phase": "Failed"}}),
    })
}

/// Ends the pod as Failed, with the condition that names why (DisruptionTarget).
fn failed(pod: &Pod, why: &str, now: Tick) -> Step {
    let conditions = pods::conditions_with_disruption(pod, "DeletionByPodGC", why, now);
    Step::from(Write::Patch {
        id: ObjectId::new(Kind::Pod, NamespacedName::of(&pod.metadata)),
        part: Part::Status,
        patch: json!({
            "metadata": {"uid": pod.metadata.uid},
            "status": {"phase": "Failed", "conditions": conditions},
        }),
    })
}

#[cfg(test)]
mod tests;
