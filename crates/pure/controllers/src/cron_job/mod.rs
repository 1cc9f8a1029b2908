//! The CronJob controller: a Job each time its schedule is due.
//!
//! Source of behaviour: API reference of batch/v1 CronJob; documentation, "CronJob"; upstream's
//! controller.
//!
//! ```text
//!   due ─► (Replace: what runs is deleted) ─► Job NAME-MINUTE created ─► it is in status.active, its time in lastScheduleTime
//!       ─► finished: out of status.active ─► deleted when the history is full
//! ```
//!
//! A Job's name follows from the time it is for, so that a time makes one Job whatever is lost
//! between its creation and the status; and the Job carries that time in an annotation, from which
//! the status is filled in (`served`). Of times that were missed only the last one is made up for.

mod due;
mod history;
mod jobs;
mod schedule_changes;
mod served;

use std::collections::BTreeSet;
use std::sync::Arc;

use k8s_openapi::api::batch::v1::{CronJob, CronJobStatus, Job};
use k8s_openapi::api::core::v1::ObjectReference;
use rekindle_cron::{Schedule, time_zone};
use rekindle_types::{EventSeverity, Tick, TickDuration};

use crate::events::EventNote;
use crate::job::JobEnding;
use crate::{
    ClusterView, ControllerKey, NamespacedName, ObjectChange, ObjectId, ResourceKind, ViewObject,
    WriteOperation, WritePlan, owners,
};
use due::{MissedRuns, ScheduleState};
pub(crate) use schedule_changes::ScheduleChanges;

/// `source.component` of its events.
const COMPONENT: &str = "cronjob-controller";

/// The CronJobs that a change concerns.
pub(crate) fn affected(
    view: &ClusterView,
    change: &ObjectChange,
    keys: &mut BTreeSet<ControllerKey>,
) {
    match change.id.kind {
        ResourceKind::CronJob => {
            keys.insert(ControllerKey::CronJob(change.id.name.clone()));
        }
        ResourceKind::Job => {
            let controllers = change.sides().filter_map(|side| owners::controller_of(side.meta()));
            keys.extend(controllers.filter_map(|owner| match view.by_uid(&owner.uid) {
                Some(ViewObject::CronJob(cron)) => {
                    Some(ControllerKey::CronJob(NamespacedName::from_meta(&cron.metadata)))
                }
                _ => None,
            }));
        }
        _ => {}
    }
}

/// One look at a CronJob.
struct CronJobSync<'a> {
    view: &'a ClusterView,
    cron: &'a Arc<CronJob>,
    /// Its Jobs, as they are.
    jobs: Vec<&'a Arc<Job>>,
    /// The status as it will be.
    status: CronJobStatus,
    now: Tick,
    plan: WritePlan,
}

/// What is to be done for a CronJob.
pub(crate) fn reconcile(view: &ClusterView, name: &NamespacedName, now: Tick) -> WritePlan {
    let Some(cron) = view.cron_job(name) else { return WritePlan::default() };
    let uid = uid_of(cron);
    let jobs = view.dependents_of(uid, ResourceKind::Job).filter_map(|object| match object {
        ViewObject::Job(job) if jobs::is_of(job, uid) => Some(job),
        _ => None,
    });
    let mut look = CronJobSync {
        view,
        cron,
        jobs: jobs.collect(),
        status: cron.status.clone().unwrap_or_default(),
        now,
        plan: WritePlan::default(),
    };
    look.take_stock();
    let missing = look.drop_missing();
    if owners::is_terminating(&cron.metadata) {
        return look.with_status(missing);
    }
    let start = look.start();
    let removals = history::too_many(cron, &look.jobs);
    for removal in &removals {
        look.forget(removal.metadata.uid.as_deref().unwrap_or_default());
    }
    let removals = removals.iter().map(|job| jobs::deletion(cron, job)).collect();
    let mut plan = look.with_status(missing);
    plan.batches.extend(start);
    plan.then_all(removals);
    plan
}

fn uid_of(cron: &CronJob) -> &str {
    cron.metadata.uid.as_deref().unwrap_or_default()
}

