//! The JSON of the API's objects, generated once for the workspace.
//!
//! serde is generic: each crate that reads or writes a kind compiles its own copy, some 4,000
//! functions for a pod. The functions here have no type parameters, so only this crate compiles
//! them. Read and write a kind with this trait, not with `serde_json`.

use k8s_openapi::api::admissionregistration::v1::{
    MutatingAdmissionPolicy, MutatingAdmissionPolicyBinding, MutatingWebhookConfiguration,
    ValidatingAdmissionPolicy, ValidatingAdmissionPolicyBinding, ValidatingWebhookConfiguration,
};
use k8s_openapi::api::apps::v1::{
    ControllerRevision, DaemonSet, Deployment, ReplicaSet, StatefulSet,
};
use k8s_openapi::api::authentication::v1::{SelfSubjectReview, TokenRequest, TokenReview};
use k8s_openapi::api::authorization::v1::{
    LocalSubjectAccessReview, SelfSubjectAccessReview, SelfSubjectRulesReview, SubjectAccessReview,
};
use k8s_openapi::api::autoscaling::v1::HorizontalPodAutoscaler as HorizontalPodAutoscalerV1;
use k8s_openapi::api::autoscaling::v2::{
    HorizontalPodAutoscaler, HorizontalPodAutoscalerSpec, HorizontalPodAutoscalerStatus,
};
use k8s_openapi::api::batch::v1::{CronJob, Job};
use k8s_openapi::api::certificates::v1::{CertificateSigningRequest, ClusterTrustBundle};
use k8s_openapi::api::coordination::v1::Lease;
use k8s_openapi::api::core::v1::{
    Affinity, Binding, ConfigMap, Container, Endpoints, Event, LimitRange, Namespace, Node,
    PersistentVolume, PersistentVolumeClaim, Pod, PodSpec, PodStatus, PodTemplate, PodTemplateSpec,
    ReplicationController, ResourceQuota, Secret, Service, ServiceAccount,
};
use k8s_openapi::api::discovery::v1::EndpointSlice;
use k8s_openapi::api::events::v1::Event as EventsEvent;
use k8s_openapi::api::flowcontrol::v1::{FlowSchema, PriorityLevelConfiguration};
use k8s_openapi::api::networking::v1::{
    IPAddress, Ingress, IngressClass, NetworkPolicy, ServiceCIDR,
};
use k8s_openapi::api::node::v1::RuntimeClass;
use k8s_openapi::api::policy::v1::{Eviction, PodDisruptionBudget};
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
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use k8s_openapi::kube_aggregator::pkg::apis::apiregistration::v1::APIService;
use serde::Deserialize;
use serde::de::Error as _;
use serde_json::{Error, Value};

use crate::json_node::{JsonNode, JsonTokens};
use crate::object_reader::{DecodeError, ObjectReader, ReadMode, ReadNotes};
use crate::object_writer::{TEXT_BYTES, metadata_text_of, text_of, tree_of};
use crate::v1alpha1::{PodRestart, RestartLadder, RestartLedger};

/// An object of the API, or a part of one, that is read from JSON and written as JSON.
pub trait ObjectJson: Sized {
    /// Reads it, as [`from_json`](Self::from_json) and the others want it.
    ///
    /// # Errors
    /// When the value is something else than this object.
    fn read(reader: ObjectReader<'_, '_>) -> Result<Self, Error>;

    /// Its text. Where a `fieldsV1` of its managedFields is kept as one text, that text stands
    /// there as the JSON that it is.
    fn to_json(&self) -> Vec<u8>;

    /// The same as a tree.
    fn to_value(&self) -> Value;

    /// Reads it from its text.
    ///
    /// # Errors
    /// When the text is not JSON, or something else than this object.
    fn from_json(text: &[u8]) -> Result<Self, Error> {
        let tokens = JsonTokens::read(checked(text)?)?;
        Self::read(ObjectReader::new(tokens.root(), &mut ReadNotes::new(ReadMode::Lenient)))
    }

    /// Reads it from a tree.
    ///
    /// # Errors
    /// When the tree is something else than this object.
    fn from_value(tree: &Value) -> Result<Self, Error> {
        let mut notes = ReadNotes::new(ReadMode::Lenient);
        Self::read(ObjectReader::new(JsonNode::Tree(tree), &mut notes))
    }

