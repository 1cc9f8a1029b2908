//! How a Job or a CronJob does.

use k8s_openapi::api::batch::v1::{CronJob, Job};
use rekindle_types::Tick;

use crate::account::{AccountState, HistorySource, NextEvent};
use crate::condition::{WorkloadCondition, job_conditions};
use crate::evidence::WorkloadObjects;
use crate::history::{AccountHistory, OccurrenceTimes};
use crate::words::{line, show_time};

/// How a Job does, and why in one sentence; `pods` is how they do that are neither well nor done.
pub(crate) fn judge(job: &Job, pods: AccountState) -> (AccountState, String) {
    let conditions = job_conditions(job);
    let is = |type_: &str| conditions.iter().find(|c| c.type_ == type_ && c.status == "True");
    let counted = counted(job);
    if let Some(failed) = is("Failed") {
        return (AccountState::Failed, format!("it failed: {}; {counted}", words(failed)));
    }
    if is("Complete").is_some() {
        return (AccountState::Completed, format!("it is complete: {counted}"));
    }
    if let Some(failing) = is("FailureTarget") {
        return (AccountState::Failing, format!("it is failing: {}; {counted}", words(failing)));
    }
    if is("Suspended").is_some() {
        return (AccountState::Healthy, format!("it is suspended: no pods run; {counted}"));
    }
    let failed = job.status.as_ref().and_then(|status| status.failed).unwrap_or(0);
    let limit = job.spec.as_ref().and_then(|spec| spec.backoff_limit).unwrap_or(6);
    match failed {
        0 => (pods, counted),
        _ => (AccountState::Failing, format!("{counted}; {limit} may fail (backoffLimit)")),
    }
}

fn counted(job: &Job) -> String {
    let status = job.status.as_ref();
    let number = |of: Option<i32>| of.unwrap_or(0);
    let succeeded = number(status.and_then(|status| status.succeeded));
    let failed = number(status.and_then(|status| status.failed));
    let active = number(status.and_then(|status| status.active));
    match job.spec.as_ref().and_then(|spec| spec.completions) {
        Some(wanted) => {
            format!("{succeeded} of {wanted} pods succeeded, {failed} failed, {active} at work")
        }
        None => format!("{succeeded} pods succeeded, {failed} failed, {active} at work"),
    }
}

fn words(condition: &WorkloadCondition<'_>) -> String {
    format!("{}: {}", condition.reason, line(condition.message))
}

/// How a CronJob does, by its newest Job that has ended; and when it is due, which only its
/// controller computes.
pub(crate) fn judge_cron(cron_job: &CronJob, jobs: &[Job]) -> (AccountState, String) {
    let spec = &cron_job.spec;
    if spec.suspend == Some(true) {
        return (AccountState::Healthy, "it is suspended: it makes no Jobs".to_owned());
    }
    let zone = spec.time_zone.as_deref().unwrap_or("UTC");
    let schedule = format!("its schedule is {:?} ({zone})", line(&spec.schedule));
    let Some((job, at_work)) = telling(jobs) else {
        let made = cron_job.status.as_ref().and_then(|status| status.last_schedule_time.as_ref());
        let what = match made {
            Some(at) => format!("it made its last Job at {}, which is gone", show_time(at)),
            None => "it has made no Job yet".to_owned(),
        };
        return (AccountState::Healthy, format!("{what}; {schedule}"));
    };
    let name = job.metadata.name.as_deref().unwrap_or_default();
    let (state, what) = judge(job, AccountState::Healthy);
    let last = cron_job.status.as_ref().and_then(|s| s.last_successful_time.as_ref());
    let (state, succeeded) = match state {
        AccountState::Failed | AccountState::Failing => (
            AccountState::Failing,
            match last {
                Some(at) => format!("; the last one that succeeded did at {}", show_time(at)),
                None => "; none has succeeded so far".to_owned(),
            },
        ),
        AccountState::Completed => (AccountState::Healthy, String::new()),
        AccountState::Healthy
        | AccountState::Gone
        | AccountState::Starting
        | AccountState::Terminating
        | AccountState::Unchecked
        | AccountState::Restricted
        | AccountState::NotReady
        | AccountState::Blocked => (state, String::new()),
    };
    let (which, at_work) = match at_work {
        None => ("its newest Job", String::new()),
        Some(newer) => {
            let newer = newer.metadata.name.as_deref().unwrap_or_default();
            ("its newest Job that is over,", format!("; Job {newer} is not over yet"))
        }
    };
    (state, format!("{which} {name}: {what}{succeeded}{at_work}; {schedule}"))
}

