//! From what the store holds to what controllers and nodes read: the very objects that the API
//! holds behind its texts, so that nothing is read twice.

use std::any::Any;
use std::borrow::Cow;
use std::collections::BTreeMap;
use std::sync::Arc;

use k8s_openapi::api::core::v1;
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use rekindle_api::{Api, keys};
use rekindle_controllers::{NamespacedName, ObjectId, ResourceKind, ViewObject};
use rekindle_kinds::registry::{AnyObject, KindEntry, Registry};
use rekindle_reconcile::kinds;
use rekindle_reconcile::wire::object_from_json;
use rekindle_store::{ObjectKey, RangeQuery, Revision, StoredObject};
use rekindle_types::held;
use serde::Deserialize;
use serde_json::value::RawValue;

/// The kinds that are watched, and those that are served.
#[derive(Debug)]
pub(crate) struct ServedKinds {
    served: Registry,
    /// By the first segment of their keys.
    by_segment: BTreeMap<String, (ResourceKind, Arc<KindEntry>)>,
}

impl ServedKinds {
    pub(crate) fn new() -> Self {
        let registry = rekindle_kinds::all();
        let served = |kind: ResourceKind| {
            let info = kind.info();
            let entry = registry.find(info.group, info.version, info.plural)?.clone();
            Some((entry.resource(), (kind, entry)))
        };
        let by_segment = kinds().filter_map(served).collect();
        Self { by_segment, served: registry }
    }

    fn entry(&self, kind: ResourceKind) -> Option<&KindEntry> {
        let mut all = self.by_segment.values();
        all.find(|(of, _)| *of == kind).map(|(_, entry)| &**entry)
    }

    /// Where the store keeps an object; none when its kind is not watched.
    pub(crate) fn key(&self, id: &ObjectId) -> Option<String> {
        Some(keys::object(self.entry(id.kind)?, &id.name.namespace, &id.name.name))
    }

    /// Where the store has the object of this text, and of which revision that is; none when it is
    /// no object, but a list or a Status.
    pub(crate) fn place_of(&self, text: &[u8]) -> Option<(ObjectKey, Revision)> {
        self.place_of_item(text, &ObjectType::default())
    }

    /// The same of an item of a list, which may leave its type to the list.
    pub(crate) fn place_of_item(
        &self,
        text: &[u8],
        of_list: &ObjectType<'_>,
    ) -> Option<(ObjectKey, Revision)> {
        let ObjectDocument { of_itself, metadata } = serde_json::from_slice(text).ok()?;
        let type_ = if of_itself.kind.is_empty() { of_list } else { &of_itself };
        let group = type_.api_version.split_once('/').map_or("", |(group, _)| group);
        let entry = self.served.find_kind(group, type_.kind.trim_end_matches("List"))?;
        let NameMetadata { name, namespace, resource_version } = metadata;
        let key = keys::object(entry, &namespace, &name);
        Some((ObjectKey::from(key), Revision(resource_version.parse().ok()?)))
    }

    /// What all keys of a kind begin with; none when it is not watched.
    pub(crate) fn prefix(&self, kind: ResourceKind) -> Option<String> {
        if let ResourceKind::Custom(kind) = kind {
            let info = kind.info();
            return Some(format!("/{}.{}/", info.plural, info.group));
        }
        Some(keys::collection(self.entry(kind)?, ""))
    }

    /// All objects of a kind as they are stored.
    pub(crate) fn all(&self, api: &Api, kind: ResourceKind) -> Vec<Arc<StoredObject>> {
        let Some(prefix) = self.prefix(kind) else { return Vec::new() };
        let query = RangeQuery { prefix, ..RangeQuery::default() };
        api.store().range(&query).expect("the newest revision can be read").objects
    }

    /// What kind an object is of; none when it is not watched.
    fn of(&self, stored: &StoredObject) -> Option<&(ResourceKind, Arc<KindEntry>)> {
        self.by_segment.get(stored.key.as_str().split('/').nth(1)?)
    }

