//! Policies that change what is written.

use rekindle_kinds::admission_policy::{FailurePolicy, MutationForm, MutationProgram};
use rekindle_kinds::registry::{AnyObject, KindEntry};
use rekindle_structural_schema::{PolicyEvaluation, PolicyInput, PolicyWork};
use serde_json::Value;

use super::memory::{BoundPolicy, StoredPolicy};
use super::run::{self, PolicyFailure, PolicyUse};
use crate::admission::reviewed_request::ReviewedRequest;
use crate::admission::{WriteReview, mutations};
use crate::call::ApiCall;
use crate::patch;
use crate::status::ApiError;

/// The most failures that one refusal names.
const FAILURES_MAX: usize = 64;

/// Runs a policy with each of its bindings. Says whether it changed the object.
pub(in crate::admission) fn run_policy(
    review: &WriteReview<'_>,
    object: &mut dyn AnyObject,
    (policy, bindings): &BoundPolicy<MutationProgram>,
    work: &PolicyWork,
) -> Result<bool, ApiError> {
    let (call, old) = (review.call(), review.old());
    let mut is_changed = false;
    for binding in bindings {
        let (mut patched, mut failures): (Option<Value>, Vec<PolicyFailure>) = (None, Vec::new());
        {
            let Some(request) = ReviewedRequest::new(call, Some(&*object), old) else {
                return Ok(false);
            };
            if !request.is_matched(&policy.constraints)? {
                return Ok(false);
            }
            match PolicyUse::new(call.api, policy) {
                PolicyUse::Usable => {}
                PolicyUse::Ignored => return Ok(false),
                PolicyUse::Failed(why) => {
                    let message = format!("policy {:?} denied request: {why}", policy.name);
                    return Err(denied(call, object, "Forbidden", vec![message]));
                }
            }
            let pair = (policy.as_ref(), binding.as_ref());
            let of_runs = run::with_binding(&request, pair, work, &mut |policy, input, work| {
                let made = (&mut patched, &mut failures);
                mutate(call.entry, (policy, input), made, work)
            })?;
            failures.extend(of_runs);
        }
        if let Some(patched) = patched {
            let replaced =
                mutations::replace(call.entry, object, patched).map_err(PolicyFailure::Evaluation);
            match (replaced, policy.on_failure) {
                (Ok(changed), _) => is_changed |= changed,
                (Err(_), FailurePolicy::Ignore) => {}
                (Err(failure), FailurePolicy::Fail) => failures.push(failure),
            }
        }
        if let Some(first) = failures.first() {
            let reason = match first {
                PolicyFailure::Configuration(_) => "Forbidden",
                PolicyFailure::Evaluation(_) => "Invalid",
            };
            let named = format!("policy '{}' with binding '{}'", policy.name, binding.name);
            let texts = failures.into_iter().take(FAILURES_MAX).map(PolicyFailure::into_text);
            let messages = texts.map(|why| format!("{named} denied request: {why}")).collect();
            return Err(denied(call, object, reason, messages));
        }
    }
    Ok(is_changed)
}

fn denied(
    call: &ApiCall<'_>,
    object: &dyn AnyObject,
    reason: &str,
    messages: Vec<String>,
) -> ApiError {
    let name = object.meta().name.clone().unwrap_or_default();
    ApiError::denied_in_words(call.entry, &name, reason, messages)
}

/// Runs the mutations of a policy with one parameter. Each sees what those before it made, and so
/// do those of the next parameter.
fn mutate(
    entry: &KindEntry,
    (policy, input): (&StoredPolicy<MutationProgram>, PolicyInput<'_>),
    (patched, failures): (&mut Option<Value>, &mut Vec<PolicyFailure>),
    work: &PolicyWork,
) -> Result<(), PolicyFailure> {
    let variables = &policy.program.variables;
    let mut cost_left = {
        let object = patched.as_ref().unwrap_or(input.object);
        let seen = PolicyInput { object, ..input };
        let mut evaluation = PolicyEvaluation::new(seen, variables, work);
        if !run::are_met(&policy.program.conditions, &mut evaluation)? {
            return Ok(());
        }
        evaluation.cost_left()
    };
    for mutation in &policy.program.steps {
        let made = {
            let object = patched.as_ref().unwrap_or(input.object);
            let seen = PolicyInput { object, ..input };
            let mut evaluation = PolicyEvaluation::new(seen, variables, work).within(cost_left);
            let made = mutated(entry, mutation, (&mut evaluation, object), work);
            cost_left = evaluation.cost_left();
            made
        };
        match (made, policy.on_failure) {
            (Ok(made), _) => *patched = Some(made),
            (Err(_), FailurePolicy::Ignore) => {}
            // each of those that fail is named
            (Err(failure), FailurePolicy::Fail) => failures.push(failure),
        }
    }
    Ok(())
}

/// The object after one mutation.
fn mutated<'a>(
    entry: &KindEntry,
    mutation: &'a MutationProgram,
    (evaluation, object): (&mut PolicyEvaluation<'a>, &Value),
    work: &PolicyWork,
) -> Result<Value, PolicyFailure> {
    let made = evaluation.json(&mutation.expression).map_err(|failure| {
        PolicyFailure::Evaluation(run::in_expression(&mutation.text, &failure))
    })?;
    // the object is copied, and what was made is walked over
    let bytes = |value: &Value| patch::text_bytes(value).map_err(PolicyFailure::Evaluation);
    work.charge_bytes(bytes(object)? + bytes(&made)?)
        .map_err(|failure| PolicyFailure::Evaluation(failure.0))?;
    match mutation.form {
        MutationForm::Apply => apply(entry, object, &made),
        MutationForm::JsonPatch => patch::apply_operations(&made, object.clone())
            .map_err(|why| PolicyFailure::Evaluation(format!("JSON Patch: {why}"))),
    }
}

/// Merges a configuration into an object, as server-side apply does.
fn apply(entry: &KindEntry, object: &Value, made: &Value) -> Result<Value, PolicyFailure> {
    let schema = entry.codec.merge_schema();
    let refused = |why: String| PolicyFailure::Evaluation(format!("error applying patch: {why}"));
    if let Some(mismatch) = schema.validate(made).first() {
        return Err(refused(format!("failed to convert patch object to typed object: {mismatch}")));
    }
    let atomic = schema.atomic_values(made);
    if !atomic.is_empty() {
        let why = "invalid ApplyConfiguration: may not mutate atomic arrays, maps or structs";
        return Err(refused(format!("{why}: {}", atomic.join(", "))));
    }
    Ok(schema.merge(object, made))
}
