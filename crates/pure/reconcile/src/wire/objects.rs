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
use rekindle_controllers::{Kind, Manifest, Object};
use rekindle_types::v1alpha1::{PodRestart, RestartLadder, RestartLedger};
use serde::ser::Error as _;
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use serde_json::{Value, json};

/// What is created, as it is sent.
pub(super) struct New<'a>(pub(super) &'a Manifest);

impl Serialize for New<'_> {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        match self.0 {
            Manifest::Pod(pod) => pod.serialize(to),
            Manifest::Object(object) => Sent(object).serialize(to),
        }
    }
}

/// The object with its apiVersion and kind, as it is sent.
pub(super) struct Sent<'a>(pub(super) &'a Object);

impl Serialize for Sent<'_> {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        match self.0 {
            Object::DaemonSet(o) => o.serialize(to),
            Object::Deployment(o) => o.serialize(to),
            Object::ReplicaSet(o) => o.serialize(to),
            Object::ReplicationController(o) => o.serialize(to),
            Object::StatefulSet(o) => o.serialize(to),
            Object::ControllerRevision(o) => o.serialize(to),
            Object::CronJob(o) => o.serialize(to),
            Object::Job(o) => o.serialize(to),
            Object::Pod(_) => Err(S::Error::custom(
                "less than all of a pod is held: one is changed by patches, and created from a manifest",
            )),
            Object::RestartLadder(o) => o.serialize(to),
            Object::PodRestart(o) => o.serialize(to),
            Object::RestartLedger(o) => o.serialize(to),
            Object::PodDisruptionBudget(o) => o.serialize(to),
            Object::PersistentVolumeClaim(o) => o.serialize(to),
            Object::Service(o) => o.serialize(to),
            Object::EndpointSlice(o) => o.serialize(to),
            Object::Endpoints(o) => o.serialize(to),
            Object::Lease(o) => o.serialize(to),
            Object::PersistentVolume(o) => o.serialize(to),
            Object::StorageClass(o) => o.serialize(to),
            Object::Node(o) => o.serialize(to),
            Object::Namespace(o) => o.serialize(to),
            Object::Metadata(kind, meta) => json!({
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
pub fn object_from_value(kind: Kind, value: Value) -> Result<Object, serde_json::Error> {
    read(kind, value)
}

/// The same from its text.
///
/// # Errors
/// When it is not JSON, or not an object of that kind.
pub fn object_from_json(kind: Kind, json: &[u8]) -> Result<Object, serde_json::Error> {
    read(kind, &mut serde_json::Deserializer::from_slice(json))
}

fn read<'de, D: Deserializer<'de>>(kind: Kind, from: D) -> Result<Object, D::Error> {
    fn typed<'de, T: Deserialize<'de>, D: Deserializer<'de>>(from: D) -> Result<Object, D::Error>
    where
        Object: From<T>,
    {
        T::deserialize(from).map(Object::from)
    }
    match kind {
        Kind::DaemonSet => typed::<DaemonSet, _>(from),
        Kind::Deployment => typed::<Deployment, _>(from),
        Kind::ReplicaSet => typed::<ReplicaSet, _>(from),
        Kind::ReplicationController => typed::<ReplicationController, _>(from),
        Kind::StatefulSet => typed::<StatefulSet, _>(from),
        Kind::ControllerRevision => typed::<ControllerRevision, _>(from),
        Kind::CronJob => typed::<CronJob, _>(from),
        Kind::Job => typed::<Job, _>(from),
        Kind::Pod => typed::<Pod, _>(from),
        Kind::RestartLadder => typed::<RestartLadder, _>(from),
        Kind::PodRestart => typed::<PodRestart, _>(from),
        Kind::RestartLedger => typed::<RestartLedger, _>(from),
        Kind::PodDisruptionBudget => typed::<PodDisruptionBudget, _>(from),
        Kind::PersistentVolumeClaim => typed::<PersistentVolumeClaim, _>(from),
        Kind::Service => typed::<Service, _>(from),
        Kind::EndpointSlice => typed::<EndpointSlice, _>(from),
        Kind::Endpoints => typed::<Endpoints, _>(from),
        Kind::Lease => typed::<Lease, _>(from),
        Kind::PersistentVolume => typed::<PersistentVolume, _>(from),
        Kind::StorageClass => typed::<StorageClass, _>(from),
        Kind::Node => typed::<Node, _>(from),
        Kind::Namespace => typed::<Namespace, _>(from),
        Kind::ConfigMap
        | Kind::Secret
        | Kind::ServiceAccount
        | Kind::RoleBinding
        | Kind::Role
        | Kind::PriorityClass
        | Kind::ClusterRoleBinding
        | Kind::ClusterRole
        | Kind::Event => {
            let PartialObject { metadata } = PartialObject::deserialize(from)?;
            Ok(Object::Metadata(kind, metadata.into()))
        }
    }
}
