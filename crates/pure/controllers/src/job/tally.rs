//! Counting pods that ended, each once, whatever happens between the steps.
//!
//! When a pod counts as failed, and whether the failure counts, is the business of `failure`; that
//! of a Job that is given up is a failure in any case. It is new while it has the finalizer and its
//! UID is in neither list of the status. A UID in a list whose pod has no finalizer any more, or is
//! gone, turns into one more on the counter, in the same write that takes it off the list.

use std::collections::BTreeSet;
use std::sync::Arc;

use k8s_openapi::api::batch::v1::{JobSpec, JobStatus};
use rekindle_types::held::HeldPod;

use super::failure::{FailureEffect, FailureRule, verdict};
use super::indexes::IndexSet;
use super::per_index::IndexFailures;
use super::{CompletionMode, number, tracking};
use crate::pods;

/// Pods taken into the status in one go, as upstream.
const NEW_MAX: usize = 500;

/// What there is.
#[derive(Debug, Default)]
pub(super) struct JobTally<'a> {
    /// Pods that neither ended nor are being deleted.
    pub(super) active: Vec<&'a Arc<HeldPod>>,
    /// Pods that are being deleted and have not ended.
    pub(super) terminating: Vec<&'a Arc<HeldPod>>,
    /// Pods that may go once the status is written.
    pub(super) ended: Vec<&'a Arc<HeldPod>>,
    /// UIDs of pods that succeeded and are not counted yet.
    pub(super) uncounted_succeeded: Vec<String>,
    /// UIDs of pods that failed and are not counted yet.
    pub(super) uncounted_failed: Vec<String>,
    /// `status.succeeded`.
    pub(super) counted_succeeded: i32,
    /// `status.failed`.
    pub(super) counted_failed: i32,
    /// The indexes of which a pod succeeded.
    pub(super) completed: IndexSet,
    /// The indexes that failed, of a Job that counts their failures.
    pub(super) per_index: Option<IndexFailures<'a>>,
    /// Failures that count and wait for the next pod of their index.
    pub(super) held: usize,
    /// Why a failed pod gives the Job up.
    pub(super) fatal: Option<String>,
}

/// What becomes of a Job as far as counting goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum JobCourse {
    /// It goes on.
    Open,
    /// It is a success.
    Succeeds,
    /// It is given up.
    Fails,
}

impl JobTally<'_> {
    /// All that succeeded.
    pub(super) fn succeeded(&self) -> i32 {
        self.counted_succeeded.saturating_add(number(self.uncounted_succeeded.len()))
    }

    /// All that failed.
    pub(super) fn failed(&self) -> i32 {
        self.counted_failed.saturating_add(number(self.uncounted_failed.len() + self.held))
    }

    /// True when nothing is left of the pods but what is in the counters.
    pub(super) fn is_settled(&self) -> bool {
        self.active.is_empty()
            && self.terminating.is_empty()
            && self.ended.is_empty()
            && self.uncounted_succeeded.is_empty()
            && self.uncounted_failed.is_empty()
    }
}

/// Counts the pods of a Job.
pub(super) fn tally<'a>(
    spec: &JobSpec,
    status: &JobStatus,
    own: &[&'a Arc<HeldPod>],
    course: JobCourse,
) -> JobTally<'a> {
    let mode = super::mode(spec);
    let listed = status.uncounted_terminated_pods.as_ref();
    let succeeded = listed.and_then(|lists| lists.succeeded.as_deref()).unwrap_or_default();
    let failed = listed.and_then(|lists| lists.failed.as_deref()).unwrap_or_default();
    let known: BTreeSet<&str> = succeeded.iter().chain(failed).map(String::as_str).collect();
    let waiting: BTreeSet<&str> = own
        .iter()
        .map(|pod| (uid(pod), pod))
        .filter(|(uid, pod)| known.contains(uid) && tracking::is_tracked(&pod.metadata))
        .map(|(uid, _)| uid)
        .collect();
    let (left_succeeded, done_succeeded) = split(succeeded, &waiting);
    let (left_failed, done_failed) = split(failed, &waiting);
    let completed = match mode {
        CompletionMode::NonIndexed => IndexSet::default(),
        CompletionMode::Indexed(end) => {
            IndexSet::parse(status.completed_indexes.as_deref().unwrap_or_default(), end)
        }
    };
    let mut tally = JobTally {
        uncounted_succeeded: left_succeeded,
        uncounted_failed: left_failed,
        counted_succeeded: status.succeeded.unwrap_or(0).saturating_add(done_succeeded),
        counted_failed: status.failed.unwrap_or(0).saturating_add(done_failed),
        completed,
        ..JobTally::default()
    };
    tally.take_in_successes(own, mode);
    if let (CompletionMode::Indexed(end), Some(_)) = (mode, spec.backoff_limit_per_index) {
        let before = IndexSet::parse(status.failed_indexes.as_deref().unwrap_or_default(), end);
        tally.per_index = Some(match course {
            JobCourse::Open => IndexFailures::new(spec, end, own, before, &tally.completed),
            // What ends now, ends for the Job's sake.
            JobCourse::Succeeds | JobCourse::Fails => {
                IndexFailures { failed: before, ..IndexFailures::default() }
            }
        });
    }
    tally.take_in(spec, own, &known, course);
    match mode {
        CompletionMode::NonIndexed => {}
        CompletionMode::Indexed(_) => tally.counted_succeeded = tally.completed.count(),
    }
    tally
}