    /// The same, with the paths of fields that its type does not have, in reading order.
    ///
    /// # Errors
    /// Which field has a value of the wrong type.
    fn from_value_strictly(tree: &Value) -> Result<(Self, Vec<String>), DecodeError> {
        let mut notes = ReadNotes::new(ReadMode::Strict);
        match Self::read(ObjectReader::new(JsonNode::Tree(tree), &mut notes)) {
            Ok(object) => Ok((object, notes.into_unknown_fields())),
            Err(error) => Err(notes.locate(&error)),
        }
    }
}

/// The same for kinds of which upstream always prints some fields, be they null.
macro_rules! object_json_with_nulls {
    ($($object:ty: $lacking:expr),* $(,)?) => {
        $(
            impl ObjectJson for $object {
                fn read(reader: ObjectReader<'_, '_>) -> Result<Self, Error> {
                    Self::deserialize(reader)
                }

                fn to_json(&self) -> Vec<u8> {
                    match with_null_fields(&tree_of(self).expect(TEXT_KEYS), &$lacking) {
                        Some(tree) => text_of(&tree).expect(TEXT_KEYS),
                        None => text_of(self).expect(TEXT_KEYS),
                    }
                }

                fn to_value(&self) -> Value {
                    let plain = tree_of(self).expect(TEXT_KEYS);
                    with_null_fields(&plain, &$lacking).unwrap_or(plain)
                }
            }
        )*
    };
}

/// Where upstream always prints a field: the path of the objects, a list or one, and the name.
type NullField = (&'static str, &'static str);

/// The tree with the fields that it lacks as null: so upstream prints a stored list that is empty.
/// None when it lacks none.
fn with_null_fields(tree: &Value, fields: &[NullField]) -> Option<Value> {
    let is_lacking = |field: Option<&Value>| match field {
        None => true,
        Some(Value::Array(items)) => items.is_empty(),
        Some(_) => false,
    };
    let lacks = |value: &Value, name: &str| value.is_object() && is_lacking(value.get(name));
    let mut changed: Option<Value> = None;
    for (path, name) in fields {
        let one_lacks = match tree.pointer(path) {
            Some(Value::Array(items)) => items.iter().any(|item| lacks(item, name)),
            Some(one) => lacks(one, name),
            None => false,
        };
        if !one_lacks {
            continue;
        }
        let within = changed.get_or_insert_with(|| tree.clone()).pointer_mut(path);
        let objects = match within {
            Some(Value::Array(items)) => items.as_mut_slice(),
            Some(one) => std::slice::from_mut(one),
            None => &mut [],
        };
        for object in objects.iter_mut().filter_map(Value::as_object_mut) {
            if is_lacking(object.get(*name)) {
                object.insert((*name).to_owned(), Value::Null);
            }
        }
    }
    changed
}

/// The conditions of a status.
const CONDITIONS: &str = "/status/conditions";

macro_rules! object_json {
    ($($object:ty),* $(,)?) => {
        $(
            impl ObjectJson for $object {
                fn read(reader: ObjectReader<'_, '_>) -> Result<Self, Error> {
                    Self::deserialize(reader)
                }

                fn to_json(&self) -> Vec<u8> {
                    text_of(self).expect(TEXT_KEYS)
                }

                fn to_value(&self) -> Value {
                    tree_of(self).expect(TEXT_KEYS)
                }
            }
        )*
    };
}

impl ObjectJson for Pod {
    fn read(reader: ObjectReader<'_, '_>) -> Result<Self, Error> {
        Self::deserialize(reader)
    }

