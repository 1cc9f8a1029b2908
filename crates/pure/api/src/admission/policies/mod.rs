//! Admission policies: rules in CEL that change written objects, and then check them.
//!
//! A policy counts from the moment at which the write of its binding is answered. [`memory`] keeps
//! policies as they run. [`super::reviewed_request`] says whether one is for a request, and shows
//! it the request; [`run`] runs it with each binding and parameter.
//!
//! Source: KEP-3488 (ValidatingAdmissionPolicy), KEP-3962 (MutatingAdmissionPolicy), and upstream's
//! `apiserver/pkg/admission/plugin/policy`.

use rekindle_kinds::registry::AnyObject;

mod audit;
mod authorizer;
mod memory;
mod mutating;
mod parameter_rights;
mod parameters;
pub(super) mod run;
mod validating;

pub(super) use memory::BoundPolicy;
pub(crate) use memory::PolicyMemory;
pub(super) use mutating::run_policy;
pub(super) use parameter_rights::check as check_parameter_rights;

use super::ObjectWrite;
use super::request_bodies::RequestBody;
use super::reviewed_request::ReviewedRequest;
use crate::call::ApiCall;
use crate::status::ApiError;

/// Checks what is written. Gives the warnings.
pub(super) fn check(write: &ObjectWrite<'_>) -> Result<Vec<String>, ApiError> {
    match ReviewedRequest::new(write.call, Some(write.new), write.old) {
        Some(request) => validating::check(&request),
        None => Ok(Vec::new()),
    }
}

/// Checks what is deleted. Gives the warnings.
pub(super) fn check_deletion(
    call: &ApiCall<'_>,
    object: &dyn AnyObject,
) -> Result<Vec<String>, ApiError> {
    match ReviewedRequest::new(call, None, Some(object)) {
        Some(request) => validating::check(&request),
        None => Ok(Vec::new()),
    }
}

/// Checks what is asked for where no object is written. Gives the warnings.
pub(super) fn check_request(
    call: &ApiCall<'_>,
    body: &RequestBody,
) -> Result<Vec<String>, ApiError> {
    validating::check(&ReviewedRequest::of_body(call, body))
}

/// Whether a policy is for a request, by its rules and selectors.
pub(super) fn are_for_request(request: &ReviewedRequest<'_>) -> Result<bool, ApiError> {
    let (api, known) = (request.call.api, &request.call.api.policies);
    for (policy, _) in known.validating.bound(api)? {
        if request.is_matched(&policy.constraints)? {
            return Ok(true);
        }
    }
    for (policy, _) in known.mutating.bound(api)? {
        if request.is_matched(&policy.constraints)? {
            return Ok(true);
        }
    }
    Ok(false)
}
