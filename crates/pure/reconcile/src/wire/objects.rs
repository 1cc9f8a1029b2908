//! Objects as they are sent, and as they are read from answers and watches.

use k8s_openapi::Metadata;
use k8s_openapi::api::apps::v1::{
    ControllerRevision, DaemonSet, Deployment, ReplicaSet, StatefulSet,
};
use k8s_openapi::api::autoscaling::v2::HorizontalPodAutoscaler;
use k8s_openapi::api::batch::v1::{CronJob, Job};
use k8s_openapi::api::coordination::v1::Lease;
use k8s_openapi::api::core::v1::{
    Endpoints, Namespace, Node, PersistentVolume, PersistentVolumeClaim, Pod,
    ReplicationController, ResourceQuota, Service,
};
use k8s_openapi::api::discovery::v1::EndpointSlice;
use k8s_openapi::api::policy::v1::PodDisruptionBudget;
use k8s_openapi::api::storage::v1::StorageClass;
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use rekindle_controllers::{NewObject, ResourceKind, ViewObject};
use rekindle_types::ObjectJson;
use rekindle_types::v1alpha1::{PodRestart, RestartLadder, RestartLedger};
use serde::Deserialize;
use serde::ser::Error as _;
use serde_json::{Error, json};

/// What is created, as it is sent.
pub(super) fn json_of_new(object: &NewObject) -> Result<Vec<u8>, Error> {
    match object {
        NewObject::Pod(pod) => Ok(pod.to_json()),
        NewObject::Object(object) => json_of_object(object),
    }
}

/// The object with its apiVersion and kind, as it is sent.
pub(super) fn json_of_object(object: &ViewObject) -> Result<Vec<u8>, Error> {
    Ok(match object {
        ViewObject::DaemonSet(o) => o.to_json(),
        ViewObject::Deployment(o) => o.to_json(),
        ViewObject::ReplicaSet(o) => o.to_json(),
        ViewObject::ReplicationController(o) => o.to_json(),
        ViewObject::ResourceQuota(o) => o.to_json(),
        ViewObject::StatefulSet(o) => o.to_json(),
        ViewObject::ControllerRevision(o) => o.to_json(),
        ViewObject::HorizontalPodAutoscaler(o) => o.to_json(),
        ViewObject::CronJob(o) => o.to_json(),
        ViewObject::Job(o) => o.to_json(),
        ViewObject::Pod(_) => {
            return Err(Error::custom(
                "less than all of a pod is held: one is changed by patches, and created from a manifest",
            ));
        }
        ViewObject::CustomResourceDefinition(_) => {
            return Err(Error::custom("no more than the names of a definition are held"));
        }
        ViewObject::RestartLadder(o) => o.to_json(),
        ViewObject::PodRestart(o) => o.to_json(),
        ViewObject::RestartLedger(o) => o.to_json(),
        ViewObject::PodDisruptionBudget(o) => o.to_json(),
        ViewObject::PersistentVolumeClaim(o) => o.to_json(),
        ViewObject::Service(o) => o.to_json(),
        ViewObject::EndpointSlice(o) => o.to_json(),
        ViewObject::Endpoints(o) => o.to_json(),
        ViewObject::Lease(o) => o.to_json(),
        ViewObject::PersistentVolume(o) => o.to_json(),
        ViewObject::StorageClass(o) => o.to_json(),
        ViewObject::Node(o) => o.to_json(),
        ViewObject::Namespace(o) => o.to_json(),
        ViewObject::Metadata(kind, meta) => serde_json::to_vec(&json!({
            "apiVersion": kind.api_version(),
            "kind": kind.info().kind,
            "metadata": meta.to_value(),
        }))?,
    })
}

/// What is read of an object of which nothing else is held.
#[derive(Deserialize)]
struct PartialObject {
    #[serde(default)]
    metadata: ObjectMeta,
}

