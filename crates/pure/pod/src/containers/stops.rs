//! The graceful end of containers: asked for, given time, killed.
//!
//! ```text
//!  Running ─► PreStop ─► Signal ─► Grace ── kill_at ─► Kill ─► AwaitExit ─► (exit)
//!                            └──────────── kill_at ──►  ▲          └ again after 10 s
//!       grace 0 ────────────────────────────────────────┘
//! ```
//! A preStop hook has the grace to end in; what is left of it, but at least 2 s, is the container's
//! (see `hooks`).
//!
//! All regular containers are signalled at the same time. Sidecars follow one by one in reverse
//! order, each when all later ones have ended; those whose turn has not come when the grace is over
//! are signalled then and get 2 s, as in the kubelet. A shorter deadline shortens what is under
//! way; a longer one changes nothing. Their hooks run at the same time as those of the others; only
//! the signal waits for its turn.
//!
//! The grace is for what was asked to end. What was being started when all was to end is asked when
//! it runs, and has its grace from then on, and so have the sidecars that wait for it (the kubelet
//! begins to end a pod when it is done with starting); the journal tells the next agent what was
//! not asked yet. While the journal cannot be written, nothing of a pod that goes on is: its
//! deadlines stand still, and none of them comes before the container had the time between that its
//! spec gives it. A pod that is over asks its containers all the same (see `PodCore::poll_output`).

use rekindle_types::{Tick, TickDuration};

use super::Containers;
use super::container::{ContainerStop, PodContainer, ProcessState, StartHold, StopStep};
use super::end::EndConsequence;
use crate::action::CoreAction;
use crate::backoff::{RetriedTask, RetryDelays};
use crate::blueprint::{HookPresence, RoleInPod};
use crate::context::PodContext;
use crate::event::{ActionError, ActionOutcome};
use crate::halt::GRACE_MIN;
use crate::health::HookRun;
use crate::journal::Halt;
use crate::key::{ActionId, ContainerStartKey};
use crate::outbox::{Outbox, PendingAnswer};
use crate::stop_reason::StopReason;
use crate::texts;

/// When no exit was seen this long after SIGKILL, it is sent again.
const KILL_AGAIN_AFTER: TickDuration = TickDuration::from_secs(10);

impl Containers {
    /// For so long nothing could be asked to end. What was asked before has had its grace since.
    pub(crate) fn put_stops_off(&mut self, by: TickDuration, outbox: &Outbox) {
        for container in &mut self.list {
            if let Some(stop) = container.stop_mut()
                && stop.awaits_way(outbox)
            {
                stop.kill_at = stop.kill_at + by;
                stop.not_before = stop.not_before + by;
            }
        }
    }

    /// Of a container that was being started when all was to end: since when it is to end.
    pub(crate) fn halted_since(&self, place: usize) -> Option<Tick> {
        match self.list[place].state {
            ProcessState::Starting { halted, .. } => halted,
            ProcessState::Idle(_) | ProcessState::Pulling { .. } | ProcessState::Running { .. } => {
                None
            }
        }
    }

    /// All that is still being started is to end from now on.
    pub(crate) fn halt_starts_from(&mut self, now: Tick) {
        for container in &mut self.list {
            if let ProcessState::Starting { halted: Some(since), .. } = &mut container.state {
                *since = now;
            }
        }
    }

    /// Whether something was being started when all was to end. The deadline is put off when it is
    /// known what became of it.
    pub(crate) fn await_halted_start(&self) -> bool {
        (0..self.list.len()).any(|place| self.halted_since(place).is_some())
    }

    /// The sandbox has died. Ends may go unseen in it now: a container that was signalled before is
    /// signalled again, and taken for gone if that fails.
    pub(crate) fn signal_again(&mut self) {
        for container in &mut self.list {
            let Some(stop) = container.stop_mut() else { continue };
            match stop.step {
                // No hook can be run in what is gone.
                StopStep::PreStop(_) | StopStep::AwaitTurn | StopStep::Grace => {
                    stop.step = StopStep::Signal(RetriedTask::due());
                }
                StopStep::Signal(_) | StopStep::Kill(_) | StopStep::AwaitExit { .. } => {}
            }
        }
    }

