//! Policies that check what is written.

use http::StatusCode;
use rekindle_kinds::admission_policy::{FailurePolicy, ValidationProgram};
use rekindle_structural_schema::{PolicyEvaluation, PolicyInput, PolicyWork};

use super::audit;
use super::memory::{StoredBinding, StoredPolicy};
use super::run::{self, PolicyFailure, PolicyUse};
use crate::admission::reviewed_request::ReviewedRequest;
use crate::status::ApiError;

/// The longest message that an expression may make.
const MESSAGE_BYTES_MAX: usize = 5 << 10;

/// Why a request is not valid.
pub(super) struct Refusal {
    pub(super) message: String,
    /// As the policy says; empty if it does not.
    reason: String,
    /// Which of its validations it is.
    pub(super) index: usize,
}

/// What a policy finds about a request.
#[derive(Default)]
struct PolicyFindings {
    refusals: Vec<Refusal>,
    /// For the audit log: keys and values.
    annotations: Vec<(String, String)>,
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
        match PolicyUse::new(api, &policy) {
            PolicyUse::Usable => {}
            PolicyUse::Ignored => continue,
            PolicyUse::Failed(why) => {
                let denied = || denied(request, &format!("'{}'", policy.name), ("", &why));
                refused = refused.or_else(|| Some(denied()));
                continue;
            }
        }
        let mut annotations = Vec::new();
        for binding in bindings {
            let named = format!("'{}' with binding '{}'", policy.name, binding.name);
            let does = |action: &str| binding.actions.iter().any(|known| known == action);
            let findings = findings(request, &policy, &binding, &work)?;
            annotations.extend(findings.annotations);
            for refusal in findings.refusals {
                if does("Audit") {
                    audit::note_failure(request, (&policy.name, &binding), &refusal);
                }
                let Refusal { message, reason, .. } = refusal;
                if does("Warn") {
                    let warning = "Validation failed for ValidatingAdmissionPolicy";
                    warnings.push(format!("{warning} {named}: {message}"));
                }
                if does("Deny") && refused.is_none() {
                    refused = Some(denied(request, &named, (&reason, &message)));
                }
            }
        }
        audit::note_annotations(request, annotations);
    }
    match refused {
        Some(error) => Err(error.with_warnings(warnings)),
        None => Ok(warnings),
    }
}

fn denied(request: &ReviewedRequest<'_>, named: &str, (reason, why): (&str, &str)) -> ApiError {
    let message = format!("ValidatingAdmissionPolicy {named} denied request: {why}");
    ApiError::denied(request.call.entry, request.name(), code_and_reason(reason), &message)
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

/// What a policy with one binding finds.
fn findings(
    request: &ReviewedRequest<'_>,
    policy: &StoredPolicy<ValidationProgram>,
    binding: &StoredBinding,
    work: &PolicyWork,
) -> Result<PolicyFindings, ApiError> {
    let mut findings = PolicyFindings::default();
    let pair = (policy, binding);
    let failures = run::with_binding(request, pair, work, &mut |policy, input, work| {
        validate(policy, input, work, &mut findings)
    })?;
    let refusal = |failure: PolicyFailure| Refusal {
        message: failure.into_text(),
        reason: String::new(),
        index: 0,
    };
    findings.refusals.extend(failures.into_iter().map(refusal));
    Ok(findings)
}

/// What a policy finds with one parameter.
fn validate(
    policy: &StoredPolicy<ValidationProgram>,
    input: PolicyInput<'_>,
    work: &PolicyWork,
    findings: &mut PolicyFindings,
) -> Result<(), PolicyFailure> {
    let program = &policy.program;
    let mut evaluation = PolicyEvaluation::new(input, &program.variables, work);
    if !run::are_met(&policy.program.conditions, &mut evaluation)? {
        return Ok(());
    }
    for (index, validation) in program.steps.iter().enumerate() {
        let message = match evaluation.condition(&validation.expression) {
            Ok(true) => continue,
            Ok(false) => message_of(validation, &mut evaluation),
            Err(_) if policy.on_failure == FailurePolicy::Ignore => continue,
            Err(failure) => run::in_expression(&validation.text, &failure),
        };
        findings.refusals.push(Refusal { message, reason: validation.reason.clone(), index });
        if evaluation.cost_left() == 0 {
            return Ok(()); // as the message of the next one would say
        }
    }
    for annotation in &program.annotations {
        match evaluation.text(&annotation.expression) {
            Ok(value) => {
                let value = value.as_deref().map(str::trim).filter(|value| !value.is_empty());
                let key = || format!("{}/{}", policy.name, annotation.key);
                findings.annotations.extend(value.map(|value| (key(), value.to_owned())));
            }
            Err(_) if policy.on_failure == FailurePolicy::Ignore => {}
            Err(failure) => {
                return Err(PolicyFailure::Evaluation(run::in_expression(
                    &annotation.text,
                    &failure,
                )));
            }
        }
    }
    Ok(())
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
