//! Changes objects as policies and then webhooks want: the last of what fills an object in.

use std::sync::Arc;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use rekindle_kinds::admission_policy::MutationProgram;
use rekindle_kinds::registry::{AnyObject, KindEntry};
use rekindle_structural_schema::PolicyWork;
use serde_json::Value;

use super::WriteReview;
use super::policies::{self, BoundPolicy};
use super::reviewed_request::{is_exempt, visible};
use super::webhooks::{self, StoredWebhook};
use crate::call::ObjectPart;
use crate::managed_fields::remove_entries;
use crate::status::ApiError;

/// What an administrator has set up to change objects.
enum Mutator {
    Policy(BoundPolicy<MutationProgram>),
    Webhook(Arc<StoredWebhook>),
}

impl Mutator {
    /// Whether it runs once more when others changed the object after it.
    fn is_run_again(&self) -> bool {
        match self {
            Self::Policy((policy, _)) => policy.is_run_again,
            Self::Webhook(webhook) => webhook.is_run_again(),
        }
    }
}

/// Changes an object as all policies and webhooks want that are for its write. Gives the warnings.
///
/// # Errors
/// What the first of them says that refuses it or cannot do so.
pub(super) fn change(
    review: &WriteReview<'_>,
    object: &mut dyn AnyObject,
) -> Result<Vec<String>, ApiError> {
    let call = review.call();
    if is_exempt(call.entry) || review.part() == ObjectPart::Finalize {
        return Ok(Vec::new());
    }
    let policies = call.api.policies.mutating.bound(call.api)?.into_iter().map(Mutator::Policy);
    let webhooks = call.api.webhooks.mutating(call.api)?.into_iter().map(Mutator::Webhook);
    let mutators: Vec<Mutator> = policies.chain(webhooks).collect();
    if mutators.is_empty() {
        return Ok(Vec::new());
    }
    let mut warnings = Vec::new();
    match run_all(review, object, &mutators, &mut warnings) {
        Ok(()) => Ok(warnings),
        Err(error) => Err(error.with_warnings(warnings)),
    }
}

/// Runs each of them, and those that ask for it once more when a later one has changed the object.
/// As upstream, one that was not for the object at first is not called for the first time then, and
/// what the second round changes counts for those that come later in it.
fn run_all(
    review: &WriteReview<'_>,
    object: &mut dyn AnyObject,
    mutators: &[Mutator],
    warnings: &mut Vec<String>,
) -> Result<(), ApiError> {
    let (before, work) = (object.meta().clone(), PolicyWork::default());
    let mut run = |mutator: &Mutator, object: &mut dyn AnyObject| {
        let changed = match mutator {
            Mutator::Policy(policy) => {
                policies::run_policy(review, object, policy, &work).map(Some)
            }
            Mutator::Webhook(webhook) => webhooks::change(review, object, webhook, warnings),
        }?;
        if changed == Some(true) {
            prepare_again(review, object, &before);
        }
        Ok::<_, ApiError>(changed)
    };
    let mut rounds: Vec<MutatorRound> = Vec::with_capacity(mutators.len());
    for mutator in mutators {
        let changed = run(mutator, object)?;
        if changed == Some(true) {
            rounds.iter_mut().for_each(|earlier| earlier.is_unsettled = true);
        }
        rounds.push(MutatorRound { was_run: changed.is_some(), is_unsettled: false });
    }
    for (at, mutator) in mutators.iter().enumerate() {
        let MutatorRound { was_run, is_unsettled } = rounds[at];
        if was_run && is_unsettled && mutator.is_run_again() && run(mutator, object)? == Some(true)
        {
            rounds[at + 1..].iter_mut().for_each(|later| later.is_unsettled = true);
        }
    }
    Ok(())
}

/// What became of a mutator so far.
#[derive(Clone, Copy)]
struct MutatorRound {
    /// Whether the object was for it.
    was_run: bool,
    /// Whether another one has changed the object since.
    is_unsettled: bool,
}

/// What a write may not change stays as it was, for policies and webhooks, too: which object it is,
/// the parts that the write is not about, and what the server decides.
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

/// Makes the object what it was patched to. Says whether that changed it.
///
/// # Errors
/// Why the patched object is none of its kind.
pub(super) fn replace(
    entry: &KindEntry,
    object: &mut dyn AnyObject,
    mut patched: Value,
) -> Result<bool, String> {
    remove_entries(&mut patched);
    if patched == visible(object) {
        return Ok(false);
    }
    let decoded = entry.codec.decode(&patched).map_err(|error| {
        format!("the patched object cannot be read: {}: {}", error.path, error.problem)
    })?;
    let mut new = decoded.object;
    new.meta_mut().managed_fields.clone_from(&object.meta().managed_fields);
    new.set_defaults();
    object.become_like(new.as_ref());
    Ok(true)
}
