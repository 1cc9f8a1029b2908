//! How a strategic merge patch merges each list: by which key, as a set, or not at all.
//!
//! Source: the `patchStrategy` and `patchMergeKey` marks of the Kubernetes API reference 1.37.
//! k8s-openapi's schemas carry none of them, so they stand here, by the schema's name and the
//! field. A list that is not here is replaced as a whole. Tests compare every line with the
//! schemas. How an apply merges is in `builtin_types`.

/// How a list field merges, or an object that does not.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ListMerge {
    /// Entries are objects with this key; entries of the same key merge.
    ByKey(&'static str),
    /// Entries are plain values; the lists unite.
    Set,
    /// Not at all, though it is an object: the patch's takes the place of the old one (patch
    /// strategy `replace`).
    Whole,
}

/// A field through which merging goes on, or that merges in a way of its own.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MergeField {
    /// The field's name in JSON.
    pub name: &'static str,
    /// The schema of the object in it, or of the entries of its list; empty when nothing inside
    /// merges in a way of its own.
    pub child: &'static str,
    /// How its list merges; absent for an object that merges as objects do.
    pub list: Option<ListMerge>,
    /// Whether a client's patch drops the keys of the old object that it does not name
    /// (`retainKeys`): the fields of a union.
    pub has_retain_keys: bool,
}

/// How the list in a field of the schema merges; absent when it is replaced as a whole (or no
/// list).
pub fn merge_key(schema_type: &str, field: &str) -> Option<ListMerge> {
    merge_field(schema_type, field)?.list
}

/// The schema of the object in a field, or of the entries of its list, when anything inside it
/// merges in a way of its own.
pub fn field_type(schema_type: &str, field: &str) -> Option<&'static str> {
    merge_field(schema_type, field).map(|field| field.child).filter(|child| !child.is_empty())
}

/// All that is known of a field.
pub fn merge_field(schema_type: &str, field: &str) -> Option<&'static MergeField> {
    let (_, fields) = SCHEMAS.iter().find(|(name, _)| *name == schema_type)?;
    fields.iter().find(|candidate| candidate.name == field)
}

const META: &str = "io.k8s.apimachinery.pkg.apis.meta.v1.ObjectMeta";
const POD_SPEC: &str = "io.k8s.api.core.v1.PodSpec";
const POD_TEMPLATE_SPEC: &str = "io.k8s.api.core.v1.PodTemplateSpec";
const CONTAINER: &str = "io.k8s.api.core.v1.Container";
const EPHEMERAL_CONTAINER: &str = "io.k8s.api.core.v1.EphemeralContainer";
const CONTAINER_STATUS: &str = "io.k8s.api.core.v1.ContainerStatus";

const fn object(name: &'static str, child: &'static str) -> MergeField {
    MergeField { name, child, list: None, has_retain_keys: false }
}

const fn keyed(name: &'static str, key: &'static str) -> MergeField {
    keyed_objects(name, key, "")
}

const fn keyed_objects(name: &'static str, key: &'static str, child: &'static str) -> MergeField {
    let list = Some(ListMerge::ByKey(key));
    MergeField { name, child, list, has_retain_keys: false }
}

const fn keyed_unions(name: &'static str, key: &'static str) -> MergeField {
    let list = Some(ListMerge::ByKey(key));
    MergeField { name, child: "", list, has_retain_keys: true }
}

const fn set(name: &'static str) -> MergeField {
    let list = Some(ListMerge::Set);
    MergeField { name, child: "", list, has_retain_keys: false }
}

/// An object that is replaced as a whole.
const fn replaced(name: &'static str) -> MergeField {
    let list = Some(ListMerge::Whole);
    MergeField { name, child: "", list, has_retain_keys: false }
}

/// A list that is replaced as a whole while its entries' own schema is known.
const fn atomic_objects(name: &'static str, child: &'static str) -> MergeField {
    MergeField { name, child, list: None, has_retain_keys: false }
}

