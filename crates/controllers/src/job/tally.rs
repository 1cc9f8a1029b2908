//! Counting pods that ended, each once, whatever happens between the steps.
//!
//! A pod counts as failed when its phase is Failed, and when it is being deleted before it succeeded (`podReplacementPolicy:
//! TerminatingOrFailed`). It is new while it has the finalizer and its UID is in neither list of the status. A UID in a list
//! whose pod has no finalizer any more, or is gone, turns into one more on the counter, in the same write that takes it off
//! the list.

use std::collections::BTreeSet;
use std::sync::Arc;

use k8s_openapi::api::batch::v1::JobStatus;
use k8s_openapi::api::core::v1::Pod;

use super::{Mode, indexes, number, tracking};
use crate::pods;

/// Pods taken into the status in one go, as upstream.
const NEW_MAX: usize = 500;

/// What there is.
#[derive(Debug, Default)]
pub(super) struct Tally<'a> {
    /// Pods that neither ended nor are being deleted.
    pub(super) active: Vec<&'a Arc<Pod>>,
    /// Pods that are being deleted and have not ended.
    pub(super) terminating: usize,
    /// Pods that may go once the status is written.
    pub(super) ended: Vec<&'a Arc<Pod>>,
    /// UIDs of pods that succeeded and are not counted yet.
    pub(super) uncounted_succeeded: Vec<String>,
    /// UIDs of pods that failed and are not counted yet.
    pub(super) uncounted_failed: Vec<String>,
    /// `status.succeeded`.
    pub(super) counted_succeeded: i32,
    /// `status.failed`.
    pub(super) counted_failed: i32,
    /// The indexes of which a pod succeeded.
    pub(super) completed: BTreeSet<u32>,
}

impl Tally<'_> {
    /// All that succeeded.
    pub(super) fn succeeded(&self) -> i32 {
        self.counted_succeeded.saturating_add(number(self.uncounted_succeeded.len()))
    }

    /// All that failed.
    pub(super) fn failed(&self) -> i32 {
        self.counted_failed.saturating_add(number(self.uncounted_failed.len()))
    }

    /// True when nothing is left of the pods but what is in the counters.
    pub(super) fn is_settled(&self) -> bool {
        self.active.is_empty()
            && self.terminating == 0
            && self.ended.is_empty()
            && self.uncounted_succeeded.is_empty()
            && self.uncounted_failed.is_empty()
    }
}

/// Counts the pods of a Job.
pub(super) fn tally<'a>(status: &JobStatus, mode: Mode, own: &[&'a Arc<Pod>]) -> Tally<'a> {
    let tracked: BTreeSet<&str> =
        own.iter().filter(|pod| tracking::is_tracked(&pod.metadata)).map(|pod| uid(pod)).collect();
    let listed = status.uncounted_terminated_pods.as_ref();
    let succeeded = listed.and_then(|lists| lists.succeeded.as_deref()).unwrap_or_default();
    let failed = listed.and_then(|lists| lists.failed.as_deref()).unwrap_or_default();
    let (left_succeeded, done_succeeded) = split(succeeded, &tracked);
    let (left_failed, done_failed) = split(failed, &tracked);
    let completed = match mode {
        Mode::NonIndexed => BTreeSet::new(),
        Mode::Indexed(end) => {
            indexes::parse(status.completed_indexes.as_deref().unwrap_or_default(), end)
        }
    };
    let mut tally = Tally {
        uncounted_succeeded: left_succeeded,
        uncounted_failed: left_failed,
        counted_succeeded: status.succeeded.unwrap_or(0).saturating_add(done_succeeded),
        counted_failed: status.failed.unwrap_or(0).saturating_add(done_failed),
        completed,
        ..Tally::default()
    };
    let known: BTreeSet<&str> = succeeded.iter().chain(failed).map(String::as_str).collect();
    for &pod in own {
        if pods::is_active(pod) {
            tally.active.push(pod);
        } else if !pods::is_finished(pod) {
            tally.terminating += 1;
        }
        if !tracked.contains(uid(pod)) || pods::is_active(pod) {
            continue;
        }
        if known.contains(uid(pod)) {
            tally.ended.push(pod);
        } else if tally.ended.len() < NEW_MAX {
            tally.take_in(pod, mode);
        }
    }
    match mode {
        Mode::NonIndexed => {}
        Mode::Indexed(_) => tally.counted_succeeded = number(tally.completed.len()),
    }
    tally
}

impl<'a> Tally<'a> {
    /// A pod that ended and that the status does not know.
    fn take_in(&mut self, pod: &'a Arc<Pod>, mode: Mode) {
        self.ended.push(pod);
        if pods::phase(pod) != "Succeeded" {
            self.uncounted_failed.push(uid(pod).to_owned());
            return;
        }
        match mode {
            Mode::NonIndexed => self.uncounted_succeeded.push(uid(pod).to_owned()),
            Mode::Indexed(end) => {
                self.completed.extend(tracking::index(pod).filter(|index| *index < end));
            }
        }
    }
}

/// The UIDs whose pods wait still, and the number of the others.
fn split(uids: &[String], tracked: &BTreeSet<&str>) -> (Vec<String>, i32) {
    let left: Vec<String> =
        uids.iter().filter(|uid| tracked.contains(uid.as_str())).cloned().collect();
    let done = number(uids.len() - left.len());
    (left, done)
}

fn uid(pod: &Pod) -> &str {
    pod.metadata.uid.as_deref().unwrap_or_default()
}
