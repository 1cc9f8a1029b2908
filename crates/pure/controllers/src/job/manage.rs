//! As many pods as the Job wants now.

use std::collections::BTreeSet;
use std::sync::Arc;

use k8s_openapi::api::batch::v1::{Job, JobSpec};
use rekindle_types::held::HeldPod;
use rekindle_types::{EventSeverity, Tick};

use super::failure::FailureRule;
use super::indexes::IndexSet;
use super::tally::JobTally;
use super::{COMPONENT, CompletionMode, backoff, creation, mode, number, tracking};
use crate::events::EventNote;
use crate::plan::{DependentPolicy, PlannedWrite, WriteNotes, WriteOperation};
use crate::{ClusterView, ViewObject, WritePlan, pods};

/// Pods created at most in one go, as upstream.
const BURST: usize = 500;

/// Creates what is missing, gives up what is too many.
pub(super) fn manage(
    view: &ClusterView,
    job: &Arc<Job>,
    spec: &JobSpec,
    own: &[&Arc<HeldPod>],
    tally: &JobTally<'_>,
    now: Tick,
    plan: &mut WritePlan,
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
    // Under podReplacementPolicy Failed a pod that is being deleted keeps its place until it has
    // ended.
    let leaving: &[&Arc<HeldPod>] = match FailureRule::from_spec(spec) {
        FailureRule::FailedOnly => &tally.terminating,
        FailureRule::FailedOrTerminating => &[],
    };
    let missing = wanted.saturating_sub(kept.len() + leaving.len()).min(BURST);
    if missing == 0 {
        return;
    }
    let places = match mode(spec) {
        CompletionMode::NonIndexed => vec![None; missing],
        CompletionMode::Indexed(end) => {
            let taken = kept.iter().chain(leaving).filter_map(|pod| tracking::index(pod));
            let taken = not_free(taken.collect(), tally);
            taken.missing(end).take(missing).map(Some).collect()
        }
    };
    let due = due_places(places, own, tally, now, plan);
    creation::create(view, job, spec, &due, tally.per_index.as_ref(), now, plan);
}

/// Those of the places that have waited long enough since the last failure; asks to be looked at
/// again for the others.
fn due_places(
    places: Vec<Option<u32>>,
    own: &[&Arc<HeldPod>],
    tally: &JobTally<'_>,
    now: Tick,
    plan: &mut WritePlan,
) -> Vec<Option<u32>> {
    let Some(per_index) = &tally.per_index else {
        return match backoff::next_creation(own) {
            Some(at) if now < at => {
                plan.look_again(at);
                Vec::new()
            }
            Some(_) | None => places,
        };
    };
    let due_at = |place: &Option<u32>| per_index.next_creation((*place)?).filter(|at| now < *at);
    if let Some(at) = places.iter().filter_map(due_at).min() {
        plan.look_again(at);
    }
    places.into_iter().filter(|place| due_at(place).is_none()).collect()
}

/// How many pods should run now.
fn wanted(spec: &JobSpec, tally: &JobTally<'_>) -> usize {
    let wanted = most_at_work(spec, tally.succeeded(), number(tally.active.len()));
    usize::try_from(wanted).unwrap_or(0)
}

/// The same of a Job of whose pods so many have succeeded and so many are active.
pub(super) fn most_at_work(spec: &JobSpec, succeeded: i32, active: i32) -> i32 {
    let parallelism = spec.parallelism.unwrap_or(1);
    match spec.completions {
        // A work queue: the first success says that the work is done, and no more pods are begun.
        None if succeeded > 0 => active.min(parallelism),
        None => parallelism,
        Some(completions) => completions.saturating_sub(succeeded).min(parallelism),
    }
}

/// The active pods that stay, and those that go: of each index the first stays, and of all as many
/// as are wanted.
fn choose<'a>(
    mode: CompletionMode,
    tally: &JobTally<'a>,
    wanted: usize,
) -> (Vec<&'a Arc<HeldPod>>, Vec<&'a Arc<HeldPod>>) {
    if tally.active.len() <= wanted && all_have_places(mode, tally) {
        return (tally.active.clone(), Vec::new()); // as nearly always: nobody has to be ranked
    }
    let mut ranked = tally.active.clone();
    ranked.sort_by_cached_key(|&pod| worth(pod));
    let mut taken: BTreeSet<u32> = BTreeSet::new();
    let (mut kept, mut doomed) = (Vec::new(), Vec::new());
    for pod in ranked {
        let has_place = match mode {
            CompletionMode::NonIndexed => true,
            CompletionMode::Indexed(end) => tracking::index(pod).is_some_and(|index| {
                index < end && !tally.completed.contains(index) && taken.insert(index)
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

/// True when each active pod has an index of its own that is still to be done.
fn all_have_places(mode: CompletionMode, tally: &JobTally<'_>) -> bool {
    let CompletionMode::Indexed(end) = mode else { return true };
    let is_open = |index: &u32| *index < end && !tally.completed.contains(*index);
    let places = tally.active.iter().filter_map(|pod| tracking::index(pod).filter(is_open));
    let mut places: Vec<u32> = places.collect();
    places.sort_unstable();
    places.dedup();
    places.len() == tally.active.len()
}

/// The smaller, the longer it is kept: tracked, ready, running, bound, low of index, old.
fn worth(pod: &HeldPod) -> (bool, bool, bool, bool, Option<u32>, Option<Tick>, &str) {
    (
        !tracking::is_tracked(&pod.metadata),
        !pods::is_ready(pod),
        pods::phase(pod) != "Running",
        pods::node(pod).is_none(),
        tracking::index(pod),
        pod.metadata.creation_timestamp.as_ref().map(Tick::from),
        pod.metadata.uid.as_deref().unwrap_or_default(),
    )
}

/// The indexes that have a pod, succeeded or failed.
fn not_free(mut taken: IndexSet, tally: &JobTally<'_>) -> IndexSet {
    taken.insert_all(&tally.completed);
    if let Some(per_index) = &tally.per_index {
        taken.insert_all(&per_index.failed);
    }
    taken
}

/// Deletes pods that are wanted no more; they are no failures, so that they are let go first.
pub(super) fn give_up(job: &Arc<Job>, doomed: &[&Arc<HeldPod>], plan: &mut WritePlan) {
    let tracked = doomed.iter().filter(|pod| tracking::is_tracked(&pod.metadata));
    plan.then_all(tracked.map(|pod| tracking::release(pod)).collect());
    end(job, doomed, plan);
}

/// Deletes pods; those that are tracked count as failed.
pub(super) fn end(job: &Arc<Job>, doomed: &[&Arc<HeldPod>], plan: &mut WritePlan) {
    plan.then_all(doomed.iter().map(|pod| deletion(job, pod)).collect());
}

fn deletion(job: &Arc<Job>, pod: &Arc<HeldPod>) -> PlannedWrite {
    let about = ViewObject::Job(job.clone());
    let name = pod.metadata.name.as_deref().unwrap_or_default();
    let message = format!("Deleted pod: {name}");
    let success =
        EventNote::new(&about, EventSeverity::Normal, "SuccessfulDelete", message, COMPONENT);
    let failure = EventNote::new(
        &about,
        EventSeverity::Warning,
        "FailedDelete",
        "Error deleting: ",
        COMPONENT,
    );
    let write = WriteOperation::delete(&ViewObject::Pod(pod.clone()), DependentPolicy::Default);
    PlannedWrite { write, report: Some(WriteNotes::new(success, failure)) }
}
