//! When the schedules of CronJobs changed.
//!
//! A new schedule has no times before it was one: at ten o'clock a schedule of five o'clock that
//! took the place of another is not late. Source: upstream's CronJob controller, which after such a
//! change waits for the next time of the new schedule. It keeps nothing of it either: an engine
//! that starts goes by the times that were served.

use std::collections::BTreeMap;

use rekindle_types::Tick;

use crate::ViewObject;

/// The changes.
#[derive(Clone, Debug, Default)]
pub(crate) struct ScheduleChanges {
    /// UID of the CronJob → when another schedule or time zone of it was seen.
    by_cron_job: BTreeMap<String, Tick>,
}

impl ScheduleChanges {
    /// A CronJob changed or went.
    pub(crate) fn follow(
        &mut self,
        before: Option<&ViewObject>,
        after: Option<&ViewObject>,
        now: Tick,
    ) {
        let Some(ViewObject::CronJob(before)) = before else { return };
        let uid = before.metadata.uid.as_deref().unwrap_or_default();
        let same = match after {
            Some(ViewObject::CronJob(after)) if after.metadata.uid == before.metadata.uid => after,
            Some(_) | None => {
                self.by_cron_job.remove(uid);
                return;
            }
        };
        let (old, new) = (&before.spec, &same.spec);
        if (&old.schedule, &old.time_zone) != (&new.schedule, &new.time_zone) {
            self.by_cron_job.insert(uid.to_owned(), now);
        }
    }

    /// When the schedule of a CronJob was last seen to change.
    pub(super) fn last(&self, cron_uid: &str) -> Option<Tick> {
        self.by_cron_job.get(cron_uid).copied()
    }
}
