//! The pod's sandbox: the namespaces, the cgroup and the network that its containers share.
//!
//! ```text
//!            volumes ready                   answered
//!  Absent ───────────────────► being set up ──────────► Ready ──── it died ────► Dead ─┐
//!    ▲    ◄── held, again ───────── failed                │ restart of the pod         │ its containers have ended
//!    │                                                    ▼                            ▼
//!    └── the next attempt ◄─────────────────────── given up: an OldSandbox, torn down
//! ```
//! As in the kubelet, a sandbox that died is replaced unless nothing is left to be started in it
//! (event `SandboxChanged`); UID and volumes stay, init containers run again. Two deviations: a
//! failed setup is tried again after 1 s doubling to 10 s, and a pod with restartPolicy Never whose
//! init containers ran while no regular container did goes on in a new sandbox; the kubelet leaves
//! it Pending for ever.
//!
//! Deleting a network is slow (20 ms of the 27 ms of a whole-pod restart), so an old sandbox whose
//! containers have surely ended is torn down when nothing is on its way to run. One that may still
//! hold a process goes first.

use std::net::IpAddr;

use rekindle_types::{SandboxAttempt, Tick};

use crate::action::Action;
use crate::backoff::{RetryDelays, Task};
use crate::blueprint::Role;
use crate::container::{FollowUp, Round, State, StopStep};
use crate::containers::ClearanceStep;
use crate::core::{Keep, PodCore};
use crate::event::{ActionError, Outcome};
use crate::journal::Halt;
use crate::key::ActionId;
use crate::outbox::Pending;
use crate::texts;

/// The current sandbox.
#[derive(Debug)]
pub(crate) struct Sandbox {
    /// The newest attempt that was given out.
    pub(crate) attempt: SandboxAttempt,
    pub(crate) state: SandboxState,
}

/// What the current sandbox does.
#[derive(Debug, PartialEq)]
pub(crate) enum SandboxState {
    /// It does not stand: to be set up, being set up, or held after a failure.
    Absent(Task),
    /// Containers can live in it.
    Ready,
    /// It went without having been asked to; its containers get until then to end.
    Dead { halt: Halt },
}

/// A sandbox that was given up.
#[derive(Debug)]
pub(crate) struct OldSandbox {
    pub(crate) attempt: SandboxAttempt,
    pub(crate) remains: Remains,
    pub(crate) task: Task,
}

/// What may be left in a sandbox that was given up.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Remains {
    /// All its containers have been seen to end.
    Nothing,
    /// A process may be left that nobody sees: nothing starts before it is torn down.
    MaybeProcesses,
}

impl OldSandbox {
    pub(crate) fn may_live(&self) -> bool {
        match self.remains {
            Remains::Nothing => false,
            Remains::MaybeProcesses => true,
        }
    }
}

impl Sandbox {
    pub(crate) fn new(attempt: SandboxAttempt) -> Self {
        Self { attempt, state: SandboxState::Absent(Task::due()) }
    }

    /// The next one, after this one died.
    pub(crate) fn succeed_dead(&mut self) {
        self.attempt = self.attempt.next();
    }

    pub(crate) fn is_ready(&self) -> bool {
        match self.state {
            SandboxState::Ready => true,
            SandboxState::Absent(_) | SandboxState::Dead { .. } => false,
        }
    }

    pub(crate) fn deadline(&self) -> Option<Tick> {
        match &self.state {
            SandboxState::Absent(task) => task.deadline(),
            SandboxState::Ready | SandboxState::Dead { .. } => None,
        }
    }

    pub(crate) fn is_in_flight(&self) -> bool {
        match &self.state {
            SandboxState::Absent(task) => task.is_in_flight(),
            SandboxState::Ready | SandboxState::Dead { .. } => false,
        }
    }

    /// Whether something of it may be in the runtime: also of a setup that failed nobody knows how
    /// far it came.
    pub(crate) fn may_stand(&self) -> bool {
        match &self.state {
            SandboxState::Ready | SandboxState::Dead { .. } => true,
            SandboxState::Absent(task) => task.has_failed() && !task.is_in_flight(),
        }
    }