    /// A pod as the API has it; none for another object.
    pub(crate) fn pod(&self, api: &Api, stored: &StoredObject) -> Option<Arc<v1::Pod>> {
        let (kind, entry) = self.of(stored)?;
        (*kind == ResourceKind::Pod).then(|| api.read(entry, stored).ok().and_then(typed))?
    }

    /// The object, with the resourceVersion that it was stored with; none when its kind is not
    /// watched.
    pub(crate) fn read(&self, api: &Api, stored: &StoredObject) -> Option<ViewObject> {
        let Some((kind, entry)) = self.of(stored) else { return self.read_custom(api, stored) };
        let object = api.read(entry, stored).ok()?;
        debug_assert!(
            object.to_json() == *stored.value,
            "{} reads back as something else than it was",
            stored.key
        );
        shared(*kind, object)
    }

    /// An object of a kind that a definition describes.
    fn read_custom(&self, api: &Api, stored: &StoredObject) -> Option<ViewObject> {
        let segment = stored.key.as_str().split('/').nth(1)?;
        let kind = ResourceKind::CustomResourceDefinition;
        let entry = self.entry(kind)?;
        let definition = api.store().get(&keys::object(entry, "", segment))?;
        match shared(kind, api.read(entry, &definition).ok()?)? {
            ViewObject::CustomResourceDefinition(definition) => {
                object_from_json(ResourceKind::Custom(definition.kind?), &stored.value).ok()
            }
            _ => None,
        }
    }
}

/// The name of the object of this text; none when it is no object.
pub(crate) fn name_of(text: &[u8]) -> Option<NamespacedName> {
    let NamedObject { metadata: NameMetadata { name, namespace, .. } } =
        serde_json::from_slice(text).ok()?;
    Some(NamespacedName::new(namespace, name))
}

/// The UID of an object; none of what is no object.
pub(crate) fn uid_of(text: &[u8]) -> Option<String> {
    let ObjectWithUid { metadata: DeletedIdentity { uid } } = serde_json::from_slice(text).ok()?;
    (!uid.is_empty()).then_some(uid)
}

/// The UID of the object that a Status says to be gone.
pub(crate) fn uid_of_gone(status: &[u8]) -> Option<String> {
    let DeleteAnswer { kind, details: DeletedIdentity { uid } } =
        serde_json::from_slice(status).ok()?;
    (kind == "Status" && !uid.is_empty()).then_some(uid)
}

/// Whether an object is to go: it has the time at which that was asked for, or by which it is to be
/// done.
pub(crate) fn is_leaving(text: &[u8]) -> bool {
    let read = serde_json::from_slice(text);
    read.is_ok_and(|DeletedObject { metadata: DeletionMetadata { deletion_timestamp } }| {
        deletion_timestamp.is_some()
    })
}

/// What a list says that there is, as texts, of which type the list is and of which revision; none
/// of what is no list.
pub(crate) fn list_of(text: &[u8]) -> Option<(Vec<&RawValue>, ObjectType<'_>, Revision)> {
    let ListDocument { of_list, metadata, items } = serde_json::from_slice(text).ok()?;
    Some((items, of_list, Revision(metadata.resource_version.parse().ok()?)))
}

/// The type that a document says it has; empty where it says none.
#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(crate) struct ObjectType<'a> {
    #[serde(borrow)]
    api_version: Cow<'a, str>,
    #[serde(borrow)]
    kind: Cow<'a, str>,
}

