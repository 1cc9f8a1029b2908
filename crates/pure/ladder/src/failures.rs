//! Which attempts have failed since the ledger was written: each counted once.

use rekindle_diagnosis::{
    ContainerEnd, Diagnosis, EndContext, MemoryLimit, diagnose_end, diagnose_unseen_ends,
};
use rekindle_types::v1alpha1::ObservedContainer;
use rekindle_types::{Tick, TickDuration};

use crate::observation::{ContainerRole, ContainerView, LiveAttempt, ObservedMember, ObservedPod};
use crate::requests::PodRestartRequests;

/// What failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum FailedPart<'a> {
    /// The container of this name.
    Container(&'a str),
    /// What all containers need.
    Pod,
}

/// The failures of one container, or of the pod as a whole.
#[derive(Clone, Debug)]
pub(crate) struct CountedFailure<'a> {
    pub(crate) part: FailedPart<'a>,
    /// Which of the pods it is of.
    pub(crate) member: usize,
    /// How many attempts failed; at least 1.
    pub(crate) count: u32,
    /// What the last of them says.
    pub(crate) diagnosis: Diagnosis,
    /// How long that attempt ran, if that is known.
    pub(crate) ran: Option<TickDuration>,
    /// The PodRestart in place that goes on and was begun after it: no other answer is needed.
    pub(crate) answered_by: Option<&'a str>,
}

impl CountedFailure<'_> {
    /// `container "app" exited with 1`.
    pub(crate) fn in_words(&self) -> String {
        let what = &self.diagnosis.what;
        match self.part {
            FailedPart::Container(name) => format!("container {name:?} {what}"),
            FailedPart::Pod => format!("the pod {what}"),
        }
    }
}

/// Where counting begins.
#[derive(Clone, Copy, Debug)]
pub(crate) enum CountingFrom<'a> {
    /// From what was observed of this very pod.
    Observed(&'a [ObservedContainer]),
    /// This pod is seen for the first time: what surely happened inside the window counts.
    FirstSight { now: Tick, window: TickDuration },
}

/// All failures that were not counted yet. `since` says where counting begins for each pod.
pub(crate) fn count<'a, 's>(
    view: &ObservedPod<'a>,
    since: impl Fn(&ObservedMember<'a>) -> CountingFrom<'s>,
    requests: &PodRestartRequests<'a>,
) -> Vec<CountedFailure<'a>> {
    let all = view.containers.iter().filter_map(|container| {
        failure_of_container(container, view, since(view.pod_of(container)), requests)
    });
    all.collect()
}

fn failure_of_container<'a>(
    container: &ContainerView<'a>,
    view: &ObservedPod<'a>,
    since: CountingFrom<'_>,
    requests: &PodRestartRequests<'a>,
) -> Option<CountedFailure<'a>> {
    let observed = match since {
        CountingFrom::Observed(list) => list.iter().find(|entry| entry.name == container.own_name),
        CountingFrom::FirstSight { .. } => None,
    };
    let counted = match (since, observed) {
        (_, Some(entry)) => entry.ended_attempts,
        (CountingFrom::Observed(_), None) => 0,
        (CountingFrom::FirstSight { now, window }, None) => {
            before_window(container, view, now, window)
        }
    };
    let new = container.ended.checked_sub(counted).filter(|new| *new > 0)?;
    let newest = container.ended - 1;
    let excused = observed
        .and_then(|entry| entry.excused_attempt)
        .filter(|attempt| (counted..=newest).contains(attempt));
    let (pod, newest_end) = (view.pod_of(container), container.last_end.as_ref());
    let newest_is_excused = excused == Some(newest)
        || requests.account_for(pod, container.own_name, newest_end)
        || newest_end.is_some_and(|end| view.ended_with_the_others(container, end));
    let newest_failed =
        !newest_is_excused && newest_end.is_none_or(|end| container.has_failed(end));
    let excused_earlier = u32::from(excused.is_some_and(|attempt| attempt < newest));
    let earlier = (new - 1).saturating_sub(excused_earlier);
    let earlier_failed = match container.role {
        // Started again by a restart of the pod only.
        ContainerRole::Init | ContainerRole::Sidecar | ContainerRole::Regular
            if container.stays_ended() =>
        {
            0
        }
        // It may have been run again after a success; taken to have ended as the last one did.
        ContainerRole::Init if !newest_failed => 0,
        // The node starts it again only when it failed.
        ContainerRole::Init | ContainerRole::Sidecar | ContainerRole::Regular => earlier,
    };
    let count = earlier_failed + u32::from(newest_failed);
    if count == 0 {
        return None;
    }
    let (diagnosis, ran) = match newest_end {
        Some(end) if newest_failed => (diagnose_end(end, context(container, end, view)), end.ran()),
        Some(_) | None => (diagnose_unseen_ends(), None),
    };
    let (part, member) = (FailedPart::Container(container.name), container.member);
    let answered_by = newest_end.and_then(|end| requests.begun_after(pod, container.own_name, end));
    Some(CountedFailure { part, member, count, diagnosis, ran, answered_by })
}

