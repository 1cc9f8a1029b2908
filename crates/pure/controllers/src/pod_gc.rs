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
use rekindle_types::held::HeldPod;
use serde_json::json;

use crate::plan::{
    DeleteGrace, DeleteWrite, DependentPolicy, PatchTarget, PlannedWrite, WriteOperation,
};
use crate::{
    ClusterView, ControllerKey, NamespacedName, ObjectChange, ObjectId, ResourceKind, ViewObject,
    WritePlan, node_lifecycle, pods,
};
pub(crate) use lost_nodes::LostNodes;

/// How many pods that have ended are kept (upstream's default of `--terminated-pod-gc-threshold`).
const FINISHED_MAX: usize = 12_500;

pub(crate) fn affected(
    view: &ClusterView,
    change: &ObjectChange,
    keys: &mut BTreeSet<ControllerKey>,
) {
    if change.sides().any(|side| matches!(side, ViewObject::Pod(pod) if pods::is_finished(pod))) {
        let surplus = surplus(view).map(|pod| NamespacedName::from_meta(&pod.metadata));
        keys.extend(surplus.map(ControllerKey::PodGc));
    }
    match &change.after {
        Some(ViewObject::Pod(pod)) => {
            let is_lost = pods::node(pod).is_some_and(|node| !has_node(view, node));
            let is_unbound = pods::node(pod).is_none() && pods::is_terminating(pod);
            if is_lost || is_unbound || is_out_of_service(view, pod) {
                keys.insert(ControllerKey::PodGc(change.id.name.clone()));
            }
        }
        Some(ViewObject::Node(node)) if node_lifecycle::is_out_of_service(node) => {
            let there = view.pods_on(&change.id.name.name).filter(|pod| pods::is_terminating(pod));
            keys.extend(
                there.map(|pod| ControllerKey::PodGc(NamespacedName::from_meta(&pod.metadata))),
            );
        }
        None if change.id.kind == ResourceKind::Node => {
            let orphans = view.pods_on(&change.id.name.name);
            keys.extend(
                orphans.map(|pod| ControllerKey::PodGc(NamespacedName::from_meta(&pod.metadata))),
            );
        }
        _ => {}
    }
}

/// The pod that goes next because too many have ended. Its end brings the one after it.
fn surplus(view: &ClusterView) -> Option<&Arc<HeldPod>> {
    view.finished_beyond(FINISHED_MAX).find(|pod| !pods::is_terminating(pod))
}

/// True for a pod that is being deleted and whose node will not answer for it any more.
fn is_out_of_service(view: &ClusterView, pod: &HeldPod) -> bool {
    let node = || pods::node(pod).and_then(|node| view.node(node));
    pods::is_terminating(pod) && node().is_some_and(|node| node_lifecycle::is_out_of_service(node))
}

fn has_node(view: &ClusterView, name: &str) -> bool {
    view.node(name).is_some()
}

pub(crate) fn reconcile(view: &ClusterView, name: &NamespacedName, now: Tick) -> WritePlan {
    let mut plan = WritePlan::default();
    let Some(pod) = view.pod(name) else { return plan };
    let object = ViewObject::Pod(pod.clone());
    let removal = WriteOperation::Delete(DeleteWrite {
        id: object.id(),
        uid: object.uid().to_owned(),
        propagation: DependentPolicy::Default,
        grace: DeleteGrace::Now,
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
    let node_id = ObjectId::new(ResourceKind::Node, NamespacedName::new("", node));
    let Some(lost_at) = view.memories().lost_nodes.since(node) else { return plan };
    let end = lost_at + view.node_settings().missing_node_grace;
    if now < end {
        plan.look_again(end);
        return plan;
    }
    plan.then(WriteOperation::CheckAbsent { id: node_id, uid: None });
    if !pods::is_finished(pod) {
        plan.then_all(vec![failed(pod, "PodGC: node no longer exists", now)]);
    }
    plan.then(removal);
    plan
}

/// Ends a pod as Failed that never came to a node.
fn end_unbound(pod: &HeldPod) -> PlannedWrite {
    PlannedWrite::from(WriteOperation::Patch {
        id: ObjectId::new(ResourceKind::Pod, NamespacedName::from_meta(&pod.metadata)),
        part: PatchTarget::Status,
        patch: json!({"metadata": {"uid": pod.metadata.uid}, "status": {"phase": "Failed"}}),
    })
}

/// Ends the pod as Failed, with the condition that names why (DisruptionTarget).
fn failed(pod: &HeldPod, why: &str, now: Tick) -> PlannedWrite {
    let conditions = pods::conditions_with_disruption(pod, "DeletionByPodGC", why, now);
    PlannedWrite::from(WriteOperation::Patch {
        id: ObjectId::new(ResourceKind::Pod, NamespacedName::from_meta(&pod.metadata)),
        part: PatchTarget::Status,
        patch: json!({
            "metadata": {"uid": pod.metadata.uid},
            "status": {"phase": "Failed", "conditions": conditions},
        }),
    })
}

#[cfg(test)]
mod tests;
