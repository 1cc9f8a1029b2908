//! Namespaces: nothing is made in one that is missing or going, and each comes with its
//! ServiceAccount and CA bundle.

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::{ConfigMap, Namespace, ServiceAccount};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use rekindle_kinds::identity::ClientIdentity;
use rekindle_kinds::registry::{AnyObject, KindEntry, RequestContext, ResourceScope};
use rekindle_store::{PendingWrite, RangeQuery, StoreError, WritePrecondition};
use rekindle_types::Tick;

use super::ObjectWrite;
use crate::call::{ApiCall, put};
use crate::resource_quotas::put_own;
use crate::selectors::names_of_key;
use crate::shared::ApiShared;
use crate::status::{ApiError, FieldCause};
use crate::stored::decode_stored;
use crate::{keys, object_meta};

/// The namespaces that every cluster has.
const INITIAL: [&str; 4] = ["default", "kube-system", "kube-public", "kube-node-lease"];

/// Those that cannot be deleted, as upstream.
const IMMORTAL: [&str; 3] = ["default", "kube-system", "kube-public"];

/// The label that carries a namespace's own name, for selectors.
const NAME_LABEL: &str = "kubernetes.io/metadata.name";

/// The finalizer in `spec` that keeps a namespace until it is empty.
const FINALIZER: &str = "kubernetes";

/// The ConfigMap with the CA certificate, in every namespace.
pub(super) const CA_BUNDLE: &str = "kube-root-ca.crt";
/// The key in it.
const CA_FILE: &str = "ca.crt";
/// The annotation that says what it is for, and what it says.
const DESCRIPTION: (&str, &str) = (
    "kubernetes.io/description",
    "Contains a CA bundle that can be used to verify the kube-apiserver when using internal endpoints such as the internal service IP \
     or kubernetes.default.svc. No other usage is guaranteed across distributions of Kubernetes clusters.",
);

fn is_namespace(entry: &KindEntry) -> bool {
    entry.group.is_empty() && entry.kind == "Namespace"
}

/// Gives a namespace its name as a label, and a new one its finalizer and its phase.
pub(super) fn fill_label(call: &ApiCall<'_>, object: &mut dyn AnyObject) -> Result<(), ApiError> {
    if is_namespace(call.entry) {
        label(object);
    }
    Ok(())
}

fn label(object: &mut dyn AnyObject) {
    let meta = object.meta_mut();
    if let Some(name) = meta.name.clone() {
        meta.labels.get_or_insert_default().insert(NAME_LABEL.to_owned(), name);
    }
    let is_new = object.meta().resource_version.is_none();
    if is_new && let Some(namespace) = object.as_any_mut().downcast_mut::<Namespace>() {
        let finalizers = namespace.spec.get_or_insert_default().finalizers.get_or_insert_default();
        if !finalizers.iter().any(|finalizer| finalizer == FINALIZER) {
            finalizers.push(FINALIZER.to_owned());
        }
        namespace.status.get_or_insert_default().phase.get_or_insert_with(|| "Active".to_owned());
    }
}

/// Puts a CA bundle right.
pub(super) fn fill_bundle(call: &ApiCall<'_>, object: &mut dyn AnyObject) -> Result<(), ApiError> {
    put_bundle_right(call.api, object);
    Ok(())
}

/// Gives the CA bundle of a namespace the content and the description that it must have. Pods trust
/// it, so a change by hand is undone in the same write; upstream's root CA publisher undoes it
/// shortly after.
fn put_bundle_right(api: &ApiShared, object: &mut dyn AnyObject) {
    let Some(map) = object.as_any_mut().downcast_mut::<ConfigMap>() else { return };
    if map.metadata.name.as_deref() != Some(CA_BUNDLE) {
        return;
    }
    map.data = Some(BTreeMap::from([(CA_FILE.to_owned(), api.ca_bundle.clone())]));
    let annotations = map.metadata.annotations.get_or_insert_default();
    let description = annotations.entry(DESCRIPTION.0.to_owned()).or_default();
    if description.is_empty() {
        DESCRIPTION.1.clone_into(description);
    }
}

