//! The name of a signer: `example.com/signer-name`.

use rekindle_types::validation::field_error::FieldError;

use super::{Path, names};

/// The name that the API gave to requests without a signer before it was v1.
const LEGACY: &str = "kubernetes.io/legacy-unknown";
const DOMAIN_BYTES_MAX: usize = 253;
/// A domain, a slash, and a name that fits into it with a label in front.
const BYTES_MAX: usize = 571;

/// What is wrong with the name of a signer. Words and order are upstream's `ValidateSignerName`.
pub(crate) fn errors(name: &str, field: &Path) -> Vec<FieldError> {
    if name == LEGACY {
        let why = "the legacy signerName is not allowed via this API version";
        return vec![FieldError::invalid(field, name, why)];
    }
    if name.is_empty() {
        return vec![FieldError::required(field, "")];
    }
    let (domain, path) = match name.split_once('/') {
        Some((domain, path)) if !path.contains('/') => (domain, path),
        Some(_) | None => {
            let why =
                "must be a fully qualified domain and path of the form 'example.com/signer-name'";
            return vec![FieldError::invalid(field, name, why)];
        }
    };
    if name.len() > BYTES_MAX {
        return vec![FieldError::too_long(field, BYTES_MAX)];
    }
    let mut errors = Vec::new();
    if domain.len() > DOMAIN_BYTES_MAX {
        errors.push(FieldError::too_long(field, DOMAIN_BYTES_MAX));
    }
    for label in domain.split('.') {
        errors.extend(label_errors(field, domain, label, names::dns_label(label)));
    }
    if !domain.contains('.') {
        let why = "should be a domain with at least two segments separated by dots";
        errors.push(FieldError::invalid(field, domain, why));
    }
    for label in path.split('.') {
        errors.extend(label_errors(field, path, label, names::dns_subdomain(label)));
    }
    errors
}

fn label_errors(
    field: &Path,
    value: &str,
    label: &str,
    mistakes: Vec<String>,
) -> impl Iterator<Item = FieldError> {
    mistakes.into_iter().map(move |mistake| {
        FieldError::invalid(field, value, format!("validating label {label:?}: {mistake}"))
    })
}