#[derive(Deserialize)]
struct DeletedObject {
    metadata: DeletionMetadata,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct DeletionMetadata {
    #[serde(default)]
    deletion_timestamp: Option<String>,
}

#[derive(Deserialize)]
struct ListDocument<'a> {
    #[serde(borrow, flatten)]
    of_list: ObjectType<'a>,
    #[serde(borrow)]
    metadata: ListMetadata<'a>,
    #[serde(borrow)]
    items: Vec<&'a RawValue>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct ListMetadata<'a> {
    #[serde(borrow)]
    resource_version: Cow<'a, str>,
}

#[derive(Deserialize)]
struct ObjectWithUid {
    metadata: DeletedIdentity,
}

#[derive(Deserialize)]
struct DeleteAnswer {
    kind: String,
    details: DeletedIdentity,
}

#[derive(Deserialize)]
struct DeletedIdentity {
    #[serde(default)]
    uid: String,
}

#[derive(Deserialize)]
struct NamedObject<'a> {
    #[serde(borrow)]
    metadata: NameMetadata<'a>,
}

/// What says where an object is.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct ObjectDocument<'a> {
    #[serde(borrow, flatten)]
    of_itself: ObjectType<'a>,
    #[serde(borrow)]
    metadata: NameMetadata<'a>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct NameMetadata<'a> {
    #[serde(borrow)]
    name: Cow<'a, str>,
    #[serde(borrow, default)]
    namespace: Cow<'a, str>,
    /// Empty of what was not stored.
    #[serde(borrow, default)]
    resource_version: Cow<'a, str>,
}

fn typed<T: Any + Send + Sync>(object: Arc<dyn AnyObject>) -> Option<Arc<T>> {
    object.into_any().downcast().ok()
}

/// The same object as controllers hold it.
fn shared(kind: ResourceKind, object: Arc<dyn AnyObject>) -> Option<ViewObject> {
    match kind {
        ResourceKind::DaemonSet => typed(object).map(ViewObject::DaemonSet),
        ResourceKind::Deployment => typed(object).map(ViewObject::Deployment),
        ResourceKind::ReplicaSet => typed(object).map(ViewObject::ReplicaSet),
        ResourceKind::ReplicationController => typed(object).map(ViewObject::ReplicationController),
        ResourceKind::StatefulSet => typed(object).map(ViewObject::StatefulSet),
        ResourceKind::ControllerRevision => typed(object).map(ViewObject::ControllerRevision),
        ResourceKind::HorizontalPodAutoscaler => {
            typed(object).map(ViewObject::HorizontalPodAutoscaler)
        }
        ResourceKind::CronJob => typed(object).map(ViewObject::CronJob),
        ResourceKind::Job => typed(object).map(ViewObject::Job),
        ResourceKind::Pod => typed::<v1::Pod>(object).map(|pod| held::HeldPod::from(&*pod).into()),
        ResourceKind::RestartLadder => typed(object).map(ViewObject::RestartLadder),
        ResourceKind::PodRestart => typed(object).map(ViewObject::PodRestart),
        ResourceKind::RestartLedger => typed(object).map(ViewObject::RestartLedger),
        ResourceKind::PodDisruptionBudget => typed(object).map(ViewObject::PodDisruptionBudget),
        ResourceKind::PersistentVolumeClaim => typed(object).map(ViewObject::PersistentVolumeClaim),
        ResourceKind::Service => typed(object).map(ViewObject::Service),
        ResourceKind::EndpointSlice => typed(object).map(ViewObject::EndpointSlice),
        ResourceKind::Endpoints => typed(object).map(ViewObject::Endpoints),
        ResourceKind::Lease => typed(object).map(ViewObject::Lease),
        ResourceKind::PersistentVolume => typed(object).map(ViewObject::PersistentVolume),
        ResourceKind::ResourceQuota => typed(object).map(ViewObject::ResourceQuota),
        ResourceKind::StorageClass => typed(object).map(ViewObject::StorageClass),
        ResourceKind::Node => typed(object).map(ViewObject::Node),
        ResourceKind::Namespace => typed(object).map(ViewObject::Namespace),
        ResourceKind::CustomResourceDefinition => typed::<CustomResourceDefinition>(object)
            .map(|definition| CustomResourceDefinition::clone(&definition).into()),
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
        | ResourceKind::Event => Some(ViewObject::Metadata(kind, Arc::new(object.meta().clone()))),
    }
}
