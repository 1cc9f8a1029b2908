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

use crate::action::Action;
use crate::backoff::{RetryDelays, Task};
use crate::blueprint::{Hook, Role};
use crate::container::{Container, State, Stop, StopReason, StopStep};
use crate::core::{Keep, Lifecycle, PodCore};
use crate::event::{ActionError, Outcome};
use crate::health::HookRun;
use crate::journal::{Halt, RestartCause, RestartStage};
use crate::key::ActionId;
use crate::outbox::{Outbox, Pending};
use crate::sandbox::SandboxState;
use crate::texts;

/// What a container gets at least between its signal and SIGKILL when its hook or the sidecars'
/// order used the grace up (`minimumGracePeriodInSeconds` of the kubelet).
pub(crate) const GRACE_MIN: TickDuration = TickDuration::from_secs(2);
/// When no exit was seen this long after SIGKILL, it is sent again.
const KILL_AGAIN_AFTER: TickDuration = TickDuration::from_secs(10);

impl Halt {
    /// From now on, with this grace.
    pub(crate) fn with_grace(now: Tick, grace: TickDuration) -> Self {
        if grace == TickDuration::ZERO { Self::AtOnce } else { Self::with_signal(now, grace) }
    }

    /// The same, where none of it leaves time for the signal at least.
    pub(crate) fn with_signal(now: Tick, grace: TickDuration) -> Self {
        Self::By { deadline: now + grace, grace }
    }

    /// The same for an agent that takes it up now: no later than so long after `now`, as the clock
    /// may have been set back, and no sooner than the least that follows a hook. The deadline stays
    /// otherwise, or each agent that is killed would put the end off; for whom nobody has come to
    /// ask yet see `taken_up`.
    pub(crate) fn taken_up(self, now: Tick, grace: TickDuration) -> Self {
        match self {
            Self::AtOnce => Self::AtOnce,
            Self::By { deadline, grace: given } => {
                Self::By { deadline: deadline.min(now + grace).max(now + GRACE_MIN), grace: given }
            }
        }
    }

    fn put_off(&mut self, by: TickDuration) {
        match self {
            Self::AtOnce => {}
            Self::By { deadline, .. } => *deadline = *deadline + by,
        }
    }

    pub(crate) fn put_off_until(&mut self, at: Tick) {
        match self {
            Self::AtOnce => {}
            Self::By { deadline, .. } => *deadline = (*deadline).max(at),
        }
    }

    /// The one that ends sooner; with the shorter of both graces.
    pub(crate) fn sooner(self, other: Self) -> Self {
        match (self, other) {
            (Self::AtOnce, _) | (_, Self::AtOnce) => Self::AtOnce,
            (Self::By { deadline: a, grace: one }, Self::By { deadline: b, grace: other }) => {
                Self::By { deadline: a.min(b), grace: one.min(other) }
            }
        }
    }
}

impl PodCore {
    /// What all containers have to end for, if they have to.
    pub(crate) fn halt(&self) -> Option<Halt> {
        let of_restart = match &self.restart {
            Some(restart) => match restart.stage {
                RestartStage::Stopping { halt } => Some(halt),
                RestartStage::Starting | RestartStage::Cycling { .. } => None,
            },
            None => None,
        };
        let of_sandbox = match self.sandbox.state {
            SandboxState::Dead { halt } => Some(halt),
            SandboxState::Absent(_) | SandboxState::Ready => None,
        };
        match &self.lifecycle {
            Lifecycle::Recovering { .. } | Lifecycle::Finished(_) => None,
            Lifecycle::Ending(ending) => Some(ending.halt),
            Lifecycle::Active => of_restart.into_iter().chain(of_sandbox).reduce(Halt::sooner),
        }
    }

    /// Whether nothing can be asked to end now.
    pub(crate) fn stands_still(&self) -> bool {
        self.is_held_up() && self.is_active()
    }

