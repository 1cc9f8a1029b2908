//! Labels and annotations.

use std::collections::BTreeMap;

use rekindle_types::validation::field_error::FieldError;

pub use rekindle_types::validation::labels::labels;

use super::{MISTAKES_MAX, Path, invalid_each, names};

/// All annotations of an object together, keys and values.
pub const ANNOTATIONS_BYTES_MAX: usize = 256 * 1024;

/// Labels as tables show them, `<none>` where there is none.
pub fn format(labels: Option<&BTreeMap<String, String>>) -> String {
    let labels: Vec<String> =
        labels.into_iter().flatten().map(|(key, value)| format!("{key}={value}")).collect();
    if labels.is_empty() { "<none>".to_owned() } else { labels.join(",") }
}

/// Checks the keys of annotations and their size together.
pub fn annotations(
    annotations: Option<&BTreeMap<String, String>>,
    field: &Path,
) -> Vec<FieldError> {
    let mut errors = Vec::new();
    let mut bytes = 0;
    for (key, value) in annotations.into_iter().flatten() {
        bytes += key.len() + value.len();
        if errors.len() >= MISTAKES_MAX {
            continue;
        }
        // Upstream accepts upper case in the prefix here, unlike in labels.
        errors.extend(invalid_each(field, key, names::qualified(&key.to_lowercase())));
    }
    if bytes > ANNOTATIONS_BYTES_MAX {
        errors.push(FieldError::too_long(field, ANNOTATIONS_BYTES_MAX));
    }
    errors
}
