//! What is decided about a write by looking beyond the object itself. `table` lists the rules.
//!
//! Three words say who completes an object. The kind *defaults* what the user left out, and
//! *prepares* it: what this write may not change is as it was. Admission *fills* in what other
//! objects or the server say.

pub(crate) mod aggregation;
mod certificates;
mod compiled_objects;
pub(crate) mod default_roles;
pub(crate) mod disruption_budgets;
mod escalation;
pub(crate) mod extension_authentication;
mod ladders;
mod limit_ranger;
mod mutations;
mod namespace_pods;
pub(crate) mod namespaces;
pub(crate) mod node_restriction;
pub(crate) mod pod_security;
pub(crate) mod policies;
pub(crate) mod priority;
pub(crate) mod request_bodies;
mod reviewed_request;
pub(crate) mod runtime_classes;
mod service_accounts;
pub(crate) mod storage_classes;
mod table;
#[cfg(test)]
mod tests;
mod tolerations;
pub(crate) mod trust_bundles;
pub(crate) mod webhooks;

use rekindle_store::PendingWrite;

use crate::call::{ApiCall, ObjectPart};
use crate::status::ApiError;

use rekindle_kinds::registry::{AnyObject, KindEntry};
use reviewed_request::ReviewedRequest;
pub(crate) use table::AdmissionStage;
use table::{ObjectWrite, RULES, RuleHook, RuleScope, WriteAction};

/// What admission says of one write.
#[derive(Clone, Copy)]
pub(crate) struct WriteReview<'w> {
    call: &'w ApiCall<'w>,
    /// What may change, of which object; none when the object is new.
    change: Option<(ObjectPart, &'w dyn AnyObject)>,
}

impl<'w> WriteReview<'w> {
    /// Of a new object.
    pub(crate) fn of_new(call: &'w ApiCall<'w>) -> Self {
        Self { call, change: None }
    }

    /// Of a change of a part of `old`.
    pub(crate) fn of_change(
        call: &'w ApiCall<'w>,
        part: ObjectPart,
        old: &'w dyn AnyObject,
    ) -> Self {
        Self { call, change: Some((part, old)) }
    }

    pub(crate) fn call(&self) -> &'w ApiCall<'w> {
        self.call
    }

    /// What the write may change of the object.
    pub(crate) fn part(&self) -> ObjectPart {
        self.change.map_or(ObjectPart::Main, |(part, _)| part)
    }

    /// The object as it was; none when it is new.
    pub(crate) fn old(&self) -> Option<&'w dyn AnyObject> {
        self.change.map(|(_, old)| old)
    }

    /// Runs the rules of a stage, which may fill the object in. Gives the warnings.
    ///
    /// # Errors
    /// That of the first rule that refuses the write.
    pub(crate) fn run(
        &self,
        stage: AdmissionStage,
        object: &mut dyn AnyObject,
    ) -> Result<Vec<String>, ApiError> {
        let mut warnings = Vec::new();
        for rule in &RULES {
            let action = match &rule.hook {
                RuleHook::Write(at, scope, action) if *at == stage && self.is_in(*scope) => action,
                RuleHook::Write(..)
                | RuleHook::Created(_)
                | RuleHook::Changed(_)
                | RuleHook::Marked(_)
                | RuleHook::Removal(_)
                | RuleHook::Deletion(_)
                | RuleHook::Request(_)
                | RuleHook::Removed(_)
                | RuleHook::AllRemoved(_) => continue,
            };
            match self.act(action, object) {
                Ok(more) => warnings.extend(more),
                // what was warned of is said whatever follows
                Err(error) => return Err(error.with_warnings(warnings)),
            }
        }
        Ok(warnings)
    }

    fn act(
        &self,
        action: &WriteAction,
        object: &mut dyn AnyObject,
    ) -> Result<Vec<String>, ApiError> {
        match action {
            WriteAction::Fill(fill) => fill(self.call, object).map(|()| Vec::new()),
            WriteAction::Change(change) => change(self, object),
            WriteAction::Check(check) => check(&self.written(object)).map(|()| Vec::new()),
            WriteAction::Warn(warn) => warn(&self.written(object)),
        }
    }

    fn is_in(&self, scope: RuleScope) -> bool {
        match scope {
            RuleScope::New => self.change.is_none(),
            RuleScope::Changed => self.change.is_some(),
            RuleScope::All => true,
        }
    }

    fn written<'o>(&'o self, object: &'o dyn AnyObject) -> ObjectWrite<'o> {
        let (part, old) =
            self.change.map_or((ObjectPart::Main, None), |(part, old)| (part, Some(old)));
        ObjectWrite { call: self.call, new: object, old, part }
    }
}

/// Refuses to delete what must stay.
///
/// # Errors
/// 403, with the reason.
pub(crate) fn check_removal(entry: &KindEntry, name: &str) -> Result<(), ApiError> {
    for rule in &RULES {
        match &rule.hook {
            RuleHook::Removal(check) => check(entry, name)?,
            RuleHook::Write(..)
            | RuleHook::Created(_)
            | RuleHook::Changed(_)
            | RuleHook::Marked(_)
            | RuleHook::Deletion(_)
            | RuleHook::Request(_)
            | RuleHook::Removed(_)
            | RuleHook::AllRemoved(_) => {}
        }
    }
    Ok(())
}

