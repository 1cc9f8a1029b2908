//! What ConfigMaps and Secrets have in common: data under keys, limited in size, that can be
//! frozen.

use rekindle_types::validation::field_error::FieldError;

use crate::registry::resource::TableCell;
use crate::validation::{Path, invalid_each, names};

/// All values of one object together.
const BYTES_MAX: usize = 1024 * 1024;

/// Checks a key.
pub(super) fn key<'a>(key: &'a str, field: &'a Path) -> impl Iterator<Item = FieldError> + 'a {
    invalid_each(field, key, names::config_map_key(key))
}

/// Checks the size.
pub(super) fn size(bytes: usize) -> Option<FieldError> {
    (bytes > BYTES_MAX).then(|| FieldError::too_long("", BYTES_MAX))
}

/// A frozen object stays frozen.
pub(super) fn stays_immutable(immutable: Option<bool>) -> Option<FieldError> {
    (immutable != Some(true)).then(|| frozen("immutable"))
}

/// The error of a change to a frozen object.
pub(super) fn frozen(field: &str) -> FieldError {
    FieldError::forbidden(field, "field is immutable when `immutable` is set")
}

/// The cell with the number of entries.
pub(super) fn count(entries: usize) -> TableCell {
    TableCell::Int(i64::try_from(entries).unwrap_or(i64::MAX))
}
