//! Objects as the store has them.

use rekindle_store::Object;

use crate::registry::{AnyObject, KindEntry};
use crate::status::ApiError;

/// Reads an object that this API wrote.
pub(crate) fn decode_stored(
    entry: &KindEntry,
    object: &Object,
) -> Result<Box<dyn AnyObject>, ApiError> {
    let mut decoded = (entry.decode_stored)(&object.value).map_err(|error| {
        ApiError::internal(format!("read {} at {}: {error}", entry.kind, object.key))
    })?;
    decoded.meta_mut().resource_version = Some(object.revision.to_string());
    Ok(decoded)
}
