//! The Job controller: pods that run to their end, as many as asked for, each counted once.
//!
//! Source of behaviour: API reference of batch/v1 Job; documentation, "Jobs", "Pod failure and
//! backoff", "Job tracking with finalizers"; upstream's controller.
//!
//! ```text
//!   pod ended ─► its UID in status.uncountedTerminatedPods ─► its finalizer goes ─► its UID goes, a counter rises
//!                (Indexed and succeeded: its index in status.completedIndexes, which needs no UID)
//!
//!   running ─► SuccessCriteriaMet / FailureTarget ─► no pod left, none uncounted ─► Complete / Failed ─► TTL ─► deleted
//! ```
//!
//! A pod keeps the finalizer `batch.kubernetes.io/job-tracking` until it is in the status, so that
//! none ends unseen. Each step is one write that depends on the one before: after a crash between
//! any two the next look goes on from there, and counts nothing twice. What a look needs is in the
//! objects: failures for the backoff are those of the Failed pods that still exist.

mod backoff;
mod claim;
mod conditions;
mod creation;
mod failure;
mod indexes;
mod manage;
mod per_index;
mod success;
mod tally;
mod tracking;

use std::collections::BTreeSet;
use std::sync::Arc;

use k8s_openapi::api::batch::v1::{Job, JobSpec, JobStatus, UncountedTerminatedPods};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use rekindle_types::{EventSeverity, Tick, TickDuration, labels};

use crate::events::EventNote;
use crate::plan::{DependentPolicy, PlannedWrite, WriteNotes, WriteOperation};
use crate::{
    ClusterView, ControllerKey, NamespacedName, ObjectChange, ResourceKind, ViewObject, WritePlan,
    owners, pods,
};
use conditions::JobGoal;
pub(crate) use conditions::{JobEnding, ending};
use tally::JobTally;
pub(crate) use tracking::{index_text, reconcile_untracked};

/// What `managedBy` calls this controller.
const MANAGER: &str = "kubernetes.io/job-controller";
/// `source.component` of its events.
const COMPONENT: &str = "job-controller";

/// How pods count.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum CompletionMode {
    /// Any pod that succeeds counts.
    NonIndexed,
    /// One pod for each index below this.
    Indexed(u32),
}

/// The Jobs, and the pods without one, that a change concerns.
pub(crate) fn affected(
    view: &ClusterView,
    change: &ObjectChange,
    keys: &mut BTreeSet<ControllerKey>,
) {
    match change.id.kind {
        ResourceKind::Job => {
            keys.insert(ControllerKey::Job(change.id.name.clone()));
            if change.is_removal() {
                let left = view.dependents(change.latest().uid());
                keys.extend(left.filter(|object| tracking::is_tracked(object.meta())).map(
                    |object| ControllerKey::UntrackedPod(NamespacedName::from_meta(object.meta())),
                ));
            }
        }
        ResourceKind::Pod => {
            for side in change.sides() {
                match owners::controller_of(side.meta()) {
                    Some(owner) => {
                        if let Some(ViewObject::Job(job)) = view.by_uid(&owner.uid) {
                            keys.insert(ControllerKey::Job(NamespacedName::from_meta(
                                &job.metadata,
                            )));
                        }
                    }
                    None => {
                        keys.extend(claim::candidates(view, side.meta()).map(ControllerKey::Job))
                    }
                }
            }
            if let Some(after) = &change.after
                && tracking::is_tracked(after.meta())
                && tracking::job_of(view, after.meta()).is_none()
            {
                keys.insert(ControllerKey::UntrackedPod(change.id.name.clone()));
            }
        }
        _ => {}
    }
}

/// True when the Job makes no pods any more: it is Complete or Failed.
pub fn is_over(job: &Job) -> bool {
    conditions::ending(job).is_some()
}

/// How many pods the Job has at work now, as far as it has counted; none when another controller
/// looks after it.
pub(crate) fn wanted(job: &Job) -> Option<i32> {
    let spec = job.spec.as_ref();
    if is_over(job) || spec.is_some_and(|spec| spec.suspend == Some(true)) {
        return Some(0);
    }
    let spec = spec.filter(|spec| !is_managed_elsewhere(spec))?;
    let succeeded = job.status.as_ref().and_then(|status| status.succeeded).unwrap_or(0);
    Some(manage::most_at_work(spec, succeeded, 0))
}

/// True when the Job's selector matches these labels. An empty selector selects nothing here.
fn selects(job: &Job, pod: &ObjectMeta) -> bool {
    let selector = job.spec.as_ref().and_then(|spec| spec.selector.as_ref());
    selector.is_some_and(|selector| {
        !labels::is_empty(selector) && labels::matches(selector, pod.labels.as_ref())
    })
}

/// True when another controller looks after the Job (`managedBy`, KEP-4368): pods and status are
/// its business.
fn is_managed_elsewhere(spec: &JobSpec) -> bool {
    spec.managed_by.as_deref().is_some_and(|manager| manager != MANAGER)
}

