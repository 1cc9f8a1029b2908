//! What may be written to a Job's status: only what a Job goes through (KEP-4368). A rule about
//! fields is looked at when one of them changes, so that what stood there before is no reason to
//! refuse the rest. Source: upstream's `ValidateJobUpdateStatus` and `getStatusValidationOptions`.

use k8s_openapi::api::batch::v1::{Job, JobSpec, JobStatus, UncountedTerminatedPods};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use rekindle_types::Tick;
use rekindle_types::validation::field_error::{FieldError, FieldProblem};

use super::indexes;
use crate::validation::{ListKeys, Path, items, numbers, text};

const COMPLETE: &str = "Complete";
const FAILED: &str = "Failed";
const FAILURE_TARGET: &str = "FailureTarget";
const SUCCESS_CRITERIA_MET: &str = "SuccessCriteriaMet";
const SUSPENDED: &str = "Suspended";

/// Everything wrong with the new status.
pub(super) fn check(new: &Job, old: &Job) -> Vec<FieldError> {
    let (no_status, no_spec) = (JobStatus::default(), JobSpec::default());
    let change = JobStatusChange {
        spec: new.spec.as_ref().unwrap_or(&no_spec),
        new: new.status.as_ref().unwrap_or(&no_status),
        old: old.status.as_ref().unwrap_or(&no_status),
        field: Path::new("status"),
    };
    if change.new == change.old {
        return Vec::new();
    }
    let mut errors = change.counts();
    errors.extend(change.uncounted());
    errors.extend(change.conditions());
    errors.extend(change.times());
    errors.extend(change.end());
    errors.extend(change.index_lists());
    errors
}

/// A status that takes the place of another one.
struct JobStatusChange<'a> {
    spec: &'a JobSpec,
    new: &'a JobStatus,
    old: &'a JobStatus,
    field: Path,
}

fn is_true(status: &JobStatus, kind: &str) -> bool {
    let conditions = items(status.conditions.as_ref());
    conditions.iter().any(|condition| condition.type_ == kind && condition.status == "True")
}

fn is_finished(status: &JobStatus) -> bool {
    is_true(status, COMPLETE) || is_true(status, FAILED)
}

fn shown(time: &Time) -> String {
    time.0.to_string()
}

