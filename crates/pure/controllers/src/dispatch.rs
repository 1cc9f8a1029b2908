//! From a change to the keys that it touches, and from a key to its controller.

use std::collections::BTreeSet;

use rekindle_types::Tick;

use crate::plan::PatchTarget;
use crate::view::WriteDoubt;
use crate::{
    ClusterView, ControllerKey, ObjectChange, ObjectId, PlannedWrite, ResourceKind, WriteOperation,
    WritePlan, creation_brake, cron_job, daemon_set, deployment, disruption, endpoints, garbage,
    horizontal_autoscaler, job, load_balancer, namespace, node_lifecycle, pod_gc, pod_restart,
    replica_set, resource_quota, scheduler, stateful_set, volumes,
};

/// The keys that a change of the view touches.
pub fn affected(view: &ClusterView, change: &ObjectChange) -> BTreeSet<ControllerKey> {
    let mut keys = BTreeSet::new();
    replica_set::affected(view, change, &mut keys);
    stateful_set::affected(view, change, &mut keys);
    daemon_set::affected(view, change, &mut keys);
    deployment::affected(view, change, &mut keys);
    cron_job::affected(view, change, &mut keys);
    horizontal_autoscaler::affected(change, &mut keys);
    endpoints::affected(view, change, &mut keys);
    load_balancer::affected(view, change, &mut keys);
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
    resource_quota::affected(view, change, &mut keys);
    keys
}

/// Whether a controller would decide by objects of kinds that have not been listed yet: an empty
/// view is not an empty world. Of kinds that definitions describe only the garbage collector and
/// the quota controller look at objects without asking the API first, and a quota says of a kind
/// that was not listed what it said before.
pub fn depends_on_unlisted(view: &ClusterView, key: &ControllerKey) -> bool {
    let ControllerKey::Garbage(id) = key else { return false };
    garbage::depends_on_unlisted(view, id)
}

/// What is to be looked at once the first list of a kind that a definition describes is there.
pub fn affected_by_first_list(view: &ClusterView, kind: ResourceKind) -> BTreeSet<ControllerKey> {
    resource_quota::affected_by_first_list(view, kind).collect()
}

/// The requests to restart a pod that a change of the view touches: all that is decided where
/// another cluster has controllers of its own.
pub fn affected_restarts(view: &ClusterView, change: &ObjectChange) -> BTreeSet<ControllerKey> {
    let mut keys = BTreeSet::new();
    pod_restart::affected(view, change, &mut keys);
    keys
}

/// The place of a key among those that are due at the same time.
pub fn turn(view: &ClusterView, key: &ControllerKey) -> scheduler::SchedulingRank {
    match key {
        ControllerKey::Schedule(name) => scheduler::turn(view, name),
        ControllerKey::ReplicaSet(_)
        | ControllerKey::ReplicationController(_)
        | ControllerKey::StatefulSet(_)
        | ControllerKey::EndpointSlices(_)
        | ControllerKey::MirroredSlices(_)
        | ControllerKey::Endpoints(_)
        | ControllerKey::LoadBalancer(_)
        | ControllerKey::DaemonSet(_)
        | ControllerKey::Deployment(_)
        | ControllerKey::CronJob(_)
        | ControllerKey::HorizontalAutoscaler(_)
        | ControllerKey::Job(_)
        | ControllerKey::UntrackedPod(_)
        | ControllerKey::Garbage(_)
        | ControllerKey::Namespace(_)
        | ControllerKey::PodGc(_)
        | ControllerKey::PodRestart(_)
        | ControllerKey::Disruption(_)
        | ControllerKey::ResourceQuota(_)
        | ControllerKey::StaleDisruption(_)
        | ControllerKey::NodeLifecycle(_)
        | ControllerKey::NodeNews { .. }
        | ControllerKey::TaintEviction(_)
        | ControllerKey::Claim(_)
        | ControllerKey::Volume(_)
        | ControllerKey::EphemeralClaims(_)
        | ControllerKey::Doubt(_) => scheduler::SchedulingRank::default(),
    }
}

/// What is to be done for a key, as the view shows the world at `now`.
pub fn reconcile(view: &ClusterView, key: &ControllerKey, now: Tick) -> WritePlan {
    if let Some(plan) = resolve_lost_answers(view, &key.object(), now) {
        return plan;
    }
    let mut plan = planned(view, key, now);
    creation_brake::hold_back(view, &key.object(), &mut plan, now);
    plan
}

