//! How the requests ended that a ladder asked for. They are removed some minutes after they are
//! over; what came of them is kept in the ledger, so that nothing is decided, or told, in another
//! way then.

use rekindle_types::Tick;
use rekindle_types::v1alpha1::{PodRestart, RestartLedgerStatus, RestartOutcome};

use crate::ledger_reading::outcome_at;

/// The ledger with the ends of those of its requests that are over.
pub fn with_outcomes(
    ledger: &RestartLedgerStatus,
    restarts: &[&PodRestart],
    now: Tick,
) -> RestartLedgerStatus {
    let mut ledger = ledger.clone();
    note(&mut ledger, restarts, now);
    ledger
}

/// Writes them down, each once.
pub(crate) fn note(ledger: &mut RestartLedgerStatus, restarts: &[&PodRestart], now: Tick) {
    for decision in ledger.decisions.iter_mut().flatten() {
        let asked = decision.pod_restart.as_ref().filter(|_| decision.outcome.is_none());
        let Some(name) = asked else { continue };
        let named = restarts.iter().find(|r| r.metadata.name.as_ref() == Some(name));
        let outcome = named.and_then(|request| RestartOutcome::from_restart(request));
        decision.outcome = outcome.map(|outcome| outcome_at(&outcome, now));
    }
}
