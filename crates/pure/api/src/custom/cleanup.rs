//! The end of a definition: its objects go first.
//!
//! A definition that is deleted gets a finalizer. Its objects are deleted with it, and those that
//! finalizers hold stay until these are gone. With the last object the definition goes, too.
//! Upstream's finalizing controller does the same a moment later.

use std::sync::{Arc, RwLockWriteGuard};

use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use rekindle_kinds::registry::{AnyObject, KindOrigin};
use rekindle_store::{PendingWrite, WritePrecondition};
use rekindle_types::Tick;

use super::{
    CLEANUP_FINALIZER, CustomKind, DEFINITIONS, definitions_entry, is_definition,
    key_of_definition, names,
};
use crate::api_services;
use crate::call::{ApiCall, put, remove, with_retries};
use crate::object_meta;
use crate::selectors::names_of_key;
use crate::shared::ApiShared;
use crate::status::ApiError;
use crate::verbs::delete::{DeleteRequest, StoredDeletion, delete_stored};

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

/// After a definition was marked, once or again: its objects are deleted.
pub(crate) fn after_mark(
    call: &ApiCall<'_>,
    _namespace: &str,
    name: &str,
) -> Result<Vec<PendingWrite>, ApiError> {
    if !is_definition(call.entry) {
        return Ok(Vec::new());
    }
    go_on(call.api, &[DEFINITIONS, name].concat(), call.request.now)
}

/// After objects were removed: a definition that waited for the last of them goes. It reads no
/// object: those that are left cost a removal nothing, and none that cannot be read fails it.
pub(crate) fn after_removals(call: &ApiCall<'_>) -> Result<Vec<PendingWrite>, ApiError> {
    match call.entry.origin {
        KindOrigin::Definition => {}
        KindOrigin::BuiltIn => return Ok(Vec::new()),
    }
    let (api, now) = (call.api, call.request.now);
    let key = key_of_definition(&call.entry.plural, &call.entry.group);
    if going(api, &key).is_none_or(|kind| kind.has_objects(api)) {
        return Ok(Vec::new());
    }
    let none_is_made = api.custom.hold_creations();
    // another may have ended it before the lock was free
    if going(api, &key).is_none_or(|kind| kind.has_objects(api)) {
        return Ok(Vec::new());
    }
    end(api, &key, now, none_is_made)
}

/// Deletes the objects of the definition of this key if it is going, and with the last of them the
/// definition.
///
/// # Errors
/// That of the first object that cannot be deleted, once the others are: what is left stays for the
/// next attempt.
pub(super) fn go_on(api: &ApiShared, key: &str, now: Tick) -> Result<Vec<PendingWrite>, ApiError> {
    if going(api, key).is_none() {
        return Ok(Vec::new());
    }
    let none_is_made = api.custom.hold_creations();
    // another may have ended it before the lock was free
    let Some(kind) = going(api, key) else { return Ok(Vec::new()) };
    let (mut pending, mut failure) = (Vec::new(), None);
    for object in kind.objects(api) {
        let Some(entry) = kind.storage_version() else { continue };
        let deletion =
            delete_stored(api, entry, object.key.as_str(), (&DeleteRequest::default(), now));
        match deletion {
            Ok(StoredDeletion::Marked(writes) | StoredDeletion::Removed(writes)) => {
                pending.extend(writes);
            }
            Ok(StoredDeletion::Gone | StoredDeletion::Going) => {}
            Err(error) => failure = failure.or(Some(error)),
        }
    }
    if let Some(error) = failure {
        return Err(error);
    }
    if !kind.has_objects(api) {
        pending.extend(end(api, key, now, none_is_made)?);
    }
    Ok(pending)
}

/// Lets a definition without objects go. The guard lives until it is gone.
fn end(
    api: &ApiShared,
    key: &str,
    now: Tick,
    none_is_made: RwLockWriteGuard<'_, ()>,
) -> Result<Vec<PendingWrite>, ApiError> {
    let mut pending = release(api, key, now)?;
    drop(none_is_made);
    // others may have waited for its names
    pending.extend(names::settle(api, now)?);
    pending.extend(api_services::local_api_service::settle_definitions(api, now)?);
    Ok(pending)
}

/// The kind of the definition of this key, with writes that are on their way, if it is going.
fn going(api: &ApiShared, key: &str) -> Option<Arc<CustomKind>> {
    let stored = api.store.newest(key)?;
    api.custom.of(api, &stored).filter(|kind| kind.is_going())
}

/// Takes the finalizer away; without another one the definition goes.
fn release(api: &ApiShared, key: &str, now: Tick) -> Result<Vec<PendingWrite>, ApiError> {
    let Some(entry) = definitions_entry(api) else { return Ok(Vec::new()) };
    let (_, name) = names_of_key(entry, key);
    with_retries(entry, name, || {
        let Some(stored) = api.store.newest(key) else { return Ok(Vec::new()) };
        let mut object = api.read(entry, &stored)?.boxed_clone();
        if !object_meta::is_being_deleted(object.meta()) {
            return Ok(Vec::new()); // a new one has its name
        }
        let mut finalizers = object.meta_mut().finalizers.take().unwrap_or_default();
        let held = finalizers.len();
        finalizers.retain(|finalizer| finalizer != CLEANUP_FINALIZER);
        if finalizers.is_empty() {
            let removed = remove(api, entry, &stored, now)?;
            api.custom.forget(key);
            return Ok(removed);
        }
        if finalizers.len() == held {
            return Ok(Vec::new());
        }
        object.meta_mut().finalizers = Some(finalizers);
        let expect = WritePrecondition::Revision(stored.revision);
        Ok(vec![put(api, key, expect, object)?])
    })
}
