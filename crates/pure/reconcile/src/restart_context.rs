//! What a decision to restart a pod can read, and the component that its events name.

use rekindle_controllers::ClusterView;
use rekindle_ladder::{LedgerRegister, PendingDecision, RestartLimits};

use crate::PlannerRole;

/// `source.component` of the ladder's events.
pub(crate) const COMPONENT: &str = "restart-ladder";

/// What a plan for a restart can read.
#[derive(Clone, Copy, Debug)]
pub(crate) struct RestartContext<'a> {
    /// Everything.
    pub(crate) view: &'a ClusterView,
    /// What ledgers and requests in it say.
    pub(crate) register: &'a LedgerRegister,
    /// The limits over all ladders.
    pub(crate) limits: &'a RestartLimits,
    /// Decisions to restart a pod that are being written.
    pub(crate) granted: &'a [PendingDecision],
    /// Where ladders run, and what they may do there.
    pub(crate) role: &'a PlannerRole,
}

/// A context of an engine of ours, for this view alone.
#[cfg(test)]
pub(crate) fn in_engine<T>(view: &ClusterView, plan: impl FnOnce(&RestartContext<'_>) -> T) -> T {
    plan(&RestartContext {
        view,
        register: &LedgerRegister::default(),
        limits: &RestartLimits::default(),
        granted: &[],
        role: &PlannerRole::Engine,
    })
}
