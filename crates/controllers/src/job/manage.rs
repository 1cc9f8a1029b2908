//! As many pods as the Job wants now.

use std::collections::BTreeSet;
use std::sync::Arc;

use k8s_openapi::api::batch::v1::{Job, JobSpec};
use k8s_openapi::api::core::v1::Pod;
use rekindle_types::Tick;

use super::tally::Tally;
use super::{COMPONENT, Mode, backoff, creation, mode, number, tracking};
use crate::events::{Note, Severity};
use crate::plan::{Propagation, Report, Step, Write};
use crate::{Object, Plan, View, pods};

/// Pods created at most in one go, as upstream.
const BURST: usize = 500;

/// Creates what is missing, gives up what is too many.
pub(super) fn manage(
    view: &View,
    job: &Arc<Job>,
    spec: &JobSpec,
    own: &[&Arc<Pod>],
    tally: &Tally<'_>,
    now: Tick,
    plan: &mut Plan,
) {
    let wanted = wanted(spec, tally);
    let (kept, doomed) = choose(mode(spec), tally, wanted);
    let strays = kept.iter().filter(|pod| !tracking::is_tracked(&pod.metadata));
    // One that was being given up when the controller stopped, and is wanted after all.
    plan.then_all(strays.map(|pod| tracking::track(pod)).collect());
    if !doomed.is_empty() {
        give_up(job, &doomed, plan);
        return;
    }
    let missing = wanted.saturating_sub(kept.len()).min(BURST);
    if missing == 0 {
        return;
    }
    match backoff::next_creation(own) {
        Some(at) if now < at => plan.look_again(at),
        Some(_) | None => {
            let indexes = match mode(spec) {
                Mode::NonIndexed => None,
                Mode::Indexed(end) => Some(free_indexes(end, &kept, &tally.completed)),
            };
            creation::create(view, job, missing, indexes, now, plan);
        }
    }
}

/// How many pods should run now.
fn wanted(spec: &JobSpec, tally: &Tally<'_>) -> usize {
    let parallelism = spec.parallelism.unwrap_or(1);
    let wanted = match spec.completions {
        // A work queue: the first success says that the work is done, and no more pods are begun.
        None if tally.succeeded() > 0 => number(tally.active.len()).min(parallelism),
        None => parallelism,
        Some(completions) => completions.saturating_sub(tally.succeeded()).min(parallelism),
    };
    usize::try_from(wanted).unwrap_or(0)
}

/// The active pods that stay, and those that go: of each index the first stays, and of all as many as are wanted.
fn choose<'a>(
    mode: Mode,
    tally: &Tally<'a>,
    wanted: usize,
) -> (Vec<&'a Arc<Pod>>, Vec<&'a Arc<Pod>>) {
    let mut ranked = tally.active.clone();
    ranked.sort_by_cached_key(|pod| worth(pod));
    let mut taken: BTreeSet<u32> = BTreeSet::new();
    let (mut kept, mut doomed) = (Vec::new(), Vec::new());
    for pod in ranked {
        let has_place = match mode {
            Mode::NonIndexed => true,
            Mode::Indexed(end) => tracking::index(pod).is_some_and(|index| {
                index < end && !tally.completed.contains(&index) && taken.insert(index)
            }),
        };
        if has_place && kept.len() < wanted {
            kept.push(pod);
        } else {
            doomed.push(pod);
        }
    }
    (kept, doomed)
}

/// The smaller, the longer it is kept: tracked, ready, running, bound, low of index, old.
fn worth(pod: &Pod) -> (bool, bool, bool, bool, Option<u32>, Option<Tick>, String) {
    (
        !tracking::is_tracked(&pod.metadata),
        !pods::is_ready(pod),
        pods::phase(pod) != "Running",
        pods::node(pod).is_none(),
        tracking::index(pod),
        pod.metadata.creation_timestamp.as_ref().map(Tick::from),
        pod.metadata.uid.clone().unwrap_or_default(),
    )
}

/// The indexes that have neither succeeded nor a pod, in order.
fn free_indexes(end: u32, kept: &[&Arc<Pod>], completed: &BTreeSet<u32>) -> Vec<u32> {
    let running: BTreeSet<u32> = kept.iter().filter_map(|pod| tracking::index(pod)).collect();
    (0..end)
        .filter(|index| !running.contains(index) && !completed.contains(index))
        .take(BURST)
        .collect()
}

/// Deletes pods that are wanted no more; they are no failures, so that they are let go first.
pub(super) fn give_up(job: &Arc<Job>, doomed: &[&Arc<Pod>], plan: &mut Plan) {
    let tracked = doomed.iter().filter(|pod| tracking::is_tracked(&pod.metadata));
    plan.then_all(tracked.map(|pod| tracking::release(pod)).collect());
    end(job, doomed, plan);
}

/// Deletes pods; those that are tracked count as failed.
pub(super) fn end(job: &Arc<Job>, doomed: &[&Arc<Pod>], plan: &mut Plan) {
    plan.then_all(doomed.iter().map(|pod| deletion(job, pod)).collect());
}

fn deletion(job: &Arc<Job>, pod: &Arc<Pod>) -> Step {
    let about = Object::Job(job.clone());
    let name = pod.metadata.name.as_deref().unwrap_or_default();
    let message = format!("Deleted pod: {name}");
    let success = Note::new(&about, Severity::Normal, "SuccessfulDelete", message, COMPONENT);
    let failure =
        Note::new(&about, Severity::Warning, "FailedDelete", "Error deleting: ", COMPONENT);
    let write = Write::delete(&Object::Pod(pod.clone()), Propagation::Default);
    Step { write, report: Some(Report { success, failure }) }
}