    /// For so long nothing could be asked to end. What was asked before has had its grace
    /// meanwhile.
    pub(crate) fn put_halts_off(&mut self, by: TickDuration) {
        match self.restart.as_mut().map(|restart| &mut restart.stage) {
            Some(RestartStage::Stopping { halt } | RestartStage::Cycling { halt, .. }) => {
                halt.put_off(by);
            }
            Some(RestartStage::Starting) | None => {}
        }
        match &mut self.sandbox.state {
            SandboxState::Dead { halt } => halt.put_off(by),
            SandboxState::Absent(_) | SandboxState::Ready => {}
        }
        let outbox = &self.outbox;
        for container in &mut self.containers {
            if let State::Running { stop: Some(stop), .. } = &mut container.state
                && stop.awaits_way(outbox)
            {
                stop.kill_at = stop.kill_at + by;
                stop.not_before = stop.not_before + by;
            }
        }
    }

    /// What was being started when all was to end can be asked to from now on, and so it has its
    /// grace from now on, with the sidecars that waited for it. Whoever was asked before keeps the
    /// deadline that it was given.
    pub(crate) fn put_halt_off_for_start(&mut self, place: usize) {
        let State::Starting { halted: Some(since), .. } = self.containers[place].state else {
            return;
        };
        // the next agent reads from the journal by when it has to end
        self.keep(Keep::Now);
        let by = self.now.since(since);
        if by == TickDuration::ZERO {
            return;
        }
        match (&mut self.lifecycle, &mut self.restart, &mut self.sandbox.state) {
            (Lifecycle::Ending(ending), _, _) => ending.halt.put_off(by),
            (Lifecycle::Recovering { .. } | Lifecycle::Finished(_), _, _) => {}
            (Lifecycle::Active, restart, sandbox) => {
                if let Some(RestartStage::Stopping { halt }) =
                    restart.as_mut().map(|restart| &mut restart.stage)
                {
                    halt.put_off(by);
                }
                match sandbox {
                    SandboxState::Dead { halt } => halt.put_off(by),
                    SandboxState::Absent(_) | SandboxState::Ready => {}
                }
            }
        }
        // others that are still being started have waited for these moments, too
        for container in &mut self.containers {
            if let State::Starting { halted: Some(since), .. } = &mut container.state {
                *since = self.now;
            }
        }
    }

    /// Whether something was being started when all was to end. The deadline is put off when it is
    /// known what became of it.
    fn awaits_start(&self) -> bool {
        let awaited = |container: &Container| match container.state {
            State::Starting { halted, .. } => halted.is_some(),
            State::Idle(_) | State::Pulling { .. } | State::Running { .. } => false,
        };
        self.containers.iter().any(awaited)
    }

    /// When sidecars are signalled although it is not their turn.
    pub(crate) fn halt_deadline(&self) -> Option<Tick> {
        if self.stands_still() || self.awaits_start() {
            return None;
        }
        match self.halt()? {
            Halt::AtOnce => None,
            Halt::By { deadline, .. } => {
                Some(deadline).filter(|d| *d > self.now && !self.nothing_lives())
            }
        }
    }

    /// Gives each running container its part of a halt.
    pub(crate) fn drive_halt(&mut self) {
        let Some(halt) = self.halt() else { return };
        let holds_sidecars = |role: Role| match role {
            Role::Init | Role::Regular => true,
            Role::Sidecar | Role::Ephemeral => false,
        };
        let mut later_live =
            self.containers.iter().any(|c| holds_sidecars(c.definition.role) && c.is_live());
        for place in (0..self.containers.len()).rev() {
            if !self.is_halted(self.containers[place].definition.role) {
                continue;
            }
            self.withdraw(place);
            let container = &self.containers[place];
            let role = container.definition.role;
            let running = match &container.state {
                State::Running { stop, .. } => Some(*stop),
                State::Idle(_) | State::Pulling { .. } | State::Starting { .. } => None,
            };
            let why = self.halt_reason();
            match (running, self.kill_time(halt, role, later_live), halt) {
                (Some(None), Some(kill_at), _) => self.begin_stop(place, kill_at, why),
                (Some(Some(stop)), Some(kill_at), _) => match stop.step {
                    StopStep::AwaitTurn => self.take_turn(place, kill_at),
                    StopStep::PreStop(_)
                    | StopStep::Signal(_)
                    | StopStep::Grace
                    | StopStep::Kill(_)
                    | StopStep::AwaitExit { .. } => self.shorten_stop(place, kill_at, halt),
                },
                (Some(None), None, Halt::By { deadline, .. }) if self.has_pre_stop(place, why) => {
                    self.begin_stop(place, deadline, why);
                }
                (Some(Some(_)), None, Halt::By { deadline, .. }) => {
                    self.shorten_stop(place, deadline, halt);
                }
                (Some(_), None, _) | (None, _, _) => {}
            }
            later_live |= role == Role::Sidecar && self.containers[place].is_live();
        }
    }

