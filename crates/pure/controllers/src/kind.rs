//! The kinds the controllers know: all that are served, for each can have owners and dependents.
//! Adding one is a variant, a line in the table and, if it is watched whole, an
//! [`ViewObject`](crate::ViewObject) variant.

use std::fmt;

use rekindle_types::ResourceScope;

use crate::definition::CustomKind;

/// One kind of object.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum ResourceKind {
    /// autoscaling/v2 HorizontalPodAutoscaler.
    HorizontalPodAutoscaler,
    /// apps/v1 Deployment.
    Deployment,
    /// apps/v1 DaemonSet.
    DaemonSet,
    /// apps/v1 ReplicaSet.
    ReplicaSet,
    /// v1 ReplicationController.
    ReplicationController,
    /// apps/v1 StatefulSet.
    StatefulSet,
    /// apps/v1 ControllerRevision.
    ControllerRevision,
    /// batch/v1 CronJob.
    CronJob,
    /// batch/v1 Job.
    Job,
    /// v1 Pod.
    Pod,
    /// rekindle.dev/v1alpha1 RestartLadder.
    RestartLadder,
    /// rekindle.dev/v1alpha1 PodRestart.
    PodRestart,
    /// rekindle.dev/v1alpha1 RestartLedger.
    RestartLedger,
    /// policy/v1 PodDisruptionBudget.
    PodDisruptionBudget,
    /// v1 PersistentVolumeClaim.
    PersistentVolumeClaim,
    /// v1 Service.
    Service,
    /// discovery.k8s.io/v1 EndpointSlice.
    EndpointSlice,
    /// v1 Endpoints.
    Endpoints,
    /// v1 ConfigMap.
    ConfigMap,
    /// v1 Secret.
    Secret,
    /// v1 ServiceAccount.
    ServiceAccount,
    /// rbac.authorization.k8s.io/v1 RoleBinding.
    RoleBinding,
    /// rbac.authorization.k8s.io/v1 Role.
    Role,
    /// v1 PodTemplate.
    PodTemplate,
    /// v1 LimitRange.
    LimitRange,
    /// v1 ResourceQuota.
    ResourceQuota,
    /// networking.k8s.io/v1 Ingress.
    Ingress,
    /// storage.k8s.io/v1 CSIStorageCapacity.
    CsiStorageCapacity,
    /// resource.k8s.io/v1 ResourceClaim.
    ResourceClaim,
    /// resource.k8s.io/v1 ResourceClaimTemplate.
    ResourceClaimTemplate,
    /// coordination.k8s.io/v1 Lease.
    Lease,
    /// v1 Event.
    Event,
    /// networking.k8s.io/v1 NetworkPolicy.
    NetworkPolicy,
    /// v1 PersistentVolume.
    PersistentVolume,
    /// storage.k8s.io/v1 StorageClass.
    StorageClass,
    /// v1 Node.
    Node,
    /// v1 Namespace.
    Namespace,
    /// scheduling.k8s.io/v1 PriorityClass.
    PriorityClass,
    /// networking.k8s.io/v1 IPAddress.
    IpAddress,
    /// networking.k8s.io/v1 ServiceCIDR.
    ServiceCidr,
    /// networking.k8s.io/v1 IngressClass.
    IngressClass,
    /// node.k8s.io/v1 RuntimeClass.
    RuntimeClass,
    /// storage.k8s.io/v1 CSIDriver.
    CsiDriver,
    /// storage.k8s.io/v1 CSINode.
    CsiNode,
    /// storage.k8s.io/v1 VolumeAttachment.
    VolumeAttachment,
    /// storage.k8s.io/v1 VolumeAttributesClass.
    VolumeAttributesClass,
    /// resource.k8s.io/v1 DeviceClass.
    DeviceClass,
    /// resource.k8s.io/v1 ResourceSlice.
    ResourceSlice,
    /// flowcontrol.apiserver.k8s.io/v1 PriorityLevelConfiguration.
    PriorityLevelConfiguration,
    /// flowcontrol.apiserver.k8s.io/v1 FlowSchema.
    FlowSchema,
    /// admissionregistration.k8s.io/v1 ValidatingAdmissionPolicy.
    ValidatingAdmissionPolicy,
    /// admissionregistration.k8s.io/v1 ValidatingAdmissionPolicyBinding.
    ValidatingAdmissionPolicyBinding,
    /// admissionregistration.k8s.io/v1 MutatingAdmissionPolicy.
    MutatingAdmissionPolicy,
    /// admissionregistration.k8s.io/v1 MutatingAdmissionPolicyBinding.
    MutatingAdmissionPolicyBinding,
    /// admissionregistration.k8s.io/v1 ValidatingWebhookConfiguration.
    ValidatingWebhookConfiguration,
    /// admissionregistration.k8s.io/v1 MutatingWebhookConfiguration.
    MutatingWebhookConfiguration,
    /// certificates.k8s.io/v1 CertificateSigningRequest.
    CertificateSigningRequest,
    /// certificates.k8s.io/v1 ClusterTrustBundle.
    ClusterTrustBundle,
    /// storagemigration.k8s.io/v1 StorageVersionMigration.
    StorageVersionMigration,
    /// apiregistration.k8s.io/v1 APIService.
    ApiService,
    /// rbac.authorization.k8s.io/v1 ClusterRoleBinding.
    ClusterRoleBinding,
    /// rbac.authorization.k8s.io/v1 ClusterRole.
    ClusterRole,
    /// apiextensions.k8s.io/v1 CustomResourceDefinition.
    CustomResourceDefinition,
    /// A kind that a CustomResourceDefinition describes.
    Custom(CustomKind),
}

