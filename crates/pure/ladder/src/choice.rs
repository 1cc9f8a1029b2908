//! Which rung's turn it is.

use rekindle_types::v1alpha1::Rung;

use crate::attempts::LedgerAttempts;
use crate::policy::RungPolicy;
use crate::{LadderPolicy, RollbackTarget};

/// What the next failures lead to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct RungChoice<'a> {
    /// How many attempts of Container they use up.
    pub(crate) container_attempts: u32,
    /// What then.
    pub(crate) turn: NextRung<'a>,
}

/// Whose turn it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum NextRung<'a> {
    /// The container's own restart.
    Container(&'a RungPolicy),
    /// A restart above Container.
    Above(&'a RungPolicy),
    /// Every rung was tried.
    None,
}

/// Which rung has its turn after so many more failures that a restart from `from` on may help
/// against.
pub(crate) fn choose<'a>(
    policy: &'a LadderPolicy,
    tried: LedgerAttempts<'_>,
    rollback: Option<&RollbackTarget>,
    from: Rung,
    failures: u32,
) -> RungChoice<'a> {
    let start = tried.highest().unwrap_or(Rung::Container).max(from);
    let mut open = failures;
    let mut container_attempts = 0;
    let is_possible = |step: &&RungPolicy| step.rung != Rung::Rollback || rollback.is_some();
    for step in policy.steps.iter().filter(|step| step.rung >= start).filter(is_possible) {
        let left = step.attempts.saturating_sub(tried.count(step.rung));
        match step.rung {
            Rung::Container => {
                container_attempts = left.min(open);
                open -= container_attempts;
                if open == 0 {
                    return RungChoice { container_attempts, turn: NextRung::Container(step) };
                }
            }
            Rung::Containers | Rung::Pod | Rung::Recreate | Rung::Reschedule | Rung::Rollback => {
                if left > 0 {
                    return RungChoice { container_attempts, turn: NextRung::Above(step) };
                }
            }
        }
    }
    RungChoice { container_attempts, turn: NextRung::None }
}
