//! What the machinery itself does to metadata.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use rekindle_kinds::registry::{AnyObject, KindEntry, ResourceScope};
use rekindle_types::Tick;

use crate::request::ResourcePath;
use crate::status::ApiError;

/// The metadata of a new object: what only the server sets is set, what no client may set is
/// dropped.
pub(crate) fn prepare_new(meta: &mut ObjectMeta, uid: String, now: Tick) {
    meta.uid = Some(uid);
    meta.creation_timestamp = Some(now.to_time());
    meta.deletion_timestamp = None;
    meta.deletion_grace_period_seconds = None;
    drop_unkept(meta);
    drop_empty(meta);
}

/// Drops a version that a client may have given a new object, before it is written. A dry run
/// answers with it, as upstream.
///
/// # Errors
/// 500, as upstream, where it names a version of an object that exists.
pub(crate) fn drop_given_version(meta: &mut ObjectMeta) -> Result<(), ApiError> {
    let given = meta.resource_version.take().unwrap_or_default();
    match given.parse::<u64>() {
        // what is no number is no version
        Ok(0) | Err(_) => Ok(()),
        Ok(_) => {
            Err(ApiError::failure("resourceVersion should not be set on objects to be created"))
        }
    }
}

/// The metadata of a changed object: what a client cannot change comes from the old one.
pub(crate) fn prepare_changed(meta: &mut ObjectMeta, old: &ObjectMeta) {
    if meta.uid.as_deref().unwrap_or_default().is_empty() {
        meta.uid.clone_from(&old.uid);
    }
    if meta.generate_name.as_deref().unwrap_or_default().is_empty() {
        meta.generate_name.clone_from(&old.generate_name);
    }
    meta.creation_timestamp.clone_from(&old.creation_timestamp);
    // a deletion cannot be taken back; one that is set here is refused as a change
    if old.deletion_timestamp.is_some() {
        meta.deletion_timestamp.clone_from(&old.deletion_timestamp);
    }
    if meta.deletion_grace_period_seconds.is_none() {
        meta.deletion_grace_period_seconds = old.deletion_grace_period_seconds;
    }
    meta.generation = old.generation;
    drop_unkept(meta);
    drop_empty(meta);
}

/// Fields that this server does not keep: selfLink is gone upstream as well.
fn drop_unkept(meta: &mut ObjectMeta) {
    meta.self_link = None;
}

/// Empty maps and lists are the same as absent ones; one form keeps "nothing changed" recognisable.
fn drop_empty(meta: &mut ObjectMeta) {
    meta.labels.take_if(|labels| labels.is_empty());
    meta.annotations.take_if(|annotations| annotations.is_empty());
    meta.finalizers.take_if(|finalizers| finalizers.is_empty());
    meta.owner_references.take_if(|owners| owners.is_empty());
    meta.generate_name.take_if(|name| name.is_empty());
    meta.name.take_if(|name| name.is_empty());
    meta.namespace.take_if(|namespace| namespace.is_empty());
}

/// The namespace in a body must be that of the path, or absent.
pub(crate) fn settle_namespace(
    entry: &KindEntry,
    meta: &mut ObjectMeta,
    path: &ResourcePath,
) -> Result<(), ApiError> {
    let given = meta.namespace.as_deref().unwrap_or_default();
    match entry.scope {
        ResourceScope::Cluster => {
            meta.namespace = None;
            Ok(())
        }
        ResourceScope::Namespaced if given.is_empty() => {
            meta.namespace = Some(path.namespace.clone());
            Ok(())
        }
        ResourceScope::Namespaced if given == path.namespace => Ok(()),
        ResourceScope::Namespaced => Err(ApiError::bad_request(
            "the namespace of the provided object does not match the namespace sent on the request",
        )),
    }
}

/// The name in a body must be that of the path.
pub(crate) fn check_name(meta: &ObjectMeta, path: &ResourcePath) -> Result<(), ApiError> {
    match meta.name.as_deref().unwrap_or_default() {
        "" => Err(ApiError::bad_request(format!(
            "the name of the object ({} based on URL) was undeterminable: name must be provided",
            path.name
        ))),
        given if given == path.name => Ok(()),
        given => Err(ApiError::bad_request(format!(
            "the name of the object ({given}) does not match the name on the URL ({})",
            path.name
        ))),
    }
}

/// The name of an object; empty when it has none yet.
pub(crate) fn name(object: &dyn AnyObject) -> &str {
    object.meta().name.as_deref().unwrap_or_default()
}

/// Whether a deletion was asked for.
pub(crate) fn is_being_deleted(meta: &ObjectMeta) -> bool {
    meta.deletion_timestamp.is_some()
}
