//! Policies that change what is written.

use rekindle_structural_schema::{PolicyEvaluation, PolicyInput, PolicyWork};
use serde_json::Value;

use super::memory::{BoundPolicy, StoredPolicy};
use super::reviewed::{Operation, ReviewedRequest, visible};
use super::run::{self, PolicyFailure};
use crate::admission::WriteReview;
use crate::kinds::admission_policy::{FailurePolicy, MutationProgram};
use crate::patch;
use crate::registry::{AnyObject, KindEntry};
use crate::status::ApiError;

/// Changes an object as all policies want that are for its write.
///
/// # Errors
/// What the first policy says that cannot do so.
pub(in crate::admission) fn change(
    review: &WriteReview<'_>,
    object: &mut dyn AnyObject,
) -> Result<(), ApiError> {
    let call = review.call();
    let policies = call.api.policies.mutating.bound(call.api)?;
    if policies.is_empty() {
        return Ok(());
    }
    let work = PolicyWork::default();
    // the last policy after which nothing was changed by another one
    let mut settled = vec![true; policies.len()];
    for at in 0..policies.len() {
        if run_policy(review, object, &policies[at], &work)? {
            settled[..at].fill(false);
        }
    }
    for (bound, settled) in policies.iter().zip(settled) {
        if !settled && bound.0.is_run_again {
            run_policy(review, object, bound, &work)?;
        }
    }
    Ok(())
}

/// Runs a policy with each of its bindings. Says whether it changed the object.
fn run_policy(
    review: &WriteReview<'_>,
    object: &mut dyn AnyObject,
    (policy, bindings): &BoundPolicy<MutationProgram>,
    work: &PolicyWork,
) -> Result<bool, ApiError> {
    let (call, old) = (review.call(), review.old());
    let operation = if old.is_some() { Operation::Update } else { Operation::Create };
    let mut is_changed = false;
    for binding in bindings {
        let mut patched: Option<Value> = None;
        let ran = {
            let Some(request) = ReviewedRequest::new(call, operation, Some(&*object), old) else {
                return Ok(false);
            };
            if !request.is_matched(&policy.constraints)? {
                return Ok(false);
            }
            run::with_binding(&request, policy, binding, work, &mut |policy, input, work| {
                let before = patched.take();
                patched = mutate(call.entry, policy, (input, before), work)?;
                Ok(())
            })?
        };
        let applied = ran.and_then(|()| match patched {
            Some(patched) => replace(call.entry, object, &patched),
            None => Ok(false),
        });
        match (applied, policy.on_failure) {
            (Ok(changed), _) => is_changed |= changed,
            (Err(_), FailurePolicy::Ignore) => {}
            (Err(PolicyFailure(why)), FailurePolicy::Fail) => {
                let message = format!(
                    "policy '{}' with binding '{}' denied request: {why}",
                    policy.name, binding.name
                );
                let name = object.meta().name.clone().unwrap_or_default();
                return Err(ApiError::denied_in_words(call.entry, &name, message));
            }
        }
    }
    Ok(is_changed)
}

/// The object after the mutations of a policy with one parameter, each of which sees those before
/// it. `before` is what earlier parameters made of it.
fn mutate(
    entry: &KindEntry,
    policy: &StoredPolicy<MutationProgram>,
    (input, before): (PolicyInput<'_>, Option<Value>),
    work: &PolicyWork,
) -> Result<Option<Value>, PolicyFailure> {
    let mut current = before;
    let is_wanted = {
        let object = current.as_ref().unwrap_or(input.object);
        let input = PolicyInput { object, ..input };
        let mut evaluation = PolicyEvaluation::new(input, &policy.program.variables, work);
        run::is_for_request(policy, &mut evaluation)?
    };
    if !is_wanted {
        return Ok(current);
    }
    for mutation in &policy.program.steps {
        let object = current.as_ref().unwrap_or(input.object);
        let seen = PolicyInput { object, ..input };
        let mut evaluation = PolicyEvaluation::new(seen, &policy.program.variables, work);
        let (MutationProgram::Apply(expression) | MutationProgram::JsonPatch(expression)) =
            mutation;
        let made = evaluation.json(expression).map_err(|failure| PolicyFailure(failure.0))?;
        current = Some(match mutation {
            MutationProgram::Apply(_) => apply(entry, object, &made)?,
            MutationProgram::JsonPatch(_) => patch::apply_operations(&made, object.clone())
                .map_err(|why| PolicyFailure(format!("JSON Patch: {why}")))?,
        });
    }
    Ok(current)
}

/// Merges a configuration into an object, as server-side apply does.
fn apply(entry: &KindEntry, object: &Value, made: &Value) -> Result<Value, PolicyFailure> {
    let schema = entry.codec.merge_schema();
    let refused = |why: String| PolicyFailure(format!("error applying patch: {why}"));
    if let Some(mismatch) = schema.validate(made).first() {
        return Err(refused(format!("error convert patch object to typed object: {mismatch}")));
    }
    let atomic = schema.atomic_values(made);
    if !atomic.is_empty() {
        let why = "invalid ApplyConfiguration: may not mutate atomic arrays, maps or structs";
        return Err(refused(format!("{why}: {}", atomic.join(", "))));
    }
    Ok(schema.merge(object, made))
}

/// Makes the object what it was patched to. Says whether that changed it.
fn replace(
    entry: &KindEntry,
    object: &mut dyn AnyObject,
    patched: &Value,
) -> Result<bool, PolicyFailure> {
    if *patched == visible(object) {
        return Ok(false);
    }
    let decoded = entry.codec.decode(patched).map_err(|error| {
        PolicyFailure(format!(
            "the patched object cannot be read: {}: {}",
            error.path, error.problem
        ))
    })?;
    let mut new = decoded.object;
    new.meta_mut().managed_fields.clone_from(&object.meta().managed_fields);
    new.set_defaults();
    object.become_like(new.as_ref());
    Ok(true)
}