/// The names of a kind, and how much of it is watched.
#[derive(Clone, Copy, Debug)]
pub struct KindInfo {
    /// `kind` as objects carry it.
    pub kind: &'static str,
    /// The API group; empty for the core group.
    pub group: &'static str,
    /// The version.
    pub version: &'static str,
    /// The path segment.
    pub plural: &'static str,
    /// Whether it lives in a namespace.
    pub scope: ResourceScope,
    /// How much of it the view holds.
    pub held: ViewDetail,
}

impl KindInfo {
    /// `deployments/scale.apps`: a part of its objects, or nothing, as error texts name it.
    pub(crate) fn resource(&self, part: &str) -> String {
        match self.group {
            "" => format!("{}{part}", self.plural),
            group => format!("{}{part}.{group}", self.plural),
        }
    }
}

/// How much of a kind's objects the view holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ViewDetail {
    /// The whole object.
    Whole,
    /// Its metadata: enough for garbage collection and namespace deletion.
    Metadata,
    /// Nothing: it is not watched.
    Nothing,
}

impl ResourceKind {
    /// Every built-in kind, in the order in which a namespace is emptied: owners before what they
    /// own, so that nothing is made again in between.
    pub const ALL: [ResourceKind; 63] = [
        ResourceKind::HorizontalPodAutoscaler,
        ResourceKind::Deployment,
        ResourceKind::DaemonSet,
        ResourceKind::ReplicaSet,
        ResourceKind::ReplicationController,
        ResourceKind::StatefulSet,
        ResourceKind::ControllerRevision,
        ResourceKind::CronJob,
        ResourceKind::Job,
        ResourceKind::Pod,
        ResourceKind::RestartLadder,
        ResourceKind::PodRestart,
        ResourceKind::RestartLedger,
        ResourceKind::PodDisruptionBudget,
        ResourceKind::PersistentVolumeClaim,
        ResourceKind::Service,
        ResourceKind::EndpointSlice,
        ResourceKind::Endpoints,
        ResourceKind::ConfigMap,
        ResourceKind::Secret,
        ResourceKind::ServiceAccount,
        ResourceKind::RoleBinding,
        ResourceKind::Role,
        ResourceKind::PodTemplate,
        ResourceKind::LimitRange,
        ResourceKind::ResourceQuota,
        ResourceKind::Ingress,
        ResourceKind::CsiStorageCapacity,
        ResourceKind::ResourceClaim,
        ResourceKind::ResourceClaimTemplate,
        ResourceKind::Lease,
        ResourceKind::Event,
        ResourceKind::NetworkPolicy,
        ResourceKind::PersistentVolume,
        ResourceKind::StorageClass,
        ResourceKind::Node,
        ResourceKind::Namespace,
        ResourceKind::PriorityClass,
        ResourceKind::IpAddress,
        ResourceKind::ServiceCidr,
        ResourceKind::IngressClass,
        ResourceKind::RuntimeClass,
        ResourceKind::CsiDriver,
        ResourceKind::CsiNode,
        ResourceKind::VolumeAttachment,
        ResourceKind::VolumeAttributesClass,
        ResourceKind::DeviceClass,
        ResourceKind::ResourceSlice,
        ResourceKind::PriorityLevelConfiguration,
        ResourceKind::FlowSchema,
        ResourceKind::ValidatingAdmissionPolicy,
        ResourceKind::ValidatingAdmissionPolicyBinding,
        ResourceKind::MutatingAdmissionPolicy,
        ResourceKind::MutatingAdmissionPolicyBinding,
        ResourceKind::ValidatingWebhookConfiguration,
        ResourceKind::MutatingWebhookConfiguration,
        ResourceKind::CertificateSigningRequest,
        ResourceKind::ClusterTrustBundle,
        ResourceKind::StorageVersionMigration,
        ResourceKind::ApiService,
        ResourceKind::ClusterRoleBinding,
        ResourceKind::ClusterRole,
        ResourceKind::CustomResourceDefinition,
    ];

