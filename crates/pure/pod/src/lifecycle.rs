//! Where the pod is between its first sight and its end.
//!
//! ```text
//!            snapshot               containers done, deleted, evicted, overdue        all gone
//!  Recovering ───────► Active ──────────────────────────────────────────────► Ending ────────► Finished
//! ```

use rekindle_types::{Tick, TickDuration};

use crate::event::CoreEvent;
use crate::journal::{EndCause, EndingRecord, Ground, Halt};

/// The life of the pod on this node.
#[derive(Debug)]
pub(crate) struct PodLifecycle {
    stage: LifecycleStage,
    /// `status.startTime`: since when this node has had the pod.
    start_time: Tick,
}

#[derive(Debug)]
enum LifecycleStage {
    /// The runtime was not seen yet: what happens until then waits.
    Recovering {
        /// The end that an earlier agent began.
        ending: Option<EndingRecord>,
        early: Vec<CoreEvent>,
    },
    /// It runs, or is on its way to.
    Active,
    /// Its containers end, then its sandbox goes.
    Ending(EndingRecord),
    /// Nothing is left.
    Finished { ending: EndingRecord, report: FinishReport },
}

/// Whether the driver was told that the pod has finished. A deletion asks for it again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum FinishReport {
    Due,
    Given,
}

/// The name of a stage, to see whether it changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum LifecycleStageName {
    Recovering,
    Active,
    Ending,
    Finished,
}

impl PodLifecycle {
    /// A pod whose runtime was not seen yet. Its end may have begun under an earlier agent.
    pub(crate) fn new(start_time: Tick, ending: Option<EndingRecord>) -> Self {
        Self { stage: LifecycleStage::Recovering { ending, early: Vec::new() }, start_time }
    }

    pub(crate) fn start_time(&self) -> Tick {
        self.start_time
    }

    pub(crate) fn stage(&self) -> LifecycleStageName {
        match self.stage {
            LifecycleStage::Recovering { .. } => LifecycleStageName::Recovering,
            LifecycleStage::Active => LifecycleStageName::Active,
            LifecycleStage::Ending(_) => LifecycleStageName::Ending,
            LifecycleStage::Finished { .. } => LifecycleStageName::Finished,
        }
    }

    pub(crate) fn is_recovering(&self) -> bool {
        self.stage() == LifecycleStageName::Recovering
    }

    pub(crate) fn is_active(&self) -> bool {
        self.stage() == LifecycleStageName::Active
    }

    pub(crate) fn is_ending(&self) -> bool {
        self.stage() == LifecycleStageName::Ending
    }

    pub(crate) fn is_finished(&self) -> bool {
        self.stage() == LifecycleStageName::Finished
    }

    /// The end that has begun: of a pod that is recovering, under an earlier agent.
    pub(crate) fn ending(&self) -> Option<&EndingRecord> {
        match &self.stage {
            LifecycleStage::Recovering { ending, .. } => ending.as_ref(),
            LifecycleStage::Active => None,
            LifecycleStage::Ending(ending) | LifecycleStage::Finished { ending, .. } => {
                Some(ending)
            }
        }
    }

    /// What this agent ends the pod for, or has ended it for.
    pub(crate) fn end_cause(&self) -> Option<&EndCause> {
        self.ending().filter(|_| !self.is_recovering()).map(|ending| &ending.cause)
    }

    /// The fault of a pod that fails as a whole.
    pub(crate) fn failure_ground(&self) -> Option<Ground> {
        match self.end_cause()? {
            EndCause::Failed { ground, .. } => Some(*ground),
            EndCause::Deleted | EndCause::Completed | EndCause::DeclaredFinished => None,
        }
    }

    /// `activeDeadlineSeconds` count for a pod that is active.
    pub(crate) fn active_deadline(&self, limit: Option<TickDuration>) -> Option<Tick> {
        let limit = limit.filter(|_| self.is_active())?;
        Some(self.start_time + limit)
    }

    /// Keeps an event for the time after the snapshot.
    pub(crate) fn keep_for_later(&mut self, event: CoreEvent) {
        if let LifecycleStage::Recovering { early, .. } = &mut self.stage {
            early.push(event);
        }
    }

    /// From now on events count. Those that came early are given back.
    pub(crate) fn wake(&mut self) -> Vec<CoreEvent> {
        match std::mem::replace(&mut self.stage, LifecycleStage::Active) {
            LifecycleStage::Recovering { ending, early } => {
                if let Some(ending) = ending {
                    self.stage = LifecycleStage::Ending(ending);
                }
                early
            }
            other => {
                self.stage = other;
                Vec::new()
            }
        }
    }

    /// Begins the end, or shortens it: the first cause stays. True if it begins now.
    pub(crate) fn end(&mut self, cause: EndCause, halt: Halt) -> bool {
        match &mut self.stage {
            LifecycleStage::Recovering { .. } => false,
            LifecycleStage::Active => {
                self.stage = LifecycleStage::Ending(EndingRecord { cause, halt });
                true
            }
            LifecycleStage::Ending(ending) => {
                ending.halt = ending.halt.sooner(halt);
                false
            }
            LifecycleStage::Finished { report, .. } => {
                if cause == EndCause::Deleted {
                    *report = FinishReport::Due;
                }
                false
            }
        }
    }

    /// Nothing of a pod that was ending is left.
    pub(crate) fn finish(&mut self) {
        if let LifecycleStage::Ending(ending) = &self.stage {
            let (ending, report) = (ending.clone(), FinishReport::Due);
            self.stage = LifecycleStage::Finished { ending, report };
        }
    }

    /// Whether the driver is to be told now that the pod has finished.
    pub(crate) fn take_finish_report(&mut self) -> bool {
        match &mut self.stage {
            LifecycleStage::Finished { report, .. } => {
                std::mem::replace(report, FinishReport::Given) == FinishReport::Due
            }
            LifecycleStage::Recovering { .. }
            | LifecycleStage::Active
            | LifecycleStage::Ending(_) => false,
        }
    }

    /// The deadline of the end that has begun, to be moved.
    pub(crate) fn halt_mut(&mut self) -> Option<&mut Halt> {
        match &mut self.stage {
            LifecycleStage::Recovering { ending, .. } => ending.as_mut().map(|it| &mut it.halt),
            LifecycleStage::Ending(ending) => Some(&mut ending.halt),
            LifecycleStage::Active | LifecycleStage::Finished { .. } => None,
        }
    }
}
