//! The devices of a claim: its requests, what they have in common, and their configuration.

use k8s_openapi::api::resource::v1::{DeviceClaim, DeviceConstraint, ResourceClaimSpec};
use rekindle_types::validation::field_error::FieldError;

use super::bounded_lists::{entry_errors, set_errors};
use super::device_configuration::{self, CONFIGURATIONS_MAX};
use super::qualified_name::fully_qualified_errors;
use super::request_names::RequestNames;
use super::{REQUESTS_MAX, device_request};
use crate::defaults;
use crate::validation::{Path, items};

/// The most constraints of a claim.
const CONSTRAINTS_MAX: usize = 32;

/// Fills in what the spec of a claim leaves out.
pub(super) fn set_claim_defaults(spec: &mut ResourceClaimSpec) {
    let claim = spec.devices.get_or_insert_default();
    claim.requests.iter_mut().flatten().for_each(device_request::set_defaults);
    defaults::drop_empty_list(&mut claim.requests);
    defaults::drop_empty_list(&mut claim.constraints);
    defaults::drop_empty_list(&mut claim.config);
}

/// What is wrong with the spec of a claim.
pub(super) fn claim_errors(spec: Option<&ResourceClaimSpec>, field: &Path) -> Vec<FieldError> {
    let devices = spec.and_then(|spec| spec.devices.as_ref());
    devices.map_or_else(Vec::new, |claim| device_errors(claim, &field.child("devices")))
}

fn device_errors(claim: &DeviceClaim, field: &Path) -> Vec<FieldError> {
    let known = RequestNames::new(Some(claim));
    let mut errors = set_errors(
        items(claim.requests.as_ref()),
        REQUESTS_MAX,
        &field.child("requests"),
        |request| request.name.as_str(),
        device_request::errors,
    );
    errors.extend(entry_errors(
        items(claim.constraints.as_ref()),
        CONSTRAINTS_MAX,
        &field.child("constraints"),
        |constraint, field| constraint_errors(constraint, &known, field),
    ));
    errors.extend(entry_errors(
        items(claim.config.as_ref()),
        CONFIGURATIONS_MAX,
        &field.child("config"),
        |config, field| {
            let requests = field.child("requests");
            let mut errors = known.list_errors(config.requests.as_ref(), &requests);
            errors.extend(device_configuration::errors(config.opaque.as_ref(), field));
            errors
        },
    ));
    errors
}

fn constraint_errors(
    constraint: &DeviceConstraint,
    known: &RequestNames<'_>,
    field: &Path,
) -> Vec<FieldError> {
    let requests = field.child("requests");
    let mut errors = known.list_errors(constraint.requests.as_ref(), &requests);
    match (&constraint.match_attribute, &constraint.distinct_attribute) {
        (Some(name), _) => {
            errors.extend(fully_qualified_errors(name, &field.child("matchAttribute")));
        }
        (None, Some(name)) => {
            errors.extend(fully_qualified_errors(name, &field.child("distinctAttribute")));
        }
        (None, None) => {
            let why = "exactly one of \"matchAttribute\" or \"distinctAttribute\" is required, \
                       but multiple fields are set";
            errors.push(FieldError::required(field, why));
        }
    }
    errors
}