/// The Job that tells how its CronJob does: the newest, or while nothing can be said of that yet,
/// the newest that is over, and then the newest beside it.
fn telling(jobs: &[Job]) -> Option<(&Job, Option<&Job>)> {
    let created = |job: &&Job| job.metadata.creation_timestamp.clone();
    let newest = jobs.iter().max_by_key(created)?;
    let is_telling = |job: &&Job| match judge(job, AccountState::Healthy).0 {
        AccountState::Completed | AccountState::Failing | AccountState::Failed => true,
        AccountState::Healthy
        | AccountState::Gone
        | AccountState::Starting
        | AccountState::Terminating
        | AccountState::Unchecked
        | AccountState::Restricted
        | AccountState::NotReady
        | AccountState::Blocked => false,
    };
    Some(match jobs.iter().filter(is_telling).max_by_key(created) {
        Some(told) if !is_telling(&newest) => (told, Some(newest)),
        Some(_) | None => (newest, None),
    })
}

/// The ends of a CronJob's Jobs. Their names differ in numbers only, so alike ends are one entry.
pub(crate) fn tell_jobs(jobs: &[Job], history: &mut AccountHistory) {
    for job in jobs {
        let name = job.metadata.name.as_deref().unwrap_or_default();
        for condition in job_conditions(job).iter().filter(|condition| condition.status == "True") {
            let Some(since) = condition.since else { continue };
            let text = match condition.type_ {
                "Failed" => format!("Job {name} failed: {}", words(condition)),
                "Complete" => format!("Job {name} is complete"),
                _ => continue,
            };
            history.add(HistorySource::Status, OccurrenceTimes::once(since), &text);
        }
    }
}

/// What comes next of a Job that waits: its deadline.
pub(crate) fn next(job: &Job) -> Option<NextEvent> {
    let (state, _) = judge(job, AccountState::Healthy);
    let is_over = matches!(state, AccountState::Failed | AccountState::Completed);
    let started = job.status.as_ref()?.start_time.as_ref().filter(|_| !is_over)?;
    let seconds = job.spec.as_ref()?.active_deadline_seconds?;
    let limit = rekindle_types::TickDuration::of_field(seconds);
    let at = (Tick::from(started) + limit).to_time();
    let what = "its activeDeadlineSeconds are over: it fails and its pods are ended".to_owned();
    Some(NextEvent { at: Some(at), what })
}

/// True of a Job, or of the one that tells how a CronJob does, which has failed, and whose pods
/// were restarted in place until then: their controller deletes such pods.
pub(crate) fn takes_its_pods_along(workload: &WorkloadObjects) -> bool {
    let job = match workload {
        WorkloadObjects::Job(job) => Some(job.as_ref()),
        WorkloadObjects::CronJob(_, jobs) => telling(jobs).map(|(job, _)| job),
        WorkloadObjects::DaemonSet(_)
        | WorkloadObjects::Deployment(..)
        | WorkloadObjects::ReplicaSet(_)
        | WorkloadObjects::ReplicationController(_)
        | WorkloadObjects::StatefulSet(_) => None,
    };
    job.is_some_and(|job| {
        let template = job.spec.as_ref().and_then(|spec| spec.template.spec.as_ref());
        let policy = template.and_then(|pod| pod.restart_policy.as_deref());
        judge(job, AccountState::Healthy).0 == AccountState::Failed && policy == Some("OnFailure")
    })
}
