//! Policies that change what is written.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use rekindle_structural_schema::{PolicyEvaluation, PolicyInput, PolicyWork};
use serde_json::Value;

use super::memory::{BoundPolicy, StoredPolicy};
use super::reviewed::{Operation, ReviewedRequest, is_exempt, visible};
use super::run::{self, PolicyFailure};
use crate::admission::WriteReview;
use crate::call::ObjectPart;
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
    if is_exempt(call.entry) || review.part() == ObjectPart::Finalize {
        return Ok(());
    }
    let policies = call.api.policies.mutating.bound(call.api)?;
    if policies.is_empty() {
        return Ok(());
    }
    let before = object.boxed_clone();
    let work = PolicyWork::default();
    // whether nothing was changed by another policy after this one
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
    if !object.same_as(before.as_ref()) {
        prepare_again(review, object, before.meta());
    }
    Ok(())
}

/// What a write may not change stays as it was, for policies, too: which object it is, the parts
/// that the write is not about, and what the server decides.
fn prepare_again(review: &WriteReview<'_>, object: &mut dyn AnyObject, before: &ObjectMeta) {
    let meta = object.meta_mut();
    meta.name.clone_from(&before.name);
    meta.generate_name.clone_from(&before.generate_name);
    meta.namespace.clone_from(&before.namespace);
    meta.uid.clone_from(&before.uid);
    meta.resource_version.clone_from(&before.resource_version);
    meta.creation_timestamp.clone_from(&before.creation_timestamp);
    meta.deletion_timestamp.clone_from(&before.deletion_timestamp);
    meta.deletion_grace_period_seconds = before.deletion_grace_period_seconds;
    let context = review.call().context();
    match review.old() {
        None => object.prepare_for_create(&context),
        Some(old) => {
            object.meta_mut().generation = old.meta().generation;
            object.prepare_update(review.part(), old, &context);
        }
    }
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
        let mut failures = {
            let Some(request) = ReviewedRequest::new(call, operation, Some(&*object), old) else {
                return Ok(false);
            };
            if !request.is_matched(&policy.constraints)? {
                return Ok(false);
            }
            let pair = (policy.as_ref(), binding.as_ref());
            run::with_binding(&request, pair, work, &mut |policy, input, work| {
                mutate(call.entry, policy, (input, &mut patched), work)
            })?
        };
        if let Some(patched) = patched {
            match (replace(call.entry, object, &patched), policy.on_failure) {
                (Ok(changed), _) => is_changed |= changed,
                (Err(_), FailurePolicy::Ignore) => {}
                (Err(failure), FailurePolicy::Fail) => failures.push(failure),
            }
        }
        if let Some(PolicyFailure(why)) = failures.into_iter().next() {
            let message = format!(
                "policy '{}' with binding '{}' denied request: {why}",
                policy.name, binding.name
            );
            let name = object.meta().name.clone().unwrap_or_default();
            return Err(ApiError::denied_in_words(call.entry, &name, message));
        }
    }
    Ok(is_changed)
}

/// Runs the mutations of a policy with one parameter. Each sees what those before it made, and so
/// do those of the next parameter.
fn mutate(
    entry: &KindEntry,
    policy: &StoredPolicy<MutationProgram>,
    (input, patched): (PolicyInput<'_>, &mut Option<Value>),
    work: &PolicyWork,
) -> Result<(), PolicyFailure> {
    let variables = &policy.program.variables;
    let mut cost_left = {
        let object = patched.as_ref().unwrap_or(input.object);
        let seen = PolicyInput { object, ..input };
        let mut evaluation = PolicyEvaluation::new(seen, variables, work);
        if !run::is_for_request(policy, &mut evaluation)? {
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
            (Err(failure), FailurePolicy::Fail) => return Err(failure),
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
    let (MutationProgram::Apply(expression) | MutationProgram::JsonPatch(expression)) = mutation;
    let made = evaluation.json(expression).map_err(|failure| PolicyFailure(failure.0))?;
    // the object is copied, and what was made is walked over
    let bytes = |value: &Value| patch::text_bytes(value).map_err(PolicyFailure);
    work.charge_bytes(bytes(object)? + bytes(&made)?)
        .map_err(|failure| PolicyFailure(failure.0))?;
    match mutation {
        MutationProgram::Apply(_) => apply(entry, object, &made),
        MutationProgram::JsonPatch(_) => patch::apply_operations(&made, object.clone())
            .map_err(|why| PolicyFailure(format!("JSON Patch: {why}"))),
    }
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
