//! What came of a rung in place that was tried on one pod of a revision whose pods fail in the same way. The others wait for it: when
//! it helps, it is done for them too; when it does not, it is not done for any of them.
//!
//! ```text
//!   attempt ──► on trial ── has recovered ──► helped
//!                  │  └──── failed again ───► in vain, until the ledger is cleared
//!                  └─────── neither within ten minutes ──► nothing is known
//! ```

use rekindle_types::held::Pod;
use rekindle_types::v1alpha1::{RestartLedgerStatus, Rung};
use rekindle_types::{Tick, TickDuration};

use crate::budget::GIVEN_UP_AFTER;
use crate::draft::RECOVERED;
use crate::observation::PodView;
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
pub enum Tried {
    /// None was tried, or nothing is known of what came of it.
    Nothing,
    /// One is being tried in place.
    Now(Trial),
    /// The pod runs, and is well, since this one.
    Helped(Rung),
    /// It failed again after this one.
    InVain(Rung),
}

/// Reads it from a pod and its ledger.
pub fn tried(pod: &Pod, ledger: &RestartLedgerStatus, now: Tick, window: TickDuration) -> Tried {
    let last = latest_above_container(ledger, now, window);
    let Some((rung, at)) = last else {
        return ledger.in_vain.map_or(Tried::Nothing, Tried::InVain);
    };
    let symptom = symptom_of(pod, Some(ledger), now, window);
    // Failures are told in whole seconds: one in the very second of the attempt may have been what it was for.
    let failed_again = symptom.as_ref().is_some_and(|(_, failed)| failed.is_some_and(|f| at < f));
    if failed_again || ledger.in_vain.is_some_and(|in_vain| in_vain >= rung) {
        return Tried::InVain(ledger.in_vain.map_or(rung, |in_vain| in_vain.max(rung)));
    }
    if symptom.is_none() && stability::has_outlived(&PodView::of(pod), ledger, window, now) {
        return Tried::Helped(rung);
    }
    let over_at = at + GIVEN_UP_AFTER;
    match rung {
        Rung::Containers | Rung::Pod if over_at > now => {
            let pod = pod.metadata.name.clone().unwrap_or_default();
            Tried::Now(Trial { pod, rung, over_at })
        }
        Rung::Container
        | Rung::Containers
        | Rung::Pod
        | Rung::Recreate
        | Rung::Reschedule
        | Rung::Rollback => Tried::Nothing,
    }
}

/// Whether what a ledger says now may tell what came of a trial: the rung was in vain, or the pod has recovered.
pub fn is_news_of_trial(
    before: Option<&RestartLedgerStatus>,
    after: Option<&RestartLedgerStatus>,
) -> bool {
    let outcome = |ledger: &RestartLedgerStatus| (ledger.in_vain, has_recovered(ledger));
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
