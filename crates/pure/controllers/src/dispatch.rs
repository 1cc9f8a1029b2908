//! From a change to the keys that it touches, and from a key to its controller.

use std::collections::BTreeSet;

use rekindle_types::Tick;

use crate::plan::Part;
use crate::view::Doubt;
use crate::{
    Change, Key, ObjectId, Plan, Step, View, Write, creation_brake, cron_job, daemon_set,
    deployment, disruption, endpoints, garbage, job, namespace, node_lifecycle, pod_gc,
    pod_restart, replica_set, scheduler, stateful_set, volumes,
};

/// The keys that a change of the view touches.
pub fn affected(view: &View, change: &Change) -> BTreeSet<Key> {
    let mut keys = BTreeSet::new();
    replica_set::affected(view, change, &mut keys);
    stateful_set::affected(view, change, &mut keys);
    daemon_set::affected(view, change, &mut keys);
    deployment::affected(view, change, &mut keys);
    cron_job::affected(view, change, &mut keys);
    endpoints::affected(view, change, &mut keys);
    job::affected(view, change, &mut keys);
    scheduler::affected(view, change, &mut keys);
    garbage::affected(view, change, &mut keys);
    namespace::affected(view, change, &mut keys);
    pod_gc::affected(view, change, &mut keys);
    pod_restart::affected(view, change, &mut keys);
    disruption::affected(view, change, &mut keys);
    disruption::affected_targets(change, &mut keys);
    node_lifecycle::affected(view, change, &mut keys);
    node_lifecycle::news::affected(change, &mut keys);
    node_lifecycle::eviction::affected(view, change, &mut keys);
    volumes::affected(view, change, &mut keys);
    keys
}

/// The place of a key among those that are due at the same time.
pub fn turn(view: &View, key: &Key) -> scheduler::Turn {
    match key {
        Key::Schedule(name) => scheduler::turn(view, name),
        Key::ReplicaSet(_)
        | Key::ReplicationController(_)
        | Key::StatefulSet(_)
        | Key::EndpointSlices(_)
        | Key::Endpoints(_)
        | Key::DaemonSet(_)
        | Key::Deployment(_)
        | Key::CronJob(_)
        | Key::Job(_)
        | Key::UntrackedPod(_)
        | Key::Garbage(_)
        | Key::Namespace(_)
        | Key::PodGc(_)
        | Key::PodRestart(_)
        | Key::Disruption(_)
        | Key::StaleDisruption(_)
        | Key::NodeLifecycle(_)
        | Key::NodeNews { .. }
        | Key::TaintEviction(_)
        | Key::Claim(_)
        | Key::Volume(_)
        | Key::EphemeralClaims(_)
        | Key::Doubt(_) => scheduler::Turn::default(),
    }
}

/// What is to be done for a key, as the view shows the world at `now`.
pub fn reconcile(view: &View, key: &Key, now: Tick) -> Plan {
    if let Some(plan) = resolve_lost_answers(view, &key.object(), now) {
        return plan;
    }
    let mut plan = planned(view, key, now);
    creation_brake::hold_back(view, &key.object(), &mut plan, now);
    plan
}

/// What the controller of a key wants done.
fn planned(view: &View, key: &Key, now: Tick) -> Plan {
    match key {
        Key::ReplicaSet(_) | Key::ReplicationController(_) => {
            replica_set::reconcile(view, &key.object(), now)
        }
        Key::StatefulSet(name) => stateful_set::reconcile(view, name, now),
        Key::DaemonSet(name) => daemon_set::reconcile(view, name, now),
        Key::Deployment(name) => deployment::reconcile(view, name, now),
        Key::CronJob(name) => cron_job::reconcile(view, name, now),
        Key::EndpointSlices(name) => endpoints::reconcile_slices(view, name),
        Key::Endpoints(name) => endpoints::reconcile_object(view, name),
        Key::Job(name) => job::reconcile(view, name, now),
        Key::UntrackedPod(name) => job::reconcile_untracked(view, name),
        Key::Schedule(name) => scheduler::reconcile(view, name, now),
        Key::Garbage(id) => garbage::reconcile(view, id),
        Key::Namespace(name) => namespace::reconcile(view, name, now),
        Key::PodGc(name) => pod_gc::reconcile(view, name, now),
        Key::PodRestart(name) => pod_restart::reconcile(view, name, now),
        Key::Disruption(name) => disruption::reconcile(view, name, now),
        Key::StaleDisruption(name) => disruption::reconcile_target(view, name, now),
        Key::NodeLifecycle(name) => node_lifecycle::reconcile(view, name, now),
        Key::NodeNews { name, uid } => node_lifecycle::news::reconcile(view, name, uid, now),
        Key::TaintEviction(name) => node_lifecycle::eviction::reconcile(view, name, now),
        Key::Claim(name) => volumes::reconcile_claim(view, name),
        Key::Volume(name) => volumes::reconcile_volume(view, name, now),
        Key::EphemeralClaims(name) => volumes::reconcile_ephemeral(view, name),
        Key::Doubt(id) => resolve_doubt(view, id),
    }
}

/// Asks the server about the writes for this object whose answers were lost; then the key is looked
/// at again.
fn resolve_lost_answers(view: &View, object: &ObjectId, now: Tick) -> Option<Plan> {
    let questions: Vec<Step> = view
        .doubts(object)
        .map(|(id, doubt)| match doubt {
            Doubt::Created => Write::CheckAbsent { id: id.clone(), uid: None },
            // A patch without a change answers with the object as it is.
            Doubt::Changed => {
                Write::Patch { id: id.clone(), part: Part::Whole, patch: serde_json::json!({}) }
            }
        })
        .map(Step::from)
        .collect();
    if questions.is_empty() {
        return None;
    }
    let mut plan = Plan::default();
    plan.then_all(questions);
    plan.look_again(now);
    Some(plan)
}

/// Asks the server for an object that a list did not show. When it is absent, the view drops it.
fn resolve_doubt(view: &View, id: &ObjectId) -> Plan {
    let mut plan = Plan::default();
    if let Some(object) = view.get(id).filter(|_| view.is_unconfirmed(id)) {
        let uid = Some(object.uid().to_owned());
        plan.then(Write::CheckAbsent { id: id.clone(), uid });
    }
    plan
}

#[cfg(test)]
mod tests;
