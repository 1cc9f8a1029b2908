//! How a pod fails, so far as two pods can be said to fail in the same way.

use std::cmp::Ordering;

use rekindle_diagnosis::{ContainerEnd, WaitFamily};
use rekindle_types::held::HeldPod;
use rekindle_types::v1alpha1::RestartLedgerStatus;
use rekindle_types::{Tick, TickDuration};

use crate::attempts;
use crate::no_sandbox::NO_SANDBOX_FOR;
use crate::observation::{ContainerRole, ContainerView, ObservedPod, PodCourse};
use crate::stability;

/// How a pod fails: which container, and with what.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FailureSymptom {
    container: String,
    sign: FailureSign,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum FailureSign {
    /// It ended: the reason and the code. The message is left out: it may name the pod or the time.
    Ended { reason: String, exit_code: i32 },
    /// Its node ended it for this; the exit code is how it took that.
    EndedByNode { failed: &'static str },
    /// It does not start: the reason.
    Waits { reason: String },
    /// Its pod has no sandbox.
    NoSandbox,
}

/// How the pod fails now, if it does, and when it did last: the first container that does not
/// start, or that failed inside the window and is not well again. A container that does not start
/// has no time. What the ladder's last restart in place has ended, as far as the pod's ledger
/// tells, did not fail; while all containers are restarted at once, it may not be seen which one
/// did.
///
/// One that fails again and again is well when it has run for twice as long as the last time:
/// replicas that all fail twenty seconds after their starts fail alike, and not one after the other
/// by itself, whichever of them is looked at first.
pub fn symptom_of(
    pod: &HeldPod,
    ledger: Option<&RestartLedgerStatus>,
    now: Tick,
    window: TickDuration,
) -> Option<(FailureSymptom, Option<Tick>)> {
    symptom_in(&ObservedPod::from_pod(pod), ledger, now, window)
}

fn symptom_in(
    view: &ObservedPod<'_>,
    ledger: Option<&RestartLedgerStatus>,
    now: Tick,
    window: TickDuration,
) -> Option<(FailureSymptom, Option<Tick>)> {
    match view.course {
        PodCourse::Over | PodCourse::Finished(_) => return None,
        PodCourse::Open => {}
    }
    if let Some(since) = view.no_sandbox_since.filter(|at| now.since(*at) >= NO_SANDBOX_FOR) {
        let container = view.containers.first().map(|container| container.name.to_owned());
        let symptom = FailureSymptom {
            container: container.unwrap_or_default(),
            sign: FailureSign::NoSandbox,
        };
        return Some((symptom, Some(since)));
    }
    let restarted_at = ledger.and_then(attempts::last_in_place);
    let by_restart = |container: &ContainerView<'_>| {
        let end = container.last_end?;
        let by_rule = view.ended_with_the_others(container, &end).then_some(Certainty::Known);
        by_rule.or_else(|| ended_by_restart(&end, restarted_at?))
    };
    let of = |container: &ContainerView<'_>| {
        let (sign, at) = sign_of(container, now, window)?;
        Some((FailureSymptom { container: container.name.to_owned(), sign }, at))
    };
    let mut in_doubt = None;
    for container in &view.containers {
        let Some(found) = of(container) else { continue };
        let by_restart = match found.0.sign {
            FailureSign::Ended { .. } | FailureSign::EndedByNode { .. } => by_restart(container),
            FailureSign::Waits { .. } | FailureSign::NoSandbox => None,
        };
        match by_restart {
            None => return Some(found),
            Some(Certainty::Possible) => in_doubt = in_doubt.or(Some(found)),
            Some(Certainty::Known) => {}
        }
    }
    in_doubt
}

/// How sure a reading is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Certainty {
    Known,
    Possible,
}