    /// Whether its objects have a `/scale` that follows from what is watched. Custom kinds may have
    /// one; their objects are not watched whole.
    pub(crate) const fn is_scalable(self) -> bool {
        matches!(
            self,
            Self::Deployment | Self::ReplicaSet | Self::StatefulSet | Self::ReplicationController
        )
    }

    /// Its names.
    pub const fn info(self) -> KindInfo {
        use ResourceScope::{Cluster, Namespaced};
        use ViewDetail::{Metadata, Nothing, Whole};
        match self {
            ResourceKind::HorizontalPodAutoscaler => namespaced(
                "HorizontalPodAutoscaler",
                "autoscaling",
                "v2",
                "horizontalpodautoscalers",
                Whole,
            ),
            ResourceKind::Deployment => {
                namespaced("Deployment", "apps", "v1", "deployments", Whole)
            }
            ResourceKind::DaemonSet => namespaced("DaemonSet", "apps", "v1", "daemonsets", Whole),
            ResourceKind::ReplicaSet => {
                namespaced("ReplicaSet", "apps", "v1", "replicasets", Whole)
            }
            ResourceKind::ReplicationController => {
                namespaced("ReplicationController", "", "v1", "replicationcontrollers", Whole)
            }
            ResourceKind::StatefulSet => {
                namespaced("StatefulSet", "apps", "v1", "statefulsets", Whole)
            }
            ResourceKind::ControllerRevision => {
                namespaced("ControllerRevision", "apps", "v1", "controllerrevisions", Whole)
            }
            ResourceKind::CronJob => namespaced("CronJob", "batch", "v1", "cronjobs", Whole),
            ResourceKind::Job => namespaced("Job", "batch", "v1", "jobs", Whole),
            ResourceKind::Pod => namespaced("Pod", "", "v1", "pods", Whole),
            ResourceKind::RestartLadder => ours("RestartLadder", "restartladders"),
            ResourceKind::PodRestart => ours("PodRestart", "podrestarts"),
            ResourceKind::RestartLedger => ours("RestartLedger", "restartledgers"),
            ResourceKind::PodDisruptionBudget => {
                namespaced("PodDisruptionBudget", "policy", "v1", "poddisruptionbudgets", Whole)
            }
            ResourceKind::PersistentVolumeClaim => {
                namespaced("PersistentVolumeClaim", "", "v1", "persistentvolumeclaims", Whole)
            }
            ResourceKind::Service => namespaced("Service", "", "v1", "services", Whole),
            ResourceKind::EndpointSlice => {
                namespaced("EndpointSlice", "discovery.k8s.io", "v1", "endpointslices", Whole)
            }
            ResourceKind::Endpoints => namespaced("Endpoints", "", "v1", "endpoints", Whole),
            ResourceKind::ConfigMap => namespaced("ConfigMap", "", "v1", "configmaps", Metadata),
            ResourceKind::Secret => namespaced("Secret", "", "v1", "secrets", Metadata),
            ResourceKind::ServiceAccount => {
                namespaced("ServiceAccount", "", "v1", "serviceaccounts", Metadata)
            }
            ResourceKind::RoleBinding => rbac("RoleBinding", "rolebindings", Namespaced),
            ResourceKind::Role => rbac("Role", "roles", Namespaced),
            ResourceKind::Lease => {
                namespaced("Lease", "coordination.k8s.io", "v1", "leases", Whole)
            }
            ResourceKind::Event => namespaced("Event", "", "v1", "events", Nothing),
            ResourceKind::NetworkPolicy => {
                namespaced("NetworkPolicy", "networking.k8s.io", "v1", "networkpolicies", Metadata)
            }
            ResourceKind::PersistentVolume => cluster("PersistentVolume", "persistentvolumes"),
            ResourceKind::StorageClass => {
                KindInfo { group: "storage.k8s.io", ..cluster("StorageClass", "storageclasses") }
            }
            ResourceKind::Node => cluster("Node", "nodes"),
            ResourceKind::Namespace => cluster("Namespace", "namespaces"),
            ResourceKind::PriorityClass => KindInfo {
                group: "scheduling.k8s.io",
                held: Metadata,
                ..cluster("PriorityClass", "priorityclasses")
            },
            ResourceKind::IpAddress => networking("IPAddress", "ipaddresses"),
            ResourceKind::ServiceCidr => networking("ServiceCIDR", "servicecidrs"),
            ResourceKind::PodTemplate => {
                namespaced("PodTemplate", "", "v1", "podtemplates", Metadata)
            }
            ResourceKind::LimitRange => namespaced("LimitRange", "", "v1", "limitranges", Metadata),
            ResourceKind::ResourceQuota => {
                namespaced("ResourceQuota", "", "v1", "resourcequotas", Whole)
            }
            ResourceKind::Ingress => {
                namespaced("Ingress", "networking.k8s.io", "v1", "ingresses", Metadata)
            }
            ResourceKind::CsiStorageCapacity => namespaced(
                "CSIStorageCapacity",
                "storage.k8s.io",
                "v1",
                "csistoragecapacities",
                Metadata,
            ),
            ResourceKind::ResourceClaim => {
                namespaced("ResourceClaim", "resource.k8s.io", "v1", "resourceclaims", Metadata)
            }
            ResourceKind::ResourceClaimTemplate => namespaced(
                "ResourceClaimTemplate",
                "resource.k8s.io",
                "v1",
                "resourceclaimtemplates",
                Metadata,
            ),
            ResourceKind::DeviceClass => stored("DeviceClass", "resource.k8s.io", "deviceclasses"),
            ResourceKind::ResourceSlice => {
                stored("ResourceSlice", "resource.k8s.io", "resourceslices")
            }
            ResourceKind::IngressClass => {
                stored("IngressClass", "networking.k8s.io", "ingressclasses")
            }
            ResourceKind::RuntimeClass => stored("RuntimeClass", "node.k8s.io", "runtimeclasses"),
            ResourceKind::CsiDriver => stored("CSIDriver", "storage.k8s.io", "csidrivers"),
            ResourceKind::CsiNode => stored("CSINode", "storage.k8s.io", "csinodes"),
            ResourceKind::VolumeAttachment => {
                stored("VolumeAttachment", "storage.k8s.io", "volumeattachments")
            }
            ResourceKind::VolumeAttributesClass => {
                stored("VolumeAttributesClass", "storage.k8s.io", "volumeattributesclasses")
            }
            ResourceKind::PriorityLevelConfiguration => stored(
                "PriorityLevelConfiguration",
                "flowcontrol.apiserver.k8s.io",
                "prioritylevelconfigurations",
            ),
            ResourceKind::FlowSchema => {
                stored("FlowSchema", "flowcontrol.apiserver.k8s.io", "flowschemas")
            }
            ResourceKind::ValidatingAdmissionPolicy => {
                policy("ValidatingAdmissionPolicy", "validatingadmissionpolicies")
            }
            ResourceKind::ValidatingAdmissionPolicyBinding => {
                policy("ValidatingAdmissionPolicyBinding", "validatingadmissionpolicybindings")
            }
            ResourceKind::MutatingAdmissionPolicy => {
                policy("MutatingAdmissionPolicy", "mutatingadmissionpolicies")
            }
            ResourceKind::MutatingAdmissionPolicyBinding => {
                policy("MutatingAdmissionPolicyBinding", "mutatingadmissionpolicybindings")
            }
            ResourceKind::ValidatingWebhookConfiguration => {
                policy("ValidatingWebhookConfiguration", "validatingwebhookconfigurations")
            }
            ResourceKind::MutatingWebhookConfiguration => {
                policy("MutatingWebhookConfiguration", "mutatingwebhookconfigurations")
            }
            ResourceKind::CertificateSigningRequest => stored(
                "CertificateSigningRequest",
                "certificates.k8s.io",
                "certificatesigningrequests",
            ),
            ResourceKind::ClusterTrustBundle => {
                stored("ClusterTrustBundle", "certificates.k8s.io", "clustertrustbundles")
            }
            ResourceKind::StorageVersionMigration => stored(
                "StorageVersionMigration",
                "storagemigration.k8s.io",
                "storageversionmigrations",
            ),
            ResourceKind::ApiService => {
                stored("APIService", "apiregistration.k8s.io", "apiservices")
            }
            ResourceKind::ClusterRoleBinding => {
                rbac("ClusterRoleBinding", "clusterrolebindings", Cluster)
            }
            ResourceKind::ClusterRole => rbac("ClusterRole", "clusterroles", Cluster),
            ResourceKind::CustomResourceDefinition => KindInfo {
                group: "apiextensions.k8s.io",
                ..cluster("CustomResourceDefinition", "customresourcedefinitions")
            },
            ResourceKind::Custom(kind) => kind.info(),
        }
    }

