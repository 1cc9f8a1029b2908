//! Objects as the view holds them, shared and immutable.

use std::fmt;
use std::sync::Arc;

use k8s_openapi::api::apps::v1::{
    ControllerRevision, DaemonSet, Deployment, ReplicaSet, StatefulSet,
};
use k8s_openapi::api::autoscaling::v2::HorizontalPodAutoscaler;
use k8s_openapi::api::batch::v1::{CronJob, Job};
use k8s_openapi::api::coordination::v1::Lease;
use k8s_openapi::api::core::v1::{
    self, Endpoints, Namespace, Node, PersistentVolume, PersistentVolumeClaim,
    ReplicationController, ResourceQuota, Service,
};
use k8s_openapi::api::discovery::v1::EndpointSlice;
use k8s_openapi::api::policy::v1::PodDisruptionBudget;
use k8s_openapi::api::storage::v1::StorageClass;
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use rekindle_types::NamespacedName;
use rekindle_types::held::HeldPod;
use rekindle_types::v1alpha1::{PodRestart, RestartLadder, RestartLedger};

use crate::ResourceKind;
use crate::definition::HeldDefinition;

/// Kind, namespace and name: what an object is called. Ordered by kind, then namespace, then name.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ObjectId {
    /// The kind.
    pub kind: ResourceKind,
    /// Namespace and name.
    pub name: NamespacedName,
}

impl ObjectId {
    /// From its parts.
    pub fn new(kind: ResourceKind, name: NamespacedName) -> Self {
        Self { kind, name }
    }
}

impl fmt::Display for ObjectId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}", self.kind, self.name)
    }
}

/// One object of the view: whole, or its metadata only.
#[derive(Clone, Debug, PartialEq)]
pub enum ViewObject {
    /// A HorizontalPodAutoscaler.
    HorizontalPodAutoscaler(Arc<HorizontalPodAutoscaler>),
    /// A Deployment.
    Deployment(Arc<Deployment>),
    /// A DaemonSet.
    DaemonSet(Arc<DaemonSet>),
    /// A ReplicaSet.
    ReplicaSet(Arc<ReplicaSet>),
    /// A ReplicationController.
    ReplicationController(Arc<ReplicationController>),
    /// A StatefulSet.
    StatefulSet(Arc<StatefulSet>),
    /// A ControllerRevision.
    ControllerRevision(Arc<ControllerRevision>),
    /// A CronJob.
    CronJob(Arc<CronJob>),
    /// A Job.
    Job(Arc<Job>),
    /// A Pod.
    Pod(Arc<HeldPod>),
    /// A ResourceQuota.
    ResourceQuota(Arc<ResourceQuota>),
    /// A RestartLadder.
    RestartLadder(Arc<RestartLadder>),
    /// A PodRestart.
    PodRestart(Arc<PodRestart>),
    /// A RestartLedger.
    RestartLedger(Arc<RestartLedger>),
    /// A PodDisruptionBudget.
    PodDisruptionBudget(Arc<PodDisruptionBudget>),
    /// A PersistentVolumeClaim.
    PersistentVolumeClaim(Arc<PersistentVolumeClaim>),
    /// A Service.
    Service(Arc<Service>),
    /// An EndpointSlice.
    EndpointSlice(Arc<EndpointSlice>),
    /// An Endpoints.
    Endpoints(Arc<Endpoints>),
    /// A Lease.
    Lease(Arc<Lease>),
    /// A PersistentVolume.
    PersistentVolume(Arc<PersistentVolume>),
    /// A StorageClass.
    StorageClass(Arc<StorageClass>),
    /// A Node.
    Node(Arc<Node>),
    /// A Namespace.
    Namespace(Arc<Namespace>),
    /// A CustomResourceDefinition.
    CustomResourceDefinition(Arc<HeldDefinition>),
    /// The metadata of an object of another kind.
    Metadata(ResourceKind, Arc<ObjectMeta>),
}

impl ViewObject {
    /// Its kind.
    pub fn kind(&self) -> ResourceKind {
        match self {
            ViewObject::HorizontalPodAutoscaler(_) => ResourceKind::HorizontalPodAutoscaler,
            ViewObject::Deployment(_) => ResourceKind::Deployment,
            ViewObject::DaemonSet(_) => ResourceKind::DaemonSet,
            ViewObject::ReplicaSet(_) => ResourceKind::ReplicaSet,
            ViewObject::ReplicationController(_) => ResourceKind::ReplicationController,
            ViewObject::StatefulSet(_) => ResourceKind::StatefulSet,
            ViewObject::ControllerRevision(_) => ResourceKind::ControllerRevision,
            ViewObject::CronJob(_) => ResourceKind::CronJob,
            ViewObject::Job(_) => ResourceKind::Job,
            ViewObject::Pod(_) => ResourceKind::Pod,
            ViewObject::ResourceQuota(_) => ResourceKind::ResourceQuota,
            ViewObject::RestartLadder(_) => ResourceKind::RestartLadder,
            ViewObject::PodRestart(_) => ResourceKind::PodRestart,
            ViewObject::RestartLedger(_) => ResourceKind::RestartLedger,
            ViewObject::PodDisruptionBudget(_) => ResourceKind::PodDisruptionBudget,
            ViewObject::PersistentVolumeClaim(_) => ResourceKind::PersistentVolumeClaim,
            ViewObject::Service(_) => ResourceKind::Service,
            ViewObject::EndpointSlice(_) => ResourceKind::EndpointSlice,
            ViewObject::Endpoints(_) => ResourceKind::Endpoints,
            ViewObject::Lease(_) => ResourceKind::Lease,
            ViewObject::PersistentVolume(_) => ResourceKind::PersistentVolume,
            ViewObject::StorageClass(_) => ResourceKind::StorageClass,
            ViewObject::Node(_) => ResourceKind::Node,
            ViewObject::Namespace(_) => ResourceKind::Namespace,
            ViewObject::CustomResourceDefinition(_) => ResourceKind::CustomResourceDefinition,
            ViewObject::Metadata(kind, _) => *kind,
        }
    }

