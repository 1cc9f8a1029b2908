//! Names of drivers: of volumes (CSIDriver), and of devices.

use rekindle_types::validation::field_error::FieldError;

use super::{Path, names};

/// The longest name of a driver.
const NAME_BYTES_MAX: usize = 63;

/// What is wrong with the name of a driver.
pub fn name_errors(name: &str, field: &Path) -> Vec<FieldError> {
    let mut errors = Vec::new();
    if name.is_empty() {
        errors.push(FieldError::required(field, ""));
    }
    if name.len() > NAME_BYTES_MAX {
        errors.push(FieldError::too_long(field, NAME_BYTES_MAX));
    }
    let messages = names::dns_subdomain(&name.to_lowercase());
    if !name.is_empty() {
        errors.extend(messages.into_iter().map(|why| FieldError::invalid(field, name, why)));
    }
    errors
}
