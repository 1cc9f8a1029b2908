//! The end of a definition: its objects go first.
//!
//! A definition that is deleted gets a finalizer. Its objects are deleted with it, and those that
//! finalizers hold stay until these are gone. With the last object the definition goes, too.
//! Upstream's finalizing controller does the same a moment later.

use std::sync::{Arc, PoisonError};

use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use rekindle_store::{PendingWrite, StoreError, StoredObject, WritePrecondition};
use rekindle_types::Tick;

use super::{
    CLEANUP_FINALIZER, CustomKind, DEFINITIONS, definitions_entry, is_definition,
    key_of_definition, names,
};
use crate::call::{ApiCall, ApiWriteFailure, put, remove};
use crate::registry::{AnyObject, KindEntry, KindOrigin};
use crate::shared::ApiShared;
use crate::status::ApiError;
use crate::verbs::delete::{DeleteRequest, DeleteStep};

/// Notes in a definition that it is going, and holds it until its objects are gone. `object` is
/// marked for deletion.
pub(crate) fn hold(object: &mut dyn AnyObject, now: Tick) {
    let Some(definition) = object.as_any_mut().downcast_mut::<CustomResourceDefinition>() else {
        return;
    };
    let finalizers = definition.metadata.finalizers.get_or_insert_default();
    if !finalizers.iter().any(|finalizer| finalizer == CLEANUP_FINALIZER) {
        finalizers.push(CLEANUP_FINALIZER.to_owned());
    }
    let conditions = definition.status.get_or_insert_default().conditions.get_or_insert_default();
    let message = "CustomResourceDefinition marked for deletion; its objects are deleted first";
    names::set(conditions, "Terminating", ("True", "InstanceDeletionPending", message), now);
}

/// Goes on with every definition that was going when the engine ended.
///
/// # Errors
/// When the store refuses.
pub(super) fn resume(api: &ApiShared, now: Tick) -> Result<Vec<PendingWrite>, ApiError> {
    let mut pending = Vec::new();
    for (stored, kind) in api.custom.newest(api) {
        pending.extend(clear(api, &stored, &kind, now)?);
    }
    Ok(pending)
}

/// After a definition was marked, or an object of one was removed.
pub(crate) fn after_write(
    call: &ApiCall<'_>,
    _namespace: &str,
    name: &str,
) -> Result<Vec<PendingWrite>, ApiError> {
    let key = match call.entry.origin {
        KindOrigin::Definition(_) => key_of_definition(&call.entry.plural, &call.entry.group),
        KindOrigin::BuiltIn if is_definition(call.entry) => [DEFINITIONS, name].concat(),
        KindOrigin::BuiltIn => return Ok(Vec::new()),
    };
    let Some(stored) = call.api.store.newest(&key) else { return Ok(Vec::new()) };
    let Some(kind) = call.api.custom.of(call.api, &stored) else { return Ok(Vec::new()) };
    clear(call.api, &stored, &kind, call.request.now)
}

/// Deletes the objects of a definition that is going, and with the last of them the definition.
fn clear(
    api: &ApiShared,
    definition: &Arc<StoredObject>,
    kind: &CustomKind,
    now: Tick,
) -> Result<Vec<PendingWrite>, ApiError> {
    if !kind.is_going() {
        return Ok(Vec::new());
    }
    let _none_is_made = api.custom.creation.write().unwrap_or_else(PoisonError::into_inner);
    let mut pending = Vec::new();
    let (objects, _) = api.store.newest_below(&kind.prefix());
    if let Some(entry) = kind.any_version() {
        for object in &objects {
            pending.extend(delete(api, entry, object, now)?);
        }
    }
    let (left, _) = api.store.newest_below(&kind.prefix());
    if left.is_empty() {
        pending.extend(release(api, definition, now)?);
        // others may have waited for its names
        pending.extend(names::settle(api, now)?);
    }
    Ok(pending)
}

/// Deletes one object as a client would.
fn delete(
    api: &ApiShared,
    entry: &KindEntry,
    stored: &Arc<StoredObject>,
    now: Tick,
) -> Result<Vec<PendingWrite>, ApiError> {
    let object = entry.codec.decode_stored(&stored.value).map_err(ApiError::internal)?;
    let written = match DeleteStep::decide(object, &DeleteRequest::default(), now) {
        DeleteStep::Leave(_) => return Ok(Vec::new()),
        DeleteStep::Remove(_) => remove(api, entry, stored, now),
        DeleteStep::Mark(object) => {
            let expect = WritePrecondition::Revision(stored.revision);
            put(api, stored.key.as_str(), expect, object).map(|write| vec![write])
        }
    };
    or_raced(written)
}

/// Takes the finalizer away; without another one the definition goes.
fn release(
    api: &ApiShared,
    stored: &Arc<StoredObject>,
    now: Tick,
) -> Result<Vec<PendingWrite>, ApiError> {
    debug_assert!(stored.key.as_str().starts_with(DEFINITIONS));
    let Some(entry) = definitions_entry(api) else { return Ok(Vec::new()) };
    let mut object = api.read(entry, stored)?.boxed_clone();
    let finalizers = object.meta_mut().finalizers.take().unwrap_or_default();
    let left: Vec<_> = finalizers.into_iter().filter(|one| one != CLEANUP_FINALIZER).collect();
    if left.is_empty() {
        let removed = or_raced(remove(api, entry, stored, now));
        api.custom.forget(stored.key.as_str());
        return removed;
    }
    object.meta_mut().finalizers = Some(left);
    let expect = WritePrecondition::Revision(stored.revision);
    or_raced(put(api, stored.key.as_str(), expect, object).map(|write| vec![write]))
}

/// Who has written in between has what follows from it to do.
fn or_raced(written: Result<Vec<PendingWrite>, StoreError>) -> Result<Vec<PendingWrite>, ApiError> {
    match written.map_err(ApiWriteFailure::from) {
        Ok(pending) => Ok(pending),
        Err(ApiWriteFailure::Raced) => Ok(Vec::new()),
        Err(ApiWriteFailure::Api(error)) => Err(error),
    }
}
