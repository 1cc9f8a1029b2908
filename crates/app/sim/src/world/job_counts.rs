//! What Jobs may count: each pod of theirs once, and as succeeded only what was seen to be so.

use std::collections::BTreeMap;

use k8s_openapi::api::batch::v1::Job;
use rekindle_controllers::{ResourceKind, ViewObject, owners};
use rekindle_types::held::HeldPod;

use super::World;

/// The pods that each Job had.
#[derive(Debug, Default)]
pub(super) struct JobCounts {
    /// By the UIDs of Job and pod.
    pods: BTreeMap<String, BTreeMap<String, PodSighting>>,
}

/// How a pod was seen to be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum PodSighting {
    /// Never succeeded.
    There,
    Succeeded,
}

impl JobCounts {
    /// A pod is there, or there in another version.
    pub(super) fn note(&mut self, pod: &HeldPod) {
        let owner = owners::controller_of(&pod.metadata).filter(|owner| owner.kind == "Job");
        let (Some(owner), Some(uid)) = (owner, &pod.metadata.uid) else { return };
        let phase = pod.status.as_ref().and_then(|status| status.phase.as_deref());
        let of_job = self.pods.entry(owner.uid.clone()).or_default();
        let seen = of_job.entry(uid.clone()).or_insert(PodSighting::There);
        if phase == Some("Succeeded") {
            *seen = PodSighting::Succeeded;
        }
    }

    /// Why the counts of a Job cannot be.
    fn wrong(&self, job: &Job) -> Option<String> {
        let status = job.status.as_ref()?;
        let pods = job.metadata.uid.as_ref().and_then(|uid| self.pods.get(uid));
        let all = pods.map_or(0, BTreeMap::len);
        let succeeded =
            pods.into_iter().flatten().filter(|(_, seen)| **seen == PodSighting::Succeeded);
        let succeeded = succeeded.count();
        let count = |field: Option<i32>| usize::try_from(field.unwrap_or(0)).unwrap_or(0);
        let (said, failed) = (count(status.succeeded), count(status.failed));
        let is_complete = status
            .conditions
            .iter()
            .flatten()
            .any(|condition| condition.type_ == "Complete" && condition.status == "True");
        let wanted = job.spec.as_ref().and_then(|spec| spec.completions).map(|n| count(Some(n)));
        if said > succeeded || said + failed > all {
            Some(format!(
                "says that {said} pods succeeded and {failed} failed, and had {all}, of which {succeeded} succeeded"
            ))
        } else if is_complete && wanted.is_some_and(|wanted| wanted != said) {
            Some(format!("is complete with {said} pods that succeeded, and wanted {wanted:?}"))
        } else {
            None
        }
    }
}

impl World {
    /// Jobs that count what they did not have.
    pub(super) fn miscounted_jobs(&self) -> Vec<String> {
        let jobs = self.server.list(ResourceKind::Job);
        let wrong = jobs.iter().filter_map(|object| {
            let ViewObject::Job(job) = object else { return None };
            self.job_counts.wrong(job).map(|why| format!("{} {why}", object.id()))
        });
        wrong.collect()
    }
}
