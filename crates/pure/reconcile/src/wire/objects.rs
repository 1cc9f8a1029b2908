//! Objects as they are sent, and as they are read from answers and watches.

use k8s_openapi::api::apps::v1::{
    ControllerRevision, DaemonSet, Deployment, ReplicaSet, StatefulSet,
};
use k8s_openapi::api::batch::v1::{CronJob, Job};
use k8s_openapi::api::coordination::v1::Lease;
use k8s_openapi::api::core::v1::{
    Endpoints, Namespace, Node, PersistentVolume, PersistentVolumeClaim, Pod,
    ReplicationController, Service,
};
use k8s_openapi::api::discovery::v1::EndpointSlice;
use k8s_openapi::api::policy::v1::PodDisruptionBudget;
use k8s_openapi::api::storage::v1::StorageClass;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use rekindle_controllers::{NewObject, ResourceKind, ViewObject};
use rekindle_types::v1alpha1::{PodRestart, RestartLadder, RestartLedger};
use serde::ser::Error as _;
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use serde_json::{Value, json};

/// What is created, as it is sent.
pub(super) struct CreateBody<'a>(pub(super) &'a NewObject);

impl Serialize for CreateBody<'_> {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        match self.0 {
            NewObject::Pod(pod) => pod.serialize(to),
            NewObject::Object(object) => ObjectBody(object).serialize(to),
        }
    }
}

/// The object with its apiVersion and kind, as it is sent.
pub(super) struct ObjectBody<'a>(pub(super) &'a ViewObject);

impl Serialize for ObjectBody<'_> {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        match self.0 {
            ViewObject::DaemonSet(o) => o.serialize(to),
            ViewObject::Deployment(o) => o.serialize(to),
            ViewObject::ReplicaSet(o) => o.serialize(to),
            ViewObject::ReplicationController(o) => o.serialize(to),
            ViewObject::StatefulSet(o) => o.serialize(to),
            ViewObject::ControllerRevision(o) => o.serialize(to),
            ViewObject::CronJob(o) => o.serialize(to),
            ViewObject::Job(o) => o.serialize(to),
            ViewObject::Pod(_) => Err(S::Error::custom(
                "less than all of a pod is held: one is changed by patches, and created from a manifest",
            )),
            ViewObject::RestartLadder(o) => o.serialize(to),
            ViewObject::PodRestart(o) => o.serialize(to),
            ViewObject::RestartLedger(o) => o.serialize(to),
            ViewObject::PodDisruptionBudget(o) => o.serialize(to),
            ViewObject::PersistentVolumeClaim(o) => o.serialize(to),
            ViewObject::Service(o) => o.serialize(to),
            ViewObject::EndpointSlice(o) => o.serialize(to),
            ViewObject::Endpoints(o) => o.serialize(to),
            ViewObject::Lease(o) => o.serialize(to),
            ViewObject::PersistentVolume(o) => o.serialize(to),
            ViewObject::StorageClass(o) => o.serialize(to),
            ViewObject::Node(o) => o.serialize(to),
            ViewObject::Namespace(o) => o.serialize(to),
            ViewObject::Metadata(kind, meta) => json!({
                "apiVersion": kind.api_version(), "kind": kind.info().kind, "metadata": meta,
            })
            .serialize(to),
        }
    }
}

/// What is read of an object of which nothing else is held.
#[derive(Deserialize)]
struct PartialObject {
    #[serde(default)]
    metadata: ObjectMeta,
}

/// Reads an object of a kind as the view holds it: whole, or its metadata.
///
/// # Errors
/// When it is not one of that kind.
pub fn object_from_value(
    kind: ResourceKind,
    value: Value,
) -> Result<ViewObject, serde_json::Error> {
    read(kind, value)
}

/// The same from its text.
///
/// # Errors
/// When it is not JSON, or not an object of that kind.
pub fn object_from_json(kind: ResourceKind, json: &[u8]) -> Result<ViewObject, serde_json::Error> {
    read(kind, &mut serde_json::Deserializer::from_slice(json))
}

fn read<'de, D: Deserializer<'de>>(kind: ResourceKind, from: D) -> Result<ViewObject, D::Error> {
    fn typed<'de, T: Deserialize<'de>, D: Deserializer<'de>>(
        from: D,
    ) -> Result<ViewObject, D::Error>
    where
        ViewObject: From<T>,
    {
        T::deserialize(from).map(ViewObject::from)
    }
    match kind {
        ResourceKind::DaemonSet => typed::<DaemonSet, _>(from),
        ResourceKind::Deployment => typed::<Deployment, _>(from),
        ResourceKind::ReplicaSet => typed::<ReplicaSet, _>(from),
        ResourceKind::ReplicationController => typed::<ReplicationController, _>(from),
        ResourceKind::StatefulSet => typed::<StatefulSet, _>(from),
        ResourceKind::ControllerRevision => typed::<ControllerRevision, _>(from),
        ResourceKind::CronJob => typed::<CronJob, _>(from),
        ResourceKind::Job => typed::<Job, _>(from),
        ResourceKind::Pod => typed::<Pod, _>(from),
        ResourceKind::RestartLadder => typed::<RestartLadder, _>(from),
        ResourceKind::PodRestart => typed::<PodRestart, _>(from),
        ResourceKind::RestartLedger => typed::<RestartLedger, _>(from),
        ResourceKind::PodDisruptionBudget => typed::<PodDisruptionBudget, _>(from),
        ResourceKind::PersistentVolumeClaim => typed::<PersistentVolumeClaim, _>(from),
        ResourceKind::Service => typed::<Service, _>(from),
        ResourceKind::EndpointSlice => typed::<EndpointSlice, _>(from),
        ResourceKind::Endpoints => typed::<Endpoints, _>(from),
        ResourceKind::Lease => typed::<Lease, _>(from),
        ResourceKind::PersistentVolume => typed::<PersistentVolume, _>(from),
        ResourceKind::StorageClass => typed::<StorageClass, _>(from),
        ResourceKind::Node => typed::<Node, _>(from),
        ResourceKind::Namespace => typed::<Namespace, _>(from),
        ResourceKind::ConfigMap
        | ResourceKind::Secret
        | ResourceKind::ServiceAccount
        | ResourceKind::RoleBinding
        | ResourceKind::Role
        | ResourceKind::PriorityClass
        | ResourceKind::ClusterRoleBinding
        | ResourceKind::ClusterRole
        | ResourceKind::Event => {
            let PartialObject { metadata } = PartialObject::deserialize(from)?;
            Ok(ViewObject::Metadata(kind, metadata.into()))
        }
    }
}