    /// With the times that conditions lack as null: upstream always prints them.
    fn to_json(&self) -> Vec<u8> {
        let Some(status) = self.status.as_ref().filter(|status| lacks_times(status)) else {
            return text_of(self).expect(TEXT_KEYS);
        };
        let mut text = Vec::with_capacity(TEXT_BYTES);
        text.extend_from_slice(br#"{"apiVersion":"v1","kind":"Pod""#);
        append_field(&mut text, "metadata", &self.metadata.to_json());
        if let Some(spec) = &self.spec {
            append_field(&mut text, "spec", &spec.to_json());
        }
        append_field(&mut text, "status", status.to_value().to_string().as_bytes());
        text.push(b'}');
        text
    }

    fn to_value(&self) -> Value {
        let mut tree = tree_of(self).expect(TEXT_KEYS);
        if let Some(status) = self.status.as_ref().filter(|status| lacks_times(status)) {
            tree["status"] = status.to_value();
        }
        tree
    }
}

impl ObjectJson for CustomResourceDefinition {
    fn read(reader: ObjectReader<'_, '_>) -> Result<Self, Error> {
        Self::deserialize(reader)
    }

    fn to_json(&self) -> Vec<u8> {
        text_of(&self.to_value()).expect(TEXT_KEYS)
    }

    /// With whole numbers where a schema's bounds are whole, and conditions even where there are
    /// none, as upstream prints them.
    fn to_value(&self) -> Value {
        let mut tree = tree_of(self).expect(TEXT_KEYS);
        whole_bounds(&mut tree["spec"]);
        with_null_fields(&tree, &[("/status", "conditions")]).unwrap_or(tree)
    }
}

/// Writes the bounds in a schema as whole numbers where they are.
fn whole_bounds(tree: &mut Value) {
    match tree {
        Value::Array(items) => items.iter_mut().for_each(whole_bounds),
        Value::Object(fields) => {
            for (name, value) in fields {
                match value {
                    Value::Number(number) if BOUNDS.contains(&name.as_str()) => {
                        if let Some(whole) = number.as_f64().and_then(whole) {
                            *value = whole.into();
                        }
                    }
                    other => whole_bounds(other),
                }
            }
        }
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
    }
}

/// The keywords of a schema that have any number as their value.
const BOUNDS: [&str; 3] = ["maximum", "minimum", "multipleOf"];

/// The same number without a fraction, where it has none that it would lose.
fn whole(number: f64) -> Option<i64> {
    const EXACT: f64 = 9_007_199_254_740_992.0;
    #[expect(clippy::cast_possible_truncation, reason = "it is whole and in range")]
    (number.fract() == 0.0 && number.abs() <= EXACT).then_some(number as i64)
}

/// Appends one more field to the text of an object.
fn append_field(object: &mut Vec<u8>, name: &str, value: &[u8]) {
    object.extend_from_slice(format!(",\"{name}\":").as_bytes());
    object.extend_from_slice(value);
}

impl ObjectJson for HorizontalPodAutoscaler {
    fn read(reader: ObjectReader<'_, '_>) -> Result<Self, Error> {
        Self::deserialize(reader)
    }

    /// With the metrics that its status lacks as null: upstream always prints them.
    fn to_json(&self) -> Vec<u8> {
        let mut text = Vec::with_capacity(TEXT_BYTES);
        text.extend_from_slice(
            br#"{"apiVersion":"autoscaling/v2","kind":"HorizontalPodAutoscaler""#,
        );
        append_field(&mut text, "metadata", &self.metadata.to_json());
        append_field(&mut text, "spec", &self.spec.to_json());
        if let Some(status) = &self.status {
            append_field(&mut text, "status", &status.to_json());
        }
        text.push(b'}');
        text
    }

    fn to_value(&self) -> Value {
        let tree = tree_of(self).expect(TEXT_KEYS);
        with_null_fields(&tree, &[(CONDITIONS, "lastTransitionTime")]).unwrap_or(tree)
    }
}

impl ObjectJson for HorizontalPodAutoscalerStatus {
    fn read(reader: ObjectReader<'_, '_>) -> Result<Self, Error> {
        Self::deserialize(reader)
    }

    fn to_json(&self) -> Vec<u8> {
        let mut tree = self.to_value();
        if self.current_metrics.is_none() {
            tree["currentMetrics"] = Value::Null;
        }
        tree.to_string().into_bytes()
    }

