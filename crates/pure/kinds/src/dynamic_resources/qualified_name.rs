//! Names of pools, attributes and capacities, and the identity of a share of a device.

use rekindle_types::validation::field_error::FieldError;

use crate::validation::driver_name::name_errors as driver_errors;
use crate::validation::{Path, invalid_each, names};

/// The longest name of a pool.
const POOL_BYTES_MAX: usize = 253;
/// The longest name of an attribute in its domain.
const ID_BYTES_MAX: usize = 32;
/// The longest name of an attribute with its domain, which has up to 63 bytes.
pub(super) const QUALIFIED_BYTES_MAX: usize = 63 + 1 + ID_BYTES_MAX;

/// What is wrong with a name of one label.
pub(super) fn label_errors(name: &str, field: &Path) -> Vec<FieldError> {
    invalid_each(field, name, names::dns_label(name)).collect()
}

/// What is wrong with the name of a pool: subdomains with slashes between them.
pub(super) fn pool_errors(name: &str, field: &Path) -> Vec<FieldError> {
    if name.is_empty() {
        return vec![FieldError::required(field, "")];
    }
    if name.len() > POOL_BYTES_MAX {
        return vec![FieldError::too_long(field, POOL_BYTES_MAX)];
    }
    let parts = name.split('/');
    parts.flat_map(|part| invalid_each(field, part, names::dns_subdomain(part))).collect()
}

/// What is wrong with the name of an attribute or a capacity. Without a domain it is in that of the
/// driver.
pub(super) fn qualified_errors(name: &str, field: &Path) -> Vec<FieldError> {
    let parts: Vec<&str> = name.splitn(3, '/').collect();
    match parts[..] {
        [id] => id_errors(id, field),
        [domain, id] => {
            let mut errors = if domain.is_empty() {
                vec![FieldError::invalid(field, "", "the domain must not be empty")]
            } else {
                driver_errors(domain, field)
            };
            if id.is_empty() {
                errors.push(FieldError::invalid(field, "", "the name must not be empty"));
            } else {
                errors.extend(id_errors(id, field));
            }
            errors
        }
        _ => vec![FieldError::invalid(field, name, "must have at most one slash")],
    }
}

/// The same of a name that must have its domain.
pub(super) fn fully_qualified_errors(name: &str, field: &Path) -> Vec<FieldError> {
    let mut errors = qualified_errors(name, field);
    if !name.contains('/') {
        let why = "a fully qualified name must be a domain and a name separated by a slash";
        errors.push(FieldError::invalid(field, name, why));
    }
    errors
}

fn id_errors(id: &str, field: &Path) -> Vec<FieldError> {
    let mut errors = Vec::new();
    if id.len() > ID_BYTES_MAX {
        errors.push(FieldError::too_long(field, ID_BYTES_MAX));
    }
    let begins = id.starts_with(|sign: char| sign == '_' || sign.is_ascii_alphabetic());
    if !begins || !id.bytes().all(|sign| sign == b'_' || sign.is_ascii_alphanumeric()) {
        let why = "a valid C identifier must start with alphabetic character or '_', followed by \
                   a string of alphanumeric characters or '_' (e.g. 'my_name',  or 'MY_NAME',  or \
                   'MyName', regex used for validation is '[A-Za-z_][A-Za-z0-9_]*')";
        errors.push(FieldError::invalid(field, id, why));
    }
    errors
}

/// What is wrong with the identity of a share.
pub(super) fn uid_error(uid: &str, field: &Path) -> Option<FieldError> {
    const DASHES: [usize; 4] = [8, 13, 18, 23];
    const BYTES: usize = 36;
    if uid.len() != BYTES {
        let why = format!("error validating uid: invalid UUID length: {}", uid.len());
        return Some(FieldError::invalid(field, uid, why));
    }
    let is_right = |(at, sign): (usize, u8)| {
        if DASHES.contains(&at) { sign == b'-' } else { sign.is_ascii_hexdigit() }
    };
    if !uid.bytes().enumerate().all(is_right) {
        let why = "error validating uid: invalid UUID format";
        return Some(FieldError::invalid(field, uid, why));
    }
    uid.bytes().any(|sign| sign.is_ascii_uppercase()).then(|| {
        let why = "uid must be in RFC 4122 normalized form, \
                   `xxxxxxxx-xxxx-xxxx-xxxx-xxxxxxxxxxxx` with lowercase hexadecimal characters";
        FieldError::invalid(field, uid, why)
    })
}
