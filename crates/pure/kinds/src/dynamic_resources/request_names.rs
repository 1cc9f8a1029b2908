//! The names of a claim's requests, which its constraints, configuration and allocation refer to.

use std::collections::BTreeMap;

use k8s_openapi::api::resource::v1::DeviceClaim;
use rekindle_types::validation::field_error::FieldError;

use super::qualified_name::label_errors;
use super::{REQUESTS_MAX, bounded_lists};
use crate::validation::{ListKeys, Path, items};

/// The requests of a claim by name, each with the names of its alternatives.
pub(super) struct RequestNames<'a>(BTreeMap<&'a str, ListKeys<&'a str>>);

impl<'a> RequestNames<'a> {
    /// Those of a claim.
    pub(super) fn new(claim: Option<&'a DeviceClaim>) -> Self {
        let requests = items(claim.and_then(|claim| claim.requests.as_ref()));
        let named = requests.iter().map(|request| {
            let alternatives = items(request.first_available.as_ref());
            let names = alternatives.iter().map(|alternative| alternative.name.as_str());
            (request.name.as_str(), names.collect())
        });
        Self(named.collect())
    }

    /// Whether this is `request` or `request/alternative`.
    fn has(&self, name: &str) -> bool {
        match name.split_once('/') {
            None => self.0.contains_key(name),
            Some((request, alternative)) => {
                self.0.get(request).is_some_and(|names| names.has(alternative))
            }
        }
    }

    /// What is wrong with a reference to a request.
    pub(super) fn reference_errors(&self, name: &str, field: &Path) -> Vec<FieldError> {
        const WHY: &str = "must be the name of a request in the claim or the name of a request \
                           and a subrequest separated by '/'";
        let unknown = || FieldError::invalid(field, name, WHY);
        if name.split('/').count() > 2 {
            return vec![unknown()];
        }
        let mut errors: Vec<FieldError> =
            name.split('/').flat_map(|part| label_errors(part, field)).collect();
        if !self.has(name) {
            errors.push(unknown());
        }
        errors
    }

    /// What is wrong with a list of references.
    pub(super) fn list_errors(&self, list: Option<&Vec<String>>, field: &Path) -> Vec<FieldError> {
        bounded_lists::set_errors(
            items(list),
            REQUESTS_MAX,
            field,
            String::as_str,
            |name, field| self.reference_errors(name, field),
        )
    }
}