    /// Gives each running container its part of a halt.
    pub(crate) fn drive_halt(&mut self, context: &PodContext<'_>, outbox: &mut Outbox) {
        let Some(halt) = context.halt() else { return };
        let holds_sidecars = |role: RoleInPod| match role {
            RoleInPod::Init | RoleInPod::Regular => true,
            RoleInPod::Sidecar | RoleInPod::Ephemeral => false,
        };
        let mut later_live =
            self.list.iter().any(|c| holds_sidecars(c.definition.role) && c.is_live());
        for place in (0..self.list.len()).rev() {
            let role = self.list[place].definition.role;
            if !context.is_halted(role) {
                continue;
            }
            self.list[place].withdraw(context);
            let kill_at = self.kill_time(halt, role, later_live, context.now);
            let container = &mut self.list[place];
            container.obey_halt(halt, kill_at, context, outbox);
            later_live |= role == RoleInPod::Sidecar && container.is_live();
        }
    }

    /// When a container is killed if it is signalled now; `None` when its turn has not come.
    fn kill_time(&self, halt: Halt, role: RoleInPod, later_live: bool, now: Tick) -> Option<Tick> {
        match (halt, role) {
            (Halt::AtOnce, _) => Some(now),
            (
                Halt::By { deadline, .. },
                RoleInPod::Init | RoleInPod::Regular | RoleInPod::Ephemeral,
            ) => Some(deadline),
            (Halt::By { deadline, .. }, RoleInPod::Sidecar)
                if !later_live || (deadline <= now && !self.await_halted_start()) =>
            {
                Some(deadline.max(now + GRACE_MIN))
            }
            (Halt::By { .. }, RoleInPod::Sidecar) => None,
        }
    }

    /// Whether a container is on its way to its end.
    pub(crate) fn is_any_stopping(&self) -> bool {
        let is_stopping = |container: &PodContainer| {
            matches!(container.state, ProcessState::Running { stop: Some(_), .. })
        };
        self.list.iter().any(is_stopping)
    }

    /// Carries out what each container that is being stopped needs next.
    pub(crate) fn drive_stops(&mut self, context: &PodContext<'_>, outbox: &mut Outbox) {
        for container in &mut self.list {
            container.drive_stop(context, outbox);
        }
    }

    /// The answer to a stop signal, or to SIGKILL; a late one about another step changes nothing.
    pub(crate) fn stop_answered(
        &mut self,
        place: usize,
        id: ActionId,
        result: Result<ActionOutcome, ActionError>,
        context: &PodContext<'_>,
        outbox: &mut Outbox,
    ) -> EndConsequence {
        let container = &mut self.list[place];
        match container.take_stop_answer(id, result, context.now) {
            StopAnswer::Obeyed => EndConsequence::None,
            // a process of a dead sandbox that does not obey is taken for gone: the teardown ends
            // it if it is not
            StopAnswer::SignalFailed | StopAnswer::KillFailed(_) if context.sandboxes.is_dead() => {
                container.vanish(context, outbox)
            }
            StopAnswer::SignalFailed => EndConsequence::None, // SIGKILL comes anyway
            StopAnswer::KillFailed(error) => {
                let name = &container.definition.name;
                outbox.emit(texts::failed_kill_container(name, &error.message));
                EndConsequence::None
            }
        }
    }
}

/// What came of a stop signal or of SIGKILL.
enum StopAnswer {
    /// It is on its way, or nothing waited for this answer.
    Obeyed,
    SignalFailed,
    KillFailed(ActionError),
}