impl CronJobSync<'_> {
    fn say(&mut self, severity: EventSeverity, reason: &'static str, message: String) {
        let about = ViewObject::CronJob(self.cron.clone());
        self.plan.notes.push(EventNote::new(&about, severity, reason, message, COMPONENT));
    }

    fn is_active(&self, uid: &str) -> bool {
        self.status.active.iter().flatten().any(|active| active.uid.as_deref() == Some(uid))
    }

    fn forget(&mut self, uid: &str) {
        if let Some(active) = &mut self.status.active {
            active.retain(|active| active.uid.as_deref() != Some(uid));
        }
    }

    /// Brings the status up to date with the Jobs that there are.
    fn take_stock(&mut self) {
        for job in self.jobs.clone() {
            let uid = job.metadata.uid.clone().unwrap_or_default();
            let name = job.metadata.name.clone().unwrap_or_default();
            let serves = served::by_job(self.cron, job, self.now);
            if let Some(at) = serves {
                served::record(&mut self.status, at);
            }
            match (crate::job::ending(job), self.is_active(&uid)) {
                (None, true) => {}
                (None, false) if owners::is_terminating(&job.metadata) => {}
                (None, false) if serves.is_some() => {
                    self.status.active.get_or_insert_default().push(jobs::reference(job));
                }
                (None, false) => {
                    let message =
                        format!("Saw a job that the controller did not create or forgot: {name}");
                    self.say(EventSeverity::Warning, "UnexpectedJob", message);
                }
                (Some(ending), is_active) => {
                    if is_active {
                        self.forget(&uid);
                        let condition = ending.condition();
                        let message = format!("Saw completed job: {name}, condition: {condition}");
                        self.say(EventSeverity::Normal, "SawCompletedJob", message);
                    }
                    self.note_success(job, ending);
                }
            }
        }
    }

    fn note_success(&mut self, job: &Job, ending: JobEnding) {
        match ending {
            JobEnding::Failed => {}
            JobEnding::Complete => {
                let at = job.status.as_ref().and_then(|status| status.completion_time.clone());
                let last = self.status.last_successful_time.as_ref().map(|time| time.0);
                if let Some(at) = at.filter(|at| last.is_none_or(|last| at.0 > last)) {
                    self.status.last_successful_time = Some(at);
                }
            }
        }
    }

    /// Drops what runs no more because it is gone; the result asks the server whether it is.
    fn drop_missing(&mut self) -> Vec<WriteOperation> {
        let here: BTreeSet<&str> =
            self.jobs.iter().filter_map(|job| job.metadata.uid.as_deref()).collect();
        let active = self.status.active.take().unwrap_or_default();
        let is_here =
            |active: &ObjectReference| active.uid.as_deref().is_some_and(|uid| here.contains(uid));
        let (left, missing): (Vec<_>, Vec<_>) = active.into_iter().partition(is_here);
        self.status.active = Some(left);
        let namespace = self.cron.metadata.namespace.clone().unwrap_or_default();
        let mut checks = Vec::new();
        for gone in missing {
            let name = gone.name.unwrap_or_default();
            self.say(
                EventSeverity::Normal,
                "MissingJob",
                format!("Active job went missing: {name}"),
            );
            let id =
                ObjectId::new(ResourceKind::Job, NamespacedName::new(namespace.as_str(), name));
            checks.push(WriteOperation::CheckAbsent { id, uid: gone.uid });
        }
        checks
    }

    /// Makes the Job that is due, if there is one and the policy allows it, and asks to be looked
    /// at when the next one is.
    fn start(&mut self) -> Vec<Vec<crate::PlannedWrite>> {
        let Some(schedule) = self.schedule() else { return Vec::new() };
        let changed = self.view.memories().schedule_changes.last(uid_of(self.cron));
        let since = served::until(&self.cron.metadata, &self.status).unwrap_or(self.now);
        let deadline = self.cron.spec.starting_deadline_seconds.map(TickDuration::of_field);
        let due = match ScheduleState::new(&schedule, since, deadline, changed, self.now) {
            Ok(due) => due,
            Err(never) => {
                let text = &self.cron.spec.schedule;
                let message = format!("invalid schedule: {text} : {never}");
                self.say(EventSeverity::Warning, "InvalidSchedule", message);
                return Vec::new();
            }
        };
        if let Some(next) = due.next {
            self.plan.look_again(next);
        }
        let Some(at) = due.latest else { return Vec::new() };
        match due.missed {
            MissedRuns::Few => {}
            MissedRuns::Many => {
                let message = "too many missed start times. Set or decrease .spec.startingDeadlineSeconds or check clock skew";
                self.say(EventSeverity::Warning, "TooManyMissedTimes", message.to_owned());
            }
        }
        let name = jobs::name(self.cron, at);
        let namespace = self.cron.metadata.namespace.clone().unwrap_or_default();
        if self.view.job(&NamespacedName::new(namespace, name)).is_some() {
            return Vec::new();
        }
        let active: Vec<String> =
            self.status.active.iter().flatten().filter_map(|active| active.uid.clone()).collect();
        let mut batches = Vec::new();
        match self.cron.spec.concurrency_policy.as_deref() {
            Some("Forbid") if !active.is_empty() => {
                let message = "Not starting job because prior execution is running and concurrency policy is Forbid";
                self.say(EventSeverity::Normal, "JobAlreadyActive", message.to_owned());
                return Vec::new();
            }
            Some("Replace") => {
                let running = self.jobs.iter().filter(|job| {
                    job.metadata.uid.as_ref().is_some_and(|uid| active.contains(uid))
                        && !owners::is_terminating(&job.metadata)
                });
                batches.push(running.map(|job| jobs::deletion(self.cron, job)).collect());
                active.iter().for_each(|uid| self.forget(uid));
            }
            Some(_) | None => {}
        }
        batches.push(vec![jobs::creation(self.cron, at)]);
        batches.push(vec![jobs::served_write(self.cron, at).into()]);
        batches
    }

    /// The schedule, when one is to be followed.
    fn schedule(&mut self) -> Option<Schedule> {
        let spec = &self.cron.spec;
        let name = spec.time_zone.as_deref().unwrap_or("UTC");
        let Some(zone) = time_zone(name) else {
            let message = format!("invalid timeZone: {name:?}: unknown time zone {name}");
            self.say(EventSeverity::Warning, "UnknownTimeZone", message);
            return None;
        };
        if spec.suspend == Some(true) {
            return None;
        }
        match Schedule::parse(&spec.schedule, zone) {
            Ok(schedule) => Some(schedule),
            Err(error) => {
                let message = format!("unparseable schedule: {:?} : {error}", spec.schedule);
                self.say(EventSeverity::Warning, "UnparseableSchedule", message);
                None
            }
        }
    }

    /// The plan, with the write of the status if it changed.
    fn with_status(self, checks: Vec<WriteOperation>) -> WritePlan {
        let Self { cron, mut status, mut plan, .. } = self;
        status.active = status.active.filter(|active| !active.is_empty());
        if cron.status.clone().unwrap_or_default() != status {
            plan.then_all(checks.into_iter().map(crate::PlannedWrite::from).collect());
            let updated = CronJob { status: Some(status), ..cron.as_ref().clone() };
            plan.then(WriteOperation::UpdateStatus(updated.into()));
        }
        plan
    }
}
