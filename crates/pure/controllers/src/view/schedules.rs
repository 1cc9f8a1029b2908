//! When the schedules of CronJobs changed.
//!
//! A new schedule has no times before it was one: at ten o'clock a schedule of five o'clock that
//! took the place of another is not late. Source: upstream's CronJob controller, which after such a
//! change waits for the next time of the new schedule. It keeps nothing of it either: an engine
//! that starts goes by the times that were served.

use std::collections::BTreeMap;

use rekindle_types::Tick;

use crate::Object;

/// The changes.
#[derive(Clone, Debug, Default)]
pub(super) struct ScheduleChanges {
    /// UID of the CronJob → when another schedule or time zone of it was seen.
    by_cron_job: BTreeMap<String, Tick>,
}

impl ScheduleChanges {
    /// An object is there, and was perhaps before.
    pub(super) fn seen(&mut self, before: Option<&Object>, after: &Object, now: Tick) {
        let (Some(Object::CronJob(before)), Object::CronJob(after)) = (before, after) else {
            return;
        };
        if before.metadata.uid != after.metadata.uid {
            self.by_cron_job.remove(before.metadata.uid.as_deref().unwrap_or_default());
            return;
        }
        let (old, new) = (&before.spec, &after.spec);
        if (&old.schedule, &old.time_zone) != (&new.schedule, &new.time_zone) {
            self.by_cron_job.insert(after.metadata.uid.clone().unwrap_or_default(), now);
        }
    }

    /// An object is gone.
    pub(super) fn gone(&mut self, object: &Object) {
        if let Object::CronJob(_) = object {
            self.by_cron_job.remove(object.uid());
        }
    }

    /// When the schedule of a CronJob was last seen to change.
    pub(super) fn last(&self, cron_uid: &str) -> Option<Tick> {
        self.by_cron_job.get(cron_uid).copied()
    }
}