/// What the controller of a key wants done.
fn planned(view: &ClusterView, key: &ControllerKey, now: Tick) -> WritePlan {
    match key {
        ControllerKey::ReplicaSet(_) | ControllerKey::ReplicationController(_) => {
            replica_set::reconcile(view, &key.object(), now)
        }
        ControllerKey::StatefulSet(name) => stateful_set::reconcile(view, name, now),
        ControllerKey::DaemonSet(name) => daemon_set::reconcile(view, name, now),
        ControllerKey::Deployment(name) => deployment::reconcile(view, name, now),
        ControllerKey::CronJob(name) => cron_job::reconcile(view, name, now),
        ControllerKey::HorizontalAutoscaler(name) => {
            horizontal_autoscaler::reconcile(view, name, now)
        }
        ControllerKey::EndpointSlices(name) => endpoints::reconcile_slices(view, name),
        ControllerKey::MirroredSlices(name) => endpoints::reconcile_mirrored(view, name),
        ControllerKey::Endpoints(name) => endpoints::reconcile_object(view, name),
        ControllerKey::LoadBalancer(name) => load_balancer::reconcile(view, name),
        ControllerKey::Job(name) => job::reconcile(view, name, now),
        ControllerKey::UntrackedPod(name) => job::reconcile_untracked(view, name),
        ControllerKey::Schedule(name) => scheduler::reconcile(view, name, now),
        ControllerKey::Garbage(id) => garbage::reconcile(view, id),
        ControllerKey::Namespace(name) => namespace::reconcile(view, name, now),
        ControllerKey::PodGc(name) => pod_gc::reconcile(view, name, now),
        ControllerKey::PodRestart(name) => pod_restart::reconcile(view, name, now),
        ControllerKey::Disruption(name) => disruption::reconcile(view, name, now),
        ControllerKey::ResourceQuota(name) => resource_quota::reconcile(view, name, now),
        ControllerKey::StaleDisruption(name) => disruption::reconcile_target(view, name, now),
        ControllerKey::NodeLifecycle(name) => node_lifecycle::reconcile(view, name, now),
        ControllerKey::NodeNews { name, uid } => {
            node_lifecycle::news::reconcile(view, name, uid, now)
        }
        ControllerKey::TaintEviction(name) => node_lifecycle::eviction::reconcile(view, name, now),
        ControllerKey::Claim(name) => volumes::reconcile_claim(view, name),
        ControllerKey::Volume(name) => volumes::reconcile_volume(view, name, now),
        ControllerKey::EphemeralClaims(name) => volumes::reconcile_ephemeral(view, name),
        ControllerKey::Doubt(id) => resolve_doubt(view, id),
    }
}

/// Asks the server about the writes for this object whose answers were lost; then the key is looked
/// at again.
fn resolve_lost_answers(view: &ClusterView, object: &ObjectId, now: Tick) -> Option<WritePlan> {
    let questions: Vec<PlannedWrite> = view
        .doubts(object)
        .map(|(id, doubt)| match doubt {
            WriteDoubt::Created => WriteOperation::CheckAbsent { id: id.clone(), uid: None },
            // A patch without a change answers with the object as it is.
            WriteDoubt::Changed => WriteOperation::Patch {
                id: id.clone(),
                part: PatchTarget::Whole,
                patch: serde_json::json!({}),
            },
        })
        .map(PlannedWrite::from)
        .collect();
    if questions.is_empty() {
        return None;
    }
    let mut plan = WritePlan::default();
    plan.then_all(questions);
    plan.look_again(now);
    Some(plan)
}

/// Asks the server for an object that a list did not show. When it is absent, the view drops it.
fn resolve_doubt(view: &ClusterView, id: &ObjectId) -> WritePlan {
    let mut plan = WritePlan::default();
    if let Some(object) = view.get(id).filter(|_| view.is_unconfirmed(id)) {
        let uid = Some(object.uid().to_owned());
        plan.then(WriteOperation::CheckAbsent { id: id.clone(), uid });
    }
    plan
}

#[cfg(test)]
mod tests;
