//! A container that runs and of which a probe could not be run lately: nothing is known of it that
//! is new.
//!
//! A probe that cannot be run says neither yes nor no (`pkg/kubelet/prober`): no restart and no
//! change of readiness follows from it.

use rekindle_diagnosis::Cause;
use rekindle_types::reasons::event;
use rekindle_types::{Tick, TickDuration};

use crate::account::ContainerAccount;
use crate::container::ContainerFinding;
use crate::events::SeenEvent;
use crate::subject::ContainerSubject;
use crate::words::{show_span, times};

/// What such an event says after the probe's name, in the kubelet's words.
const ERRORED: &str = " probe errored and resulted in unknown state: ";
/// So often in one run of the container, and it is no accident.
const TIMES_MIN: u32 = 3;
/// An object that speaks too often is heard every five minutes (client-go): so long after its last
/// word it may still be so.
const HEARD_WITHIN: TickDuration = TickDuration::from_secs(6 * 60);

/// A probe of it that cannot be run.
pub(crate) fn probe_error(
    subject: ContainerSubject<'_>,
    events: &[SeenEvent],
    now: Tick,
) -> Option<ContainerFinding> {
    let running = subject.status.state.as_ref()?.running.as_ref()?;
    let started = running.started_at.as_ref().map_or(Tick::ZERO, Tick::from);
    let seen = events.iter().rev().find(|seen| {
        let is_lately = seen.last >= started && now.since(seen.last) <= HEARD_WITHIN;
        is_lately && seen.count >= TIMES_MIN && seen.is_of(subject.name) && probe_of(seen).is_some()
    })?;
    let probe = probe_of(seen)?;
    let span = show_span(seen.last.since(seen.first));
    Some(ContainerFinding {
        account: ContainerAccount {
            name: subject.name.to_owned(),
            cause: Cause::ProbeErrored,
            what: format!("runs, and its {probe} probe could not be run {} in {span}", times(seen.count)),
            ends: subject.ends(),
            exit_code: None,
            signal: None,
            reason: None,
            last_end: None,
            memory: None,
            evidence: vec![seen.message.clone()],
            last_lines: Vec::new(),
        },
        advice: Some(
            "mend what keeps the probe from being run; until then neither a restart nor a change of readiness follows from it"
                .to_owned(),
        ),
        last_end: None,
        is_past: false,
    })
}

/// `liveness`, `readiness` or `startup`, when the event says that it could not be run.
fn probe_of(seen: &SeenEvent) -> Option<String> {
    if seen.reason != event::UNHEALTHY {
        return None;
    }
    let (probe, _) = seen.message.split_once(ERRORED)?;
    matches!(probe, "Liveness" | "Readiness" | "Startup").then(|| probe.to_lowercase())
}