impl PodContainer {
    /// What was on its way to a container is not waited for.
    fn withdraw(&mut self, context: &PodContext<'_>) {
        match &mut self.state {
            // See `begin_round_in_new_sandbox`.
            ProcessState::Pulling { .. } if context.halts_for_sandbox_only() => {}
            ProcessState::Pulling { .. } => self.state = ProcessState::Idle(StartHold::None),
            ProcessState::Starting { halted, .. } => {
                halted.get_or_insert(context.now);
            }
            ProcessState::Idle(_) | ProcessState::Running { .. } => {}
        }
        if context.lifecycle.is_ending() {
            self.give_up();
        }
    }

    /// Takes its part of a halt. It is killed at `kill_at` if it is signalled now; `None` when its
    /// turn has not come.
    fn obey_halt(
        &mut self,
        halt: Halt,
        kill_at: Option<Tick>,
        context: &PodContext<'_>,
        outbox: &mut Outbox,
    ) {
        let why = context.halt_reason();
        let ProcessState::Running { stop, .. } = &self.state else { return };
        match (*stop, kill_at, halt) {
            (None, Some(kill_at), _) => self.begin_stop(kill_at, why, context, outbox),
            (Some(stop), Some(kill_at), _) => match stop.step {
                StopStep::AwaitTurn => self.take_turn(kill_at, context.now),
                StopStep::PreStop(_)
                | StopStep::Signal(_)
                | StopStep::Grace
                | StopStep::Kill(_)
                | StopStep::AwaitExit { .. } => self.shorten_stop(kill_at, halt, context.now),
            },
            (None, None, Halt::By { deadline, .. }) if self.has_pre_stop(why, context) => {
                self.begin_stop(deadline, why, context, outbox);
            }
            (Some(_), None, Halt::By { deadline, .. }) => {
                self.shorten_stop(deadline, halt, context.now);
            }
            (Some(_) | None, None, _) => {}
        }
    }

    /// Whether a stop for this reason begins with a hook.
    fn has_pre_stop(&self, why: StopReason, context: &PodContext<'_>) -> bool {
        let wanted = match why {
            StopReason::RestartRule => false,
            StopReason::Halt
            | StopReason::RestartAsked
            | StopReason::ImageChanged
            | StopReason::Resize
            | StopReason::StartupFailed
            | StopReason::LivenessFailed
            | StopReason::PostStartFailed => true,
        };
        let given = self.definition.pre_stop == HookPresence::Given;
        wanted && given && context.sandboxes.is_ready()
    }

    /// Begins the end of a running container.
    pub(super) fn begin_stop(
        &mut self,
        kill_at: Tick,
        why: StopReason,
        context: &PodContext<'_>,
        outbox: &mut Outbox,
    ) {
        self.set_stop(kill_at, why, context);
        outbox.emit(texts::killing(&self.definition, why));
    }

    /// The same of one whose end an earlier agent has told of.
    pub(super) fn set_stop(&mut self, kill_at: Tick, why: StopReason, context: &PodContext<'_>) {
        let step = if kill_at <= context.now {
            StopStep::Kill(RetriedTask::due())
        } else if self.has_pre_stop(why, context) {
            StopStep::PreStop(HookRun::Due)
        } else {
            StopStep::Signal(RetriedTask::due())
        };
        if let ProcessState::Running { stop, .. } = &mut self.state {
            *stop = Some(ContainerStop { step, kill_at, not_before: Tick::ZERO, reason: why });
        }
    }

    fn shorten_stop(&mut self, kill_at: Tick, halt: Halt, now: Tick) {
        let Some(stop) = self.stop_mut() else { return };
        stop.reason = StopReason::Halt;
        match (halt, stop.step) {
            // No hook is waited for, and nothing is left of the grace after it.
            (Halt::AtOnce, StopStep::PreStop(_) | StopStep::AwaitTurn) => {
                stop.kill_at = now;
                stop.step = StopStep::Kill(RetriedTask::due());
            }
            (Halt::AtOnce, _) => stop.kill_at = stop.kill_at.min(kill_at),
            (Halt::By { .. }, _) => {
                stop.kill_at = stop.kill_at.min(kill_at.max(stop.not_before));
            }
        }
    }