    /// When a container is killed if it is signalled now; `None` when its turn has not come.
    fn kill_time(&self, halt: Halt, role: Role, later_live: bool) -> Option<Tick> {
        match (halt, role) {
            (Halt::AtOnce, _) => Some(self.now),
            (Halt::By { deadline, .. }, Role::Init | Role::Regular | Role::Ephemeral) => {
                Some(deadline)
            }
            (Halt::By { deadline, .. }, Role::Sidecar)
                if !later_live || (deadline <= self.now && !self.awaits_start()) =>
            {
                Some(deadline.max(self.now + GRACE_MIN))
            }
            (Halt::By { .. }, Role::Sidecar) => None,
        }
    }

    /// What was on its way to a container is not waited for.
    fn withdraw(&mut self, place: usize) {
        let ends_for_good = self.is_ending();
        let for_sandbox = self.halts_for_sandbox_only();
        let now = self.now;
        let container = &mut self.containers[place];
        match &mut container.state {
            // See `begin_round_in_new_sandbox`.
            State::Pulling { .. } if for_sandbox => {}
            State::Pulling { .. } => container.state = State::Idle(crate::container::Hold::None),
            State::Starting { halted, .. } => {
                halted.get_or_insert(now);
            }
            State::Idle(_) | State::Running { .. } => {}
        }
        if ends_for_good {
            container.give_up();
        }
    }

    /// Whether all has to end for no other reason than that the sandbox has died.
    fn halts_for_sandbox_only(&self) -> bool {
        let restart_ends_all = self.restart.as_ref().is_some_and(|restart| match restart.stage {
            RestartStage::Stopping { .. } => true,
            RestartStage::Starting | RestartStage::Cycling { .. } => false,
        });
        self.is_active() && !restart_ends_all
    }

    /// What the halt in progress gives as the reason.
    fn halt_reason(&self) -> StopReason {
        let by_rule = self.restart.as_ref().is_some_and(|restart| match restart.cause {
            RestartCause::Rule { .. } => true,
            RestartCause::Asked { .. } => false,
        });
        if by_rule && self.is_active() { StopReason::RestartRule } else { StopReason::Halt }
    }

    /// Whether a stop for this reason begins with a hook.
    fn has_pre_stop(&self, place: usize, why: StopReason) -> bool {
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
        let given = self.containers[place].definition.pre_stop == Hook::Given;
        wanted && given && self.sandbox.is_ready()
    }

    /// Begins the end of a running container.
    pub(crate) fn begin_stop(&mut self, place: usize, kill_at: Tick, why: StopReason) {
        self.stop(place, kill_at, why);
        let event = texts::killing(&self.containers[place].definition, why);
        self.emit(event);
        if why.failing().is_some() {
            // an agent that is killed before the end would not know what follows it
            self.keep(Keep::WithNextAction);
        }
    }

    /// The same of one whose end an earlier agent has told of.
    pub(crate) fn stop(&mut self, place: usize, kill_at: Tick, why: StopReason) {
        let step = if kill_at <= self.now {
            StopStep::Kill(Task::due())
        } else if self.has_pre_stop(place, why) {
            StopStep::PreStop(HookRun::Due)
        } else {
            StopStep::Signal(Task::due())
        };
        let container = &mut self.containers[place];
        if let State::Running { stop, .. } = &mut container.state {
            *stop = Some(Stop { step, kill_at, not_before: Tick::ZERO, reason: why });
            self.moved = true;
        }
    }

