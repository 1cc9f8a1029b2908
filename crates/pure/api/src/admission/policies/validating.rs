//! Policies that check what is written.

use http::StatusCode;
use rekindle_structural_schema::{PolicyEvaluation, PolicyInput, PolicyWork};

use super::memory::{StoredBinding, StoredPolicy};
use super::run::{self, PolicyFailure};
use crate::admission::reviewed_request::ReviewedRequest;
use crate::kinds::admission_policy::{FailurePolicy, ValidationProgram};
use crate::status::ApiError;

/// The longest message that an expression may make.
const MESSAGE_BYTES_MAX: usize = 5 << 10;

/// Why a request is not valid.
struct Refusal {
    message: String,
    /// As the policy says; empty if it does not.
    reason: String,
}

/// Checks a request by all policies that are for it. Gives the warnings.
///
/// # Errors
/// What the first policy says that refuses it.
pub(super) fn check(request: &ReviewedRequest<'_>) -> Result<Vec<String>, ApiError> {
    let api = request.call.api;
    let (mut warnings, mut refused) = (Vec::new(), None);
    let work = PolicyWork::default();
    for (policy, bindings) in api.policies.validating.bound(api)? {
        if !request.is_matched(&policy.constraints)? {
            continue;
        }
        for binding in bindings {
            let named = format!("'{}' with binding '{}'", policy.name, binding.name);
            let does = |action: &str| binding.actions.iter().any(|known| known == action);
            for refusal in refusals(request, &policy, &binding, &work)? {
                let Refusal { message, reason } = refusal;
                if does("Warn") {
                    let warning = "Validation failed for ValidatingAdmissionPolicy";
                    warnings.push(format!("{warning} {named}: {message}"));
                }
                if does("Deny") && refused.is_none() {
                    let message =
                        format!("ValidatingAdmissionPolicy {named} denied request: {message}");
                    let entry = request.call.entry;
                    let (code, reason) = code_and_reason(&reason);
                    let denied = ApiError::denied(entry, request.name(), (code, reason), &message);
                    refused = Some(denied);
                }
            }
        }
    }
    match refused {
        Some(error) => Err(error.with_warnings(warnings)),
        None => Ok(warnings),
    }
}

/// The reasons that policies may give, with their codes.
fn code_and_reason(reason: &str) -> (StatusCode, &str) {
    match reason {
        "Forbidden" => (StatusCode::FORBIDDEN, reason),
        "RequestEntityTooLarge" => (StatusCode::PAYLOAD_TOO_LARGE, reason),
        "" => (StatusCode::UNPROCESSABLE_ENTITY, "Invalid"),
        other => (StatusCode::UNPROCESSABLE_ENTITY, other),
    }
}

/// What a policy with one binding finds wrong.
fn refusals(
    request: &ReviewedRequest<'_>,
    policy: &StoredPolicy<ValidationProgram>,
    binding: &StoredBinding,
    work: &PolicyWork,
) -> Result<Vec<Refusal>, ApiError> {
    let mut found = Vec::new();
    let pair = (policy, binding);
    let failures = run::with_binding(request, pair, work, &mut |policy, input, work| {
        found.extend(validate(policy, input, work)?);
        Ok(())
    })?;
    let failures = failures.into_iter();
    found.extend(failures.map(|PolicyFailure(message)| Refusal { message, reason: String::new() }));
    Ok(found)
}

/// What a policy finds wrong with one parameter.
fn validate(
    policy: &StoredPolicy<ValidationProgram>,
    input: PolicyInput<'_>,
    work: &PolicyWork,
) -> Result<Vec<Refusal>, PolicyFailure> {
    let program = &policy.program;
    let mut evaluation = PolicyEvaluation::new(input, &program.variables, work);
    if !run::are_met(&policy.program.conditions, &mut evaluation)? {
        return Ok(Vec::new());
    }
    let mut found = Vec::new();
    for validation in &program.steps {
        let message = match evaluation.condition(&validation.expression) {
            Ok(true) => continue,
            Ok(false) => message_of(validation, &mut evaluation),
            Err(_) if policy.on_failure == FailurePolicy::Ignore => continue,
            Err(failure) => run::in_expression(&validation.text, &failure),
        };
        found.push(Refusal { message, reason: validation.reason.clone() });
        if evaluation.cost_left() == 0 {
            break; // as the message of the next one would say
        }
    }
    Ok(found)
}

/// What is said of a validation that does not hold: what its expression makes, if that can be
/// shown, else its message, else the validation itself.
fn message_of<'a>(
    validation: &'a ValidationProgram,
    evaluation: &mut PolicyEvaluation<'a>,
) -> String {
    let made = validation.message_expression.as_ref().and_then(|expression| {
        let made = evaluation.text(expression).ok().flatten()?;
        let made = made.trim();
        let is_usable =
            !made.is_empty() && made.len() <= MESSAGE_BYTES_MAX && !made.contains(['\n', '\r']);
        is_usable.then(|| made.to_owned())
    });
    match made {
        Some(made) => made,
        None if !validation.message.is_empty() => validation.message.clone(),
        None => format!("failed expression: {}", validation.text.trim()),
    }
}
