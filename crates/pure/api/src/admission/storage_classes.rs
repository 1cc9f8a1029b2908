//! The class of claims that name none, what classes let claims do, and the class that every
//! cluster has.

use std::collections::BTreeMap;
use std::sync::Arc;

use k8s_openapi::api::core::v1::PersistentVolumeClaim;
use k8s_openapi::api::storage::v1::StorageClass;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use rekindle_kinds::registry::{AnyObject, KindEntry, Registry};
use rekindle_kinds::storage::claim;
use rekindle_kinds::storage::class::{IS_BUILT_IN, IS_DEFAULT, is_default};
use rekindle_store::{PendingWrite, RangeQuery, StoreError, WritePrecondition};
use rekindle_types::Tick;
use rekindle_types::local_path;

use super::table::ObjectWrite;
use crate::call::{ApiCall, ObjectPart, put};
use crate::keys;
use crate::object_meta;
use crate::shared::ApiShared;
use crate::status::ApiError;

const GROUP: &str = "storage.k8s.io";
/// What `kubectl apply` notes on what it writes.
const LAST_APPLIED: &str = "kubectl.kubernetes.io/last-applied-configuration";

/// Gives a new claim that names no class the default one: of several, the newest, as upstream's
/// admission does. A claim that says `""` wants none.
pub(super) fn fill_new(call: &ApiCall<'_>, object: &mut dyn AnyObject) -> Result<(), ApiError> {
    let Some(claim) = object.as_any_mut().downcast_mut::<PersistentVolumeClaim>() else {
        return Ok(());
    };
    let spec = claim.spec.get_or_insert_default();
    if spec.storage_class_name.is_none() {
        spec.storage_class_name = default_class(call)?;
    }
    Ok(())
}

/// A claim grows only if its class says that its volumes can.
pub(super) fn check_growth(write: &ObjectWrite<'_>) -> Result<(), ApiError> {
    let as_claim =
        |object: &dyn AnyObject| object.as_any().downcast_ref::<PersistentVolumeClaim>().cloned();
    let (Some(new), Some(old)) = (as_claim(write.new), write.old.and_then(as_claim)) else {
        return Ok(());
    };
    let grows = claim::is_bound(&old) && claim::requested(&new) > claim::requested(&old);
    if write.part != ObjectPart::Main || !grows || may_grow(write.call, &old)? {
        return Ok(());
    }
    let why = "only dynamically provisioned pvc can be resized and the storageclass that provisions the pvc must support resize";
    Err(ApiError::forbidden(write.call.entry, &write.call.path.name, why))
}

fn may_grow(call: &ApiCall<'_>, claim: &PersistentVolumeClaim) -> Result<bool, ApiError> {
    let name = claim.spec.as_ref().and_then(|spec| spec.storage_class_name.as_deref());
    let (Some(entry), Some(name)) = (classes(&call.api.registry), name) else { return Ok(false) };
    let Some(stored) = call.api.store.get(&keys::object(entry, "", name)) else {
        return Ok(false);
    };
    let class = call.api.read_as::<StorageClass>(entry, &stored)?;
    Ok(class.is_some_and(|class| class.allow_volume_expansion == Some(true)))
}

fn default_class(call: &ApiCall<'_>) -> Result<Option<String>, ApiError> {
    let Some(entry) = classes(&call.api.registry) else { return Ok(None) };
    let query = RangeQuery { prefix: keys::collection(entry, ""), ..RangeQuery::default() };
    let mut newest: Option<ObjectMeta> = None;
    for stored in call.api.store.range(&query)?.objects {
        let Some(class) = call.api.read_as::<StorageClass>(entry, &stored)? else { continue };
        let made = |meta: &ObjectMeta| meta.creation_timestamp.as_ref().map(Tick::from);
        // Of two from the same second the first by name, as upstream.
        if is_default(&class)
            && newest.as_ref().is_none_or(|newest| made(&class.metadata) > made(newest))
        {
            newest = Some(class.metadata.clone());
        }
    }
    Ok(newest.and_then(|meta| meta.name))
}

/// Makes the class `local-path`, unless a class of this name is there: with what its users made of
/// it, or their own. One that an older engine has made is marked as ours.
pub(crate) fn bootstrap(api: &ApiShared, now: Tick) -> Result<Option<PendingWrite>, StoreError> {
    let Some(entry) = classes(&api.registry) else { return Ok(None) };
    let key = keys::object(entry, "", local_path::CLASS);
    let mut class = built_in();
    let Some(stored) = api.store.newest(&key) else {
        object_meta::prepare_new(&mut class.metadata, api.new_uid(), now);
        return put(api, &key, WritePrecondition::Absent, Box::new(class)).map(Some);
    };
    let Ok(Some(found)) = api.read_as::<StorageClass>(entry, &stored) else { return Ok(None) };
    let annotations = found.metadata.annotations.clone().unwrap_or_default();
    let is_unmarked = !annotations.contains_key(IS_BUILT_IN);
    let was_applied = annotations.contains_key(LAST_APPLIED);
    let metadata = found.metadata.clone();
    if !is_unmarked || was_applied || *found != (StorageClass { metadata, ..class }) {
        return Ok(None);
    }
    let mut marked = StorageClass::clone(&found);
    let annotations = marked.metadata.annotations.get_or_insert_default();
    annotations.insert(IS_BUILT_IN.to_owned(), "true".to_owned());
    put(api, &key, WritePrecondition::Revision(stored.revision), Box::new(marked)).map(Some)
}

/// The class as the engine makes it.
fn built_in() -> StorageClass {
    let annotations = [IS_DEFAULT, IS_BUILT_IN].map(|key| (key.to_owned(), "true".to_owned()));
    StorageClass {
        metadata: ObjectMeta {
            name: Some(local_path::CLASS.to_owned()),
            annotations: Some(BTreeMap::from(annotations)),
            ..ObjectMeta::default()
        },
        provisioner: local_path::PROVISIONER.to_owned(),
        reclaim_policy: Some("Delete".to_owned()),
        volume_binding_mode: Some("WaitForFirstConsumer".to_owned()),
        ..StorageClass::default()
    }
}

fn classes(registry: &Registry) -> Option<&Arc<KindEntry>> {
    registry.find(GROUP, "v1", "storageclasses")
}