    fn shorten_stop(&mut self, place: usize, kill_at: Tick, halt: Halt) {
        if let State::Running { stop: Some(stop), .. } = &mut self.containers[place].state {
            stop.reason = StopReason::Halt;
            match (halt, stop.step) {
                // No hook is waited for, and nothing is left of the grace after it.
                (Halt::AtOnce, StopStep::PreStop(_) | StopStep::AwaitTurn) => {
                    stop.kill_at = self.now;
                    stop.step = StopStep::Kill(Task::due());
                    self.moved = true;
                }
                (Halt::AtOnce, _) => stop.kill_at = stop.kill_at.min(kill_at),
                (Halt::By { .. }, _) => {
                    stop.kill_at = stop.kill_at.min(kill_at.max(stop.not_before));
                }
            }
        }
    }

    /// A sidecar whose hook has ended gets its signal.
    fn take_turn(&mut self, place: usize, kill_at: Tick) {
        if let State::Running { stop: Some(stop), .. } = &mut self.containers[place].state {
            stop.kill_at = kill_at;
            stop.step = if kill_at <= self.now {
                StopStep::Kill(Task::due())
            } else {
                StopStep::Signal(Task::due())
            };
            self.moved = true;
        }
    }

    /// Carries out what each container that is being stopped needs next.
    pub(crate) fn drive_stops(&mut self) {
        let now = self.now;
        for place in 0..self.containers.len() {
            let key = self.containers[place].key(self.sandbox.attempt);
            let State::Running { stop: Some(stop), .. } = &mut self.containers[place].state else {
                continue;
            };
            match &mut stop.step {
                StopStep::PreStop(_) => self.drive_pre_stop(place, key),
                StopStep::Signal(_) | StopStep::Grace if stop.kill_at <= now => {
                    stop.step = StopStep::Kill(Task::due());
                    self.moved = true;
                }
                StopStep::Signal(task) if task.is_due(now) => {
                    let action = Action::SignalContainer { key };
                    task.begin(self.outbox.act(action, Pending::Signal(place)));
                }
                StopStep::Kill(task) if task.is_due(now) => {
                    let action = Action::KillContainer { key };
                    task.begin(self.outbox.act(action, Pending::Kill(place)));
                }
                StopStep::AwaitExit { again_at } if *again_at <= now => {
                    stop.step = StopStep::Kill(Task::due());
                    self.moved = true;
                }
                StopStep::AwaitTurn
                | StopStep::Signal(_)
                | StopStep::Grace
                | StopStep::Kill(_)
                | StopStep::AwaitExit { .. } => {}
            }
        }
    }

    /// The answer to its stop signal, or to SIGKILL; a late one about another step changes nothing.
    pub(crate) fn stop_answered(
        &mut self,
        place: usize,
        id: ActionId,
        result: Result<Outcome, ActionError>,
    ) {
        let now = self.now;
        let State::Running { stop: Some(stop), .. } = &mut self.containers[place].state else {
            return;
        };
        let (task, next, complains) = match &mut stop.step {
            StopStep::Signal(task) => (task, StopStep::Grace, Complains::No),
            StopStep::Kill(task) => {
                (task, StopStep::AwaitExit { again_at: now + KILL_AGAIN_AFTER }, Complains::Yes)
            }
            StopStep::PreStop(_)
            | StopStep::AwaitTurn
            | StopStep::Grace
            | StopStep::AwaitExit { .. } => return,
        };
        if !task.is(id) {
            return;
        }
        match result {
            Ok(_) => stop.step = next,
            Err(error) => {
                task.failed(now, RetryDelays::USUAL);
                if !self.take_for_gone_in_dead_sandbox(place) && complains == Complains::Yes {
                    let name = &self.containers[place].definition.name;
                    let event = texts::failed_kill_container(name, &error.message);
                    self.emit(event);
                }
            }
        }
    }
}

impl Stop {
    /// Whether its next step was decided, and the driver has not taken it yet.
    pub(crate) fn awaits_way(&self, outbox: &Outbox) -> bool {
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

/// Whether a failure is told by an event.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Complains {
    Yes,
    /// SIGKILL comes anyway.
    No,
}
