//! The units of work: which controller looks at which object.

use std::fmt;

use crate::{Kind, NamespacedName, ObjectId};

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
    /// The pod garbage collector at a Pod: bound to a node that is gone, or terminating without
    /// one.
    PodGc(NamespacedName),
    /// The PodRestart controller at a PodRestart: requests that no node will answer, and old ones.
    PodRestart(NamespacedName),
    /// The disruption controller at a PodDisruptionBudget.
    Disruption(NamespacedName),
    /// The disruption controller at a Pod that was to go and did not.
    StaleDisruption(NamespacedName),
    /// The taints of a Node that lacks something.
    NodeLifecycle(String),
    /// What is to be said of a Node that came or went.
    NodeNews {
        /// Its name.
        name: String,
        /// Its UID: another one may have the name by now.
        uid: String,
    },
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
            Key::NodeLifecycle(name) | Key::NodeNews { name, .. } => {
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
            Key::NodeNews { name, uid } => write!(f, "tell of Node {name} ({uid})"),
            Key::TaintEviction(name) => write!(f, "end Pod {name} for its node's taints"),
            Key::Doubt(object) => write!(f, "look for {object}"),
        }
    }
}
