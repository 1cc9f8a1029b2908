//! A ledger whose pod no ladder selects any more, or is gone for good: it does not hold, wait or
//! stay exhausted. What was tried and counted stays: a ladder or a pod of that name that comes back
//! goes on from it.

use rekindle_types::Tick;
use rekindle_types::v1alpha1::{LedgerPhase, RestartLedgerStatus};

use crate::draft::EXHAUSTED;
use crate::explanation::DecisionText;
use crate::ledger_reading::seen_at;
use crate::sentence;

/// The ledger's status as it is then; the same again when it is so already.
pub fn unselected(ledger: &RestartLedgerStatus, now: Tick) -> RestartLedgerStatus {
    over(ledger, &sentence::unselected(), now)
}

/// The status of a ledger whose pod is gone, and that no controller makes another one for now. That
/// every rung was tried in vain stays told, and so does that nothing failed.
pub fn without_pod(ledger: &RestartLedgerStatus, now: Tick) -> RestartLedgerStatus {
    match ledger.phase {
        Some(LedgerPhase::Climbing | LedgerPhase::Holding) => over(ledger, &sentence::gone(), now),
        Some(LedgerPhase::Healthy | LedgerPhase::Exhausted) | None => seen_at(ledger, now),
    }
}

fn over(ledger: &RestartLedgerStatus, why: &DecisionText, now: Tick) -> RestartLedgerStatus {
    let mut ledger = RestartLedgerStatus {
        phase: None,
        rung: None,
        held_rung: None,
        held_by: None,
        next_attempt_at: None,
        pending_restart: None,
        failing_pod_uid: None,
        in_vain: None,
        last_run_seconds: None,
        ladder_uid: None,
        stable_since: None,
        ..seen_at(ledger, now)
    };
    why.write_to(&mut ledger);
    let mut conditions = ledger.conditions.iter_mut().flatten();
    if let Some(condition) = conditions.find(|c| c.type_ == EXHAUSTED && c.status == "True") {
        condition.status = "False".to_owned();
        condition.reason = "Over".to_owned();
        condition.message.clone_from(&why.message);
        condition.last_transition_time = now.to_time();
    }
    ledger
}
