//! `pods/eviction`: a delete that asks the pod's disruption budget first. Source: "API-initiated
//! Eviction" of the Kubernetes documentation, and upstream's `EvictionREST`.
//!
//! ```text
//!  POST ─► pod as newest ─┬─ Pending, at its end or going already ──────────────────────┐
//!                         ├─ no budget covers it ────────────────────────────────────────┤
//!                         ├─ one does ─► ask it ─┬─ not Ready, and that is allowed ──────┤
//!                         │                      ├─ one disruption less (a write) ───────┼─► condition and deletion (a write)
//!                         │                      └─ none left: 429                       │
//!                         └─ several do: 500                    somebody else wrote: once more, from the pod
//! ```
//!
//! Both writes are compare-and-swaps on what was decided on, and the budget's comes first: two
//! evictions at once never take one disruption twice. A crash between them leaves a disruption that
//! was taken for a pod that stays; the budget's controller gives it back after two minutes.

mod budget;
mod request;

use std::sync::Arc;

use k8s_openapi::api::core::v1::{Pod, PodCondition};
use rekindle_store::{PendingWrite, StoredObject, WritePrecondition};
use rekindle_types::Tick;
use rekindle_types::pods;

use crate::call::{ApiCall, ApiWriteFailure, put, remove};
use crate::object_meta;
use crate::outcome::{ApiAnswer, RequestOutcome, WriteInFlight};
use crate::request::options::DryRun;
use crate::status::{ApiError, Status};
use crate::verbs::delete::{DeleteRequest, DeleteStep};
use budget::EvictionPermit;
use rekindle_kinds::registry::AnyObject;
use request::EvictionRequest;

/// The condition that says why a pod goes.
const CONDITION: &str = "DisruptionTarget";
/// Its reason here, as upstream.
const REASON: &str = "EvictionByEvictionAPI";
/// Its message here, as upstream.
const MESSAGE: &str = "Eviction API: evicting";

/// Evicts the pod that the path names.
pub(crate) fn create(call: &ApiCall<'_>) -> Result<RequestOutcome, ApiError> {
    let request = EvictionRequest::read(call)?;
    let mut eviction = EvictionCall { call, wish: &request.wish, taken: None };
    call.with_retries(|| eviction.attempt(&request.warnings))
        .map_err(|error| error.with_warnings(request.warnings.clone()))
}

/// One eviction, over all its attempts.
struct EvictionCall<'a> {
    call: &'a ApiCall<'a>,
    wish: &'a DeleteRequest,
    /// The disruption that was taken from a budget, and for which pod: another attempt does not
    /// take a second one.
    taken: Option<ClaimedDisruption>,
}

struct ClaimedDisruption {
    pod_uid: String,
    write: PendingWrite,
}

impl EvictionCall<'_> {
    fn attempt(&mut self, warnings: &[String]) -> Result<RequestOutcome, ApiWriteFailure> {
        let stored = self.call.newest()?;
        let object = self.call.decode_stored(&stored)?;
        let about = (self.call.entry.as_ref(), self.call.path.name.as_str());
        self.wish.check_preconditions(about, object.as_ref(), &stored)?;
        self.get_permit(object.as_ref())?;
        let answer = ApiAnswer::status(&Status::created()).with_warnings(warnings.to_vec());
        if self.wish.dry_run == DryRun::All {
            return Ok(answer.into());
        }
        let mut writes = end(self.call, &stored, object, self.wish)?;
        writes.extend(self.taken.take().map(|taken| taken.write));
        Ok(RequestOutcome::Write(WriteInFlight::new(writes, move |_| answer)))
    }

    /// Asks the pod's budget, unless it has no say or has agreed already.
    fn get_permit(&mut self, object: &dyn AnyObject) -> Result<(), ApiWriteFailure> {
        let Some(pod) = object.as_any().downcast_ref::<Pod>() else {
            return Err(ApiError::method_not_allowed().into());
        };
        let uid = pod.metadata.uid.clone().unwrap_or_default();
        let has_one = self.taken.as_ref().is_some_and(|taken| taken.pod_uid == uid);
        if has_one || no_budget_counts(pod) {
            return Ok(());
        }
        match budget::ask(self.call, pod, self.wish.dry_run)? {
            EvictionPermit::Given => {}
            EvictionPermit::Taken(write) => {
                self.taken = Some(ClaimedDisruption { pod_uid: uid, write })
            }
        }
        Ok(())
    }
}

/// A pod that serves nobody yet, or no more, is no disruption.
fn no_budget_counts(pod: &Pod) -> bool {
    pods::is_finished(pod)
        || pods::phase(pod) == "Pending"
        || object_meta::is_being_deleted(&pod.metadata)
}

/// Marks the pod and deletes it, with the grace that the request asks for. What a watcher sees last
/// of a pod that goes at once has the mark too.
fn end(
    call: &ApiCall<'_>,
    stored: &Arc<StoredObject>,
    mut object: Box<dyn AnyObject>,
    wish: &DeleteRequest,
) -> Result<Vec<PendingWrite>, ApiWriteFailure> {
    let key = stored.key.as_str();
    let expect = WritePrecondition::Revision(stored.revision);
    let marked = mark(object.as_mut(), call.request.now);
    match (DeleteStep::decide(object.boxed_clone(), wish, call.request.now), marked) {
        (DeleteStep::Mark(object), _) | (DeleteStep::Leave(object), DisruptionMark::SetNow) => {
            Ok(vec![put(call.api, key, expect, object)?])
        }
        (DeleteStep::Leave(_), DisruptionMark::SetBefore) => Ok(vec![call.api.store.barrier()?]),
        (DeleteStep::Remove(_), DisruptionMark::SetBefore) => {
            Ok(remove(call.api, call.entry, stored, call.request.now)?)
        }
        (DeleteStep::Remove(_), DisruptionMark::SetNow) => {
            let mark = put(call.api, key, expect, object)?;
            let mut pending = vec![mark];
            pending.extend(remove(call.api, call.entry, &call.newest()?, call.request.now)?);
            Ok(pending)
        }
    }
}

/// Since when a pod carries the condition.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum DisruptionMark {
    SetNow,
    SetBefore,
}

fn mark(object: &mut dyn AnyObject, now: Tick) -> DisruptionMark {
    let observed_generation = object.meta().generation;
    let Some(pod) = object.as_any_mut().downcast_mut::<Pod>() else {
        return DisruptionMark::SetBefore;
    };
    let conditions = pod.status.get_or_insert_default().conditions.get_or_insert_default();
    let known = conditions.iter_mut().find(|condition| condition.type_ == CONDITION);
    let was_true = known.as_ref().is_some_and(|condition| condition.status == "True");
    if was_true && known.as_ref().is_some_and(|known| known.reason.as_deref() == Some(REASON)) {
        return DisruptionMark::SetBefore;
    }
    let since = known.as_ref().filter(|_| was_true).and_then(|c| c.last_transition_time.clone());
    let condition = PodCondition {
        type_: CONDITION.to_owned(),
        status: "True".to_owned(),
        reason: Some(REASON.to_owned()),
        message: Some(MESSAGE.to_owned()),
        last_transition_time: since.or_else(|| Some(now.to_time())),
        observed_generation,
        ..PodCondition::default()
    };
    match known {
        Some(known) => *known = condition,
        None => conditions.push(condition),
    }
    DisruptionMark::SetNow
}
