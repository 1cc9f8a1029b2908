//! Pods that run again, have finished, or have no ladder any more; ladders with nothing left to
//! try.

use rekindle_types::Tick;
use rekindle_types::span::show;
use rekindle_types::v1alpha1::{RestartLedgerStatus, Rung};

use super::{clock, done_or_noted};
use crate::LadderPolicy;
use crate::attempts::{self, LedgerAttempts};
use crate::explanation::{DecisionText, Phrase};
use crate::observation::FinalPhase;

/// Everything runs again: what was not carried out has no part in it.
pub(crate) fn running(
    policy: &LadderPolicy,
    ledger: &RestartLedgerStatus,
    since: Tick,
) -> DecisionText {
    let tried = LedgerAttempts::from_ledger(ledger);
    let untried = attempts::last_untried(ledger);
    let rung = tried.highest().filter(|rung| *rung > Rung::Container && Some(*rung) != untried);
    let after = match rung {
        None => String::new(),
        Some(rung) => {
            let dry_run_since = ledger.dry_run_since.as_ref().map(Tick::from);
            format!(", after {}", done_or_noted(policy, tried, rung, dry_run_since))
        }
    };
    let (since, clears) = (clock(since), clock(since + policy.window));
    DecisionText::new(
        format!("running since {since}{after}; the ladder is cleared at {clears}"),
        &format!("healthy since {}", since.brief),
        &format!("ladder clears at {}", clears.brief),
    )
}

/// The window has passed without a failure.
pub(crate) fn cleared(policy: &LadderPolicy, since: Tick) -> DecisionText {
    let window = show(policy.window);
    DecisionText::new(
        format!(
            "running since {}, {window} without a failure: the ladder begins at the bottom again",
            clock(since)
        ),
        &format!("no failure for {window}"),
        "ladder cleared",
    )
}

/// A pod that has finished is not restarted.
pub(crate) fn finished(outcome: FinalPhase) -> DecisionText {
    let how = match outcome {
        FinalPhase::Succeeded => "succeeded",
        FinalPhase::Failed => "failed",
    };
    DecisionText::new(
        format!("the pod has {how}: the ladder does not restart it any more"),
        &format!("the pod has {how}"),
        "no more restarts",
    )
}

/// The pod is of another revision than the one that exhausted the ladder.
pub(crate) fn other_revision() -> DecisionText {
    DecisionText::new(
        "the pod is of another revision than the one that exhausted the ladder: every rung may be tried again",
        "another revision",
        "every rung may be tried again",
    )
}

/// Of a ledger whose pod no ladder selects.
pub(crate) fn unselected() -> DecisionText {
    DecisionText::new(
        "no ladder selects the pod any more: its containers are left to their own backoff",
        "no ladder selects the pod",
        "backoff only",
    )
}

/// Of a ledger whose pod is gone for good.
pub(crate) fn gone() -> DecisionText {
    DecisionText::new(
        "the pod is gone, and no other one takes its place",
        "the pod is gone",
        "none takes its place",
    )
}

/// What was tried, and what was not because it would not have helped. Of what has left the window
/// the decisions tell, without a number. Rollback is not missed: it is possible on few pods.
pub(crate) fn nothing_left(policy: &LadderPolicy, ledger: &RestartLedgerStatus) -> Phrase {
    let attempts = LedgerAttempts::from_ledger(ledger);
    let decided = |rung| ledger.decisions.iter().flatten().any(|d| d.rung == Some(rung));
    let (mut tried, mut passed_over) = (Vec::new(), Vec::new());
    for rung in policy.steps.iter().map(|step| step.rung) {
        match attempts.count(rung) {
            0 if decided(rung) => tried.push(rung.name().to_owned()),
            0 if rung == Rung::Rollback => {}
            0 => passed_over.push(rung.name()),
            count => tried.push(format!("{rung} {count}")),
        }
    }
    match (tried.join(", "), passed_over.join(" and ")) {
        (tried, _) if tried.is_empty() => {
            Phrase::new("no rung of the ladder can be tried on it", "no rung can be tried")
        }
        (tried, passed) if passed.is_empty() => {
            Phrase::new(format!("every rung was tried ({tried})"), "all rungs tried")
        }
        (tried, passed) => Phrase::new(
            format!("every rung that may help was tried ({tried}), {passed} would not have helped"),
            "all rungs tried",
        ),
    }
}
