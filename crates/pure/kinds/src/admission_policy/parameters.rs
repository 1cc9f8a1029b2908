//! The parameters of a policy: of which kind they are, and which object a binding names.

use k8s_openapi::api::admissionregistration::v1::{ParamKind, ParamRef};
use rekindle_types::validation::field_error::FieldError;

use crate::validation::{Path, invalid_each, names, selector, text};

const MISSING_ACTIONS: [&str; 2] = ["Deny", "Allow"];

pub(super) fn kind_errors(kind: &ParamKind, field: &Path) -> Vec<FieldError> {
    let mut errors = version_errors(text(kind.api_version.as_ref()), &field.child("apiVersion"));
    let name = text(kind.kind.as_ref());
    let field = field.child("kind");
    if name.is_empty() {
        errors.push(FieldError::required(field, ""));
        return errors;
    }
    let wrong = names::dns_1035_label(&name.to_lowercase());
    if !wrong.is_empty() {
        let why = format!("may have mixed case, but should otherwise match: {}", wrong.join(","));
        errors.push(FieldError::invalid(field, name, why));
    }
    errors
}

fn version_errors(api_version: &str, field: &Path) -> Vec<FieldError> {
    if api_version.is_empty() {
        return vec![FieldError::required(field, "")];
    }
    let (group, version) = match api_version.split_once('/') {
        None => ("", api_version),
        Some((_, version)) if version.contains('/') => {
            let why = format!("unexpected GroupVersion string: {api_version}");
            return vec![FieldError::invalid(field, api_version, why)];
        }
        Some(parts) => parts,
    };
    let mut errors = Vec::new();
    let mut refuse = |value: &str, wrong: Vec<String>| {
        if !wrong.is_empty() {
            errors.push(FieldError::invalid(field, value, wrong.join(",")));
        }
    };
    if !group.is_empty() {
        refuse(group, names::dns_subdomain(group));
    }
    match version {
        "" => refuse(api_version, vec!["version must be specified".to_owned()]),
        version => refuse(version, names::dns_1035_label(version)),
    }
    errors
}

pub(super) fn reference_errors(reference: &ParamRef, field: &Path) -> Vec<FieldError> {
    const EXCLUSIVE: &str = "name and selector are mutually exclusive";
    let mut errors = Vec::new();
    let name = text(reference.name.as_ref());
    if !name.is_empty() {
        let field = field.child("name");
        errors.extend(invalid_each(&field, name, names::path_segment(name)));
        if reference.selector.is_some() {
            errors.push(FieldError::forbidden(field, EXCLUSIVE));
        }
    }
    if let Some(given) = &reference.selector {
        let field = field.child("selector");
        errors.extend(selector::check(given, &field));
        if !name.is_empty() {
            errors.push(FieldError::forbidden(field, EXCLUSIVE));
        }
    }
    if name.is_empty() && reference.selector.is_none() {
        errors.push(FieldError::required(field, "one of name or selector must be specified"));
    }
    let field = field.child("parameterNotFoundAction");
    match text(reference.parameter_not_found_action.as_ref()) {
        "" => errors.push(FieldError::required(field, "")),
        action if MISSING_ACTIONS.contains(&action) => {}
        other => errors.push(FieldError::not_supported(field, other, &MISSING_ACTIONS)),
    }
    errors
}
