//! Objects as the store has them.

use std::any::Any;
use std::sync::Arc;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use rekindle_kinds::registry::{AnyObject, KindEntry, Registry};
use rekindle_store::{Store, StoredObject};

use crate::keys;
use crate::status::ApiError;

/// Reads an object that this API wrote.
pub(crate) fn decode_stored(
    entry: &KindEntry,
    object: &StoredObject,
) -> Result<Box<dyn AnyObject>, ApiError> {
    let mut decoded = entry.codec.decode_stored(&object.value).map_err(|error| {
        ApiError::internal(format!("read {} at {}: {error}", entry.kind, object.key))
    })?;
    decoded.meta_mut().resource_version = Some(object.revision.to_string());
    Ok(decoded)
}

/// What is stored, and the kinds that it is read as.
#[derive(Clone, Copy)]
pub(crate) struct StoredState<'a> {
    pub(crate) registry: &'a Registry,
    pub(crate) store: &'a Store,
}

impl StoredState<'_> {
    /// An object of the core group, if it is there and of this type.
    pub(crate) fn object_of<T: Any + Send + Sync>(
        &self,
        plural: &str,
        namespace: &str,
        name: &str,
    ) -> Option<Arc<T>> {
        let entry = self.registry.find("", "v1", plural)?;
        let stored = self.store.get(&keys::object(entry, namespace, name))?;
        let decoded: Arc<dyn AnyObject> = decode_stored(entry, &stored).ok()?.into();
        decoded.into_any().downcast().ok()
    }

    /// The metadata of an object of the core group, if it is there.
    pub(crate) fn meta_of(&self, plural: &str, namespace: &str, name: &str) -> Option<ObjectMeta> {
        let entry = self.registry.find("", "v1", plural)?;
        let stored = self.store.get(&keys::object(entry, namespace, name))?;
        Some(decode_stored(entry, &stored).ok()?.meta().clone())
    }
}
