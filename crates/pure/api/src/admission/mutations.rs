//! Changes objects as policies and then webhooks want: the last of what fills an object in.

use std::sync::Arc;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use rekindle_structural_schema::PolicyWork;
use serde_json::Value;

use super::WriteReview;
use super::policies::{self, BoundPolicy};
use super::reviewed_request::{is_exempt, visible, without_owners};
use super::webhooks::{self, StoredWebhook};
use crate::call::ObjectPart;
use crate::kinds::admission_policy::MutationProgram;
use crate::registry::{AnyObject, KindEntry};
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
    let before = object.meta().clone();
    let (work, mut warnings) = (PolicyWork::default(), Vec::new());
    let mut run = |mutator: &Mutator, object: &mut dyn AnyObject| {
        let changed = match mutator {
            Mutator::Policy(policy) => policies::run_policy(review, object, policy, &work),
            Mutator::Webhook(webhook) => webhooks::change(review, object, webhook, &mut warnings),
        };
        changed.inspect(|changed| {
            if *changed {
                prepare_again(review, object, &before);
            }
        })
    };
    // whether nothing was changed by another one after this one
    let mut settled = vec![true; mutators.len()];
    for at in 0..mutators.len() {
        if run(&mutators[at], object)? {
            settled[..at].fill(false);
        }
    }
    for (mutator, settled) in mutators.iter().zip(settled) {
        if !settled && mutator.is_run_again() {
            run(mutator, object)?;
        }
    }
    Ok(warnings)
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
    patched: &Value,
) -> Result<bool, String> {
    let mut patched = patched.clone();
    without_owners(&mut patched);
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
