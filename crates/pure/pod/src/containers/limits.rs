//! The limits of containers that run: what was granted comes into force in place, or by a restart.

use k8s_openapi::api::core::v1::ResourceRequirements;
use rekindle_types::Tick;

use super::Containers;
use super::container::{PodContainer, ProcessState, StartHold};
use crate::action::{CoreAction, LimitStep, Restarts};
use crate::backoff::{RetriedTask, RetryDelays};
use crate::blueprint::{Definition, OnResize};
use crate::context::PodContext;
use crate::event::{ActionError, ActionOutcome};
use crate::journal::ContainerStanding;
use crate::key::ActionId;
use crate::outbox::{Outbox, PendingAnswer};
use crate::stop_reason::StopReason;

/// A container's limits being changed.
#[derive(Clone, Debug)]
pub(super) struct LimitUpdate {
    task: RetriedTask,
    to: ResourceRequirements,
}

impl Containers {
    /// Which containers get their new limits in place, and whether others get them by a restart.
    pub(crate) fn raise_step(&self, context: &PodContext<'_>) -> LimitStep {
        let (mut in_place, mut restarts) = (Vec::new(), Restarts::None);
        for container in &self.list {
            let granted = context.resize.granted().of(&container.definition.name);
            match container.way_to(granted) {
                LimitActuation::None => {}
                LimitActuation::InPlace => {
                    in_place.push(container.key(context.sandboxes.attempt()))
                }
                LimitActuation::Restart => restarts = Restarts::Some,
            }
        }
        LimitStep::Raise { in_place, restarts }
    }

    /// Gives each container what was granted to it. True when nothing is left to be done.
    pub(crate) fn drive_limits(&mut self, context: &PodContext<'_>, outbox: &mut Outbox) -> bool {
        let mut all = true;
        for container in &mut self.list {
            let granted = context.resize.granted().of(&container.definition.name);
            match container.way_to(granted) {
                LimitActuation::None => all &= !container.is_about_to_change(),
                LimitActuation::InPlace => {
                    all = false;
                    container.update(granted, context, outbox);
                }
                LimitActuation::Restart => {
                    all = false;
                    if container.is_running() {
                        let kill_at = context.now + context.desired.grace();
                        container.begin_stop(kill_at, StopReason::Resize, context, outbox);
                    }
                }
            }
        }
        all
    }

    /// The answer to a change of limits: the error, if it failed.
    pub(crate) fn update_answered(
        &mut self,
        place: usize,
        id: ActionId,
        result: Result<ActionOutcome, ActionError>,
        now: Tick,
    ) -> Result<(), ActionError> {
        let container = &mut self.list[place];
        let Some(update) = container.update.as_mut().filter(|update| update.task.is(id)) else {
            return Ok(());
        };
        match result {
            Ok(_) => {
                container.in_force = std::mem::take(&mut update.to);
                container.update = None;
                Ok(())
            }
            Err(error) => {
                update.task.failed(now, RetryDelays::USUAL);
                Err(error)
            }
        }
    }
}

/// How a container comes by other limits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum LimitActuation {
    /// It has them, or has no process that could have any.
    None,
    InPlace,
    Restart,
}

impl PodContainer {
    fn update(&mut self, to: &ResourceRequirements, context: &PodContext<'_>, outbox: &mut Outbox) {
        let key = self.key(context.sandboxes.attempt());
        let due = || LimitUpdate { task: RetriedTask::due(), to: to.clone() };
        let update = self.update.get_or_insert_with(due);
        if update.task.is_due(context.now) {
            update.to = to.clone();
            let pending = PendingAnswer::ContainerUpdate(self.place);
            update.task.begin(outbox.act(CoreAction::UpdateContainer { key }, pending));
        }
    }

    fn way_to(&self, granted: &ResourceRequirements) -> LimitActuation {
        if self.in_force == *granted {
            return LimitActuation::None;
        }
        match self.state {
            ProcessState::Running { .. } => self.definition.way_to(&self.in_force, granted),
            ProcessState::Idle(_)
            | ProcessState::Pulling { .. }
            | ProcessState::Starting { .. } => LimitActuation::None,
        }
    }

    /// It is on its way to a process, or from one to the next: what it has then is seen then.
    fn is_about_to_change(&self) -> bool {
        match self.state {
            ProcessState::Running { stop: Some(_), .. }
            | ProcessState::Pulling { .. }
            | ProcessState::Starting { .. } => true,
            ProcessState::Idle(StartHold::None) => self.standing == ContainerStanding::Started,
            ProcessState::Running { stop: None, .. } | ProcessState::Idle(_) => false,
        }
    }

    /// When its limits are tried to be changed again.
    pub(super) fn update_deadline(&self) -> Option<Tick> {
        self.update.as_ref().and_then(|update| update.task.deadline())
    }
}

impl Definition {
    /// The kernel knows no request of memory, so a change of it needs no restart.
    fn way_to(&self, from: &ResourceRequirements, to: &ResourceRequirements) -> LimitActuation {
        let differs = |name: &str| {
            let limit = |r: &ResourceRequirements| r.limits.as_ref()?.get(name).cloned();
            let request = |r: &ResourceRequirements| r.requests.as_ref()?.get(name).cloned();
            limit(from) != limit(to) || (name == "cpu" && request(from) != request(to))
        };
        let restarts = |policy: OnResize, name: &str| match policy {
            OnResize::Restart => differs(name),
            OnResize::Nothing => false,
        };
        if restarts(self.on_cpu_resize, "cpu") || restarts(self.on_memory_resize, "memory") {
            LimitActuation::Restart
        } else {
            LimitActuation::InPlace
        }
    }
}