/// What is to be done for a Job.
pub(crate) fn reconcile(view: &ClusterView, name: &NamespacedName, now: Tick) -> WritePlan {
    let mut plan = WritePlan::default();
    let Some(job) = view.job(name) else { return plan };
    let Some(spec) = &job.spec else { return plan };
    let none = JobStatus::default();
    let status = job.status.as_ref().unwrap_or(&none);
    if is_managed_elsewhere(spec) {
        expire(job, spec, status, now, &mut plan);
        return plan;
    }
    let own = claim::claim_pods(view, job, &mut plan);
    if owners::is_terminating(&job.metadata) || conditions::is_finished(status) {
        // Nothing counts any more.
        let tracked = own.iter().filter(|pod| tracking::is_tracked(&pod.metadata));
        plan.then_all(tracked.map(|pod| tracking::release(pod)).collect());
        expire(job, spec, status, now, &mut plan);
        return plan;
    }
    if !plan.batches.is_empty() {
        return plan; // pods are being adopted or let go: count them first
    }
    let tally = tally::tally(spec, status, &own, conditions::course(status));
    let goal = conditions::goal(spec, status, &tally, now);
    let mut next = counted(status, &tally);
    let notes = conditions::write(job, spec, &mut next, goal.as_ref(), &tally, now);
    plan.then_all(tally.ended.iter().map(|pod| tracking::release(pod)).collect());
    match &goal {
        Some(JobGoal::Failure(_)) => manage::end(job, &tally.active, &mut plan),
        // What runs still when the policy is met is not needed; it is no failure.
        Some(JobGoal::Success(_)) => manage::give_up(job, &tally.active, &mut plan),
        None if spec.suspend == Some(true) => manage::give_up(job, &tally.active, &mut plan),
        None => {
            look_at_deadline(spec, &next, now, &mut plan);
            manage::manage(view, job, spec, &own, &tally, now, &mut plan);
        }
    }
    write_status(view, job, status, next, notes, &mut plan);
    plan
}

fn mode(spec: &JobSpec) -> CompletionMode {
    match spec.completion_mode.as_deref() {
        Some("Indexed") => {
            CompletionMode::Indexed(u32::try_from(spec.completions.unwrap_or(0)).unwrap_or(0))
        }
        _ => CompletionMode::NonIndexed,
    }
}

/// The status with what was counted.
fn counted(status: &JobStatus, tally: &JobTally<'_>) -> JobStatus {
    let non_zero = |count: i32| Some(count).filter(|count| *count != 0);
    let non_empty = |uids: &Vec<String>| Some(uids.clone()).filter(|uids| !uids.is_empty());
    let ready = tally.active.iter().filter(pods::is_ready).count();
    JobStatus {
        active: non_zero(number(tally.active.len())),
        ready: Some(number(ready)),
        terminating: Some(number(tally.terminating.len())),
        succeeded: non_zero(tally.counted_succeeded),
        failed: non_zero(tally.counted_failed),
        failed_indexes: tally.per_index.as_ref().map(|all| all.failed.to_string()),
        completed_indexes: Some(tally.completed.to_string()).filter(|text| !text.is_empty()),
        uncounted_terminated_pods: Some(UncountedTerminatedPods {
            succeeded: non_empty(&tally.uncounted_succeeded),
            failed: non_empty(&tally.uncounted_failed),
        }),
        ..status.clone()
    }
}

fn number(of: usize) -> i32 {
    i32::try_from(of).unwrap_or(i32::MAX)
}

/// Puts the write of the status before everything else, if it changed. When only the numbers of
/// living pods changed and there is more to do, it waits: the answers bring us here again. Not when
/// such writes were refused or are held back.
fn write_status(
    view: &ClusterView,
    job: &Arc<Job>,
    old: &JobStatus,
    next: JobStatus,
    notes: Vec<EventNote>,
    plan: &mut WritePlan,
) {
    let lasting = |status: &JobStatus| JobStatus {
        active: None,
        ready: None,
        terminating: None,
        ..status.clone()
    };
    let is_failing = view.is_hindered(&ViewObject::Job(job.clone()));
    let waits = !plan.batches.is_empty() && !is_failing && lasting(old) == lasting(&next);
    if *old == next || waits {
        return;
    }
    let mut updated = job.as_ref().clone();
    updated.status = Some(next);
    let report = (!notes.is_empty()).then(|| {
        let about = ViewObject::Job(job.clone());
        let message = "Error writing the status: ";
        let failure = EventNote::new(
            &about,
            EventSeverity::Warning,
            "FailedStatusUpdate",
            message,
            COMPONENT,
        );
        WriteNotes { success: notes, failure }
    });
    let step = PlannedWrite { write: WriteOperation::UpdateStatus(updated.into()), report };
    plan.batches.insert(0, vec![step]);
}

/// Asks to be looked at again when the Job is to be given up.
fn look_at_deadline(spec: &JobSpec, status: &JobStatus, now: Tick, plan: &mut WritePlan) {
    if let Some(at) = conditions::deadline(spec, status)
        && now < at
    {
        plan.look_again(at);
    }
}

/// Deletes a finished Job when its time is over.
fn expire(job: &Arc<Job>, spec: &JobSpec, status: &JobStatus, now: Tick, plan: &mut WritePlan) {
    if owners::is_terminating(&job.metadata) {
        return;
    }
    let Some(seconds) = spec.ttl_seconds_after_finished else { return };
    let Some(finished) = conditions::finished_at(status) else { return };
    let at = finished + TickDuration::of_field(seconds);
    if now < at {
        plan.look_again(at);
    } else {
        plan.then(WriteOperation::delete(
            &ViewObject::Job(job.clone()),
            DependentPolicy::Foreground,
        ));
    }
}
