//! Containers of the current sandbox that are not wanted any more, on their way out: starts before
//! the current one, and what the spec does not have.

use std::collections::BTreeMap;

use rekindle_types::{ContainerName, SandboxAttempt, Tick};

use crate::action::CoreAction;
use crate::backoff::{RetriedTask, RetryDelays};
use crate::event::{ActionError, ActionOutcome};
use crate::key::{ActionId, ContainerStartKey};
use crate::outbox::{Outbox, PendingAnswer};

/// Containers that are not wanted any more.
#[derive(Debug, Default)]
pub(super) struct Strays(BTreeMap<ContainerStartKey, StrayContainer>);

/// One of them.
#[derive(Debug)]
struct StrayContainer {
    step: StrayStep,
    task: RetriedTask,
}

/// What is to be done with it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum StrayStep {
    /// It may run: SIGKILL first. No other start of the same container before it is gone.
    Kill,
    /// It was killed; the runtime refuses to take it away until it has ended.
    RemoveKilled,
    /// It has ended.
    Remove,
}

impl Strays {
    /// Has a container taken away.
    pub(super) fn clear(&mut self, key: ContainerStartKey, step: StrayStep) {
        self.0.entry(key).or_insert(StrayContainer { step, task: RetriedTask::due() });
    }

    /// One of this name may still run: no other start of it comes before that is over.
    pub(super) fn may_run(&self, name: &ContainerName) -> bool {
        self.0.iter().any(|(key, stray)| key.name == *name && stray.step != StrayStep::Remove)
    }

    /// One of any name may still run.
    pub(super) fn any_may_run(&self) -> bool {
        self.0.values().any(|stray| stray.step != StrayStep::Remove)
    }

    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// How many there are, and how many of them may still run: what others look at.
    pub(super) fn counts(&self) -> (usize, usize) {
        let may_run = self.0.values().filter(|stray| stray.step != StrayStep::Remove);
        (self.0.len(), may_run.count())
    }

    /// Its sandbox is given up, or gone: what was in it goes with it.
    pub(super) fn forget_sandbox(&mut self, attempt: SandboxAttempt) {
        self.0.retain(|key, _| key.sandbox != attempt);
    }

    /// When one that could not be taken away is tried again.
    pub(super) fn deadlines(&self) -> impl Iterator<Item = Tick> {
        self.0.values().filter_map(|stray| stray.task.deadline())
    }

    /// Its end was told. False if it is none of them.
    pub(super) fn ended(&mut self, key: &ContainerStartKey) -> bool {
        let Some(stray) = self.0.get_mut(key) else { return false };
        if stray.step == StrayStep::Kill {
            stray.task = RetriedTask::due();
        }
        stray.step = StrayStep::Remove;
        true
    }

    pub(super) fn drive(&mut self, now: Tick, outbox: &mut Outbox) {
        for (key, stray) in &mut self.0 {
            if stray.task.is_due(now) {
                let key = key.clone();
                let pending = PendingAnswer::Clearance(key.clone());
                let action = match stray.step {
                    StrayStep::Kill => CoreAction::KillContainer { key },
                    StrayStep::RemoveKilled | StrayStep::Remove => {
                        CoreAction::RemoveContainer { key }
                    }
                };
                stray.task.begin(outbox.act(action, pending));
            }
        }
    }

    pub(super) fn answered(
        &mut self,
        now: Tick,
        key: &ContainerStartKey,
        id: ActionId,
        result: Result<ActionOutcome, ActionError>,
    ) {
        let Some(stray) = self.0.get_mut(key).filter(|stray| stray.task.is(id)) else { return };
        match (result, stray.step) {
            (Ok(_), StrayStep::Kill) => {
                stray.step = StrayStep::RemoveKilled;
                stray.task = RetriedTask::due();
            }
            (Ok(_), StrayStep::RemoveKilled | StrayStep::Remove) => {
                self.0.remove(key);
            }
            (Err(_), StrayStep::Kill | StrayStep::RemoveKilled | StrayStep::Remove) => {
                stray.task.failed(now, RetryDelays::USUAL);
            }
        }
    }
}
