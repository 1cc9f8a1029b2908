//! What came of a rung in place that was tried on one pod of a revision whose pods fail in the same
//! way. The others wait for it: when it helps, it is done for them too; when it does not, it is not
//! done for any of them.
//!
//! ```text
//!   attempt ──► on trial ── has recovered ──► helped
//!                  │  └──── failed again ───► in vain, until the ledger is cleared
//!                  └─────── neither within ten minutes ──► nothing is known
//! ```

use rekindle_types::held::HeldPod;
use rekindle_types::v1alpha1::{
    PodRestart, RequestEffect, RestartLedgerStatus, RestartOutcome, Rung,
};
use rekindle_types::{Tick, TickDuration};

use crate::attempts::last_untried;
use crate::budget::GIVEN_UP_AFTER;
use crate::draft::RECOVERED;
use crate::observation::ObservedPod;
use crate::stability;
use crate::symptom::symptom_of;

/// A pod that a rung is tried on for all of its revision.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Trial {
    /// The pod.
    pub pod: String,
    /// The rung.
    pub rung: Rung,
    /// Nobody waits longer for what comes of it.
    pub over_at: Tick,
}

/// What a pod's ledger and status say of the rungs above Container.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum TrialState {
    /// None was tried, or nothing is known of what came of it.
    Nothing,
    /// One is being tried in place.
    Now(Trial),
    /// The pod runs, and is well, since this one.
    Helped(Rung),
    /// It failed again after this one.
    InVain(Rung),
}

/// How far the last restart above Container came.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum TrialProgress {
    /// It is decided or asked for, and nothing has been done to the pod so far.
    Unbegun,
    /// It was carried out, or is. So is taken what nothing is known of any more.
    Begun,
    /// It was over before anything was done to the pod.
    Untried,
}

/// Reads it from a pod, its ledger, and the restart that this asked for last, if it is there. What
/// was refused, was given up or waits has shown nothing, whatever the pod does meanwhile.
pub fn tried(
    pod: &HeldPod,
    ledger: &RestartLedgerStatus,
    request: Option<&PodRestart>,
    now: Tick,
    window: TickDuration,
) -> TrialState {
    let before = ledger.in_vain.map_or(TrialState::Nothing, TrialState::InVain);
    let Some((rung, at)) = latest_above_container(ledger, now, window) else { return before };
    let over_at = at + GIVEN_UP_AFTER;
    let is_shown = ledger.in_vain.is_some_and(|in_vain| in_vain >= rung);
    let in_place = match rung {
        Rung::Containers | Rung::Pod if over_at > now => {
            let pod = pod.metadata.name.clone().unwrap_or_default();
            TrialState::Now(Trial { pod, rung, over_at })
        }
        Rung::Container
        | Rung::Containers
        | Rung::Pod
        | Rung::Recreate
        | Rung::Reschedule
        | Rung::Rollback => TrialState::Nothing,
    };
    match progress(ledger, rung, request) {
        TrialProgress::Untried => return before,
        TrialProgress::Unbegun if is_shown || in_place == TrialState::Nothing => return before,
        TrialProgress::Unbegun => return in_place,
        TrialProgress::Begun => {}
    }
    let symptom = symptom_of(pod, Some(ledger), now, window);
    // Failures are told in whole seconds: one in the very second of the attempt may have been what
    // it was for.
    let failed_again = symptom.as_ref().is_some_and(|(_, failed)| failed.is_some_and(|f| at < f));
    if failed_again || is_shown {
        return TrialState::InVain(ledger.in_vain.map_or(rung, |in_vain| in_vain.max(rung)));
    }
    if symptom.is_none()
        && stability::has_outlived(&ObservedPod::from_pod(pod), ledger, window, now)
    {
        return TrialState::Helped(rung);
    }
    in_place
}

/// Of the restart that the ledger asked for last, if that was of this rung.
fn progress(
    ledger: &RestartLedgerStatus,
    rung: Rung,
    request: Option<&PodRestart>,
) -> TrialProgress {
    let of = |outcome: &RestartOutcome| match outcome.effect() {
        RequestEffect::Done => TrialProgress::Begun,
        RequestEffect::Nothing(_) | RequestEffect::TakenBack => TrialProgress::Untried,
    };
    let asked = ledger.asked().next_back().filter(|asked| asked.rung == Some(rung));
    let Some(asked) = asked else { return TrialProgress::Begun };
    if let Some(outcome) = &asked.outcome {
        return of(outcome);
    }
    if ledger.pending_restart.is_some() && ledger.pending_restart == asked.pod_restart {
        return TrialProgress::Unbegun;
    }
    let Some(request) = request else { return TrialProgress::Begun };
    let is_begun = request.status.as_ref().is_some_and(|status| status.started_at.is_some());
    match RestartOutcome::from_restart(request) {
        Some(outcome) => of(&outcome),
        None if is_begun => TrialProgress::Begun,
        None => TrialProgress::Unbegun,
    }
}

/// Whether what a ledger says now may tell what came of a trial: the rung was in vain, nothing was
/// done, or the pod has recovered.
pub fn is_news_of_trial(
    before: Option<&RestartLedgerStatus>,
    after: Option<&RestartLedgerStatus>,
) -> bool {
    let outcome = |ledger: &RestartLedgerStatus| {
        (ledger.in_vain, last_untried(ledger), has_recovered(ledger))
    };
    before.map(outcome).unwrap_or_default() != after.map(outcome).unwrap_or_default()
}

/// Whether everything has been running again since the ladder acted or waited.
pub fn has_recovered(ledger: &RestartLedgerStatus) -> bool {
    let mut conditions = ledger.conditions.iter().flatten();
    conditions.any(|condition| condition.type_ == RECOVERED && condition.status == "True")
}

fn latest_above_container(
    ledger: &RestartLedgerStatus,
    now: Tick,
    window: TickDuration,
) -> Option<(Rung, Tick)> {
    let above = ledger.attempts.iter().flatten().filter(|a| a.rung > Rung::Container);
    let all = above.flat_map(|a| a.at.iter().map(|at| (a.rung, Tick::from(at))));
    all.filter(|(_, at)| now.since(*at) < window).max_by_key(|(rung, at)| (*at, *rung))
}

#[cfg(test)]
mod tests;
