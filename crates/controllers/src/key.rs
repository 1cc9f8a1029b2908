//! The units of work: which controller looks at which object.

use std::collections::BTreeSet;
use std::fmt;

use rekindle_types::Tick;

use crate::plan::Part;
use crate::view::Doubt;
use crate::{
    Change, Kind, NamespacedName, ObjectId, Plan, Step, View, Write, cron_job, daemon_set,
    deployment, disruption, endpoints, garbage, job, namespace, node_lifecycle, pod_gc,
    pod_restart, replica_set, scheduler, stateful_set, volumes,
};

/// One thing to look at.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Key {
    /// The ReplicaSet controller at a ReplicaSet.
    ReplicaSet(NamespacedName),
    /// The same at a ReplicationController.
    ReplicationController(NamespacedName),
    /// The StatefulSet controller at a StatefulSet.
    StatefulSet(NamespacedName),
    /// The DaemonSet controller at a DaemonSet.
    DaemonSet(NamespacedName),
    /// The Deployment controller at a Deployment.
    Deployment(NamespacedName),
    /// The CronJob controller at a CronJob.
    CronJob(NamespacedName),
    /// The EndpointSlices of a Service.
    EndpointSlices(NamespacedName),
    /// The Endpoints of a Service.
    Endpoints(NamespacedName),
    /// The Job controller at a Job.
    Job(NamespacedName),
    /// The Job controller at a Pod that it tracks for a Job that may be gone.
    UntrackedPod(NamespacedName),
    /// The scheduler at a Pod.
    Schedule(NamespacedName),
    /// The garbage collector at an object.
    Garbage(ObjectId),
    /// The namespace controller at a Namespace.
    Namespace(String),
    /// The pod garbage collector at a Pod: bound to a node that is gone, or terminating without one.
    PodGc(NamespacedName),
    /// The PodRestart controller at a PodRestart: requests that no node will answer, and old ones.
    PodRestart(NamespacedName),
    /// The disruption controller at a PodDisruptionBudget.
    Disruption(NamespacedName),
    /// The disruption controller at a Pod that was to go and did not.
    StaleDisruption(NamespacedName),
    /// The taints of a Node that lacks something.
    NodeLifecycle(String),
    /// The taint eviction controller at a Pod on a node with taints NoExecute.
    TaintEviction(NamespacedName),
    /// The binder at a PersistentVolumeClaim.
    Claim(NamespacedName),
    /// The binder at a PersistentVolume.
    Volume(String),
    /// The maker of claims that a Pod brings along, at the Pod.
    EphemeralClaims(NamespacedName),
    /// An object that we wrote and that a list did not show: is it there?
    Doubt(ObjectId),
}

impl Key {
    /// The object it looks at.
    pub fn object(&self) -> ObjectId {
        let id = |kind, name: &NamespacedName| ObjectId::new(kind, name.clone());
        match self {
            Key::ReplicaSet(name) => id(Kind::ReplicaSet, name),
            Key::ReplicationController(name) => id(Kind::ReplicationController, name),
            Key::StatefulSet(name) => id(Kind::StatefulSet, name),
            Key::EndpointSlices(name) => id(Kind::Service, name),
            // one that is left over has no Service any more
            Key::Endpoints(name) => id(Kind::Endpoints, name),
            Key::DaemonSet(name) => id(Kind::DaemonSet, name),
            Key::Deployment(name) => id(Kind::Deployment, name),
            Key::CronJob(name) => id(Kind::CronJob, name),
            Key::Job(name) => id(Kind::Job, name),
            Key::Schedule(name)
            | Key::UntrackedPod(name)
            | Key::PodGc(name)
            | Key::StaleDisruption(name)
            | Key::TaintEviction(name)
            | Key::EphemeralClaims(name) => id(Kind::Pod, name),
            Key::Claim(name) => id(Kind::PersistentVolumeClaim, name),
            Key::Volume(name) => {
                ObjectId::new(Kind::PersistentVolume, NamespacedName::new("", name.as_str()))
            }
            Key::Disruption(name) => id(Kind::PodDisruptionBudget, name),
            Key::Namespace(name) => {
                ObjectId::new(Kind::Namespace, NamespacedName::new("", name.as_str()))
            }
            Key::PodRestart(name) => id(Kind::PodRestart, name),
            Key::NodeLifecycle(name) => {
                ObjectId::new(Kind::Node, NamespacedName::new("", name.as_str()))
            }
            Key::Garbage(object) | Key::Doubt(object) => object.clone(),
        }
    }
}

impl fmt::Display for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Key::ReplicaSet(name) => write!(f, "reconcile ReplicaSet {name}"),
            Key::ReplicationController(name) => {
                write!(f, "reconcile ReplicationController {name}")
            }
            Key::StatefulSet(name) => write!(f, "reconcile StatefulSet {name}"),
            Key::DaemonSet(name) => write!(f, "reconcile DaemonSet {name}"),
            Key::Deployment(name) => write!(f, "reconcile Deployment {name}"),
            Key::CronJob(name) => write!(f, "reconcile CronJob {name}"),
            Key::EndpointSlices(name) => write!(f, "reconcile EndpointSlices of Service {name}"),
            Key::Endpoints(name) => write!(f, "reconcile Endpoints {name}"),
            Key::Job(name) => write!(f, "reconcile Job {name}"),
            Key::UntrackedPod(name) => write!(f, "let go of Pod {name}"),
            Key::Schedule(name) => write!(f, "schedule Pod {name}"),
            Key::Garbage(object) => write!(f, "collect {object}"),
            Key::Namespace(name) => write!(f, "empty Namespace {name}"),
            Key::PodGc(name) => write!(f, "clear away Pod {name}"),
            Key::PodRestart(name) => write!(f, "look after PodRestart {name}"),
            Key::Disruption(name) => write!(f, "reconcile PodDisruptionBudget {name}"),
            Key::Claim(name) => write!(f, "bind PersistentVolumeClaim {name}"),
            Key::Volume(name) => write!(f, "look after PersistentVolume {name}"),
            Key::EphemeralClaims(name) => write!(f, "make the claims of Pod {name}"),
            Key::StaleDisruption(name) => write!(f, "take DisruptionTarget back from Pod {name}"),
            Key::NodeLifecycle(name) => write!(f, "taint Node {name}"),
            Key::TaintEviction(name) => write!(f, "end Pod {name} for its node's taints"),
            Key::Doubt(object) => write!(f, "look for {object}"),
        }
    }
}

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
        Key::TaintEviction(name) => node_lifecycle::eviction::reconcile(view, name, now),
        Key::Claim(name) => volumes::reconcile_claim(view, name),
        Key::Volume(name) => volumes::reconcile_volume(view, name, now),
        Key::EphemeralClaims(name) => volumes::reconcile_ephemeral(view, name),
        Key::Doubt(id) => resolve_doubt(view, id),
    }
}

/// Asks the server about the writes for this object whose answers were lost; then the key is looked at again.
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
