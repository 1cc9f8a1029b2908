//! Whether a container ended because it was to be restarted.

use rekindle_diagnosis::ContainerEnd;
use rekindle_types::reasons::event;
use rekindle_types::{Tick, TickDuration};

use crate::events::SeenEvent;
use crate::evidence::PodEvidence;

/// A status and an event of the same moment may differ by this: one is rounded down.
const SLACK: TickDuration = TickDuration::from_secs(1);

/// The restart in place that ended an attempt, as a sentence names it: by its object, which is kept
/// for some minutes, else by the pod's events.
pub(crate) fn that_ended(
    container: &str,
    end: &ContainerEnd<'_>,
    evidence: &PodEvidence,
    seen: &[SeenEvent],
) -> Option<String> {
    let (started, finished) = (end.started_at?, end.finished_at?);
    // within that second nobody can tell which was first; but what a signal ended, a restart that
    // was at it has sent
    let begun_by = if end.may_answer_stop() { started - SLACK } else { started };
    let mut restarts = evidence.restarts.iter();
    let restart = restarts.find(|restart| restart.has_ended(container, begun_by, finished));
    if let Some(restart) = restart {
        let reason = restart.spec.reason.as_deref().filter(|_| restart.spec.ladder_name.is_some());
        let began = restart.status.as_ref().and_then(|status| status.started_at.as_ref());
        if began.is_some_and(|began| answers(container, end, reason, Tick::from(began))) {
            return None;
        }
        let name = restart.metadata.name.as_deref().unwrap_or_default();
        return Some(format!("PodRestart {name}, rung {}", restart.spec.rung()));
    }
    // that of a restart of one container is about it, any other about the pod
    let mut of_it = seen.iter().rev().filter(|s| s.container.is_none() || s.is_of(container));
    let begun = of_it.find(|seen| {
        seen.reason == event::POD_RESTARTING
            && seen.last <= finished + SLACK
            && begun_by < seen.last
    })?;
    let name = restart_in(&begun.message)?;
    let reason = begun.message.split_once("): ").map(|(_, reason)| reason);
    if answers(container, end, reason, begun.last) {
        return None;
    }
    let over = seen.iter().filter(|seen| seen.reason == event::POD_RESTARTED);
    let mut over = over.filter(|seen| restart_in(&seen.message) == Some(name));
    over.any(|seen| finished <= seen.last + SLACK).then(|| format!("PodRestart {name}"))
}

/// Whether a restart that began at this time was a ladder's answer to this very end, for its reason
/// tells of the container. A ladder needs no second for it, and statuses tell whole seconds: what
/// ended by itself would seem to have been ended by what it brought about.
fn answers(container: &str, end: &ContainerEnd<'_>, reason: Option<&str>, began: Tick) -> bool {
    let tells_of_it =
        reason.is_some_and(|reason| reason.starts_with(&format!("container {container:?} ")));
    tells_of_it && !end.may_answer_stop() && end.finished_at.is_some_and(|at| began < at + SLACK)
}

/// The name in an event about a PodRestart.
fn restart_in(message: &str) -> Option<&str> {
    let (_, rest) = message.split_once("(PodRestart ")?;
    Some(rest.split_once(')')?.0)
}
