//! Which rung's turn it is.

use rekindle_types::Tick;
use rekindle_types::v1alpha1::{RestartLedgerStatus, Rung};

use crate::policy::Step;
use crate::{Policy, RollbackTarget};

/// What the next failures lead to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Choice<'a> {
    /// How many attempts of Container they use up.
    pub(crate) container_attempts: u32,
    /// What then.
    pub(crate) turn: Turn<'a>,
}

/// Whose turn it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Turn<'a> {
    /// The container's own restart.
    Container(&'a Step),
    /// A restart above Container.
    Above(&'a Step),
    /// Every rung was tried.
    Nobody,
}

/// Whose turn it is after so many more failures that a restart from `from` on may help against. The ledger's attempts must be
/// pruned to the window.
pub(crate) fn choose<'a>(
    policy: &'a Policy,
    ledger: &RestartLedgerStatus,
    rollback: Option<&RollbackTarget>,
    from: Rung,
    failures: u32,
) -> Choice<'a> {
    let start = highest_tried(ledger).unwrap_or(Rung::Container).max(from);
    let mut open = failures;
    let mut container_attempts = 0;
    let is_possible = |step: &&Step| step.rung != Rung::Rollback || rollback.is_some();
    for step in policy.steps.iter().filter(|step| step.rung >= start).filter(is_possible) {
        let left = step.attempts.saturating_sub(attempts_of(ledger, step.rung));
        match step.rung {
            Rung::Container => {
                container_attempts = left.min(open);
                open -= container_attempts;
                if open == 0 {
                    return Choice { container_attempts, turn: Turn::Container(step) };
                }
            }
            Rung::Containers | Rung::Pod | Rung::Recreate | Rung::Reschedule | Rung::Rollback => {
                if left > 0 {
                    return Choice { container_attempts, turn: Turn::Above(step) };
                }
            }
        }
    }
    Choice { container_attempts, turn: Turn::Nobody }
}

/// The highest rung with an attempt in the ledger.
pub(crate) fn highest_tried(ledger: &RestartLedgerStatus) -> Option<Rung> {
    ledger.attempts.iter().flatten().filter(|a| !a.at.is_empty()).map(|a| a.rung).max()
}

/// When the latest attempt of all rungs was; the earliest tick when there is none.
pub(crate) fn latest_attempt(ledger: &RestartLedgerStatus) -> Tick {
    let attempts = ledger.attempts.iter().flatten().flat_map(|entry| &entry.at);
    attempts.map(Tick::from).max().unwrap_or(Tick::ZERO)
}

/// The attempts of a rung in the ledger.
pub(crate) fn attempts_of(ledger: &RestartLedgerStatus, rung: Rung) -> u32 {
    let attempts = ledger.attempts.iter().flatten().filter(|a| a.rung == rung);
    attempts.map(|a| u32::try_from(a.at.len()).unwrap_or(u32::MAX)).sum()
}