impl JobStatusChange<'_> {
    fn is_indexed(&self) -> bool {
        text(self.spec.completion_mode.as_ref()) == "Indexed"
    }

    /// Whether a condition comes or goes.
    fn turns(&self, kind: &str) -> bool {
        is_true(self.new, kind) != is_true(self.old, kind)
    }

    /// Whether the Job ends by this change.
    fn finishes(&self) -> bool {
        is_finished(self.new) != is_finished(self.old)
    }

    fn counts(&self) -> Vec<FieldError> {
        let (new, old) = (self.new, self.old);
        let count = |count: Option<i32>| count.unwrap_or(0);
        let mut errors = Vec::new();
        for (name, value) in [
            ("active", new.active),
            ("succeeded", new.succeeded),
            ("failed", new.failed),
            ("ready", new.ready),
            ("terminating", new.terminating),
        ] {
            errors.extend(numbers::non_negative(count(value), &self.field.child(name)));
        }
        let mut wrong = |name: &str, value: Option<i32>, detail: &str| {
            errors.push(FieldError::invalid(self.field.child(name), count(value), detail));
        };
        let moves = new.ready != old.ready || new.active != old.active;
        if moves && count(new.ready) > count(new.active) {
            wrong("ready", new.ready, "cannot set more ready pods than active");
        }
        if count(new.failed) < count(old.failed) {
            wrong("failed", new.failed, "cannot decrease the failed counter");
        }
        if count(new.succeeded) < count(old.succeeded) && !self.may_have_less_succeeded() {
            wrong("succeeded", new.succeeded, "cannot decrease the succeeded counter");
        }
        errors
    }

    /// An Indexed Job that is made smaller counts fewer indexes.
    fn may_have_less_succeeded(&self) -> bool {
        let is_elastic = self.spec.completions == self.spec.parallelism;
        let is_smaller = self.spec.completions < self.old.succeeded;
        self.is_indexed() && (is_elastic || is_smaller)
    }

    /// UIDs of pods that are not counted yet, each once.
    fn uncounted(&self) -> Vec<FieldError> {
        let Some(pods) = &self.new.uncounted_terminated_pods else { return Vec::new() };
        let UncountedTerminatedPods { succeeded, failed } = pods;
        let field = self.field.child("uncountedTerminatedPods");
        let mut errors = Vec::new();
        let mut seen: ListKeys<&str> = ListKeys::new();
        for (name, uids) in [("succeeded", succeeded), ("failed", failed)] {
            for (index, uid) in items(uids.as_ref()).iter().enumerate() {
                let field = field.child(name).index(index);
                if uid.is_empty() {
                    errors.push(FieldError::invalid(field, uid, "must not be empty"));
                } else if seen.add(uid).is_some() {
                    errors.push(FieldError::duplicate(field, uid));
                }
            }
        }
        errors
    }

    fn conditions(&self) -> Vec<FieldError> {
        let (is, was) =
            (|kind: &str| is_true(self.new, kind), |kind: &str| is_true(self.old, kind));
        let moves = |kinds: &[&str]| kinds.iter().any(|kind| self.turns(kind));
        let complete = is(COMPLETE);
        let rules = [
            (
                moves(&[COMPLETE, FAILED]) && complete && is(FAILED),
                "cannot set Complete=True and Failed=true conditions",
            ),
            (
                moves(&[COMPLETE, FAILURE_TARGET]) && complete && is(FAILURE_TARGET),
                "cannot set Complete=True and FailureTarget=true conditions",
            ),
            (
                moves(&[FAILED, FAILURE_TARGET]) && is(FAILED) && !is(FAILURE_TARGET),
                "cannot set Failed=True condition without the FailureTarget=true condition",
            ),
            (
                moves(&[COMPLETE, SUCCESS_CRITERIA_MET]) && complete && !is(SUCCESS_CRITERIA_MET),
                "cannot set Complete=True condition without the SuccessCriteriaMet=true condition",
            ),
            (
                moves(&[FAILED, SUCCESS_CRITERIA_MET]) && is(SUCCESS_CRITERIA_MET) && is(FAILED),
                "cannot set SuccessCriteriaMet=True and Failed=true conditions",
            ),
            (
                moves(&[FAILURE_TARGET, SUCCESS_CRITERIA_MET])
                    && is(SUCCESS_CRITERIA_MET)
                    && is(FAILURE_TARGET),
                "cannot set SuccessCriteriaMet=True and FailureTarget=true conditions",
            ),
            (
                was(COMPLETE) && !was(SUCCESS_CRITERIA_MET) && is(SUCCESS_CRITERIA_MET),
                "cannot set SuccessCriteriaMet=True for Job already has Complete=true conditions",
            ),
        ];
        let broken = rules.iter().filter(|(broken, _)| *broken).map(|(_, why)| (*why).to_owned());
        let gone = [FAILED, COMPLETE, FAILURE_TARGET].into_iter().filter(|k| was(k) && !is(k));
        let gone = gone.map(|kind| format!("cannot disable the terminal {kind}=True condition"));
        let taken_back = was(SUCCESS_CRITERIA_MET) && !is(SUCCESS_CRITERIA_MET);
        let taken_back =
            taken_back.then(|| "cannot disable the SuccessCriteriaMet=True condition".to_owned());
        let field = self.field.child("conditions");
        broken
            .chain(gone)
            .chain(taken_back)
            .map(|detail| FieldError {
                field: (&field).into(),
                // upstream leaves the value out, too
                problem: FieldProblem::Invalid(String::new()),
                detail,
            })
            .collect()
    }

    fn times(&self) -> Vec<FieldError> {
        let (new, old) = (self.new, self.old);
        let (start, end) = (self.field.child("startTime"), self.field.child("completionTime"));
        let starts = new.start_time != old.start_time;
        let ends = new.completion_time != old.completion_time;
        let mut errors = Vec::new();
        let mut wrong = |time: &Time, detail: &str| {
            errors.push(FieldError::invalid(&end, shown(time), detail));
        };
        if let Some(time) = &new.completion_time {
            if (self.turns(COMPLETE) || ends) && !is_true(new, COMPLETE) {
                wrong(time, "cannot set completionTime when there is no Complete=True condition");
            }
            let begun = new.start_time.as_ref();
            if (starts || ends) && begun.is_some_and(|begun| Tick::from(time) < Tick::from(begun)) {
                wrong(time, "completionTime cannot be set before startTime");
            }
            if ends && old.completion_time.is_some() {
                wrong(time, "completionTime cannot be mutated");
            }
        } else if (self.turns(COMPLETE) || ends) && is_true(new, COMPLETE) {
            let detail = "completionTime is required for Complete jobs";
            errors.push(FieldError::required(&end, detail));
        }
        if (self.finishes() || starts) && is_finished(new) && new.start_time.is_none() {
            let detail = "startTime is required for finished job";
            errors.push(FieldError::required(&start, detail));
        }
        // One that was suspended begins anew, whatever an earlier version left there.
        let runs_on = self.spec.suspend != Some(true) && !is_true(old, SUSPENDED);
        if starts && old.start_time.is_some() && runs_on {
            let detail = "startTime cannot be removed for unsuspended job";
            errors.push(FieldError::required(start, detail));
        }
        errors
    }

    /// Nothing is left of a Job that has ended.
    fn end(&self) -> Vec<FieldError> {
        let (new, old) = (self.new, self.old);
        if !is_finished(new) {
            return Vec::new();
        }
        let mut errors = Vec::new();
        for (name, now, before, detail) in [
            ("active", new.active, old.active, "active>0 is invalid for finished job"),
            (
                "terminating",
                new.terminating,
                old.terminating,
                "terminating>0 is invalid for finished job",
            ),
        ] {
            let now = now.unwrap_or(0);
            if (self.finishes() || now != before.unwrap_or(0)) && now > 0 {
                errors.push(FieldError::invalid(self.field.child(name), now, detail));
            }
        }
        let moves =
            self.finishes() || new.uncounted_terminated_pods != old.uncounted_terminated_pods;
        let left = new.uncounted_terminated_pods.as_ref().filter(|pods| {
            !items(pods.succeeded.as_ref()).is_empty() || !items(pods.failed.as_ref()).is_empty()
        });
        if let Some(pods) = left.filter(|_| moves) {
            errors.push(FieldError {
                field: self.field.child("uncountedTerminatedPods").into(),
                problem: FieldProblem::Invalid(
                    serde_json::to_string(pods).expect("lists of texts are always JSON"),
                ),
                detail: "uncountedTerminatedPods needs to be empty for finished job".to_owned(),
            });
        }
        errors
    }

    fn index_lists(&self) -> Vec<FieldError> {
        let (new, old, spec) = (self.new, self.old, self.spec);
        let completed = text(new.completed_indexes.as_ref());
        let completed_moves = completed != text(old.completed_indexes.as_ref());
        let failed_moves = new.failed_indexes != old.failed_indexes;
        let (of_completed, of_failed) =
            (self.field.child("completedIndexes"), self.field.child("failedIndexes"));
        let mut errors = Vec::new();
        if completed_moves && !completed.is_empty() && !self.is_indexed() {
            let detail = "cannot set non-empty completedIndexes when non-indexed completion mode";
            errors.push(FieldError::invalid(&of_completed, completed, detail));
        }
        if let Some(failed) = new.failed_indexes.as_ref().filter(|_| failed_moves)
            && spec.backoff_limit_per_index.is_none()
        {
            let detail = "cannot set non-null failedIndexes when backoffLimitPerIndex is null";
            errors.push(FieldError::invalid(&of_failed, failed, detail));
        }
        let Some(completions) = spec.completions else { return errors };
        let parsed = indexes::parse(completed, completions);
        if let Err(why) = parsed.as_ref()
            && completed_moves
        {
            let detail = format!("error parsing completedIndexes: {why}");
            errors.push(FieldError::invalid(&of_completed, completed, detail));
        }
        let Some(failed) = &new.failed_indexes else { return errors };
        let failed_parsed = indexes::parse(failed, completions);
        if let Err(why) = failed_parsed.as_ref()
            && failed_moves
            && spec.backoff_limit_per_index.is_some()
        {
            let detail = format!("error parsing failedIndexes: {why}");
            errors.push(FieldError::invalid(&of_failed, failed, detail));
        }
        if let (Ok(completed), Ok(runs)) = (parsed, failed_parsed)
            && (completed_moves || failed_moves)
            && let Some(index) = indexes::common(&completed, &runs)
        {
            let detail = format!("failedIndexes and completedIndexes overlap at index: {index}");
            errors.push(FieldError::invalid(&of_failed, failed, detail));
        }
        errors
    }
}

#[cfg(test)]
mod tests;
