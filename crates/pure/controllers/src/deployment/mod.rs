//! The Deployment controller: rolls a Deployment's pods from one template to the next through
//! ReplicaSets.
//!
//! Source of behaviour: the API reference of apps/v1 Deployment and upstream's controller. Each
//! look at a Deployment makes one step towards its end: the answers to the step's writes change the
//! view, and the change brings the next look.
//!
//! ```text
//!   reconcile ─► paused, or replicas changed? ─► scale proportionally ─► status
//!             └► RollingUpdate: new up within maxSurge, else unhealthy old and then old down within maxUnavailable
//!             └► Recreate: old down, wait until their pods are gone, new up
//! ```

mod annotations;
mod conditions;
mod fenceposts;
mod history;
mod new_set;
mod recreate;
pub mod rollback;
mod rolling;
mod rollout;
mod scaling;
mod status;
mod template;

pub(crate) use annotations::LAST_APPLIED;

use std::collections::BTreeSet;
use std::sync::Arc;

use k8s_openapi::api::apps::v1::{Deployment, ReplicaSet};
use rekindle_types::{Tick, labels};

use crate::plan::PlannedWrite;
use crate::replica_set::{OwnershipClaim, claim};
use crate::{
    ClusterView, ControllerKey, NamespacedName, ObjectChange, ResourceKind, ViewObject, WritePlan,
    owners,
};
use rollout::Rollout;

/// `source.component` of its events.
const COMPONENT: &str = "deployment-controller";

/// The Deployments that a change concerns.
pub(crate) fn affected(
    view: &ClusterView,
    change: &ObjectChange,
    keys: &mut BTreeSet<ControllerKey>,
) {
    match change.id.kind {
        ResourceKind::Deployment => {
            keys.insert(ControllerKey::Deployment(change.id.name.clone()));
        }
        ResourceKind::ReplicaSet => {
            for side in change.sides() {
                match owners::controller_of(side.meta()) {
                    Some(owner) => keys.extend(by_uid(view, &owner.uid)),
                    None => keys.extend(candidates(view, side)),
                }
            }
        }
        // Recreate waits for the old pods to be gone; a ReplicaSet's status alone does not show a
        // terminating pod's end.
        ResourceKind::Pod if change.is_removal() || is_finishing(change) => {
            let set = owners::controller_of(change.latest().meta())
                .and_then(|owner| view.by_uid(&owner.uid));
            if let Some(ViewObject::ReplicaSet(set)) = set
                && let Some(owner) = owners::controller_of(&set.metadata)
            {
                keys.extend(by_uid(view, &owner.uid));
            }
        }
        _ => {}
    }
}

/// True when a pod has just ended for good.
fn is_finishing(change: &ObjectChange) -> bool {
    let finished = |side: &Option<ViewObject>| matches!(side, Some(ViewObject::Pod(pod)) if crate::pods::is_finished(pod));
    finished(&change.after) && !finished(&change.before)
}

fn by_uid(view: &ClusterView, uid: &str) -> Option<ControllerKey> {
    match view.by_uid(uid) {
        Some(ViewObject::Deployment(d)) => {
            Some(ControllerKey::Deployment(NamespacedName::from_meta(&d.metadata)))
        }
        _ => None,
    }
}

/// The Deployments that would adopt this ReplicaSet.
fn candidates<'a>(
    view: &'a ClusterView,
    set: &'a ViewObject,
) -> impl Iterator<Item = ControllerKey> + 'a {
    let namespace = set.meta().namespace.as_deref().unwrap_or_default();
    view.in_namespace(ResourceKind::Deployment, namespace).filter_map(move |object| match object {
        ViewObject::Deployment(d) if selects(d, set) => {
            Some(ControllerKey::Deployment(NamespacedName::from_meta(&d.metadata)))
        }
        _ => None,
    })
}

/// True when the Deployment's selector matches the object's labels. An empty selector selects
/// nothing here.
fn selects(deployment: &Deployment, object: &ViewObject) -> bool {
    let selector = &deployment.spec.selector;
    !labels::is_empty(selector) && labels::matches(selector, object.meta().labels.as_ref())
}

/// What is to be done for a Deployment.
pub(crate) fn reconcile(view: &ClusterView, name: &NamespacedName, now: Tick) -> WritePlan {
    let mut plan = WritePlan::default();
    let Some(deployment) = view.deployment(name) else { return plan };
    let sets = claim_sets(view, deployment, &mut plan);
    if !plan.batches.is_empty() {
        return plan; // ReplicaSets are being adopted or let go: the answers bring us here again
    }
    let mut rollout = Rollout::new(view, deployment, sets, now);
    if owners::is_terminating(&deployment.metadata) {
        rollout.sync_status();
        return rollout.into_plan();
    }
    rollout.note_pause();
    let is_paused = deployment.spec.paused == Some(true);
    if is_paused || rollout.is_scaling_event() {
        rollout.find_new_set();
        rollout.scale();
        if is_paused {
            rollout.clean_up_history();
        }
        rollout.sync_status();
        return rollout.into_plan();
    }
    match fenceposts::strategy(deployment) {
        fenceposts::RolloutStrategy::Recreate => rollout.recreate(),
        fenceposts::RolloutStrategy::RollingUpdate => rollout.roll(),
    }
    rollout.into_plan()
}

/// Adopts and releases ReplicaSets; the result is what the Deployment owns now, oldest first.
fn claim_sets(
    view: &ClusterView,
    deployment: &Deployment,
    plan: &mut WritePlan,
) -> Vec<Arc<ReplicaSet>> {
    let uid = deployment.metadata.uid.as_deref().unwrap_or_default();
    let namespace = deployment.metadata.namespace.as_deref().unwrap_or_default();
    let mut own = Vec::new();
    let mut patches = Vec::new();
    let managed = view.dependents_of(uid, ResourceKind::ReplicaSet);
    for object in managed.chain(view.unmanaged(ResourceKind::ReplicaSet, namespace)) {
        let ViewObject::ReplicaSet(set) = object else { continue };
        let is_selected = selects(deployment, object);
        match claim(ResourceKind::Deployment, &deployment.metadata, object, is_selected) {
            OwnershipClaim::Own => own.push(set.clone()),
            OwnershipClaim::Adopt(write) | OwnershipClaim::Release(write) => {
                patches.push(PlannedWrite::from(write))
            }
            OwnershipClaim::Leave => {}
        }
    }
    plan.then_all(patches);
    own.sort_by(|a, b| rollout::age_order(a, b));
    own
}