impl<'a> JobTally<'a> {
    /// The indexes that succeeded since the status was written.
    fn take_in_successes(&mut self, own: &[&'a Arc<HeldPod>], mode: CompletionMode) {
        let CompletionMode::Indexed(end) = mode else { return };
        let succeeded = own
            .iter()
            .filter(|pod| pods::phase(pod) == "Succeeded" && tracking::is_tracked(&pod.metadata));
        let places = succeeded.filter_map(|pod| tracking::index(pod));
        self.completed.extend(places.filter(|index| *index < end).take(NEW_MAX));
    }

    /// Sorts the pods, and takes in those that ended and that the status does not know.
    fn take_in(
        &mut self,
        spec: &JobSpec,
        own: &[&'a Arc<HeldPod>],
        known: &BTreeSet<&str>,
        course: JobCourse,
    ) {
        let failed = FailureRule::from_spec(spec);
        for &pod in own {
            if pods::is_active(pod) {
                self.active.push(pod);
                continue;
            }
            if !pods::is_finished(pod) {
                self.terminating.push(pod);
            }
            if !tracking::is_tracked(&pod.metadata) {
                continue; // counted, given up, or somebody else took the finalizer: nobody can tell
            }
            if known.contains(uid(pod)) {
                self.ended.push(pod);
            } else if self.ended.len() < NEW_MAX {
                self.take_in_new(spec, pod, failed, course);
            }
        }
    }

    fn take_in_new(
        &mut self,
        spec: &JobSpec,
        pod: &'a Arc<HeldPod>,
        failed: FailureRule,
        course: JobCourse,
    ) {
        if pods::phase(pod) == "Succeeded" {
            self.ended.push(pod);
            match super::mode(spec) {
                CompletionMode::NonIndexed => self.uncounted_succeeded.push(uid(pod).to_owned()),
                CompletionMode::Indexed(_) => {}
            }
            return;
        }
        let has_failed = failed.is(pod);
        match (has_failed, course) {
            (false, JobCourse::Open) => return, // its end is yet to come
            (false, JobCourse::Succeeds) => return self.ended.push(pod),
            (false, JobCourse::Fails) | (true, _) => {}
        }
        let verdict = verdict(spec, pod);
        if let (true, FailureEffect::FailsJob(why), None) = (has_failed, &verdict, &self.fatal) {
            self.fatal = Some(why.clone());
        }
        let counts = verdict != FailureEffect::IsIgnored;
        let is_open = course == JobCourse::Open;
        if is_open && self.per_index.as_ref().is_some_and(|all| all.keeps(pod)) {
            self.held += usize::from(counts);
            return;
        }
        self.ended.push(pod);
        if counts {
            self.uncounted_failed.push(uid(pod).to_owned());
        }
    }
}

/// The UIDs whose pods wait still, and the number of the others.
fn split(uids: &[String], waiting: &BTreeSet<&str>) -> (Vec<String>, i32) {
    let left: Vec<String> =
        uids.iter().filter(|uid| waiting.contains(uid.as_str())).cloned().collect();
    let done = number(uids.len() - left.len());
    (left, done)
}

fn uid(pod: &HeldPod) -> &str {
    pod.metadata.uid.as_deref().unwrap_or_default()
}
