//! The units of work: which controller looks at which object.

use std::fmt;

use crate::{NamespacedName, ObjectId, ResourceKind};

/// One thing to look at.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum ControllerKey {
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
    /// The autoscaler at a HorizontalPodAutoscaler.
    HorizontalAutoscaler(NamespacedName),
    /// The CronJob controller at a CronJob.
    CronJob(NamespacedName),
    /// The EndpointSlices of a Service.
    EndpointSlices(NamespacedName),
    /// The EndpointSlices that mirror Endpoints which a user writes for a Service.
    MirroredSlices(NamespacedName),
    /// The Endpoints of a Service.
    Endpoints(NamespacedName),
    /// The addresses of a Service of type LoadBalancer.
    LoadBalancer(NamespacedName),
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
    /// The quota controller at a ResourceQuota.
    ResourceQuota(NamespacedName),
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

impl ControllerKey {
    /// The object it looks at.
    pub fn object(&self) -> ObjectId {
        let id = |kind, name: &NamespacedName| ObjectId::new(kind, name.clone());
        match self {
            ControllerKey::ReplicaSet(name) => id(ResourceKind::ReplicaSet, name),
            ControllerKey::ReplicationController(name) => {
                id(ResourceKind::ReplicationController, name)
            }
            ControllerKey::StatefulSet(name) => id(ResourceKind::StatefulSet, name),
            ControllerKey::EndpointSlices(name) | ControllerKey::LoadBalancer(name) => {
                id(ResourceKind::Service, name)
            }
            // one that is left over has no Service any more
            ControllerKey::Endpoints(name) | ControllerKey::MirroredSlices(name) => {
                id(ResourceKind::Endpoints, name)
            }
            ControllerKey::DaemonSet(name) => id(ResourceKind::DaemonSet, name),
            ControllerKey::Deployment(name) => id(ResourceKind::Deployment, name),
            ControllerKey::HorizontalAutoscaler(name) => {
                id(ResourceKind::HorizontalPodAutoscaler, name)
            }
            ControllerKey::CronJob(name) => id(ResourceKind::CronJob, name),
            ControllerKey::Job(name) => id(ResourceKind::Job, name),
            ControllerKey::Schedule(name)
            | ControllerKey::UntrackedPod(name)
            | ControllerKey::PodGc(name)
            | ControllerKey::StaleDisruption(name)
            | ControllerKey::TaintEviction(name)
            | ControllerKey::EphemeralClaims(name) => id(ResourceKind::Pod, name),
            ControllerKey::Claim(name) => id(ResourceKind::PersistentVolumeClaim, name),
            ControllerKey::Volume(name) => ObjectId::new(
                ResourceKind::PersistentVolume,
                NamespacedName::new("", name.as_str()),
            ),
            ControllerKey::ResourceQuota(name) => id(ResourceKind::ResourceQuota, name),
            ControllerKey::Disruption(name) => id(ResourceKind::PodDisruptionBudget, name),
            ControllerKey::Namespace(name) => {
                ObjectId::new(ResourceKind::Namespace, NamespacedName::new("", name.as_str()))
            }
            ControllerKey::PodRestart(name) => id(ResourceKind::PodRestart, name),
            ControllerKey::NodeLifecycle(name) | ControllerKey::NodeNews { name, .. } => {
                ObjectId::new(ResourceKind::Node, NamespacedName::new("", name.as_str()))
            }
            ControllerKey::Garbage(object) | ControllerKey::Doubt(object) => object.clone(),
        }
    }
}

impl fmt::Display for ControllerKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            ControllerKey::ReplicaSet(name) => write!(f, "reconcile ReplicaSet {name}"),
            ControllerKey::ReplicationController(name) => {
                write!(f, "reconcile ReplicationController {name}")
            }
            ControllerKey::StatefulSet(name) => write!(f, "reconcile StatefulSet {name}"),
            ControllerKey::DaemonSet(name) => write!(f, "reconcile DaemonSet {name}"),
            ControllerKey::Deployment(name) => write!(f, "reconcile Deployment {name}"),
            ControllerKey::HorizontalAutoscaler(name) => {
                write!(f, "reconcile HorizontalPodAutoscaler {name}")
            }
            ControllerKey::CronJob(name) => write!(f, "reconcile CronJob {name}"),
            ControllerKey::EndpointSlices(name) => {
                write!(f, "reconcile EndpointSlices of Service {name}")
            }
            ControllerKey::MirroredSlices(name) => write!(f, "mirror Endpoints {name}"),
            ControllerKey::Endpoints(name) => write!(f, "reconcile Endpoints {name}"),
            ControllerKey::LoadBalancer(name) => write!(f, "give Service {name} its addresses"),
            ControllerKey::Job(name) => write!(f, "reconcile Job {name}"),
            ControllerKey::UntrackedPod(name) => write!(f, "let go of Pod {name}"),
            ControllerKey::Schedule(name) => write!(f, "schedule Pod {name}"),
            ControllerKey::Garbage(object) => write!(f, "collect {object}"),
            ControllerKey::Namespace(name) => write!(f, "empty Namespace {name}"),
            ControllerKey::PodGc(name) => write!(f, "clear away Pod {name}"),
            ControllerKey::PodRestart(name) => write!(f, "look after PodRestart {name}"),
            ControllerKey::ResourceQuota(name) => write!(f, "count ResourceQuota {name}"),
            ControllerKey::Disruption(name) => write!(f, "reconcile PodDisruptionBudget {name}"),
            ControllerKey::Claim(name) => write!(f, "bind PersistentVolumeClaim {name}"),
            ControllerKey::Volume(name) => write!(f, "look after PersistentVolume {name}"),
            ControllerKey::EphemeralClaims(name) => write!(f, "make the claims of Pod {name}"),
            ControllerKey::StaleDisruption(name) => {
                write!(f, "take DisruptionTarget back from Pod {name}")
            }
            ControllerKey::NodeLifecycle(name) => write!(f, "taint Node {name}"),
            ControllerKey::NodeNews { name, uid } => write!(f, "tell of Node {name} ({uid})"),
            ControllerKey::TaintEviction(name) => write!(f, "end Pod {name} for its node's taints"),
            ControllerKey::Doubt(object) => write!(f, "look for {object}"),
        }
    }
}