/// Whether this is the end of what ran when the ladder decided on a restart in place. Ends are told
/// in whole seconds: of those in the very second of the decision one is what it was for, and those
/// by SIGTERM or SIGKILL may be the restart's. What started in that second may have been started by
/// it.
fn ended_by_restart(end: &ContainerEnd<'_>, at: Tick) -> Option<Certainty> {
    let second = at.whole_second();
    let finished = end.finished_at.filter(|_| end.started_at.is_some_and(|at| at < second))?;
    match finished.cmp(&second) {
        Ordering::Greater => Some(Certainty::Known),
        Ordering::Equal => end.may_answer_stop().then_some(Certainty::Possible),
        Ordering::Less => None,
    }
}

/// Whether the pod fails again and again, and not for the first time: it ended twice inside the
/// window, or something keeps it from starting. One end is no proof of a sick node: a machine that
/// boots anew, or loses its power, ends everything on it once.
pub fn fails_repeatedly(pod: &HeldPod, now: Tick, window: TickDuration) -> bool {
    let view = ObservedPod::from_pod(pod);
    let Some((symptom, _)) = symptom_in(&view, None, now, window) else { return false };
    match symptom.sign {
        FailureSign::Waits { .. } | FailureSign::NoSandbox => true,
        FailureSign::Ended { .. } | FailureSign::EndedByNode { .. } => {
            let mut of_it = view.containers.iter().filter(|c| c.name == symptom.container);
            of_it.any(|container| last_of_several(container, now, window).is_some())
        }
    }
}

/// When a container of a pod failed last that had not failed before, or had run for as long as the
/// window: what ends again and again says nothing about its node.
pub fn ended_unforeseen(pod: &HeldPod, window: TickDuration) -> Option<Tick> {
    let view = ObservedPod::from_pod(pod);
    let ends = view.containers.iter().filter_map(|container| {
        let end = container.last_end.filter(|end| container.has_failed(end))?;
        let ran_well = end.ran().is_some_and(|ran| ran >= window);
        end.finished_at.filter(|_| ran_well || container.ended <= 1)
    });
    ends.max()
}

/// How long the last attempt ran, when it was not the first that ended inside the window.
fn last_of_several(
    container: &ContainerView<'_>,
    now: Tick,
    window: TickDuration,
) -> Option<TickDuration> {
    let end = container.last_end?;
    // what had ended before it was the attempt before this one
    end.started_at.filter(|at| container.ended > 1 && now.since(*at) < window)?;
    Some(end.ran().unwrap_or(TickDuration::ZERO))
}

fn sign_of(
    container: &ContainerView<'_>,
    now: Tick,
    window: TickDuration,
) -> Option<(FailureSign, Option<Tick>)> {
    if let Some(reason) = waits_in_vain(container) {
        return Some((FailureSign::Waits { reason: reason.to_owned() }, None));
    }
    let is_well = match (container.live, container.role) {
        (Some(live), _) => {
            let since = live.started_at.map_or(TickDuration::ZERO, |at| now.since(at));
            container.ready
                && since >= stability::outlives_after(last_of_several(container, now, window))
        }
        (None, ContainerRole::Init) => container.is_done(),
        (None, ContainerRole::Sidecar | ContainerRole::Regular) => container.is_done(),
    };
    let end = container.last_end.filter(|_| !is_well)?;
    let is_recent = end.finished_at.is_some_and(|at| now.since(at) < window);
    let sign = match end.ended_by_node {
        Some(by_node) => FailureSign::EndedByNode { failed: by_node.what() },
        None => {
            FailureSign::Ended { reason: end.reason.as_str().to_owned(), exit_code: end.exit_code }
        }
    };
    (is_recent && container.has_failed(&end)).then_some((sign, end.finished_at))
}

/// For what it waits, when that is known to keep it from starting. A pull that failed and one that
/// waits to be tried again are the same.
fn waits_in_vain<'a>(container: &ContainerView<'a>) -> Option<&'a str> {
    let waiting = container.waiting?;
    match waiting.reason.family() {
        WaitFamily::OnItsWay | WaitFamily::AfterFailure | WaitFamily::Unknown => None,
        WaitFamily::Image => Some("NoImage"),
        WaitFamily::Configuration
        | WaitFamily::Creation
        | WaitFamily::Run
        | WaitFamily::Sandbox
        | WaitFamily::Predecessor => Some(waiting.reason.as_str()),
    }
}
