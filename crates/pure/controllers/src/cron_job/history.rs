//! How many finished Jobs stay.

use std::sync::Arc;

use k8s_openapi::api::batch::v1::{CronJob, Job};
use rekindle_types::Tick;

use crate::job::{JobEnding, ending};
use crate::owners;

/// The finished Jobs beyond the limits of the history, the oldest of each kind.
pub(super) fn too_many<'a>(cron: &CronJob, jobs: &[&'a Arc<Job>]) -> Vec<&'a Arc<Job>> {
    let of = |kind: JobEnding, limit: Option<i32>| {
        let ended = jobs
            .iter()
            .copied()
            .filter(move |job| ending(job) == Some(kind) && !owners::is_terminating(&job.metadata));
        let mut ended: Vec<&Arc<Job>> = ended.collect();
        ended.sort_by_cached_key(|job| age(job));
        let kept = limit.map_or(usize::MAX, |limit| usize::try_from(limit).unwrap_or(0));
        let excess = ended.len().saturating_sub(kept);
        ended.truncate(excess);
        ended
    };
    let mut excess = of(JobEnding::Complete, cron.spec.successful_jobs_history_limit);
    excess.extend(of(JobEnding::Failed, cron.spec.failed_jobs_history_limit));
    excess
}

/// The smaller, the older; what never started is the youngest.
fn age(job: &Job) -> (bool, Option<Tick>, Option<String>) {
    let start = job.status.as_ref().and_then(|status| status.start_time.as_ref()).map(Tick::from);
    (start.is_none(), start, job.metadata.name.clone())
}