    /// `v1`, `apps/v1`, …
    pub fn api_version(self) -> String {
        let info = self.info();
        if info.group.is_empty() {
            info.version.to_owned()
        } else {
            format!("{}/{}", info.group, info.version)
        }
    }

    /// The built-in kind that an owner reference names. The version does not matter: it is the same
    /// object in each.
    pub fn of_reference(api_version: &str, kind: &str) -> Option<ResourceKind> {
        let group = api_version.split_once('/').map_or("", |(group, _)| group);
        ResourceKind::ALL.into_iter().find(|k| k.info().kind == kind && k.info().group == group)
    }
}

const fn namespaced(
    kind: &'static str,
    group: &'static str,
    version: &'static str,
    plural: &'static str,
    held: ViewDetail,
) -> KindInfo {
    KindInfo { kind, group, version, plural, scope: ResourceScope::Namespaced, held }
}

const fn ours(kind: &'static str, plural: &'static str) -> KindInfo {
    use rekindle_types::v1alpha1::{GROUP, VERSION};
    namespaced(kind, GROUP, VERSION, plural, ViewDetail::Whole)
}

const fn policy(kind: &'static str, plural: &'static str) -> KindInfo {
    stored(kind, "admissionregistration.k8s.io", plural)
}

const fn rbac(kind: &'static str, plural: &'static str, scope: ResourceScope) -> KindInfo {
    KindInfo {
        scope,
        ..namespaced(kind, "rbac.authorization.k8s.io", "v1", plural, ViewDetail::Metadata)
    }
}

