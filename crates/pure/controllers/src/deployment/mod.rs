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

use std::collections::BTreeSet;
use std::sync::Arc;

use k8s_openapi::api::apps::v1::{Deployment, ReplicaSet};
use rekindle_types::{Tick, labels};

use crate::plan::Step;
use crate::replica_set::{Claim, claim};
use crate::{Change, Key, Kind, NamespacedName, Object, Plan, View, owners};
use rollout::Rollout;

/// `source.component` of its events.
const COMPONENT: &str = "deployment-controller";

/// The Deployments that a change concerns.
pub(crate) fn affected(view: &View, change: &Change, keys: &mut BTreeSet<Key>) {
    match change.id.kind {
        Kind::Deployment => {
            keys.insert(Key::Deployment(change.id.name.clone()));
        }
        Kind::ReplicaSet => {
            for side in change.sides() {
                match owners::controller_of(side.meta()) {
                    Some(owner) => keys.extend(by_uid(view, &owner.uid)),
                    None => keys.extend(candidates(view, side)),
                }
            }
        }
        // Recreate waits for the old pods to be gone; a ReplicaSet's status alone does not show a
        // terminating pod's end.
        Kind::Pod if change.is_removal() || is_finishing(change) => {
            let set = owners::controller_of(change.latest().meta())
                .and_then(|owner| view.by_uid(&owner.uid));
            if let Some(Object::ReplicaSet(set)) = set
                && let Some(owner) = owners::controller_of(&set.metadata)
            {
                keys.extend(by_uid(view, &owner.uid));
            }
        }
        _ => {}
    }
}

/// True when a pod has just ended for good.
fn is_finishing(change: &Change) -> bool {
    let finished = |side: &Option<Object>| matches!(side, Some(Object::Pod(pod)) if crate::pods::is_finished(pod));
    finished(&change.after) && !finished(&change.before)
}

fn by_uid(view: &View, uid: &str) -> Option<Key> {
    match view.by_uid(uid) {
        Some(Object::Deployment(d)) => Some(Key::Deployment(NamespacedName::of(&d.metadata))),
        _ => None,
    }
}

/// The Deployments that would adopt this ReplicaSet.
fn candidates<'a>(view: &'a View, set: &'a Object) -> impl Iterator<Item = Key> + 'a {
    let namespace = set.meta().namespace.as_deref().unwrap_or_default();
    view.in_namespace(Kind::Deployment, namespace).filter_map(move |object| match object {
        Object::Deployment(d) if selects(d, set) => {
            Some(Key::Deployment(NamespacedName::of(&d.metadata)))
        }
        _ => None,
    })
}

/// True when the Deployment's selector matches the object's labels. An empty selector selects
/// nothing here.
fn selects(deployment: &Deployment, object: &Object) -> bool {
    let selector = &deployment.spec.selector;
    !labels::is_empty(selector) && labels::matches(selector, object.meta().labels.as_ref())
}

/// What is to be done for a Deployment.
pub(crate) fn reconcile(view: &View, name: &NamespacedName, now: Tick) -> Plan {
    let mut plan = Plan::default();
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
        fenceposts::Strategy::Recreate => rollout.recreate(),
        fenceposts::Strategy::RollingUpdate => rollout.roll(),
    }
    rollout.into_plan()
}

/// Adopts and releases ReplicaSets; the result is what the Deployment owns now, oldest first.
fn claim_sets(view: &View, deployment: &Deployment, plan: &mut Plan) -> Vec<Arc<ReplicaSet>> {
    let uid = deployment.metadata.uid.as_deref().unwrap_or_default();
    let namespace = deployment.metadata.namespace.as_deref().unwrap_or_default();
    let mut own = Vec::new();
    let mut patches = Vec::new();
    let managed = view.dependents_of(uid, Kind::ReplicaSet);
    for object in managed.chain(view.unmanaged(Kind::ReplicaSet, namespace)) {
        let Object::ReplicaSet(set) = object else { continue };
        let is_selected = selects(deployment, object);
        match claim(Kind::Deployment, &deployment.metadata, object, is_selected) {
            Claim::Own => own.push(set.clone()),
            Claim::Adopt(write) | Claim::Release(write) => patches.push(Step::from(write)),
            Claim::Leave => {}
        }
    }
    plan.then_all(patches);
    own.sort_by(|a, b| rollout::age_order(a, b));
    own
}