/// Every schema in which something merges in a way of its own, by name.
pub(crate) const SCHEMAS: &[(&str, &[MergeField])] = &[
    (
        "dev.rekindle.v1alpha1.PodRestart",
        &[object("metadata", META), object("status", "dev.rekindle.v1alpha1.PodRestartStatus")],
    ),
    ("dev.rekindle.v1alpha1.PodRestartStatus", &[keyed("conditions", "type")]),
    (
        "dev.rekindle.v1alpha1.RestartLadder",
        &[
            object("metadata", META),
            object("spec", "dev.rekindle.v1alpha1.RestartLadderSpec"),
            object("status", "dev.rekindle.v1alpha1.RestartLadderStatus"),
        ],
    ),
    // A rung stands once and validation keeps the order, so that it is its own key; then defaults
    // inside a rung do not look like a change to `kubectl apply`.
    ("dev.rekindle.v1alpha1.RestartLadderSpec", &[keyed("rungs", "rung")]),
    ("dev.rekindle.v1alpha1.RestartLadderStatus", &[keyed("conditions", "type")]),
    (
        "dev.rekindle.v1alpha1.RestartLedger",
        &[object("metadata", META), object("status", "dev.rekindle.v1alpha1.RestartLedgerStatus")],
    ),
    ("dev.rekindle.v1alpha1.RestartLedgerStatus", &[keyed("conditions", "type")]),
    ("io.k8s.api.apps.v1.ControllerRevision", &[object("metadata", META)]),
    (
        "io.k8s.api.apps.v1.DaemonSet",
        &[
            object("metadata", META),
            object("spec", "io.k8s.api.apps.v1.DaemonSetSpec"),
            object("status", "io.k8s.api.apps.v1.DaemonSetStatus"),
        ],
    ),
    ("io.k8s.api.apps.v1.DaemonSetSpec", &[object("template", POD_TEMPLATE_SPEC)]),
    ("io.k8s.api.apps.v1.DaemonSetStatus", &[keyed("conditions", "type")]),
    (
        "io.k8s.api.apps.v1.Deployment",
        &[
            object("metadata", META),
            object("spec", "io.k8s.api.apps.v1.DeploymentSpec"),
            object("status", "io.k8s.api.apps.v1.DeploymentStatus"),
        ],
    ),
    (
        "io.k8s.api.apps.v1.DeploymentSpec",
        &[
            MergeField { name: "strategy", child: "", list: None, has_retain_keys: true },
            object("template", POD_TEMPLATE_SPEC),
        ],
    ),
    ("io.k8s.api.apps.v1.DeploymentStatus", &[keyed("conditions", "type")]),
    (
        "io.k8s.api.apps.v1.ReplicaSet",
        &[
            object("metadata", META),
            object("spec", "io.k8s.api.apps.v1.ReplicaSetSpec"),
            object("status", "io.k8s.api.apps.v1.ReplicaSetStatus"),
        ],
    ),
    ("io.k8s.api.apps.v1.ReplicaSetSpec", &[object("template", POD_TEMPLATE_SPEC)]),
    ("io.k8s.api.apps.v1.ReplicaSetStatus", &[keyed("conditions", "type")]),
    (
        "io.k8s.api.apps.v1.StatefulSet",
        &[
            object("metadata", META),
            object("spec", "io.k8s.api.apps.v1.StatefulSetSpec"),
            object("status", "io.k8s.api.apps.v1.StatefulSetStatus"),
        ],
    ),
    ("io.k8s.api.apps.v1.StatefulSetSpec", &[object("template", POD_TEMPLATE_SPEC)]),
    ("io.k8s.api.apps.v1.StatefulSetStatus", &[keyed("conditions", "type")]),
    (
        "io.k8s.api.autoscaling.v2.HorizontalPodAutoscaler",
        &[
            object("metadata", META),
            object("status", "io.k8s.api.autoscaling.v2.HorizontalPodAutoscalerStatus"),
        ],
    ),
    ("io.k8s.api.autoscaling.v2.HorizontalPodAutoscalerStatus", &[keyed("conditions", "type")]),
    (
        "io.k8s.api.batch.v1.CronJob",
        &[object("metadata", META), object("spec", "io.k8s.api.batch.v1.CronJobSpec")],
    ),
    (
        "io.k8s.api.batch.v1.CronJobSpec",
        &[object("jobTemplate", "io.k8s.api.batch.v1.JobTemplateSpec")],
    ),
    (
        "io.k8s.api.batch.v1.Job",
        &[
            object("metadata", META),
            object("spec", "io.k8s.api.batch.v1.JobSpec"),
            object("status", "io.k8s.api.batch.v1.JobStatus"),
        ],
    ),
    ("io.k8s.api.batch.v1.JobSpec", &[object("template", POD_TEMPLATE_SPEC)]),
    ("io.k8s.api.batch.v1.JobStatus", &[keyed("conditions", "type")]),
    (
        "io.k8s.api.batch.v1.JobTemplateSpec",
        &[object("metadata", META), object("spec", "io.k8s.api.batch.v1.JobSpec")],
    ),
    ("io.k8s.api.coordination.v1.Lease", &[object("metadata", META)]),
    ("io.k8s.api.core.v1.ConfigMap", &[object("metadata", META)]),
    (CONTAINER, CONTAINER_FIELDS),
    (
        CONTAINER_STATUS,
        &[keyed("allocatedResourcesStatus", "name"), keyed("volumeMounts", "mountPath")],
    ),
    (EPHEMERAL_CONTAINER, CONTAINER_FIELDS),
    ("io.k8s.api.core.v1.Endpoints", &[object("metadata", META)]),
    ("io.k8s.api.core.v1.Event", &[object("metadata", META)]),
    (
        "io.k8s.api.core.v1.Namespace",
        &[object("metadata", META), object("status", "io.k8s.api.core.v1.NamespaceStatus")],
    ),
    ("io.k8s.api.core.v1.NamespaceStatus", &[keyed("conditions", "type")]),
    (
        "io.k8s.api.core.v1.Node",
        &[
            object("metadata", META),
            object("spec", "io.k8s.api.core.v1.NodeSpec"),
            object("status", "io.k8s.api.core.v1.NodeStatus"),
        ],
    ),
    ("io.k8s.api.core.v1.NodeSpec", &[set("podCIDRs")]),
    ("io.k8s.api.core.v1.NodeStatus", &[keyed("addresses", "type"), keyed("conditions", "type")]),
    (
        "io.k8s.api.core.v1.Pod",
        &[
            object("metadata", META),
            object("spec", POD_SPEC),
            object("status", "io.k8s.api.core.v1.PodStatus"),
        ],
    ),
    (
        POD_SPEC,
        &[
            keyed_objects("containers", "name", CONTAINER),
            keyed_objects("ephemeralContainers", "name", EPHEMERAL_CONTAINER),
            keyed("evictionResponders", "name"),
            keyed("hostAliases", "ip"),
            keyed("imagePullSecrets", "name"),
            keyed_objects("initContainers", "name", CONTAINER),
            keyed_unions("resourceClaims", "name"),
            keyed("schedulingGates", "name"),
            keyed("topologySpreadConstraints", "topologyKey"),
            keyed_unions("volumes", "name"),
        ],
    ),
    (
        "io.k8s.api.core.v1.PodStatus",
        &[
            keyed("conditions", "type"),
            atomic_objects("containerStatuses", CONTAINER_STATUS),
            atomic_objects("ephemeralContainerStatuses", CONTAINER_STATUS),
            keyed("hostIPs", "ip"),
            atomic_objects("initContainerStatuses", CONTAINER_STATUS),
            keyed("podIPs", "ip"),
            keyed_unions("resourceClaimStatuses", "name"),
        ],
    ),
    (POD_TEMPLATE_SPEC, &[object("metadata", META), object("spec", POD_SPEC)]),
    (
        "io.k8s.api.core.v1.ReplicationController",
        &[
            object("metadata", META),
            object("spec", "io.k8s.api.core.v1.ReplicationControllerSpec"),
            object("status", "io.k8s.api.core.v1.ReplicationControllerStatus"),
        ],
    ),
    ("io.k8s.api.core.v1.ReplicationControllerSpec", &[object("template", POD_TEMPLATE_SPEC)]),
    ("io.k8s.api.core.v1.ReplicationControllerStatus", &[keyed("conditions", "type")]),
    ("io.k8s.api.core.v1.ResourceQuota", &[object("metadata", META)]),
    ("io.k8s.api.core.v1.Secret", &[object("metadata", META)]),
    (
        "io.k8s.api.core.v1.Service",
        &[
            object("metadata", META),
            object("spec", "io.k8s.api.core.v1.ServiceSpec"),
            object("status", "io.k8s.api.core.v1.ServiceStatus"),
        ],
    ),
    ("io.k8s.api.core.v1.ServiceAccount", &[object("metadata", META), keyed("secrets", "name")]),
    ("io.k8s.api.core.v1.ServiceSpec", &[keyed("ports", "port")]),
    ("io.k8s.api.core.v1.ServiceStatus", &[keyed("conditions", "type")]),
    ("io.k8s.api.discovery.v1.EndpointSlice", &[object("metadata", META)]),
    (
        "io.k8s.api.policy.v1.PodDisruptionBudget",
        &[
            object("metadata", META),
            object("spec", "io.k8s.api.policy.v1.PodDisruptionBudgetSpec"),
            object("status", "io.k8s.api.policy.v1.PodDisruptionBudgetStatus"),
        ],
    ),
    ("io.k8s.api.policy.v1.PodDisruptionBudgetSpec", &[replaced("selector")]),
    ("io.k8s.api.policy.v1.PodDisruptionBudgetStatus", &[keyed("conditions", "type")]),
    ("io.k8s.api.rbac.v1.ClusterRole", &[object("metadata", META)]),
    ("io.k8s.api.rbac.v1.ClusterRoleBinding", &[object("metadata", META)]),
    ("io.k8s.api.rbac.v1.Role", &[object("metadata", META)]),
    ("io.k8s.api.rbac.v1.RoleBinding", &[object("metadata", META)]),
    ("io.k8s.api.scheduling.v1.PriorityClass", &[object("metadata", META)]),
    ("io.k8s.api.core.v1.LimitRange", &[object("metadata", META)]),
    (
        "io.k8s.api.core.v1.PodTemplate",
        &[object("metadata", META), object("template", POD_TEMPLATE_SPEC)],
    ),
    (
        "io.k8s.api.flowcontrol.v1.FlowSchema",
        &[object("metadata", META), object("status", "io.k8s.api.flowcontrol.v1.FlowSchemaStatus")],
    ),
    ("io.k8s.api.flowcontrol.v1.FlowSchemaStatus", &[keyed("conditions", "type")]),
    (
        "io.k8s.api.flowcontrol.v1.PriorityLevelConfiguration",
        &[
            object("metadata", META),
            object("status", "io.k8s.api.flowcontrol.v1.PriorityLevelConfigurationStatus"),
        ],
    ),
    ("io.k8s.api.flowcontrol.v1.PriorityLevelConfigurationStatus", &[keyed("conditions", "type")]),
    (
        "io.k8s.api.admissionregistration.v1.MutatingAdmissionPolicy",
        &[
            object("metadata", META),
            object("spec", "io.k8s.api.admissionregistration.v1.MutatingAdmissionPolicySpec"),
        ],
    ),
    (
        "io.k8s.api.admissionregistration.v1.MutatingAdmissionPolicySpec",
        &[keyed("matchConditions", "name")],
    ),
    (
        "io.k8s.api.admissionregistration.v1.MutatingAdmissionPolicyBinding",
        &[object("metadata", META)],
    ),
    (
        "io.k8s.api.admissionregistration.v1.ValidatingAdmissionPolicy",
        &[
            object("metadata", META),
            object("spec", "io.k8s.api.admissionregistration.v1.ValidatingAdmissionPolicySpec"),
        ],
    ),
    (
        "io.k8s.api.admissionregistration.v1.ValidatingAdmissionPolicySpec",
        &[keyed("matchConditions", "name"), keyed("variables", "name")],
    ),
    (
        "io.k8s.api.admissionregistration.v1.ValidatingAdmissionPolicyBinding",
        &[object("metadata", META)],
    ),
    ("io.k8s.api.networking.v1.Ingress", &[object("metadata", META)]),
    ("io.k8s.api.networking.v1.IngressClass", &[object("metadata", META)]),
    ("io.k8s.api.node.v1.RuntimeClass", &[object("metadata", META)]),
    ("io.k8s.api.resource.v1.DeviceClass", &[object("metadata", META)]),
    (
        "io.k8s.api.resource.v1.ResourceClaim",
        &[object("metadata", META), object("status", "io.k8s.api.resource.v1.ResourceClaimStatus")],
    ),
    ("io.k8s.api.resource.v1.ResourceClaimStatus", &[keyed("reservedFor", "uid")]),
    (
        "io.k8s.api.resource.v1.ResourceClaimTemplate",
        &[
            object("metadata", META),
            object("spec", "io.k8s.api.resource.v1.ResourceClaimTemplateSpec"),
        ],
    ),
    ("io.k8s.api.resource.v1.ResourceClaimTemplateSpec", &[object("metadata", META)]),
    ("io.k8s.api.resource.v1.ResourceSlice", &[object("metadata", META)]),
    ("io.k8s.api.storage.v1.CSIDriver", &[object("metadata", META)]),
    (
        "io.k8s.api.storage.v1.CSINode",
        &[object("metadata", META), object("spec", "io.k8s.api.storage.v1.CSINodeSpec")],
    ),
    ("io.k8s.api.storage.v1.CSINodeSpec", &[keyed("drivers", "name")]),
    ("io.k8s.api.storage.v1.CSIStorageCapacity", &[object("metadata", META)]),
    ("io.k8s.api.storage.v1.VolumeAttachment", &[object("metadata", META)]),
    ("io.k8s.api.storage.v1.VolumeAttributesClass", &[object("metadata", META)]),
    (
        "io.k8s.kube-aggregator.pkg.apis.apiregistration.v1.APIService",
        &[
            object("metadata", META),
            object("status", "io.k8s.kube-aggregator.pkg.apis.apiregistration.v1.APIServiceStatus"),
        ],
    ),
    (
        "io.k8s.kube-aggregator.pkg.apis.apiregistration.v1.APIServiceStatus",
        &[keyed("conditions", "type")],
    ),
    (
        "io.k8s.api.admissionregistration.v1.MutatingWebhookConfiguration",
        &[
            object("metadata", META),
            keyed_objects(
                "webhooks",
                "name",
                "io.k8s.api.admissionregistration.v1.MutatingWebhook",
            ),
        ],
    ),
    (
        "io.k8s.api.admissionregistration.v1.ValidatingWebhookConfiguration",
        &[
            object("metadata", META),
            keyed_objects(
                "webhooks",
                "name",
                "io.k8s.api.admissionregistration.v1.ValidatingWebhook",
            ),
        ],
    ),
    ("io.k8s.api.autoscaling.v1.HorizontalPodAutoscaler", &[object("metadata", META)]),
    ("io.k8s.api.certificates.v1.CertificateSigningRequest", &[object("metadata", META)]),
    ("io.k8s.api.certificates.v1.ClusterTrustBundle", &[object("metadata", META)]),
    ("io.k8s.api.core.v1.PersistentVolume", &[object("metadata", META)]),
    (
        "io.k8s.api.core.v1.PersistentVolumeClaim",
        &[
            object("metadata", META),
            object("status", "io.k8s.api.core.v1.PersistentVolumeClaimStatus"),
        ],
    ),
    ("io.k8s.api.events.v1.Event", &[object("metadata", META)]),
    ("io.k8s.api.networking.v1.IPAddress", &[object("metadata", META)]),
    ("io.k8s.api.networking.v1.NetworkPolicy", &[object("metadata", META)]),
    (
        "io.k8s.api.networking.v1.ServiceCIDR",
        &[object("metadata", META), object("status", "io.k8s.api.networking.v1.ServiceCIDRStatus")],
    ),
    ("io.k8s.api.storage.v1.StorageClass", &[object("metadata", META)]),
    ("io.k8s.api.admissionregistration.v1.MutatingWebhook", &[keyed("matchConditions", "name")]),
    ("io.k8s.api.admissionregistration.v1.ValidatingWebhook", &[keyed("matchConditions", "name")]),
    ("io.k8s.api.core.v1.PersistentVolumeClaimStatus", &[keyed("conditions", "type")]),
    ("io.k8s.api.networking.v1.ServiceCIDRStatus", &[keyed("conditions", "type")]),
    (META, &[set("finalizers"), keyed("ownerReferences", "uid")]),
];