const fn networking(kind: &'static str, plural: &'static str) -> KindInfo {
    KindInfo { group: "networking.k8s.io", held: ViewDetail::Metadata, ..cluster(kind, plural) }
}

/// A cluster-scoped kind that no controller reads.
const fn stored(kind: &'static str, group: &'static str, plural: &'static str) -> KindInfo {
    KindInfo { group, held: ViewDetail::Metadata, ..cluster(kind, plural) }
}

const fn cluster(kind: &'static str, plural: &'static str) -> KindInfo {
    KindInfo {
        kind,
        group: "",
        version: "v1",
        plural,
        scope: ResourceScope::Cluster,
        held: ViewDetail::Whole,
    }
}

impl fmt::Display for ResourceKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.info().kind)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_owner_reference_is_resolved_by_group_and_kind_whatever_the_version() {
        assert_eq!(
            ResourceKind::of_reference("apps/v1", "ReplicaSet"),
            Some(ResourceKind::ReplicaSet)
        );
        assert_eq!(
            ResourceKind::of_reference("apps/v1beta2", "ReplicaSet"),
            Some(ResourceKind::ReplicaSet)
        );
        assert_eq!(ResourceKind::of_reference("v1", "Pod"), Some(ResourceKind::Pod));
        assert_eq!(ResourceKind::of_reference("apps/v1", "Pod"), None);
        assert_eq!(ResourceKind::of_reference("example.com/v1", "Widget"), None);
    }
}