/// How many ends of a container may have been before the window, when its pod is seen for the first
/// time. Of an old pod the status proves two ends at most: the last one, and the one before if the
/// last attempt began inside the window.
fn before_window(
    container: &ContainerView<'_>,
    view: &ObservedPod<'_>,
    now: Tick,
    window: TickDuration,
) -> u32 {
    let inside = |at: Option<Tick>| at.is_some_and(|at| now.since(at) < window);
    if inside(view.pod_of(container).since) {
        return 0;
    }
    let Some(end) = container.last_end else { return container.ended };
    let proven = match (inside(end.finished_at), inside(end.started_at)) {
        (false, _) => 0,
        (true, false) => 1,
        (true, true) => 2,
    };
    container.ended.saturating_sub(proven)
}

/// What is known of an end beside itself.
fn context(
    container: &ContainerView<'_>,
    end: &ContainerEnd<'_>,
    view: &ObservedPod<'_>,
) -> EndContext<'static> {
    EndContext {
        started_by: container.started_by(end),
        sandbox: view.pod_of(container).sandbox,
        memory_limit: MemoryLimit::NotKnown,
        failure_threshold: None,
    }
}

/// The ledger's entries for all containers of a pod. `excuse` says of which containers the running
/// attempt is about to be ended by a restart.
pub(crate) fn observe<'c, 'a: 'c>(
    containers: impl Iterator<Item = &'c ContainerView<'a>>,
    before: &[ObservedContainer],
    excuse: ExpectedEnds<'_>,
) -> Vec<ObservedContainer> {
    let entry = |container: &ContainerView<'_>| {
        let old = before.iter().find(|entry| entry.name == container.own_name);
        let ended_attempts = container.ended.max(old.map_or(0, |old| old.ended_attempts));
        let running = container.live.map(|live| live.attempt);
        let kept = old.and_then(|old| old.excused_attempt).filter(|at| *at >= ended_attempts);
        let excused_attempt = match excuse {
            ExpectedEnds::RunningOf(name, _) if name != container.own_name => kept,
            ExpectedEnds::Running(started) | ExpectedEnds::RunningOf(_, started) => {
                running.filter(|_| started.includes(container.live)).or(kept)
            }
            ExpectedEnds::Nothing => kept,
            ExpectedEnds::Withdrawn => kept.filter(|attempt| running != Some(*attempt)),
        };
        ObservedContainer { name: container.own_name.to_owned(), ended_attempts, excused_attempt }
    };
    containers.map(entry).collect()
}

/// Which running attempts a restart is about to end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ExpectedEnds<'a> {
    /// All that run now and started then.
    Running(StartedWhen),
    /// That of this container alone, if it started then.
    RunningOf(&'a str, StartedWhen),
    /// No further ones.
    Nothing,
    /// None of those that still run: the restart was refused.
    Withdrawn,
}

/// Which starts are meant.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum StartedWhen {
    /// All.
    AnyTime,
    /// Those in an earlier second.
    Before(Tick),
}

impl StartedWhen {
    fn includes(self, live: Option<LiveAttempt>) -> bool {
        match (self, live.and_then(|live| live.started_at)) {
            (StartedWhen::AnyTime, _) => true,
            (StartedWhen::Before(at), Some(started)) => started < at,
            (StartedWhen::Before(_), None) => false,
        }
    }
}