const CONTAINER_FIELDS: &[MergeField] = &[
    keyed("env", "name"),
    keyed("ports", "containerPort"),
    keyed("volumeDevices", "devicePath"),
    keyed("volumeMounts", "mountPath"),
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lists_merge_as_the_api_reference_says() {
        for (schema, field, expected) in [
            (POD_SPEC, "containers", Some(ListMerge::ByKey("name"))),
            (POD_SPEC, "tolerations", None),
            (CONTAINER, "ports", Some(ListMerge::ByKey("containerPort"))),
            (CONTAINER, "args", None),
            ("io.k8s.api.core.v1.ServiceSpec", "ports", Some(ListMerge::ByKey("port"))),
            ("io.k8s.api.core.v1.NodeSpec", "taints", None),
            (META, "finalizers", Some(ListMerge::Set)),
            ("io.k8s.api.policy.v1.PodDisruptionBudgetSpec", "selector", Some(ListMerge::Whole)),
            (META, "ownerReferences", Some(ListMerge::ByKey("uid"))),
        ] {
            assert_eq!(merge_key(schema, field), expected, "{schema} {field}");
        }
    }

    #[test]
    fn the_way_from_a_deployment_to_its_environment_is_known() {
        let mut schema = "io.k8s.api.apps.v1.Deployment";
        for field in ["spec", "template", "spec", "containers"] {
            schema = field_type(schema, field).expect(field);
        }
        assert_eq!(merge_key(schema, "env"), Some(ListMerge::ByKey("name")));
    }

    #[test]
    fn every_child_has_a_line_of_its_own() {
        for (schema, fields) in SCHEMAS {
            for field in *fields {
                let known = field.child.is_empty()
                    || SCHEMAS.iter().any(|(candidate, _)| *candidate == field.child);
                assert!(known, "{schema} {}", field.name);
            }
        }
    }
}