    /// With the times that conditions lack as null.
    fn to_value(&self) -> Value {
        let tree = tree_of(self).expect(TEXT_KEYS);
        with_null_fields(&tree, &[("/conditions", "lastTransitionTime")]).unwrap_or(tree)
    }
}

fn lacks_times(status: &PodStatus) -> bool {
    let mut conditions = status.conditions.iter().flatten();
    conditions.any(|condition| {
        condition.last_probe_time.is_none() || condition.last_transition_time.is_none()
    })
}

const TEXT_KEYS: &str = "API objects have text keys only, so JSON can hold them";

/// Checks the text as a whole, which takes less than string by string.
fn checked(text: &[u8]) -> Result<&str, Error> {
    std::str::from_utf8(text).map_err(Error::custom)
}

object_json_with_nulls!(
    CSINode: [("/spec", "drivers"), ("/spec/drivers", "topologyKeys")],
    LimitRange: [("/spec", "limits")],
    DaemonSet: [(CONDITIONS, "lastTransitionTime")],
    Deployment: [(CONDITIONS, "lastTransitionTime"), (CONDITIONS, "lastUpdateTime")],
    FlowSchema: [(CONDITIONS, "lastTransitionTime")],
    Job: [(CONDITIONS, "lastProbeTime"), (CONDITIONS, "lastTransitionTime")],
    Namespace: [(CONDITIONS, "lastTransitionTime")],
    Node: [(CONDITIONS, "lastHeartbeatTime"), (CONDITIONS, "lastTransitionTime")],
    PersistentVolumeClaim: [
        (CONDITIONS, "lastProbeTime"),
        (CONDITIONS, "lastTransitionTime"),
        ("/spec/dataSource", "apiGroup"),
        ("/spec/dataSourceRef", "apiGroup"),
    ],
    PodStatus: [("/conditions", "lastProbeTime"), ("/conditions", "lastTransitionTime")],
    PriorityLevelConfiguration: [(CONDITIONS, "lastTransitionTime")],
    ReplicaSet: [(CONDITIONS, "lastTransitionTime")],
    ReplicationController: [(CONDITIONS, "lastTransitionTime")],
    StatefulSet: [(CONDITIONS, "lastTransitionTime")],
    VolumeAttachment: [("/status/attachError", "time"), ("/status/detachError", "time")],
);

object_json!(
    APIService,
    ClusterRole,
    ClusterRoleBinding,
    CertificateSigningRequest,
    ClusterTrustBundle,
    ConfigMap,
    ControllerRevision,
    CronJob,
    DeviceClass,
    EndpointSlice,
    Endpoints,
    Event,
    EventsEvent,
    Binding,
    Eviction,
    TokenRequest,
    SelfSubjectReview,
    TokenReview,
    LocalSubjectAccessReview,
    SelfSubjectAccessReview,
    SelfSubjectRulesReview,
    SubjectAccessReview,
    HorizontalPodAutoscalerV1,
    IPAddress,
    CSIDriver,
    CSIStorageCapacity,
    Ingress,
    IngressClass,
    MutatingAdmissionPolicy,
    MutatingAdmissionPolicyBinding,
    MutatingWebhookConfiguration,
    PodTemplate,
    RuntimeClass,
    ValidatingAdmissionPolicy,
    ValidatingAdmissionPolicyBinding,
    ValidatingWebhookConfiguration,
    VolumeAttributesClass,
    Lease,
    NetworkPolicy,
    PersistentVolume,
    PodDisruptionBudget,
    PodRestart,
    PriorityClass,
    ResourceClaim,
    ResourceClaimTemplate,
    ResourceQuota,
    ResourceSlice,
    RestartLadder,
    RestartLedger,
    Role,
    RoleBinding,
    Secret,
    Service,
    ServiceAccount,
    ServiceCIDR,
    StorageClass,
    StorageVersionMigration,
);
object_json!(Affinity, Container, HorizontalPodAutoscalerSpec, PodSpec, PodTemplateSpec);

impl ObjectJson for ObjectMeta {
    fn read(reader: ObjectReader<'_, '_>) -> Result<Self, Error> {
        Self::deserialize(reader)
    }

    fn to_json(&self) -> Vec<u8> {
        metadata_text_of(self).expect(TEXT_KEYS)
    }

    fn to_value(&self) -> Value {
        tree_of(self).expect(TEXT_KEYS)
    }
}
