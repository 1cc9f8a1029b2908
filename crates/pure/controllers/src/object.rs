//! Objects as the view holds them, shared and immutable.

use std::fmt;
use std::sync::Arc;

use k8s_openapi::api::apps::v1::{
    ControllerRevision, DaemonSet, Deployment, ReplicaSet, StatefulSet,
};
use k8s_openapi::api::batch::v1::{CronJob, Job};
use k8s_openapi::api::coordination::v1::Lease;
use k8s_openapi::api::core::v1::{
    self, Endpoints, Namespace, Node, PersistentVolume, PersistentVolumeClaim,
    ReplicationController, Service,
};
use k8s_openapi::api::discovery::v1::EndpointSlice;
use k8s_openapi::api::policy::v1::PodDisruptionBudget;
use k8s_openapi::api::storage::v1::StorageClass;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use rekindle_types::held::Pod;
use rekindle_types::v1alpha1::{PodRestart, RestartLadder, RestartLedger};

use crate::Kind;

/// Namespace and name. The namespace of a cluster-scoped object is empty.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct NamespacedName {
    /// The namespace, or empty.
    pub namespace: String,
    /// The name.
    pub name: String,
}

impl NamespacedName {
    /// From its parts.
    pub fn new(namespace: impl Into<String>, name: impl Into<String>) -> Self {
        Self { namespace: namespace.into(), name: name.into() }
    }

    /// As the metadata of an object has it.
    pub fn of(meta: &ObjectMeta) -> Self {
        Self::new(
            meta.namespace.as_deref().unwrap_or_default(),
            meta.name.as_deref().unwrap_or_default(),
        )
    }
}

impl fmt::Display for NamespacedName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.namespace.is_empty() {
            f.write_str(&self.name)
        } else {
            write!(f, "{}/{}", self.namespace, self.name)
        }
    }
}

/// Kind, namespace and name: what an object is called. Ordered by kind, then namespace, then name.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ObjectId {
    /// The kind.
    pub kind: Kind,
    /// Namespace and name.
    pub name: NamespacedName,
}

impl ObjectId {
    /// From its parts.
    pub fn new(kind: Kind, name: NamespacedName) -> Self {
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
pub enum Object {
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
    Pod(Arc<Pod>),
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
    /// The metadata of an object of another kind.
    Metadata(Kind, Arc<ObjectMeta>),
}

impl Object {
    /// Its kind.
    pub fn kind(&self) -> Kind {
        match self {
            Object::Deployment(_) => Kind::Deployment,
            Object::DaemonSet(_) => Kind::DaemonSet,
            Object::ReplicaSet(_) => Kind::ReplicaSet,
            Object::ReplicationController(_) => Kind::ReplicationController,
            Object::StatefulSet(_) => Kind::StatefulSet,
            Object::ControllerRevision(_) => Kind::ControllerRevision,
            Object::CronJob(_) => Kind::CronJob,
            Object::Job(_) => Kind::Job,
            Object::Pod(_) => Kind::Pod,
            Object::RestartLadder(_) => Kind::RestartLadder,
            Object::PodRestart(_) => Kind::PodRestart,
            Object::RestartLedger(_) => Kind::RestartLedger,
            Object::PodDisruptionBudget(_) => Kind::PodDisruptionBudget,
            Object::PersistentVolumeClaim(_) => Kind::PersistentVolumeClaim,
            Object::Service(_) => Kind::Service,
            Object::EndpointSlice(_) => Kind::EndpointSlice,
            Object::Endpoints(_) => Kind::Endpoints,
            Object::Lease(_) => Kind::Lease,
            Object::PersistentVolume(_) => Kind::PersistentVolume,
            Object::StorageClass(_) => Kind::StorageClass,
            Object::Node(_) => Kind::Node,
            Object::Namespace(_) => Kind::Namespace,
            Object::Metadata(kind, _) => *kind,
        }
    }

    /// Its metadata.
    pub fn meta(&self) -> &ObjectMeta {
        match self {
            Object::Deployment(o) => &o.metadata,
            Object::DaemonSet(o) => &o.metadata,
            Object::ReplicaSet(o) => &o.metadata,
            Object::ReplicationController(o) => &o.metadata,
            Object::StatefulSet(o) => &o.metadata,
            Object::ControllerRevision(o) => &o.metadata,
            Object::CronJob(o) => &o.metadata,
            Object::Job(o) => &o.metadata,
            Object::Pod(o) => &o.metadata,
            Object::RestartLadder(o) => &o.metadata,
            Object::PodRestart(o) => &o.metadata,
            Object::RestartLedger(o) => &o.metadata,
            Object::PodDisruptionBudget(o) => &o.metadata,
            Object::PersistentVolumeClaim(o) => &o.metadata,
            Object::Service(o) => &o.metadata,
            Object::EndpointSlice(o) => &o.metadata,
            Object::Endpoints(o) => &o.metadata,
            Object::Lease(o) => &o.metadata,
            Object::PersistentVolume(o) => &o.metadata,
            Object::StorageClass(o) => &o.metadata,
            Object::Node(o) => &o.metadata,
            Object::Namespace(o) => &o.metadata,
            Object::Metadata(_, meta) => meta,
        }
    }

    /// Whether both are one and the same, so that nobody has to compare them field by field.
    pub fn is_same(&self, other: &Object) -> bool {
        std::ptr::eq(self.meta(), other.meta())
    }

    /// What it is called.
    pub fn id(&self) -> ObjectId {
        ObjectId::new(self.kind(), NamespacedName::of(self.meta()))
    }

    /// True when that is what it is called.
    pub(crate) fn is_called(&self, id: &ObjectId) -> bool {
        let meta = self.meta();
        self.kind() == id.kind
            && meta.name.as_deref().unwrap_or_default() == id.name.name
            && meta.namespace.as_deref().unwrap_or_default() == id.name.namespace
    }

    /// The same, where a pod shares what it can of its spec with another.
    pub(crate) fn sharing(self, other: Option<&Pod>) -> Self {
        match self {
            Object::Pod(pod) => Object::from(Arc::unwrap_or_clone(pod).sharing(other)),
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
            impl From<$kind> for Object {
                fn from(object: $kind) -> Self {
                    Object::$kind(Arc::new(object))
                }
            }
            impl From<Arc<$kind>> for Object {
                fn from(object: Arc<$kind>) -> Self {
                    Object::$kind(object)
                }
            }
        )*
    };
}
impl From<v1::Pod> for Object {
    /// As it is held.
    fn from(pod: v1::Pod) -> Self {
        Object::from(Pod::from(pod))
    }
}

object_from!(
    Deployment,
    DaemonSet,
    ReplicaSet,
    ReplicationController,
    StatefulSet,
    ControllerRevision,
    CronJob,
    Job,
    Pod,
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
