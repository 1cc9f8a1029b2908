//! Whether a container ended because its pod was ended, or its node was stopped. What it exits with
//! then is its answer to that, and says nothing of its work.

use k8s_openapi::api::core::v1::{Pod, PodStatus};
use rekindle_diagnosis::{ContainerEnd, PodReason, TerminatedReason};
use rekindle_types::pods::condition;
use rekindle_types::reasons::event;
use rekindle_types::v1alpha1::{RestartLedger, RestartLedgerStatus};
use rekindle_types::{Tick, TickDuration};

use crate::events::SeenEvent;
use crate::evidence::PodEvidence;
use crate::subject::ContainerSubject;
use crate::words::line;

/// A status and an event of the same moment may differ by this: one is rounded down.
const SLACK: TickDuration = TickDuration::from_secs(1);
/// What the end of a pod may take beyond its grace period: SIGKILL, and the end of its sidecars.
const BEYOND_GRACE: TickDuration = TickDuration::from_secs(5);
/// `terminationGracePeriodSeconds` where a pod has none.
const GRACE_SECONDS: i64 = 30;

/// Who ended its pod, and it with that, as a sentence goes on after `was ended`; none when it had
/// ended by itself before.
pub(crate) fn that_ended(
    subject: ContainerSubject<'_>,
    end: &ContainerEnd<'_>,
    evidence: &PodEvidence,
    seen: &[SeenEvent],
) -> Option<String> {
    if end.node_stop.is_some() {
        return Some("when its node was stopped".to_owned());
    }
    let status = evidence.pod.status.as_ref()?;
    let reason = status.reason.as_deref().filter(|reason| !reason.is_empty())?;
    if status.phase.as_deref() != Some("Failed") || subject.is_done() {
        return None;
    }
    if PodReason::parse(reason) != PodReason::LadderExhausted {
        let with_pod = is_end_of_pod(subject, end, &evidence.pod, status, seen);
        return with_pod.then(|| format!("with its pod ({})", line(reason)));
    }
    let ladder = failing(&evidence.pod, evidence.ledger.as_ref());
    let (ladder, was_ended) = match ladder {
        // what it counted had ended before: it looks no more at a pod that it has ended
        Some((ledger, status)) => {
            let mut observed = status.observed.iter().flatten();
            let counted = observed.find(|entry| entry.name == subject.name);
            let counted = counted.map_or(0, |entry| entry.ended_attempts);
            (format!("ladder {:?}", ledger.spec.ladder_name), subject.ends() > counted)
        }
        None => ("its ladder".to_owned(), end.may_answer_stop()),
    };
    was_ended.then(|| format!("by {ladder}, which is exhausted (onExhausted Fail)"))
}

/// Whether it ran until its pod was ended as Failed. Of the sources the first that knows decides;
/// where none does, a container that was to run for ever and exited with 0 was asked to.
fn is_end_of_pod(
    subject: ContainerSubject<'_>,
    end: &ContainerEnd<'_>,
    pod: &Pod,
    status: &PodStatus,
    seen: &[SeenEvent],
) -> bool {
    if end.may_answer_stop() {
        return true;
    }
    if end.reason == TerminatedReason::OomKilled {
        return false;
    }
    let Some(finished) = end.finished_at else { return false };
    let by_events = is_told_to_stop(subject.name, finished, pod, seen);
    let by_times = by_events.or_else(|| ended_after_pod_was_to_end(finished, pod, status));
    by_times.unwrap_or(end.exit_code == 0)
}

/// What the events of stops say: each container that runs when its pod is ended has one.
fn is_told_to_stop(container: &str, finished: Tick, pod: &Pod, seen: &[SeenEvent]) -> Option<bool> {
    let mut stops = seen.iter().filter(|seen| {
        seen.reason == event::KILLING && seen.message.starts_with("Stopping container")
    });
    let last_of_pod = stops.clone().map(|stop| stop.last).max()?;
    let at_that_time = |stop: &SeenEvent| stop.last + end_takes(pod) >= last_of_pod;
    Some(
        stops.any(|stop| {
            stop.is_of(container) && at_that_time(stop) && stop.last <= finished + SLACK
        }),
    )
}

/// What the pod says of when it was ended: its deadline, or when its node had ended it.
fn ended_after_pod_was_to_end(finished: Tick, pod: &Pod, status: &PodStatus) -> Option<bool> {
    let deadline = pod.spec.as_ref().and_then(|spec| spec.active_deadline_seconds);
    let reason = status.reason.as_deref().map(PodReason::parse);
    if let (Some(PodReason::DeadlineExceeded), Some(deadline)) = (reason, deadline) {
        let began = Tick::from(status.start_time.as_ref()?);
        return Some(finished + SLACK >= began + TickDuration::of_field(deadline));
    }
    let disruption = condition(pod, "DisruptionTarget");
    let by_node = disruption.filter(|c| c.reason.as_deref() == Some("TerminationByKubelet"))?;
    let is_over = Tick::from(by_node.last_transition_time.as_ref()?);
    Some(finished + end_takes(pod) >= is_over)
}

/// How long the end of the pod takes at most.
fn end_takes(pod: &Pod) -> TickDuration {
    let grace = pod.spec.as_ref().and_then(|spec| spec.termination_grace_period_seconds);
    TickDuration::of_field(grace.unwrap_or(GRACE_SECONDS)) + BEYOND_GRACE
}

/// The ledger that says that this pod was to fail.
fn failing<'a>(
    pod: &Pod,
    ledger: Option<&'a RestartLedger>,
) -> Option<(&'a RestartLedger, &'a RestartLedgerStatus)> {
    let ledger = ledger?;
    let status = ledger.status.as_ref()?;
    let is_of_pod = pod.metadata.uid.is_some() && status.failing_pod_uid == pod.metadata.uid;
    is_of_pod.then_some((ledger, status))
}
