//! Which time of the schedule was served last. This is the only owner of that rule: what is due
//! next ([`super::due`]), which Jobs count as made by the CronJob and what the status says all go
//! by it. Two rules that disagreed here made the same Job without end.
//!
//! ```text
//!   lastScheduleTime, else the creation ─► nothing up to then is due
//!   a Job for a later time that has come ─► that time is lastScheduleTime
//! ```
//!
//! `lastScheduleTime` may lie before the creation: a restore or a migration brings it along. The
//! times since then count as missed, and the last of them is made up for. Source: upstream's
//! `mostRecentScheduleTime`.

use k8s_openapi::api::batch::v1::{CronJob, CronJobStatus, Job};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use rekindle_types::Tick;

use super::jobs;

/// The time up to which nothing is due; none for a CronJob that the server has not given a creation
/// time.
pub(super) fn until(meta: &ObjectMeta, status: &CronJobStatus) -> Option<Tick> {
    status.last_schedule_time.as_ref().or(meta.creation_timestamp.as_ref()).map(Tick::from)
}

/// The time that a Job of this CronJob serves. Users can write the annotation, too: a time that has
/// not come, or that lies before both the creation and `lastScheduleTime`, was never due.
pub(super) fn by_job(cron: &CronJob, job: &Job, now: Tick) -> Option<Tick> {
    let at = jobs::made_for(cron, job)?;
    let last = cron.status.as_ref().and_then(|status| status.last_schedule_time.as_ref());
    let earliest = last.into_iter().chain(&cron.metadata.creation_timestamp).map(Tick::from).min();
    (at <= now && earliest.is_none_or(|earliest| earliest <= at)).then_some(at)
}

/// The status with a time that was served; it never goes back.
pub(super) fn record(status: &mut CronJobStatus, at: Tick) {
    let last = status.last_schedule_time.as_ref().map(Tick::from);
    if last.is_none_or(|last| last < at) {
        status.last_schedule_time = Some(at.to_time());
    }
}