/// A namespaced object needs a namespace that is there to stay.
pub(super) fn check_create(write: &ObjectWrite<'_>) -> Result<(), ApiError> {
    let (call, object) = (write.call, write.new);
    if call.entry.scope == ResourceScope::Cluster {
        return Ok(());
    }
    let Some(entry) = call.api.registry.find("", "v1", "namespaces") else { return Ok(()) };
    let namespace = &call.path.namespace;
    let stored = call
        .api
        .store
        .newest(&keys::object(entry, "", namespace))
        .ok_or_else(|| ApiError::not_found(entry, namespace))?;
    if !object_meta::is_being_deleted(call.api.read(entry, &stored)?.meta()) {
        return Ok(());
    }
    let why = format!(
        "unable to create new content in namespace {namespace} because it is being terminated"
    );
    let cause = FieldCause {
        reason: "NamespaceTerminating".to_owned(),
        message: format!("namespace {namespace} is being terminated"),
        field: "metadata.namespace".to_owned(),
    };
    Err(ApiError::forbidden(call.entry, object_meta::name(object), &why).with_cause(cause))
}

/// Makes the initial namespaces with what belongs into them, as far as they are missing.
pub(crate) fn bootstrap(api: &ApiShared, now: Tick) -> Result<Vec<PendingWrite>, StoreError> {
    let mut pending = Vec::new();
    for name in INITIAL {
        let namespace = Namespace {
            metadata: ObjectMeta { name: Some(name.to_owned()), ..ObjectMeta::default() },
            ..Namespace::default()
        };
        pending.extend(make(api, "namespaces", "", Box::new(namespace), now)?);
        pending.extend(furnish(api, name, now)?);
    }
    pending.extend(renew_bundles(api, now)?);
    Ok(pending)
}

/// Puts right every CA bundle that is not (or not any more) what clients in pods should trust, and
/// makes what a namespace lacks because the engine ended between a removal and what follows it.
fn renew_bundles(api: &ApiShared, now: Tick) -> Result<Vec<PendingWrite>, StoreError> {
    let mut pending = Vec::new();
    let kinds = ["namespaces", "configmaps"].map(|plural| api.registry.find("", "v1", plural));
    let [Some(namespaces), Some(maps)] = kinds else { return Ok(pending) };
    let query = RangeQuery { prefix: keys::collection(namespaces, ""), ..RangeQuery::default() };
    for namespace in api.store.range(&query)?.objects {
        let (_, name) = names_of_key(namespaces, namespace.key.as_str());
        pending.extend(refurnish(api, name, now)?);
        let Some(stored) = api.store.newest(&keys::object(maps, name, CA_BUNDLE)) else { continue };
        let Ok(mut object) = decode_stored(maps, &stored) else { continue };
        let before = object.boxed_clone();
        put_bundle_right(api, object.as_mut());
        if !object.same_as(before.as_ref()) {
            let expect = WritePrecondition::Revision(stored.revision);
            pending.push(put(api, stored.key.as_str(), expect, object)?);
        }
    }
    Ok(pending)
}

/// Refuses to delete those that stay.
pub(super) fn check_delete(entry: &KindEntry, name: &str) -> Result<(), ApiError> {
    if is_namespace(entry) && IMMORTAL.contains(&name) {
        return Err(ApiError::forbidden(entry, name, "this namespace may not be deleted"));
    }
    Ok(())
}

/// Makes what comes with a new namespace.
pub(super) fn furnish_new(
    call: &ApiCall<'_>,
    _namespace: &str,
    name: &str,
) -> Result<Vec<PendingWrite>, ApiError> {
    if !is_namespace(call.entry) {
        return Ok(Vec::new());
    }
    Ok(furnish(call.api, name, call.request.now)?)
}

