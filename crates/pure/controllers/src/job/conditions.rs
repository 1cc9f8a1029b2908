//! When a Job is decided, and the conditions that say so.
//!
//! SuccessCriteriaMet or FailureTarget decides it; Complete or Failed follows when no pod is left
//! running and all are counted.

use std::sync::Arc;

use k8s_openapi::api::batch::v1::{Job, JobCondition, JobSpec, JobStatus};
use rekindle_types::held::HeldPod;
use rekindle_types::{EventSeverity, Tick, TickDuration};

use super::tally::{JobCourse, JobTally};
use super::{COMPONENT, success};
use crate::ViewObject;
use crate::events::EventNote;

const COMPLETE: &str = "Complete";
const FAILED: &str = "Failed";
const SUSPENDED: &str = "Suspended";
const SUCCESS_CRITERIA_MET: &str = "SuccessCriteriaMet";
const FAILURE_TARGET: &str = "FailureTarget";

/// What a Job is decided to become.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum JobGoal {
    /// Complete.
    Success(ConditionReason),
    /// Failed.
    Failure(ConditionReason),
}

/// Reason and message of the conditions.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct ConditionReason {
    /// In CamelCase, for machines.
    reason: String,
    /// For people.
    message: String,
}

impl ConditionReason {
    fn new(reason: &str, message: &str) -> Self {
        Self { reason: reason.to_owned(), message: message.to_owned() }
    }

    fn from_condition(condition: &JobCondition) -> Self {
        let text = |text: &Option<String>| text.clone().unwrap_or_default();
        Self { reason: text(&condition.reason), message: text(&condition.message) }
    }
}

/// What the status says was decided already.
pub(super) fn course(status: &JobStatus) -> JobCourse {
    if is_true(status, SUCCESS_CRITERIA_MET) {
        JobCourse::Succeeds
    } else if is_true(status, FAILURE_TARGET) {
        JobCourse::Fails
    } else {
        JobCourse::Open
    }
}

fn condition<'a>(status: &'a JobStatus, type_: &str) -> Option<&'a JobCondition> {
    status.conditions.iter().flatten().find(|c| c.type_ == type_)
}

fn is_true(status: &JobStatus, type_: &str) -> bool {
    condition(status, type_).is_some_and(|c| c.status == "True")
}

/// How a Job ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum JobEnding {
    /// Condition Complete is True.
    Complete,
    /// Condition Failed is True.
    Failed,
}

impl JobEnding {
    /// The type of the condition.
    pub(crate) const fn condition(self) -> &'static str {
        match self {
            JobEnding::Complete => COMPLETE,
            JobEnding::Failed => FAILED,
        }
    }
}

/// How a Job ended, if it did.
pub(crate) fn ending(job: &Job) -> Option<JobEnding> {
    let status = job.status.as_ref()?;
    [JobEnding::Complete, JobEnding::Failed]
        .into_iter()
        .find(|ending| is_true(status, ending.condition()))
}

/// True when it is Complete or Failed.
pub(super) fn is_finished(status: &JobStatus) -> bool {
    is_true(status, COMPLETE) || is_true(status, FAILED)
}

/// When it became Complete or Failed.
pub(super) fn finished_at(status: &JobStatus) -> Option<Tick> {
    let finish = [COMPLETE, FAILED].into_iter().find(|type_| is_true(status, type_))?;
    condition(status, finish)?.last_transition_time.as_ref().map(Tick::from)
}

/// When an active Job is to be given up.
pub(super) fn deadline(spec: &JobSpec, status: &JobStatus) -> Option<Tick> {
    let limit = TickDuration::of_field(spec.active_deadline_seconds?);
    let start = status.start_time.as_ref().map(Tick::from)?;
    (spec.suspend != Some(true)).then(|| start + limit)
}

/// What it is decided to become, if it is. Once decided, it stays so.
pub(super) fn goal(
    spec: &JobSpec,
    status: &JobStatus,
    tally: &JobTally<'_>,
    now: Tick,
) -> Option<JobGoal> {
    let decided = |type_: &str| {
        condition(status, type_).filter(|c| c.status == "True").map(ConditionReason::from_condition)
    };
    if let Some(why) = decided(SUCCESS_CRITERIA_MET) {
        return Some(JobGoal::Success(why));
    }
    if let Some(why) = decided(FAILURE_TARGET) {
        return Some(JobGoal::Failure(why));
    }
    if let Some(why) = failure(spec, status, tally, now) {
        return Some(JobGoal::Failure(why));
    }
    if let Some(message) = success::met(spec, &tally.completed) {
        return Some(JobGoal::Success(ConditionReason::new("SuccessPolicy", &message)));
    }
    let is_enough = match spec.completions {
        Some(completions) => tally.succeeded() >= completions,
        None => tally.succeeded() > 0,
    };
    (is_enough && tally.active.is_empty()).then(|| {
        let message = "Reached expected number of succeeded pods";
        JobGoal::Success(ConditionReason::new("CompletionsReached", message))
    })
}

