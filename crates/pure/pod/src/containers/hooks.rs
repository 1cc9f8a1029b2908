//! Hooks: postStart after the process was started, preStop before it is asked to end.
//!
//! A postStart hook that fails ends its container, with preStop and grace, and the restart policy
//! decides what follows. A preStop hook has the grace period to end in; what it took is missing
//! from the rest, but at least 2 s are left to the container. Its failure is an event and nothing
//! more. An agent that is killed while a hook runs lets the next one run it again: hooks are
//! delivered at least once, as in Kubernetes.

use rekindle_types::{EndedByNode, Tick};

use super::container::{PodContainer, ProcessState, StopStep};
use crate::action::{CoreAction, HookKind, HookLimit};
use crate::backoff::RetriedTask;
use crate::blueprint::RoleInPod;
use crate::context::PodContext;
use crate::event::{ActionError, ActionOutcome};
use crate::halt::GRACE_MIN;
use crate::health::{HookRun, Launch};
use crate::key::ActionId;
use crate::outbox::{Outbox, PendingAnswer};
use crate::stop_reason::StopReason;
use crate::texts;

impl PodContainer {
    /// Asks for the postStart hook of a container that has just been started.
    pub(super) fn drive_post_start(&mut self, context: &PodContext<'_>, outbox: &mut Outbox) {
        let is_due = match &self.state {
            ProcessState::Running { health, stop: None, .. } => {
                health.launch == Launch::PostStart(HookRun::Due)
            }
            ProcessState::Running { stop: Some(_), .. }
            | ProcessState::Idle(_)
            | ProcessState::Pulling { .. }
            | ProcessState::Starting { .. } => false,
        };
        if !is_due {
            return;
        }
        let (key, hook) = (self.key(context.sandboxes.attempt()), HookKind::PostStart);
        let action = CoreAction::RunHook { key, hook, limit: HookLimit::None };
        let id = outbox.act(action, PendingAnswer::Hook(self.place, hook));
        if let ProcessState::Running { health, .. } = &mut self.state {
            health.launch = Launch::PostStart(HookRun::InFlight(id));
        }
    }

    pub(super) fn post_start_answered(
        &mut self,
        id: ActionId,
        result: Result<ActionOutcome, ActionError>,
        context: &PodContext<'_>,
        outbox: &mut Outbox,
    ) {
        let now = context.now;
        let ProcessState::Running { health, started_at, stop: None, .. } = &mut self.state else {
            return;
        };
        if health.launch != Launch::PostStart(HookRun::InFlight(id)) {
            return;
        }
        match result {
            Ok(_) => {
                health.hook_done(&self.definition, *started_at, now);
                self.open_gate();
            }
            Err(_) => {
                outbox.emit(texts::failed_hook(&self.definition, HookKind::PostStart));
                self.failed = Some(EndedByNode::PostStartHook.to_string());
                let kill_at = now + context.desired.grace();
                self.begin_stop(kill_at, StopReason::PostStartFailed, context, outbox);
            }
        }
    }

    /// Runs the hook of a container that is being stopped, while there is time.
    pub(super) fn drive_pre_stop(&mut self, context: &PodContext<'_>, outbox: &mut Outbox) {
        let now = context.now;
        let Some((step, kill_at)) = self.stop().map(|stop| (stop.step, stop.kill_at)) else {
            return;
        };
        if kill_at <= now {
            return self.after_pre_stop(context);
        }
        if step == StopStep::PreStop(HookRun::Due) {
            let (key, hook) = (self.key(context.sandboxes.attempt()), HookKind::PreStop);
            let limit = HookLimit::Grace(kill_at.since(now));
            let action = CoreAction::RunHook { key, hook, limit };
            let id = outbox.act(action, PendingAnswer::Hook(self.place, hook));
            if let Some(stop) = self.stop_mut() {
                stop.step = StopStep::PreStop(HookRun::InFlight(id));
            }
        }
    }

    pub(super) fn pre_stop_answered(
        &mut self,
        id: ActionId,
        result: Result<ActionOutcome, ActionError>,
        context: &PodContext<'_>,
        outbox: &mut Outbox,
    ) {
        let in_flight = StopStep::PreStop(HookRun::InFlight(id));
        if self.stop().is_none_or(|stop| stop.step != in_flight) {
            return;
        }
        if result.is_err() {
            outbox.emit(texts::failed_hook(&self.definition, HookKind::PreStop));
        }
        self.after_pre_stop(context);
    }

    /// The hook has ended, or its time has: the signal, or a sidecar's turn, is next.
    fn after_pre_stop(&mut self, context: &PodContext<'_>) {
        let least: Tick = context.now + GRACE_MIN;
        let step = match self.definition.role {
            RoleInPod::Sidecar if context.halt().is_some() => StopStep::AwaitTurn,
            RoleInPod::Sidecar | RoleInPod::Init | RoleInPod::Regular | RoleInPod::Ephemeral => {
                StopStep::Signal(RetriedTask::due())
            }
        };
        if let Some(stop) = self.stop_mut() {
            stop.kill_at = stop.kill_at.max(least);
            stop.not_before = least;
            stop.step = step;
        }
    }
}
