//! Hooks: postStart after the process was started, preStop before it is asked to end.
//!
//! A postStart hook that fails ends its container, with preStop and grace, and the restart policy
//! decides what follows. A preStop hook has the grace period to end in; what it took is missing
//! from the rest, but at least 2 s are left to the container. Its failure is an event and nothing
//! more. An agent that is killed while a hook runs lets the next one run it again: hooks are
//! delivered at least once, as in Kubernetes.

use rekindle_types::{EndedByNode, Tick};

use crate::action::{Action, HookKind, HookLimit};
use crate::backoff::Task;
use crate::blueprint::Role;
use crate::container::{State, StopReason, StopStep};
use crate::core::{Keep, PodCore};
use crate::event::{ActionError, Outcome};
use crate::halt::GRACE_MIN;
use crate::health::{HookRun, Launch};
use crate::key::{ActionId, ContainerKey};
use crate::outbox::Pending;
use crate::texts;

impl PodCore {
    /// Asks for the postStart hook of a container that has just been started.
    pub(crate) fn drive_post_start(&mut self, place: usize) {
        let key = self.containers[place].key(self.sandbox.attempt);
        let State::Running { health, stop: None, .. } = &mut self.containers[place].state else {
            return;
        };
        match health.launch {
            Launch::PostStart(HookRun::Due) => {}
            Launch::PostStart(HookRun::InFlight(_)) | Launch::Startup | Launch::Complete => return,
        }
        let hook = HookKind::PostStart;
        let action = Action::RunHook { key, hook, limit: HookLimit::None };
        let id = self.outbox.act(action, Pending::Hook(place, hook));
        health.launch = Launch::PostStart(HookRun::InFlight(id));
    }

    pub(crate) fn post_start_answered(
        &mut self,
        place: usize,
        id: ActionId,
        result: Result<Outcome, ActionError>,
    ) {
        let now = self.now;
        let container = &mut self.containers[place];
        let State::Running { health, started_at, stop: None, .. } = &mut container.state else {
            return;
        };
        if health.launch != Launch::PostStart(HookRun::InFlight(id)) {
            return;
        }
        match result {
            Ok(_) => {
                health.hook_done(&container.definition, *started_at, now);
                self.launch_moved(place);
            }
            Err(_) => {
                let event = texts::failed_hook(&container.definition, HookKind::PostStart);
                container.failed = Some(EndedByNode::PostStartHook.to_string());
                self.emit(event);
                let kill_at = now + self.blueprint.grace;
                self.begin_stop(place, kill_at, StopReason::PostStartFailed);
            }
        }
    }

    /// A running container is nearer to `started`.
    pub(crate) fn launch_moved(&mut self, place: usize) {
        self.open_gate(place);
        self.status_changed = true;
        self.keep(Keep::WithNextAction);
        self.moved = true;
    }

    /// Runs the hook of a container that is being stopped, while there is time.
    pub(crate) fn drive_pre_stop(&mut self, place: usize, key: ContainerKey) {
        let now = self.now;
        let State::Running { stop: Some(stop), .. } = &mut self.containers[place].state else {
            return;
        };
        if stop.kill_at <= now {
            self.after_pre_stop(place);
            return;
        }
        if stop.step == StopStep::PreStop(HookRun::Due) {
            let hook = HookKind::PreStop;
            let limit = HookLimit::Grace(stop.kill_at.since(now));
            let action = Action::RunHook { key, hook, limit };
            let id = self.outbox.act(action, Pending::Hook(place, hook));
            stop.step = StopStep::PreStop(HookRun::InFlight(id));
        }
    }

    pub(crate) fn pre_stop_answered(
        &mut self,
        place: usize,
        id: ActionId,
        result: Result<Outcome, ActionError>,
    ) {
        let container = &self.containers[place];
        match &container.state {
            State::Running { stop: Some(stop), .. }
                if stop.step == StopStep::PreStop(HookRun::InFlight(id)) => {}
            State::Idle(_)
            | State::Pulling { .. }
            | State::Starting { .. }
            | State::Running { .. } => return,
        }
        if result.is_err() {
            let event = texts::failed_hook(&container.definition, HookKind::PreStop);
            self.emit(event);
        }
        self.after_pre_stop(place);
    }

    /// The hook has ended, or its time has: the signal, or a sidecar's turn, is next.
    fn after_pre_stop(&mut self, place: usize) {
        let least: Tick = self.now + GRACE_MIN;
        let halted = self.halt().is_some();
        let container = &mut self.containers[place];
        let State::Running { stop: Some(stop), .. } = &mut container.state else { return };
        stop.kill_at = stop.kill_at.max(least);
        stop.not_before = least;
        stop.step = match container.definition.role {
            Role::Sidecar if halted => StopStep::AwaitTurn,
            Role::Sidecar | Role::Init | Role::Regular | Role::Ephemeral => {
                StopStep::Signal(Task::due())
            }
        };
        self.moved = true;
    }
}
