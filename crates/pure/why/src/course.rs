//! What happened to a pod in order, and to the pods of a workload together.

use k8s_openapi::api::core::v1::Pod;
use rekindle_diagnosis::CauseFamily;
use rekindle_types::Tick;
use rekindle_types::pods::condition;
use rekindle_types::reasons::event;

use crate::account::{HistoryEntry, HistorySource};
use crate::climb::{self, RestartNaming};
use crate::container::{ContainerFinding, findings};
use crate::events::{self, SeenEvent};
use crate::evidence::PodEvidence;
use crate::history::{AccountHistory, OccurrenceTimes};
use crate::subject::{ContainerSubject, subjects};

/// The course of one pod.
pub(crate) fn pod_course(
    evidence: &PodEvidence,
    findings: &[(ContainerSubject<'_>, ContainerFinding)],
    seen: &[SeenEvent],
    now: Tick,
) -> Vec<HistoryEntry> {
    let pod = &evidence.pod;
    let mut history = AccountHistory::default();
    let scheduled = condition(pod, "PodScheduled").filter(|c| c.status == "True");
    if let Some(at) = scheduled.and_then(|c| c.last_transition_time.as_ref()) {
        let node = pod.spec.as_ref().and_then(|spec| spec.node_name.as_deref()).unwrap_or("a node");
        history.add(
            HistorySource::Status,
            OccurrenceTimes::once(Tick::from(at)),
            &format!("placed on {node}"),
        );
    }
    tell_ends(pod, findings, now, &mut history);
    history.add_events(seen.iter().filter(|seen| !is_the_end_itself(seen, findings)));
    climb::tell(evidence.ledger.as_ref(), &evidence.restarts, RestartNaming::ByName, &mut history);
    history.finish()
}

/// The course of many pods: how their containers ended, what their ladders decided, alike ones of
/// all pods in one entry.
pub(crate) fn tell_together(evidence: &PodEvidence, now: Tick, history: &mut AccountHistory) {
    let seen = events::read(&evidence.events);
    let findings = findings(&subjects(&evidence.pod), evidence, &seen, now);
    tell_ends(&evidence.pod, &findings, now, history);
    history.add_events(seen.iter().filter(|seen| !is_the_end_itself(seen, &findings)));
    climb::tell(evidence.ledger.as_ref(), &evidence.restarts, RestartNaming::Together, history);
}

fn tell_ends(
    pod: &Pod,
    findings: &[(ContainerSubject<'_>, ContainerFinding)],
    now: Tick,
    history: &mut AccountHistory,
) {
    for (subject, finding) in findings.iter().filter(|(subject, _)| subject.told_end().is_some()) {
        let when = ends(*subject, pod, now);
        let text = match (&finding.last_end, when.count) {
            (Some(end), 0 | 1) => format!("container {:?} {end}", subject.name),
            // of the ends before, only the number is known
            (Some(end), _) => format!("container {:?} ended; last it {end}", subject.name),
            (None, _) => format!("container {:?} ended", subject.name),
        };
        history.add(HistorySource::Status, when, &text);
    }
}

/// It announces the kill that the container's end tells of already, with its reason and its count.
fn is_the_end_itself(
    seen: &SeenEvent,
    findings: &[(ContainerSubject<'_>, ContainerFinding)],
) -> bool {
    let is_killed_by_probe =
        |finding: &ContainerFinding| finding.account.cause.family() == CauseFamily::KilledByNode;
    seen.reason == event::KILLING
        && findings
            .iter()
            .any(|(subject, finding)| seen.is_of(subject.name) && is_killed_by_probe(finding))
}

/// The ends of all containers of a pod that have something to tell.
pub(crate) fn ends_of(evidence: &PodEvidence, now: Tick) -> OccurrenceTimes {
    let seen = events::read(&evidence.events);
    let findings = findings(&subjects(&evidence.pod), evidence, &seen, now);
    let ends = findings.iter().map(|(subject, _)| ends(*subject, &evidence.pod, now));
    let none = OccurrenceTimes { first: now, last: Tick::ZERO, count: 0 };
    ends.filter(|ends| ends.count > 0).fold(none, |all, one| OccurrenceTimes {
        first: all.first.min(one.first),
        last: all.last.max(one.last),
        count: all.count.saturating_add(one.count),
    })
}

/// The ends of a container: the last is known, the first was after the pod's start.
pub(crate) fn ends(subject: ContainerSubject<'_>, pod: &Pod, now: Tick) -> OccurrenceTimes {
    let end = subject.told_end();
    let last = end.and_then(|end| end.finished_at.as_ref()).map_or(now, Tick::from);
    let count = subject.ends();
    let started = pod.status.as_ref().and_then(|status| status.start_time.as_ref());
    let first = match (count, started) {
        (0 | 1, _) | (_, None) => last,
        (_, Some(started)) => Tick::from(started).min(last),
    };
    OccurrenceTimes { first, last, count }
}
