//! What is known of the kinds that the API serves, and nothing of requests: names, defaults,
//! validation, preparation, warnings, columns, schemas, merge rules. `rekindle-api` serves them.
//!
//! Each kind has a file or a folder. Adding one is an `impl ApiKind` and a line in [`all`].
//!
//! ```text
//!  registry     what a kind is (`ApiKind`), and objects of any kind (`AnyObject`)
//!  validation   rules that kinds share          table     cells that they share
//!  openapi      the schemas that clients read   identity  who asks
//! ```
#![forbid(unsafe_code)]

use k8s_openapi::api::admissionregistration::v1::{
    MutatingAdmissionPolicy, MutatingAdmissionPolicyBinding, MutatingWebhookConfiguration,
    ValidatingAdmissionPolicy, ValidatingAdmissionPolicyBinding, ValidatingWebhookConfiguration,
};
use k8s_openapi::api::apps::v1::{
    ControllerRevision, DaemonSet, Deployment, ReplicaSet, StatefulSet,
};
use k8s_openapi::api::autoscaling::v1::HorizontalPodAutoscaler as HorizontalPodAutoscalerV1;
use k8s_openapi::api::autoscaling::v2::HorizontalPodAutoscaler;
use k8s_openapi::api::batch::v1::{CronJob, Job};
use k8s_openapi::api::certificates::v1::{CertificateSigningRequest, ClusterTrustBundle};
use k8s_openapi::api::coordination::v1::Lease;
use k8s_openapi::api::core::v1::{
    ConfigMap, Endpoints, Event, LimitRange, Namespace, Node, PersistentVolume,
    PersistentVolumeClaim, Pod, PodTemplate, ReplicationController, ResourceQuota, Secret, Service,
    ServiceAccount,
};
use k8s_openapi::api::discovery::v1::EndpointSlice;
use k8s_openapi::api::events::v1::Event as EventsEvent;
use k8s_openapi::api::flowcontrol::v1::{FlowSchema, PriorityLevelConfiguration};
use k8s_openapi::api::networking::v1::{
    IPAddress, Ingress, IngressClass, NetworkPolicy, ServiceCIDR,
};
use k8s_openapi::api::node::v1::RuntimeClass;
use k8s_openapi::api::policy::v1::PodDisruptionBudget;
use k8s_openapi::api::rbac::v1::{ClusterRole, ClusterRoleBinding, Role, RoleBinding};
use k8s_openapi::api::resource::v1::{
    DeviceClass, ResourceClaim, ResourceClaimTemplate, ResourceSlice,
};
use k8s_openapi::api::scheduling::v1::PriorityClass;
use k8s_openapi::api::storage::v1::{
    CSIDriver, CSINode, CSIStorageCapacity, StorageClass, VolumeAttachment, VolumeAttributesClass,
};
use k8s_openapi::api::storagemigration::v1::StorageVersionMigration;
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use k8s_openapi::kube_aggregator::pkg::apis::apiregistration::v1::APIService;
use rekindle_types::v1alpha1::{PodRestart, RestartLadder, RestartLedger};

use registry::Registry;

pub mod identity;
pub mod openapi;
pub mod registry;
pub mod service_range;
pub mod table;
pub mod validation;

pub mod admission_policy;
pub mod admission_webhook;
pub mod api_service;
pub mod certificate_signing_request;
pub mod cluster_trust_bundle;
mod config_map;
mod controller_revision;
mod cron_job;
pub mod custom_resource_definition;
mod daemon_set;
mod defaults;
mod deployment;
mod dynamic_resources;
mod endpoint_slice;
mod endpoints;
mod event;
mod events_event;
pub mod flow_control;
mod horizontal_pod_autoscaler;
mod ingress;
mod ingress_class;
mod ip_address;
mod job;
mod keyed_data;
pub mod ladder_annotations;
mod lease;
pub mod limit_range;
mod namespace;
mod network_policy;
mod node;
pub mod pod;
pub mod pod_disruption_budget;
mod pod_restart;
mod pod_template;
mod preparation;
pub mod priority_class;
pub mod rbac;
mod replica_set;
mod replication_controller;
mod resource_quota;
mod restart_ladder;
mod restart_ledger;
pub mod runtime_class;
pub mod secret;
pub mod service;
mod service_account;
pub mod service_cidr;
mod stateful_set;
mod status_counts;
pub mod storage;
pub mod storage_version_migration;
mod template;
mod tls_secret;
mod volume_sources;

/// Every kind that Rekindle serves.
pub fn all() -> Registry {
    let mut registry = Registry::default();
    registry
        .register::<APIService>()
        .register::<CertificateSigningRequest>()
        .register::<ClusterRole>()
        .register::<ClusterRoleBinding>()
        .register::<ClusterTrustBundle>()
        .register::<ConfigMap>()
        .register::<ControllerRevision>()
        .register::<CronJob>()
        .register::<CSIDriver>()
        .register::<CSINode>()
        .register::<CSIStorageCapacity>()
        .register::<CustomResourceDefinition>()
        .register::<DaemonSet>()
        .register::<Deployment>()
        .register::<DeviceClass>()
        .register::<EndpointSlice>()
        .register::<Endpoints>()
        .register::<Event>()
        .register::<FlowSchema>()
        .register::<HorizontalPodAutoscaler>()
        .register::<IPAddress>()
        .register::<Ingress>()
        .register::<IngressClass>()
        .register::<Job>()
        .register::<Lease>()
        .register::<LimitRange>()
        .register::<MutatingAdmissionPolicy>()
        .register::<MutatingAdmissionPolicyBinding>()
        .register::<MutatingWebhookConfiguration>()
        .register::<Namespace>()
        .register::<NetworkPolicy>()
        .register::<Node>()
        .register::<PersistentVolume>()
        .register::<PersistentVolumeClaim>()
        .register::<Pod>()
        .register::<PodDisruptionBudget>()
        .register::<PodRestart>()
        .register::<PodTemplate>()
        .register::<PriorityClass>()
        .register::<PriorityLevelConfiguration>()
        .register::<ReplicaSet>()
        .register::<ReplicationController>()
        .register::<ResourceClaim>()
        .register::<ResourceClaimTemplate>()
        .register::<ResourceQuota>()
        .register::<ResourceSlice>()
        .register::<RestartLadder>()
        .register::<RestartLedger>()
        .register::<Role>()
        .register::<RoleBinding>()
        .register::<RuntimeClass>()
        .register::<Secret>()
        .register::<Service>()
        .register::<ServiceAccount>()
        .register::<ServiceCIDR>()
        .register::<StatefulSet>()
        .register::<StorageClass>()
        .register::<StorageVersionMigration>()
        .register::<ValidatingAdmissionPolicy>()
        .register::<ValidatingAdmissionPolicyBinding>()
        .register::<ValidatingWebhookConfiguration>()
        .register::<VolumeAttachment>()
        .register::<VolumeAttributesClass>()
        .register_view::<HorizontalPodAutoscalerV1>()
        .register_view::<EventsEvent>();
    registry
}

#[cfg(test)]
mod tests;
