//! Which revisions of a Deployment are known to have been healthy, for the rung Rollback. Pure, as
//! the controllers are.
//!
//! A revision is healthy when all replicas of its ReplicaSet have been ready for as long as the
//! ladder's window. That is noted on the ReplicaSet, once, where it outlives the pods: when the
//! revision after it fails, its own pods are gone.

use std::sync::Arc;

use k8s_openapi::api::apps::v1::ReplicaSet;
use rekindle_controllers::deployment::rollback;
use rekindle_controllers::plan::PatchTarget;
use rekindle_controllers::{
    ClusterView, NamespacedName, ObjectId, ResourceKind, ViewObject, WriteOperation, WritePlan,
    owners, pods,
};
use rekindle_ladder::RollbackTarget;
use rekindle_types::held::HeldPod;
use rekindle_types::v1alpha1::Rung;
use rekindle_types::{Tick, TickDuration};
use serde_json::json;

use crate::policies;
use crate::restart_context::RestartContext;

/// The revision that a Rollback would go back to for this pod.
pub(crate) fn target_of(view: &ClusterView, pod: &HeldPod) -> Option<RollbackTarget> {
    let owner = owners::controller_of(&pod.metadata)?;
    let Some(ViewObject::ReplicaSet(set)) = view.by_uid(&owner.uid) else { return None };
    let rollback = rollback::target(view, set).ok()?;
    let deployment = rollback.deployment.metadata.name.clone().unwrap_or_default();
    Some(RollbackTarget { deployment, revision: rollback.revision() })
}

/// Notes on a ReplicaSet that it has been healthy, when a ladder with the rung Rollback will want
/// to know.
pub(crate) fn prove(context: &RestartContext<'_>, name: &NamespacedName, now: Tick) -> WritePlan {
    let view = context.view;
    let mut plan = WritePlan::default();
    let Some(set) = view.replica_set(name).filter(|set| !rollback::was_healthy(set)) else {
        return plan;
    };
    let uid = set.metadata.uid.as_deref().unwrap_or_default();
    // first whether anybody will want to know: of a thousand pods one tells that
    let mut all = view.pods_of(uid).filter(|pod| pods::is_active(pod));
    let Some(first) = all.next() else { return plan };
    let Some(window) = rollback_window(context, first) else { return plan };
    let active: Vec<&Arc<HeldPod>> = std::iter::once(first).chain(all).collect();
    let wanted = usize::try_from(set.spec.replicas.unwrap_or(1)).unwrap_or(0);
    let Some(since) = ready_since(&active).filter(|_| active.len() == wanted) else { return plan };
    if now.since(since) < window {
        plan.look_again(since + window);
    } else {
        plan.then(note(set, name, since));
    }
    plan
}

/// The window of the pod's ladder, if it lists Rollback.
fn rollback_window(context: &RestartContext<'_>, pod: &HeldPod) -> Option<TickDuration> {
    let policy = policies::policy_of_pod(context, pod).ok()??;
    policy.steps.iter().any(|step| step.rung == Rung::Rollback).then_some(policy.window)
}

/// Since when all of them have been ready; none when one is not.
fn ready_since(pods: &[&Arc<HeldPod>]) -> Option<Tick> {
    let mut latest = None;
    for pod in pods {
        let ready = pods::condition(pod, "Ready").filter(|c| c.status == "True")?;
        latest = latest.max(Some(Tick::from(ready.last_transition_time.as_ref()?)));
    }
    latest
}

fn note(set: &ReplicaSet, name: &NamespacedName, since: Tick) -> WriteOperation {
    let patch = json!({"metadata": {
        "uid": set.metadata.uid,
        "annotations": {rollback::HEALTHY: since.to_time()},
    }});
    let id = ObjectId::new(ResourceKind::ReplicaSet, name.clone());
    WriteOperation::Patch { id, part: PatchTarget::Whole, patch }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a test says by failing what it expected")]
mod tests;
