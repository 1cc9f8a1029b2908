//! Bugs that other node agents had, to be switched on in the fake parts: what the simulator's checks are worth is shown by their
//! finding them. For tests only.

/// One of them. Source: the list in docs/sim.md.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum KnownBug {
    /// A container that was created and not started is taken for one that died.
    CreatedTakenForDead,
    /// An agent that starts again ends every container and begins anew.
    AgentRestartEndsAll,
    /// A pod that is made again under the same name gets what stands of the one before.
    SandboxOfNamesake,
    /// The end of a container is not told.
    ExitNotTold,
    /// A watch that breaks off loses what came last, and nothing is listed anew.
    LastEventLost,
    /// `restartCount` stays as it was first written.
    CountFrozen,
    /// A container is killed without waiting for its grace period.
    GraceCutShort,
    /// An eviction is carried out without asking the disruption budget.
    BudgetIgnored,
    /// A hook is said to have been run and was not.
    HookSkipped,
    /// A sandbox is said to be torn down and stands.
    SandboxLeaked,
    /// The controllers do not see how many restarts of a ladder may be under way.
    LadderConcurrencyUnseen,
    /// The controllers do not see how many restarts of a ladder there may be in a minute.
    LadderRateUnseen,
    /// A pod that a taint ends goes at once, be it that its node cannot say that it runs no more.
    EvictionForced,
    /// The controllers do not see how long a pod tolerates a taint.
    TolerationUnseen,
}

impl KnownBug {
    /// All of them.
    pub const ALL: [Self; 14] = [
        Self::CreatedTakenForDead,
        Self::AgentRestartEndsAll,
        Self::SandboxOfNamesake,
        Self::ExitNotTold,
        Self::LastEventLost,
        Self::CountFrozen,
        Self::GraceCutShort,
        Self::BudgetIgnored,
        Self::HookSkipped,
        Self::SandboxLeaked,
        Self::LadderConcurrencyUnseen,
        Self::LadderRateUnseen,
        Self::EvictionForced,
        Self::TolerationUnseen,
    ];
}
