//! Runs the programs of policies that are for a request: with each of its bindings, and with each
//! parameter of these.

use rekindle_structural_schema::{ExpressionFailure, PolicyEvaluation, PolicyInput, PolicyWork};
use serde_json::Value;

use super::authorizer::RequestAuthorizer;
use super::memory::{StoredBinding, StoredPolicy};
use super::parameters;
use super::reviewed::ReviewedRequest;
use crate::status::ApiError;

/// What is done with a policy that is for the request: once for each parameter. An error is a
/// failure of the policy.
pub(super) type Run<'f, S> =
    dyn FnMut(&StoredPolicy<S>, PolicyInput<'_>, &PolicyWork) -> Result<(), PolicyFailure> + 'f;

/// Why a policy could not be evaluated, or refuses a request.
#[derive(Debug)]
pub(super) struct PolicyFailure(pub(super) String);

/// Runs a policy with one binding, if it is for the request.
///
/// # Errors
/// The store cannot be read. The inner error is that of the policy.
pub(super) fn with_binding<S>(
    request: &ReviewedRequest<'_>,
    policy: &StoredPolicy<S>,
    binding: &StoredBinding,
    work: &PolicyWork,
    run: &mut Run<'_, S>,
) -> Result<Result<(), PolicyFailure>, ApiError> {
    if let Some(matched) = &binding.matched
        && !request.is_matched(matched)?
    {
        return Ok(Ok(()));
    }
    if let Some(why) = &policy.unusable {
        return Ok(Err(PolicyFailure(format!("failed to configure policy: {why}"))));
    }
    let (kind, reference) = (policy.param_kind.as_ref(), binding.parameters.as_ref());
    let parameters = match parameters::of_binding(request, kind, reference) {
        Ok(parameters) => parameters,
        Err(why) => {
            return Ok(Err(PolicyFailure(format!("failed to configure binding: {why}"))));
        }
    };
    let authorizer = RequestAuthorizer(request.call);
    for parameter in &parameters {
        let input = input(request, parameter.as_ref(), &authorizer)?;
        if let Err(failure) = run(policy, input, work) {
            return Ok(Err(failure));
        }
    }
    Ok(Ok(()))
}

fn input<'a>(
    request: &'a ReviewedRequest<'_>,
    parameter: Option<&'a Value>,
    authorizer: &'a RequestAuthorizer<'_>,
) -> Result<PolicyInput<'a>, ApiError> {
    let values = request.values()?;
    Ok(PolicyInput {
        object: &values.object,
        old_object: &values.old_object,
        request: &values.request,
        namespace: &values.namespace,
        parameter,
        authorizer,
        request_resource: &values.question,
    })
}

/// Whether the match conditions of a policy hold: one that does not hold decides, whatever fails
/// beside it.
pub(super) fn is_for_request<'a, S>(
    policy: &'a StoredPolicy<S>,
    evaluation: &mut PolicyEvaluation<'a>,
) -> Result<bool, PolicyFailure> {
    let mut failure = None;
    for condition in &policy.program.conditions {
        match evaluation.condition(&condition.expression) {
            Ok(true) => {}
            Ok(false) => return Ok(false),
            Err(why) => {
                failure.get_or_insert(in_expression(&condition.text, &why));
            }
        }
    }
    failure.map_or(Ok(true), |why| Err(PolicyFailure(why)))
}

/// A failure of an expression, as upstream shows it.
pub(super) fn in_expression(text: &str, failure: &ExpressionFailure) -> String {
    format!("expression '{text}' resulted in error: {}", failure.0)
}
