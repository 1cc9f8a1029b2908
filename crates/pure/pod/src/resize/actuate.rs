//! Granted → in force: the pod's limits up, the containers' changed, the pod's limits down.

use std::sync::Arc;

use k8s_openapi::api::core::v1::{Pod, ResourceRequirements};
use rekindle_types::Tick;

use super::{Progress, Update, texts};
use crate::action::{Action, LimitStep, Restarts};
use crate::backoff::{RetryDelays, Task};
use crate::blueprint::{Definition, OnResize};
use crate::container::{Container, Hold, State, StopReason};
use crate::core::{Keep, PodCore};
use crate::event::{ActionError, Outcome};
use crate::journal::Standing;
use crate::key::{ActionId, ContainerKey};
use crate::outbox::Pending;

impl PodCore {
    /// Asks for what is wanted, and puts what was granted into force.
    pub(crate) fn drive_resize(&mut self) {
        self.ask_for_resources();
        if self.halt().is_some() {
            return;
        }
        let now = self.now;
        match self.resize.progress {
            Progress::Settled => {}
            Progress::Raise(task) if task.is_due(now) && self.sandbox.is_ready() => {
                let step = self.raise_step();
                self.update_sandbox(step);
            }
            Progress::Lower(task) if task.is_due(now) && self.sandbox.is_ready() => {
                self.update_sandbox(LimitStep::Settle);
            }
            Progress::Containers => {
                if self.containers_have_what_was_granted() {
                    self.resize.progress = Progress::Lower(Task::due());
                    self.moved = true;
                }
            }
            Progress::Raise(_) | Progress::Lower(_) => {}
        }
    }

    /// Which containers get their new limits in place, and whether others get them by a restart.
    fn raise_step(&self) -> LimitStep {
        let (mut in_place, mut restarts) = (Vec::new(), Restarts::None);
        for container in &self.containers {
            let granted = self.resize.granted.of(&container.definition.name);
            match container.way_to(granted) {
                Way::None => {}
                Way::InPlace => in_place.push(container.key(self.sandbox.attempt)),
                Way::Restart => restarts = Restarts::Some,
            }
        }
        LimitStep::Raise { in_place, restarts }
    }

    fn update_sandbox(&mut self, step: LimitStep) {
        let action = Action::UpdateSandbox { attempt: self.sandbox.attempt, step };
        let id = self.outbox.act(action, Pending::SandboxUpdate);
        if let Progress::Raise(task) | Progress::Lower(task) = &mut self.resize.progress {
            task.begin(id);
        }
        self.moved = true;
    }

    pub(crate) fn sandbox_update_answered(
        &mut self,
        id: ActionId,
        result: Result<Outcome, ActionError>,
    ) {
        let now = self.now;
        let (task, next) = match &mut self.resize.progress {
            Progress::Raise(task) => (task, Progress::Containers),
            Progress::Lower(task) => (task, Progress::Settled),
            Progress::Settled | Progress::Containers => return,
        };
        if !task.is(id) {
            return;
        }
        match result {
            Ok(_) => {
                self.resize.progress = next;
                self.status_changed = true;
                self.moved = true;
                if self.resize.is_settled() {
                    self.resize.error = None;
                    let event =
                        texts::completed(&self.pod_as_granted(), self.resize.granted.generation);
                    self.emit(event);
                    self.keep(Keep::Now);
                }
            }
            Err(error) => {
                task.failed(now, RetryDelays::USUAL);
                self.resize_failed(error.message);
            }
        }
    }

    fn pod_as_granted(&self) -> Arc<Pod> {
        self.resize.granted_pod.clone()
    }

    fn resize_failed(&mut self, message: String) {
        if self.resize.error.is_none() {
            let generation = self.resize.granted.generation;
            let event = texts::failed(&self.pod_as_granted(), generation, &message);
            self.emit(event);
        }
        self.resize.error = Some(message);
        self.status_changed = true;
    }

    /// Gives each container what was granted to it. True when nothing is left to be done.
    fn containers_have_what_was_granted(&mut self) -> bool {
        let mut all = true;
        for place in 0..self.containers.len() {
            let granted = self.resize.granted.of(&self.containers[place].definition.name).clone();
            let container = &self.containers[place];
            match container.way_to(&granted) {
                Way::None => all &= !container.is_about_to_change(),
                Way::InPlace => {
                    all = false;
                    self.update_container(place, granted);
                }
                Way::Restart => {
                    all = false;
                    if container.is_running() {
                        let kill_at = self.now + self.blueprint.grace;
                        self.begin_stop(place, kill_at, StopReason::Resize);
                    }
                }
            }
        }
        all
    }

    fn update_container(&mut self, place: usize, to: ResourceRequirements) {
        let (now, attempt) = (self.now, self.sandbox.attempt);
        let container = &mut self.containers[place];
        let key: ContainerKey = container.key(attempt);
        let update =
            container.update.get_or_insert_with(|| Update { task: Task::due(), to: to.clone() });
        if update.task.is_due(now) {
            update.to = to;
            let action = Action::UpdateContainer { key };
            update.task.begin(self.outbox.act(action, Pending::ContainerUpdate(place)));
            self.moved = true;
        }
    }

    pub(crate) fn container_update_answered(
        &mut self,
        place: usize,
        id: ActionId,
        result: Result<Outcome, ActionError>,
    ) {
        let now = self.now;
        let container = &mut self.containers[place];
        let Some(update) = container.update.as_mut().filter(|update| update.task.is(id)) else {
            return;
        };
        match result {
            Ok(_) => {
                container.in_force = std::mem::take(&mut update.to);
                container.update = None;
                self.status_changed = true;
                self.keep(Keep::WithNextAction);
                self.moved = true;
            }
            Err(error) => {
                update.task.failed(now, RetryDelays::USUAL);
                self.resize_failed(error.message);
            }
        }
    }
}

/// How a container comes by other limits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Way {
    /// It has them, or has no process that could have any.
    None,
    InPlace,
    Restart,
}

impl Container {
    fn way_to(&self, granted: &ResourceRequirements) -> Way {
        if self.in_force == *granted {
            return Way::None;
        }
        match self.state {
            State::Running { .. } => self.definition.way_to(&self.in_force, granted),
            State::Idle(_) | State::Pulling { .. } | State::Starting { .. } => Way::None,
        }
    }

    /// It is on its way to a process, or from one to the next: what it has then is seen then.
    fn is_about_to_change(&self) -> bool {
        match self.state {
            State::Running { stop: Some(_), .. }
            | State::Pulling { .. }
            | State::Starting { .. } => true,
            State::Idle(Hold::None) => self.standing == Standing::Started,
            State::Running { stop: None, .. } | State::Idle(_) => false,
        }
    }

    /// When its limits are tried to be changed again.
    pub(crate) fn update_deadline(&self) -> Option<Tick> {
        self.update.as_ref().and_then(|update| update.task.deadline())
    }
}

impl Definition {
    /// The kernel knows no request of memory, so a change of it needs no restart.
    fn way_to(&self, from: &ResourceRequirements, to: &ResourceRequirements) -> Way {
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
            Way::Restart
        } else {
            Way::InPlace
        }
    }
}
