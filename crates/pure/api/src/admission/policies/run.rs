//! Runs the programs of policies that are for a request: with each of its bindings, and with each
//! parameter of these.

use rekindle_kinds::admission_policy::FailurePolicy;
use rekindle_kinds::admission_policy::program::ConditionProgram;
use rekindle_structural_schema::{ExpressionFailure, PolicyEvaluation, PolicyInput, PolicyWork};
use serde_json::Value;

use super::authorizer::RequestAuthorizer;
use super::memory::{StoredBinding, StoredPolicy};
use super::parameters::{self, PolicyParameters};
use crate::admission::reviewed_request::ReviewedRequest;
use crate::shared::ApiShared;
use crate::status::ApiError;

/// What is done with a policy that is for the request, once for each parameter. An error is a
/// failure of the policy with this parameter.
pub(super) type Run<'f, S> =
    dyn FnMut(&StoredPolicy<S>, PolicyInput<'_>, &PolicyWork) -> Result<(), PolicyFailure> + 'f;

/// Why a policy could not be evaluated.
#[derive(Debug)]
pub(in crate::admission) enum PolicyFailure {
    /// The policy and its binding do not fit what is there.
    Configuration(String),
    /// An expression failed, or what it made cannot be used.
    Evaluation(String),
}

impl PolicyFailure {
    /// What a client reads.
    pub(in crate::admission) fn into_text(self) -> String {
        match self {
            Self::Configuration(text) | Self::Evaluation(text) => text,
        }
    }
}

/// Why a policy fails whatever its bindings say, unless it ignores failures.
pub(super) enum PolicyUse {
    Usable,
    Ignored,
    Failed(String),
}

impl PolicyUse {
    pub(super) fn new<S>(api: &ApiShared, policy: &StoredPolicy<S>) -> Self {
        let unknown_kind = || {
            let kind = policy.param_kind.as_ref()?;
            parameters::entry_of(api, kind).is_none().then(|| parameters::no_such_kind(kind))
        };
        let why = policy.unusable.clone().or_else(unknown_kind);
        match (why, policy.on_failure) {
            (None, _) => Self::Usable,
            (Some(_), FailurePolicy::Ignore) => Self::Ignored,
            (Some(why), FailurePolicy::Fail) => {
                Self::Failed(format!("failed to configure policy: {why}"))
            }
        }
    }
}

/// Runs a policy with one binding, if it is for the request. A parameter with which it fails keeps
/// it from no other. Gives the failures that count.
///
/// # Errors
/// The store cannot be read.
pub(super) fn with_binding<S>(
    request: &ReviewedRequest<'_>,
    (policy, binding): (&StoredPolicy<S>, &StoredBinding),
    work: &PolicyWork,
    run: &mut Run<'_, S>,
) -> Result<Vec<PolicyFailure>, ApiError> {
    let mut failures = Vec::new();
    if let Some(matched) = &binding.matched
        && !request.is_matched(matched)?
    {
        return Ok(failures);
    }
    let mut note = |ran: Result<(), PolicyFailure>| match policy.on_failure {
        FailurePolicy::Fail => failures.extend(ran.err()),
        FailurePolicy::Ignore => {}
    };
    let authorizer = authorizer(request);
    let named = (policy.param_kind.as_ref(), binding.parameters.as_ref());
    match parameters::of_binding(request, named, work) {
        Ok(PolicyParameters::None) => {
            note(run(policy, input(request, None, &authorizer)?, work));
        }
        Ok(PolicyParameters::Null) => {
            note(run(policy, input(request, Some(&Value::Null), &authorizer)?, work));
        }
        Ok(PolicyParameters::Stored(entry, stored)) => {
            for stored in stored {
                match parameters::value_of(&entry, &stored.value, work) {
                    Ok(value) => {
                        note(run(policy, input(request, Some(&value), &authorizer)?, work));
                    }
                    Err(why) => note(Err(PolicyFailure::Evaluation(why))),
                }
            }
        }
        Err(why) => {
            let why = format!("failed to configure binding: {why}");
            note(Err(PolicyFailure::Configuration(why)));
        }
    }
    Ok(failures)
}

/// Answers what expressions ask about rights.
pub(in crate::admission) fn authorizer<'r>(request: &ReviewedRequest<'r>) -> RequestAuthorizer<'r> {
    RequestAuthorizer(request.call)
}

/// What the expressions of policies and webhooks see of a request.
pub(in crate::admission) fn input<'a>(
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

/// Whether the match conditions of a policy or webhook hold: one that does not hold decides,
/// whatever fails beside it.
pub(in crate::admission) fn are_met<'a>(
    conditions: &'a [ConditionProgram],
    evaluation: &mut PolicyEvaluation<'a>,
) -> Result<bool, PolicyFailure> {
    let mut failure = None;
    for condition in conditions {
        match evaluation.condition(&condition.expression) {
            Ok(true) => {}
            Ok(false) => return Ok(false),
            Err(why) => {
                failure.get_or_insert(in_expression(&condition.text, &why));
            }
        }
    }
    failure.map_or(Ok(true), |why| Err(PolicyFailure::Evaluation(why)))
}

/// A failure of an expression, as upstream shows it.
pub(super) fn in_expression(text: &str, failure: &ExpressionFailure) -> String {
    format!("expression '{text}' resulted in error: {}", failure.0)
}