/// Makes again what every namespace has, when that was removed.
pub(super) fn furnish_again(
    call: &ApiCall<'_>,
    namespace: &str,
    name: &str,
) -> Result<Vec<PendingWrite>, ApiError> {
    if !is_furniture(call.entry, name) {
        return Ok(Vec::new());
    }
    Ok(refurnish(call.api, namespace, call.request.now)?)
}

/// Whether an object is one that every namespace has.
fn is_furniture(entry: &KindEntry, name: &str) -> bool {
    matches!(
        (entry.group_and_kind(), name),
        (("", "ServiceAccount"), "default") | (("", "ConfigMap"), CA_BUNDLE)
    )
}

/// Makes again what a namespace lacks, unless it is going.
fn refurnish(api: &ApiShared, namespace: &str, now: Tick) -> Result<Vec<PendingWrite>, StoreError> {
    let Some(namespaces) = api.registry.find("", "v1", "namespaces") else {
        return Ok(Vec::new());
    };
    let stays = api
        .store
        .newest(&keys::object(namespaces, "", namespace))
        .and_then(|stored| api.read(namespaces, &stored).ok())
        .is_some_and(|namespace| !object_meta::is_being_deleted(namespace.meta()));
    if stays { furnish(api, namespace, now) } else { Ok(Vec::new()) }
}

/// Makes the default ServiceAccount and the CA bundle of a namespace, unless they are there.
fn furnish(api: &ApiShared, namespace: &str, now: Tick) -> Result<Vec<PendingWrite>, StoreError> {
    let account = ServiceAccount {
        metadata: ObjectMeta { name: Some("default".to_owned()), ..ObjectMeta::default() },
        ..ServiceAccount::default()
    };
    // its content is given by `put_bundle_right`
    let bundle = ConfigMap {
        metadata: ObjectMeta { name: Some(CA_BUNDLE.to_owned()), ..ObjectMeta::default() },
        ..ConfigMap::default()
    };
    let mut pending = Vec::new();
    pending.extend(make(api, "serviceaccounts", namespace, Box::new(account), now)?);
    pending.extend(make(api, "configmaps", namespace, Box::new(bundle), now)?);
    Ok(pending)
}

/// Creates one of the server's own objects, unless it is there, or its kind is not served.
fn make(
    api: &ApiShared,
    plural: &str,
    namespace: &str,
    object: Box<dyn AnyObject>,
    now: Tick,
) -> Result<Vec<PendingWrite>, StoreError> {
    match api.registry.find("", "v1", plural) {
        Some(entry) => make_of(api, entry, namespace, object, now),
        None => Ok(Vec::new()),
    }
}

/// Creates one of the server's own objects of a kind, unless it is there. Quotas count it, and none
/// refuses it.
pub(super) fn make_of(
    api: &ApiShared,
    entry: &KindEntry,
    namespace: &str,
    mut object: Box<dyn AnyObject>,
    now: Tick,
) -> Result<Vec<PendingWrite>, StoreError> {
    let key = keys::object(entry, namespace, object_meta::name(object.as_ref()));
    if api.store.newest(&key).is_some() {
        return Ok(Vec::new());
    }
    object_meta::prepare_new(object.meta_mut(), api.new_uid(), now);
    if entry.scope == ResourceScope::Namespaced {
        object.meta_mut().namespace = Some(namespace.to_owned());
    }
    object.set_defaults();
    object.prepare_for_create(&RequestContext { now, identity: &ClientIdentity::server() });
    if is_namespace(entry) {
        label(object.as_mut());
    }
    put_bundle_right(api, object.as_mut());
    let write = (key.as_str(), WritePrecondition::Absent, object.as_ref());
    match put_own(api, entry, write, None, now) {
        Err(StoreError::AlreadyExists { .. }) => Ok(Vec::new()),
        written => written,
    }
}
