//! Whether a container ended because it was to be restarted.

use k8s_openapi::api::core::v1::ContainerStateTerminated;
use rekindle_types::reasons::event;
use rekindle_types::{Tick, TickDuration};

use crate::events::Seen;
use crate::evidence::PodEvidence;

/// A status and an event of the same moment may differ by this: one is rounded down.
const SLACK: TickDuration = TickDuration::from_secs(1);

/// The restart in place that ended an attempt, as a sentence names it: by its object, which is kept for some minutes, else by
/// the pod's events.
pub(crate) fn that_ended(
    container: &str,
    end: &ContainerStateTerminated,
    evidence: &PodEvidence,
    seen: &[Seen],
) -> Option<String> {
    let (started, finished) = (end.started_at.as_ref(), end.finished_at.as_ref());
    let (started, finished) = (Tick::from(started?), Tick::from(finished?));
    let mut restarts = evidence.restarts.iter();
    let restart = restarts.find(|restart| restart.has_ended(container, started, finished));
    if let Some(restart) = restart {
        let name = restart.metadata.name.as_deref().unwrap_or_default();
        return Some(format!("PodRestart {name}, rung {}", restart.spec.rung()));
    }
    // that of a restart of one container is about it, any other about the pod
    let mut of_it = seen.iter().rev().filter(|s| s.container.is_none() || s.is_of(container));
    let begun = of_it.find(|seen| {
        seen.reason == event::POD_RESTARTING && seen.last <= finished + SLACK && started < seen.last
    })?;
    let name = restart_in(&begun.message)?;
    let over = seen.iter().filter(|seen| seen.reason == event::POD_RESTARTED);
    let mut over = over.filter(|seen| restart_in(&seen.message) == Some(name));
    over.any(|seen| finished <= seen.last + SLACK).then(|| format!("PodRestart {name}"))
}

/// The name in an event about a PodRestart.
fn restart_in(message: &str) -> Option<&str> {
    let (_, rest) = message.split_once("(PodRestart ")?;
    Some(rest.split_once(')')?.0)
}
