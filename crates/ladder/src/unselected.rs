//! A ledger whose pod no ladder selects any more: nobody holds, waits or is exhausted there. What was tried and counted stays, for a ladder
//! that comes back goes on from it.

use rekindle_types::Tick;
use rekindle_types::v1alpha1::RestartLedgerStatus;

use crate::draft::EXHAUSTED;
use crate::sentence;

/// The ledger's status as it is then; the same again when it is so already.
pub fn unselected(ledger: &RestartLedgerStatus, now: Tick) -> RestartLedgerStatus {
    let mut ledger = RestartLedgerStatus {
        phase: None,
        rung: None,
        held_rung: None,
        held_by: None,
        next_attempt_at: None,
        pending_restart: None,
        failing_pod_uid: None,
        in_vain: None,
        ladder_uid: None,
        stable_since: None,
        message: Some(sentence::UNSELECTED.to_owned()),
        ..ledger.clone()
    };
    let mut conditions = ledger.conditions.iter_mut().flatten();
    if let Some(condition) = conditions.find(|c| c.type_ == EXHAUSTED && c.status == "True") {
        condition.status = "False".to_owned();
        condition.reason = "Over".to_owned();
        condition.message = sentence::UNSELECTED.to_owned();
        condition.last_transition_time = now.to_time();
    }
    ledger
}