    /// Its metadata.
    pub fn meta(&self) -> &ObjectMeta {
        match self {
            ViewObject::HorizontalPodAutoscaler(o) => &o.metadata,
            ViewObject::Deployment(o) => &o.metadata,
            ViewObject::DaemonSet(o) => &o.metadata,
            ViewObject::ReplicaSet(o) => &o.metadata,
            ViewObject::ReplicationController(o) => &o.metadata,
            ViewObject::StatefulSet(o) => &o.metadata,
            ViewObject::ControllerRevision(o) => &o.metadata,
            ViewObject::CronJob(o) => &o.metadata,
            ViewObject::Job(o) => &o.metadata,
            ViewObject::Pod(o) => &o.metadata,
            ViewObject::ResourceQuota(o) => &o.metadata,
            ViewObject::RestartLadder(o) => &o.metadata,
            ViewObject::PodRestart(o) => &o.metadata,
            ViewObject::RestartLedger(o) => &o.metadata,
            ViewObject::PodDisruptionBudget(o) => &o.metadata,
            ViewObject::PersistentVolumeClaim(o) => &o.metadata,
            ViewObject::Service(o) => &o.metadata,
            ViewObject::EndpointSlice(o) => &o.metadata,
            ViewObject::Endpoints(o) => &o.metadata,
            ViewObject::Lease(o) => &o.metadata,
            ViewObject::PersistentVolume(o) => &o.metadata,
            ViewObject::StorageClass(o) => &o.metadata,
            ViewObject::Node(o) => &o.metadata,
            ViewObject::Namespace(o) => &o.metadata,
            ViewObject::CustomResourceDefinition(o) => &o.metadata,
            ViewObject::Metadata(_, meta) => meta,
        }
    }

    /// Whether both are one and the same, so that nobody has to compare them field by field.
    pub fn is_same(&self, other: &ViewObject) -> bool {
        std::ptr::eq(self.meta(), other.meta())
    }

    /// What it is called.
    pub fn id(&self) -> ObjectId {
        ObjectId::new(self.kind(), NamespacedName::from_meta(self.meta()))
    }

    /// True when that is what it is called.
    pub(crate) fn is_called(&self, id: &ObjectId) -> bool {
        let meta = self.meta();
        self.kind() == id.kind
            && meta.name.as_deref().unwrap_or_default() == id.name.name
            && meta.namespace.as_deref().unwrap_or_default() == id.name.namespace
    }

    /// The same, where a pod shares what it can of its spec with another.
    pub(crate) fn sharing(self, other: Option<&HeldPod>) -> Self {
        match self {
            ViewObject::Pod(pod) => ViewObject::from(Arc::unwrap_or_clone(pod).sharing(other)),
            other => other,
        }
    }

    /// Its UID; empty when the server has not given one.
    pub fn uid(&self) -> &str {
        self.meta().uid.as_deref().unwrap_or_default()
    }
}

macro_rules! object_from {
    ($($kind:ident),*) => {
        $(
            impl From<$kind> for ViewObject {
                fn from(object: $kind) -> Self {
                    ViewObject::$kind(Arc::new(object))
                }
            }
            impl From<Arc<$kind>> for ViewObject {
                fn from(object: Arc<$kind>) -> Self {
                    ViewObject::$kind(object)
                }
            }
        )*
    };
}
impl From<HeldPod> for ViewObject {
    fn from(pod: HeldPod) -> Self {
        ViewObject::Pod(Arc::new(pod))
    }
}
impl From<Arc<HeldPod>> for ViewObject {
    fn from(pod: Arc<HeldPod>) -> Self {
        ViewObject::Pod(pod)
    }
}
impl From<v1::Pod> for ViewObject {
    /// As it is held.
    fn from(pod: v1::Pod) -> Self {
        ViewObject::from(HeldPod::from(pod))
    }
}

impl From<CustomResourceDefinition> for ViewObject {
    /// As it is held.
    fn from(definition: CustomResourceDefinition) -> Self {
        ViewObject::CustomResourceDefinition(Arc::new(HeldDefinition::from(&definition)))
    }
}

object_from!(
    HorizontalPodAutoscaler,
    Deployment,
    DaemonSet,
    ReplicaSet,
    ReplicationController,
    StatefulSet,
    ControllerRevision,
    CronJob,
    Job,
    ResourceQuota,
    RestartLadder,
    PodRestart,
    RestartLedger,
    PodDisruptionBudget,
    PersistentVolumeClaim,
    Service,
    EndpointSlice,
    Endpoints,
    Lease,
    PersistentVolume,
    StorageClass,
    Node,
    Namespace
);