    pub(crate) fn stands(&self) -> bool {
        match self.state {
            SandboxState::Ready | SandboxState::Dead { .. } => true,
            SandboxState::Absent(_) => false,
        }
    }
}

impl PodCore {
    /// Sets the sandbox up when it is absent.
    pub(crate) fn drive_sandbox(&mut self) {
        if !self.volumes.let_sandbox_start() || self.earlier_sandbox_may_live() {
            return;
        }
        let now = self.now;
        let used = self.attempt_was_used();
        if let SandboxState::Absent(task) = &mut self.sandbox.state
            && task.is_due(now)
        {
            if used {
                self.sandbox.attempt = self.sandbox.attempt.next();
            }
            let attempt = self.sandbox.attempt;
            let action = Action::SetUpSandbox { attempt };
            task.begin(self.outbox.act(action, Pending::SandboxSetUp));
            // The attempt number is kept before it is used.
            self.keep(Keep::Now);
            self.moved = true;
        }
    }

    /// An attempt in which a container has ended is never set up again; it may be asked for when an
    /// agent starts on a machine that lost everything.
    fn attempt_was_used(&self) -> bool {
        let mut ends = self.containers.iter().filter_map(|container| container.last.as_ref());
        ends.any(|last| last.sandbox == self.sandbox.attempt)
    }

    pub(crate) fn sandbox_answered(&mut self, id: ActionId, result: Result<Outcome, ActionError>) {
        let now = self.now;
        let task = match &mut self.sandbox.state {
            SandboxState::Absent(task) if task.is(id) => task,
            SandboxState::Absent(_) | SandboxState::Ready | SandboxState::Dead { .. } => return,
        };
        match result {
            Ok(Outcome::SandboxReady { ips }) => self.sandbox_stands(ips),
            Ok(other) => {
                task.failed(now, RetryDelays::USUAL);
                let text = format!("the runtime answered {other:?} to the setup of a sandbox");
                self.emit(texts::failed_create_sandbox(&text));
            }
            Err(error) => {
                task.failed(now, RetryDelays::USUAL);
                self.emit(texts::failed_create_sandbox(&error.message));
            }
        }
    }

    /// The current sandbox is there, with these addresses.
    pub(crate) fn sandbox_stands(&mut self, ips: Vec<IpAddr>) {
        self.sandbox.state = SandboxState::Ready;
        self.ips = ips;
        self.status_changed = true;
    }

    /// The current sandbox went by itself: its containers get the pod's grace, then all of it is
    /// replaced.
    pub(crate) fn sandbox_died(&mut self, attempt: SandboxAttempt) {
        if attempt != self.sandbox.attempt || !self.sandbox.is_ready() {
            return;
        }
        let halt = Halt::with_signal(self.now, self.blueprint.grace);
        self.sandbox.state = SandboxState::Dead { halt };
        self.status_changed = true;
        // Its ends may go unseen now: who was signalled before is signalled again, and taken for
        // gone if that fails.
        for container in &mut self.containers {
            if let State::Running { stop: Some(stop), .. } = &mut container.state {
                match stop.step {
                    // No hook can be run in what is gone.
                    StopStep::PreStop(_) | StopStep::AwaitTurn | StopStep::Grace => {
                        stop.step = StopStep::Signal(Task::due());
                    }
                    StopStep::Signal(_) | StopStep::Kill(_) | StopStep::AwaitExit { .. } => {}
                }
            }
        }
        if self.is_active() && self.something_would_run_again() {
            self.emit(texts::sandbox_changed());
        }
    }

    /// Replaces a dead sandbox once its containers have ended. Whether something is left to be
    /// started in a new one was asked before: a pod without is ending by then.
    pub(crate) fn drive_dead_sandbox(&mut self) {
        match self.sandbox.state {
            SandboxState::Dead { .. } if self.nothing_lives() => {}
            SandboxState::Dead { .. } | SandboxState::Absent(_) | SandboxState::Ready => return,
        }
        self.give_up_sandbox();
        self.sandbox.succeed_dead();
        self.begin_round(Round::NewSandbox);
    }

