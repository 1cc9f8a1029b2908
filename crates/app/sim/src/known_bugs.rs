//! Bugs that other node agents had, to be switched on in the fake parts: what the simulator's
//! checks are worth is shown by their finding them. For tests only.

/// One of them. Source: the table in docs/sim-campaigns.md.
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
    /// How long a container that crashes has to wait is kept in memory only, and an agent that
    /// starts again begins with nothing.
    BackoffInMemory,
    /// A journal is said to be written, and is not: an agent that starts again has none.
    JournalClaimed,
    /// A status that a node could not write is said to be written.
    StatusClaimed,
    /// A wait is taken for a run: an agent that starts again begins a new series of waits when the
    /// last start is ten minutes ago.
    BackoffByWallTime,
    /// A pod that is made again under the same name has to wait as long as the one before.
    BackoffOfNamesake,
    /// An image that could not be had is pulled at once for a new sandbox of the same pod.
    PullBackoffOfSandbox,
    /// An agent that starts again says that what was ready is not.
    ReadinessForgotten,
    /// An agent that starts again has containers that were started pass their hook and their
    /// startup probe once more.
    StartForgotten,
    /// The same of sidecars, for which all other containers wait.
    SidecarStartForgotten,
    /// A container that ends while it is probed leaves a loop behind that probes the next one, too.
    ProbeLoopLeaked,
    /// A liveness probe that an earlier start failed is held against the next one.
    VerdictOfEarlier,
    /// `restartCount` does not rise when a container was ended for a probe.
    ProbeKillUncounted,
    /// A container that was ended for a probe is never made again.
    ProbeKillNotTold,
    /// A restart rule is obeyed though the pod is to end.
    RuleWhileTerminating,
    /// A node that lacks memory deletes the Pod object instead of ending the pod as Failed.
    EvictionDeletes,
    /// A pod that was deleted is said to have succeeded, however its containers ended.
    EndTakenForSuccess,
    /// A container that was created and not started is taken for one that runs, and is never
    /// started.
    CreatedTakenForRunning,
    /// An agent that starts again takes a sandbox in which nothing was made yet for a dead one, and
    /// makes another.
    SandboxMadeAnew,
    /// An agent that starts again takes what has succeeded for what has failed.
    SuccessForgotten,
    /// The API answers a write before it is synced.
    AnsweredUnsynced,
    /// The API answers that an object is deleted before that is synced.
    DeletedUnsynced,
    /// The API answers that a whole collection is deleted before that is synced.
    CollectionUnsynced,
    /// The API answers that a whole collection is deleted, and one object of it stays.
    CollectionHalfDone,
    /// The watch shows a write before it is synced.
    ShownUnsynced,
    /// A commit syncs the number of its revision, and what was written to objects comes with the
    /// next one.
    RowsUnsynced,
    /// What is invalid is refused, and the rest of the request is done.
    InvalidHalfDone,
}

impl KnownBug {
    /// All of them.
    pub const ALL: [Self; 40] = [
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
        Self::BackoffInMemory,
        Self::JournalClaimed,
        Self::StatusClaimed,
        Self::BackoffByWallTime,
        Self::BackoffOfNamesake,
        Self::PullBackoffOfSandbox,
        Self::ReadinessForgotten,
        Self::StartForgotten,
        Self::SidecarStartForgotten,
        Self::ProbeLoopLeaked,
        Self::VerdictOfEarlier,
        Self::ProbeKillUncounted,
        Self::ProbeKillNotTold,
        Self::RuleWhileTerminating,
        Self::EvictionDeletes,
        Self::EndTakenForSuccess,
        Self::CreatedTakenForRunning,
        Self::SandboxMadeAnew,
        Self::SuccessForgotten,
        Self::AnsweredUnsynced,
        Self::DeletedUnsynced,
        Self::CollectionUnsynced,
        Self::CollectionHalfDone,
        Self::ShownUnsynced,
        Self::RowsUnsynced,
        Self::InvalidHalfDone,
    ];
}
