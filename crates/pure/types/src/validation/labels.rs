//! Labels.

use std::collections::BTreeMap;

use super::{FieldError, MISTAKES_MAX, Path, invalid_each, names};

/// Checks the keys and values of labels or of a node selector.
pub fn labels(labels: Option<&BTreeMap<String, String>>, field: &Path) -> Vec<FieldError> {
    let mut errors = Vec::new();
    for (key, value) in labels.into_iter().flatten() {
        if errors.len() >= MISTAKES_MAX {
            break;
        }
        errors.extend(invalid_each(field, key, names::qualified(key)));
        errors.extend(invalid_each(field, value, names::label_value(value)));
    }
    errors
}