/// Looks at an object that shall go. Gives the warnings.
///
/// # Errors
/// That of the first rule that wants it to stay.
pub(crate) fn check_deletion(
    call: &ApiCall<'_>,
    object: &dyn AnyObject,
) -> Result<Vec<String>, ApiError> {
    let mut warnings = Vec::new();
    for rule in &RULES {
        match &rule.hook {
            RuleHook::Deletion(check) => match check(call, object) {
                Ok(more) => warnings.extend(more),
                Err(error) => return Err(error.with_warnings(warnings)),
            },
            RuleHook::Write(..)
            | RuleHook::Created(_)
            | RuleHook::Changed(_)
            | RuleHook::Marked(_)
            | RuleHook::Removal(_)
            | RuleHook::Request(_)
            | RuleHook::Removed(_)
            | RuleHook::AllRemoved(_) => {}
        }
    }
    Ok(warnings)
}

/// Whether policies or webhooks look at an object that shall go: they see it in the version of the
/// request.
///
/// # Errors
/// When what says so cannot be read.
pub(crate) fn is_deletion_reviewed(
    call: &ApiCall<'_>,
    object: &dyn AnyObject,
) -> Result<bool, ApiError> {
    is_reviewed(ReviewedRequest::new(call, None, Some(object)))
}

/// The same of a change that leaves the labels of the object as they are.
///
/// # Errors
/// When what says so cannot be read.
pub(crate) fn is_change_reviewed(
    call: &ApiCall<'_>,
    object: &dyn AnyObject,
) -> Result<bool, ApiError> {
    is_reviewed(ReviewedRequest::new(call, Some(object), Some(object)))
}

fn is_reviewed(request: Option<ReviewedRequest<'_>>) -> Result<bool, ApiError> {
    let Some(request) = request else { return Ok(false) };
    Ok(policies::are_for_request(&request)? || webhooks::are_for_request(&request)?)
}

/// The writes that follow from one that is queued.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum QueuedWrite {
    Created,
    Changed,
    Marked,
    Removed,
}

/// Queues what comes with a new object, in the batch of its write.
///
/// # Errors
/// When the store refuses.
pub(crate) fn after_create(call: &ApiCall<'_>, name: &str) -> Result<Vec<PendingWrite>, ApiError> {
    follow(QueuedWrite::Created, call, &call.path.namespace, name)
}

/// Queues what comes with a change of an object, in the batch of its write.
///
/// # Errors
/// When the store refuses.
pub(crate) fn after_change(
    call: &ApiCall<'_>,
    namespace: &str,
    name: &str,
) -> Result<Vec<PendingWrite>, ApiError> {
    follow(QueuedWrite::Changed, call, namespace, name)
}

/// Queues what comes with the deletion of an object that stays for a while, in the batch of its
/// write. A further deletion queues what the first one has left.
///
/// # Errors
/// When the store refuses.
pub(crate) fn after_mark(
    call: &ApiCall<'_>,
    namespace: &str,
    name: &str,
) -> Result<Vec<PendingWrite>, ApiError> {
    follow(QueuedWrite::Marked, call, namespace, name)
}

/// Queues what follows from the removal of the only object of a request, in the batch of the
/// removal.
///
/// # Errors
/// When the store refuses.
pub(crate) fn after_only_removal(
    call: &ApiCall<'_>,
    namespace: &str,
    name: &str,
) -> Result<Vec<PendingWrite>, ApiError> {
    let mut pending = after_removal(call, namespace, name)?;
    pending.extend(after_all_removals(call)?);
    Ok(pending)
}

/// Queues what follows once a request has removed all its objects.
///
/// # Errors
/// When the store refuses.
pub(crate) fn after_all_removals(call: &ApiCall<'_>) -> Result<Vec<PendingWrite>, ApiError> {
    let mut pending = Vec::new();
    for rule in &RULES {
        if let RuleHook::AllRemoved(queue) = &rule.hook {
            pending.extend(queue(call)?);
        }
    }
    Ok(pending)
}

/// Queues what has to be there in spite of a removal, in the batch of the removal. After the last
/// one of a request comes [`after_all_removals`].
///
/// # Errors
/// When the store refuses.
pub(crate) fn after_removal(
    call: &ApiCall<'_>,
    namespace: &str,
    name: &str,
) -> Result<Vec<PendingWrite>, ApiError> {
    follow(QueuedWrite::Removed, call, namespace, name)
}

fn follow(
    write: QueuedWrite,
    call: &ApiCall<'_>,
    namespace: &str,
    name: &str,
) -> Result<Vec<PendingWrite>, ApiError> {
    let mut pending = Vec::new();
    for rule in &RULES {
        let (at, queue) = match &rule.hook {
            RuleHook::Created(queue) => (QueuedWrite::Created, queue),
            RuleHook::Changed(queue) => (QueuedWrite::Changed, queue),
            RuleHook::Marked(queue) => (QueuedWrite::Marked, queue),
            RuleHook::Removed(queue) => (QueuedWrite::Removed, queue),
            RuleHook::Write(..)
            | RuleHook::Removal(_)
            | RuleHook::Deletion(_)
            | RuleHook::Request(_)
            | RuleHook::AllRemoved(_) => continue,
        };
        if at == write {
            pending.extend(queue(call, namespace, name)?);
        }
    }
    Ok(pending)
}
