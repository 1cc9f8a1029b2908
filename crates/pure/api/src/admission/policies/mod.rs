//! Admission policies: rules in CEL that change written objects, and then check them.
//!
//! A policy counts from the moment at which the write of its binding is answered. [`memory`] keeps
//! policies as they run. [`super::reviewed_request`] says whether one is for a request, and shows
//! it the request; [`run`] runs it with each binding and parameter.
//!
//! Source: KEP-3488 (ValidatingAdmissionPolicy), KEP-3962 (MutatingAdmissionPolicy), and upstream's
//! `apiserver/pkg/admission/plugin/policy`.

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
use super::reviewed_request::ReviewedRequest;
use crate::call::ApiCall;
use crate::registry::AnyObject;
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