/// Why a Job is to be given up.
fn failure(
    spec: &JobSpec,
    status: &JobStatus,
    tally: &JobTally<'_>,
    now: Tick,
) -> Option<ConditionReason> {
    if let Some(message) = &tally.fatal {
        return Some(ConditionReason::new("PodFailurePolicy", message));
    }
    if exceeds_backoff_limit(spec, tally) {
        let message = "Job has reached the specified backoff limit";
        return Some(ConditionReason::new("BackoffLimitExceeded", message));
    }
    if deadline(spec, status).is_some_and(|at| at <= now) {
        let message = "Job was active longer than specified deadline";
        return Some(ConditionReason::new("DeadlineExceeded", message));
    }
    let failed = tally.per_index.as_ref()?.failed.count();
    if spec.max_failed_indexes.is_some_and(|limit| failed > limit) {
        let message = "Job has exceeded the specified maximal number of failed indexes";
        return Some(ConditionReason::new("MaxFailedIndexesExceeded", message));
    }
    let all = spec.completions.unwrap_or(0);
    (failed > 0 && failed.saturating_add(tally.completed.count()) >= all)
        .then(|| ConditionReason::new("FailedIndexes", "Job has failed indexes"))
}

/// True when more failed than the Job allows. With restartPolicy OnFailure, restarts of containers
/// count as well.
fn exceeds_backoff_limit(spec: &JobSpec, tally: &JobTally<'_>) -> bool {
    let limit = spec.backoff_limit.unwrap_or(6);
    if tally.failed() > limit {
        return true;
    }
    let policy = spec.template.spec.as_ref().and_then(|spec| spec.restart_policy.as_deref());
    if policy != Some("OnFailure") {
        return false;
    }
    let restarts: i32 = tally.active.iter().map(|pod| all_restarts(pod)).sum();
    if limit == 0 { restarts > 0 } else { restarts >= limit }
}

fn all_restarts(pod: &HeldPod) -> i32 {
    let statuses = pod.status.iter().flat_map(|status| {
        let init = status.init_container_statuses.iter().flatten();
        init.chain(status.container_statuses.iter().flatten())
    });
    statuses.map(|container| container.restart_count).sum()
}

/// Writes start time and conditions into the status; the result are the events about what changed.
pub(super) fn write(
    job: &Arc<Job>,
    spec: &JobSpec,
    status: &mut JobStatus,
    goal: Option<&JobGoal>,
    tally: &JobTally<'_>,
    now: Tick,
) -> Vec<EventNote> {
    let about = ViewObject::Job(job.clone());
    let say = |severity, reason, message: &str| {
        EventNote::new(&about, severity, reason, message, COMPONENT)
    };
    let Some(goal) = goal else {
        return match suspend(spec, status, now) {
            Some(Suspension::Begins) => {
                vec![say(EventSeverity::Normal, "Suspended", "Job suspended")]
            }
            Some(Suspension::Ends) => vec![say(EventSeverity::Normal, "Resumed", "Job resumed")],
            None => Vec::new(),
        };
    };
    let (interim, last, why) = match goal {
        JobGoal::Success(why) => (SUCCESS_CRITERIA_MET, COMPLETE, why),
        JobGoal::Failure(why) => (FAILURE_TARGET, FAILED, why),
    };
    let told = (why.reason.as_str(), why.message.as_str());
    let whole = now.to_time();
    if !is_true(status, interim) {
        set(status, interim, "True", told, now);
        status.start_time.get_or_insert(whole);
        return Vec::new();
    }
    if !tally.is_settled() {
        return Vec::new();
    }
    set(status, last, "True", told, now);
    match goal {
        JobGoal::Success(_) => {
            status.completion_time = Some(whole);
            let succeeded = status.succeeded.unwrap_or(0);
            let is_too_many = spec.completions.is_some_and(|wanted| succeeded > wanted);
            let too_many = is_too_many.then(|| {
                let message = "Too many succeeded pods running after completion count reached";
                say(EventSeverity::Warning, "TooManySucceededPods", message)
            });
            let completed = say(EventSeverity::Normal, "Completed", "Job completed");
            too_many.into_iter().chain([completed]).collect()
        }
        JobGoal::Failure(why) => {
            vec![say(EventSeverity::Warning, event_reason(&why.reason), &why.message)]
        }
    }
}

/// The reason of the event about a failure, which is that of the condition.
fn event_reason(of_condition: &str) -> &'static str {
    let known =
        ["DeadlineExceeded", "PodFailurePolicy", "MaxFailedIndexesExceeded", "FailedIndexes"];
    known.into_iter().find(|reason| *reason == of_condition).unwrap_or("BackoffLimitExceeded")
}

/// What happened to a Job's suspension.
enum Suspension {
    Begins,
    Ends,
}

/// Keeps condition Suspended and the start time: a suspended Job has none (KEP-5440), and one that
/// is resumed gets it anew.
fn suspend(spec: &JobSpec, status: &mut JobStatus, now: Tick) -> Option<Suspension> {
    let was = is_true(status, SUSPENDED);
    match (spec.suspend == Some(true), was) {
        (true, true) => None,
        (true, false) => {
            set(status, SUSPENDED, "True", ("JobSuspended", "Job suspended"), now);
            status.start_time = None;
            Some(Suspension::Begins)
        }
        (false, true) => {
            set(status, SUSPENDED, "False", ("JobResumed", "Job resumed"), now);
            status.start_time = Some(now.to_time());
            Some(Suspension::Ends)
        }
        (false, false) => {
            status.start_time.get_or_insert_with(|| now.to_time());
            None
        }
    }
}

fn set(status: &mut JobStatus, type_: &str, is: &str, (reason, message): (&str, &str), now: Tick) {
    let at = now.to_time();
    let conditions = status.conditions.get_or_insert_default();
    let new = JobCondition {
        type_: type_.to_owned(),
        status: is.to_owned(),
        reason: Some(reason.to_owned()),
        message: Some(message.to_owned()),
        last_probe_time: Some(at.clone()),
        last_transition_time: Some(at),
    };
    match conditions.iter_mut().find(|c| c.type_ == type_) {
        Some(old) => *old = new,
        None => conditions.push(new),
    }
}