/// Reads an object of a kind as the view holds it: whole, or its metadata. Who wrote which field is
/// left out: nothing is decided by it, and as a tree it takes more memory than most objects.
///
/// # Errors
/// When it is not JSON, or not an object of that kind.
pub fn object_from_json(kind: ResourceKind, json: &[u8]) -> Result<ViewObject, Error> {
    fn typed<T: ObjectJson + Metadata<Ty = ObjectMeta>>(json: &[u8]) -> Result<ViewObject, Error>
    where
        ViewObject: From<T>,
    {
        let mut object = T::from_json(json)?;
        object.metadata_mut().managed_fields = None;
        Ok(ViewObject::from(object))
    }
    match kind {
        ResourceKind::DaemonSet => typed::<DaemonSet>(json),
        ResourceKind::Deployment => typed::<Deployment>(json),
        ResourceKind::ReplicaSet => typed::<ReplicaSet>(json),
        ResourceKind::ReplicationController => typed::<ReplicationController>(json),
        ResourceKind::StatefulSet => typed::<StatefulSet>(json),
        ResourceKind::ControllerRevision => typed::<ControllerRevision>(json),
        ResourceKind::HorizontalPodAutoscaler => typed::<HorizontalPodAutoscaler>(json),
        ResourceKind::CronJob => typed::<CronJob>(json),
        ResourceKind::Job => typed::<Job>(json),
        ResourceKind::Pod => typed::<Pod>(json),
        ResourceKind::ResourceQuota => typed::<ResourceQuota>(json),
        ResourceKind::RestartLadder => typed::<RestartLadder>(json),
        ResourceKind::PodRestart => typed::<PodRestart>(json),
        ResourceKind::RestartLedger => typed::<RestartLedger>(json),
        ResourceKind::PodDisruptionBudget => typed::<PodDisruptionBudget>(json),
        ResourceKind::PersistentVolumeClaim => typed::<PersistentVolumeClaim>(json),
        ResourceKind::Service => typed::<Service>(json),
        ResourceKind::EndpointSlice => typed::<EndpointSlice>(json),
        ResourceKind::Endpoints => typed::<Endpoints>(json),
        ResourceKind::Lease => typed::<Lease>(json),
        ResourceKind::PersistentVolume => typed::<PersistentVolume>(json),
        ResourceKind::StorageClass => typed::<StorageClass>(json),
        ResourceKind::Node => typed::<Node>(json),
        ResourceKind::Namespace => typed::<Namespace>(json),
        ResourceKind::CustomResourceDefinition => typed::<CustomResourceDefinition>(json),
        ResourceKind::ConfigMap
        | ResourceKind::Secret
        | ResourceKind::ServiceAccount
        | ResourceKind::RoleBinding
        | ResourceKind::Role
        | ResourceKind::NetworkPolicy
        | ResourceKind::PriorityClass
        | ResourceKind::IpAddress
        | ResourceKind::ServiceCidr
        | ResourceKind::PodTemplate
        | ResourceKind::LimitRange
        | ResourceKind::Ingress
        | ResourceKind::CsiStorageCapacity
        | ResourceKind::ResourceClaim
        | ResourceKind::ResourceClaimTemplate
        | ResourceKind::DeviceClass
        | ResourceKind::ResourceSlice
        | ResourceKind::IngressClass
        | ResourceKind::RuntimeClass
        | ResourceKind::CsiDriver
        | ResourceKind::CsiNode
        | ResourceKind::VolumeAttachment
        | ResourceKind::VolumeAttributesClass
        | ResourceKind::PriorityLevelConfiguration
        | ResourceKind::FlowSchema
        | ResourceKind::ValidatingAdmissionPolicy
        | ResourceKind::ValidatingAdmissionPolicyBinding
        | ResourceKind::MutatingAdmissionPolicy
        | ResourceKind::MutatingAdmissionPolicyBinding
        | ResourceKind::ValidatingWebhookConfiguration
        | ResourceKind::MutatingWebhookConfiguration
        | ResourceKind::CertificateSigningRequest
        | ResourceKind::ClusterTrustBundle
        | ResourceKind::StorageVersionMigration
        | ResourceKind::ApiService
        | ResourceKind::ClusterRoleBinding
        | ResourceKind::ClusterRole
        | ResourceKind::Custom(_)
        | ResourceKind::Event => {
            let PartialObject { mut metadata } = serde_json::from_slice(json)?;
            metadata.managed_fields = None;
            Ok(ViewObject::Metadata(kind, metadata.into()))
        }
    }
}