    /// A sidecar whose hook has ended gets its signal.
    fn take_turn(&mut self, kill_at: Tick, now: Tick) {
        if let Some(stop) = self.stop_mut() {
            stop.kill_at = kill_at;
            stop.step = if kill_at <= now {
                StopStep::Kill(RetriedTask::due())
            } else {
                StopStep::Signal(RetriedTask::due())
            };
        }
    }

    fn drive_stop(&mut self, context: &PodContext<'_>, outbox: &mut Outbox) {
        let now = context.now;
        let (place, sandbox) = (self.place, context.sandboxes.attempt());
        let ProcessState::Running { stop: Some(stop), .. } = &mut self.state else { return };
        let (name, attempt) = (&self.definition.name, self.number);
        let key = || ContainerStartKey { sandbox, name: name.clone(), attempt };
        match &mut stop.step {
            StopStep::PreStop(_) => self.drive_pre_stop(context, outbox),
            StopStep::Signal(_) | StopStep::Grace if stop.kill_at <= now => {
                stop.step = StopStep::Kill(RetriedTask::due());
            }
            StopStep::Signal(task) if task.is_due(now) => {
                let action = CoreAction::SignalContainer { key: key() };
                task.begin(outbox.act(action, PendingAnswer::Signal(place)));
            }
            StopStep::Kill(task) if task.is_due(now) => {
                let action = CoreAction::KillContainer { key: key() };
                task.begin(outbox.act(action, PendingAnswer::Kill(place)));
            }
            StopStep::AwaitExit { again_at } if *again_at <= now => {
                stop.step = StopStep::Kill(RetriedTask::due());
            }
            StopStep::AwaitTurn
            | StopStep::Signal(_)
            | StopStep::Grace
            | StopStep::Kill(_)
            | StopStep::AwaitExit { .. } => {}
        }
    }

    fn take_stop_answer(
        &mut self,
        id: ActionId,
        result: Result<ActionOutcome, ActionError>,
        now: Tick,
    ) -> StopAnswer {
        let Some(stop) = self.stop_mut() else { return StopAnswer::Obeyed };
        match (&mut stop.step, result) {
            (StopStep::Signal(task) | StopStep::Kill(task), _) if !task.is(id) => {}
            (StopStep::Signal(_), Ok(_)) => stop.step = StopStep::Grace,
            (StopStep::Kill(_), Ok(_)) => {
                stop.step = StopStep::AwaitExit { again_at: now + KILL_AGAIN_AFTER };
            }
            (StopStep::Signal(task), Err(_)) => {
                task.failed(now, RetryDelays::USUAL);
                return StopAnswer::SignalFailed;
            }
            (StopStep::Kill(task), Err(error)) => {
                task.failed(now, RetryDelays::USUAL);
                return StopAnswer::KillFailed(error);
            }
            (
                StopStep::PreStop(_)
                | StopStep::AwaitTurn
                | StopStep::Grace
                | StopStep::AwaitExit { .. },
                _,
            ) => {}
        }
        StopAnswer::Obeyed
    }
}

impl ContainerStop {
    /// Whether its next step was decided, and the driver has not taken it yet.
    pub(super) fn awaits_way(&self, outbox: &Outbox) -> bool {
        let action = match &self.step {
            StopStep::PreStop(HookRun::InFlight(id)) => Some(*id),
            StopStep::Signal(task) => task.action(),
            StopStep::PreStop(HookRun::Due)
            | StopStep::AwaitTurn
            | StopStep::Grace
            | StopStep::Kill(_)
            | StopStep::AwaitExit { .. } => None,
        };
        action.is_some_and(|id| outbox.is_queued(id))
    }
}
