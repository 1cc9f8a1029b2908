//! Which rung's turn it is.

use rekindle_types::v1alpha1::Rung;

use crate::attempts::Attempts;
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

/// Whose turn it is after so many more failures that a restart from `from` on may help against.
pub(crate) fn choose<'a>(
    policy: &'a Policy,
    tried: Attempts<'_>,
    rollback: Option<&RollbackTarget>,
    from: Rung,
    failures: u32,
) -> Choice<'a> {
    let start = tried.highest().unwrap_or(Rung::Container).max(from);
    let mut open = failures;
    let mut container_attempts = 0;
    let is_possible = |step: &&Step| step.rung != Rung::Rollback || rollback.is_some();
    for step in policy.steps.iter().filter(|step| step.rung >= start).filter(is_possible) {
        let left = step.attempts.saturating_sub(tried.count(step.rung));
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