    /// The current sandbox is not the current one any more. The next one gets its number where the
    /// reason is known.
    pub(crate) fn give_up_sandbox(&mut self) {
        if self.sandbox.may_stand() {
            let (attempt, remains) = (self.sandbox.attempt, self.remains());
            self.old_sandboxes.push(OldSandbox { attempt, remains, task: Task::due() });
        }
        self.clearance.retain(|key, _| key.sandbox != self.sandbox.attempt);
        self.sandbox.state = SandboxState::Absent(Task::due());
        self.status_changed = true;
        self.keep(Keep::Now);
        self.moved = true;
    }

    /// What the current sandbox may still hold when the core knows of no live container. In a dead
    /// sandbox the ends were not seen, and strays may still be due to be killed.
    fn remains(&self) -> Remains {
        let strays = self.clearance.values().any(|e| e.step != ClearanceStep::Remove);
        match self.sandbox.state {
            SandboxState::Dead { .. } => Remains::MaybeProcesses,
            SandboxState::Ready | SandboxState::Absent(_) if strays => Remains::MaybeProcesses,
            SandboxState::Ready | SandboxState::Absent(_) => Remains::Nothing,
        }
    }

    /// A process of a dead sandbox that does not obey is taken for gone: the teardown ends it if it
    /// is not.
    pub(crate) fn take_for_gone_in_dead_sandbox(&mut self, place: usize) -> bool {
        let dead = match self.sandbox.state {
            SandboxState::Dead { .. } => true,
            SandboxState::Ready | SandboxState::Absent(_) => false,
        };
        if dead {
            self.container_vanished(place);
        }
        dead
    }

    /// Tears old sandboxes down: at once those that may hold a process, the others when nothing is
    /// on its way to run.
    pub(crate) fn drive_teardown(&mut self) {
        let idle = self.is_ending()
            || (self.sandbox.is_ready()
                && self.volumes.is_ready()
                && !self.containers.iter().any(|c| c.is_on_its_way()))
            || self.old_network_is_in_the_way();
        let now = self.now;
        for old in &mut self.old_sandboxes {
            if (idle || old.may_live()) && old.task.is_due(now) {
                let attempt = old.attempt;
                let action = Action::TearDownSandbox { attempt };
                old.task.begin(self.outbox.act(action, Pending::SandboxTearDown(attempt)));
                self.moved = true;
            }
        }
    }

    /// A setup failed: what the sandbox before it still holds may be the reason.
    fn old_network_is_in_the_way(&self) -> bool {
        match &self.sandbox.state {
            SandboxState::Absent(task) => task.has_failed(),
            SandboxState::Ready | SandboxState::Dead { .. } => false,
        }
    }

    pub(crate) fn teardown_answered(
        &mut self,
        attempt: SandboxAttempt,
        id: ActionId,
        result: Result<Outcome, ActionError>,
    ) {
        let now = self.now;
        let Some(place) =
            self.old_sandboxes.iter().position(|old| old.attempt == attempt && old.task.is(id))
        else {
            return;
        };
        match result {
            Ok(_) => {
                self.old_sandboxes.remove(place);
                self.clearance.retain(|key, _| key.sandbox != attempt);
            }
            Err(error) => {
                self.old_sandboxes[place].task.failed(now, RetryDelays::USUAL);
                self.emit(texts::failed_kill_pod(&error.message));
            }
        }
    }

    /// Whether a container that lives now would be started again if it were ended, or one still has
    /// to be started.
    fn something_would_run_again(&self) -> bool {
        let lasting = self.containers.iter().filter(|c| c.definition.role != Role::Ephemeral);
        { lasting }.any(|container| match &container.state {
            State::Running { .. } | State::Starting { .. } => {
                let killed = rekindle_types::ExitStatus::Unknown;
                container.follow_up(killed) != FollowUp::Stay
            }
            State::Idle(_) | State::Pulling { .. } => {
                container.standing != crate::journal::Standing::Done
            }
        })
    }
}
