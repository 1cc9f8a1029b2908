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

use crate::action::CoreAction;
use crate::backoff::{RetriedTask, RetryDelays};
use crate::event::{
    ActionError, ActionOutcome, ContainerSeen, ContainerSeenState, SandboxSeenState, Snapshot,
};
use crate::journal::Halt;
use crate::key::ActionId;
use crate::outbox::{Outbox, PendingAnswer};
use crate::texts;

/// The sandbox that the pod lives in, and those before it that are still to be torn down.
#[derive(Debug)]
pub(crate) struct Sandboxes {
    /// The newest attempt that was given out.
    attempt: SandboxAttempt,
    state: SandboxStage,
    /// The one that is being set up has died before the answer to its setup came.
    died_in_setup: bool,
    old: Vec<OldSandbox>,
    /// As the newest sandbox that stood had them.
    ips: Vec<IpAddr>,
}

/// What the current sandbox does.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum SandboxStage {
    /// It does not stand: to be set up, being set up, or held after a failure.
    Absent(RetriedTask),
    /// Containers can live in it.
    Ready,
    /// It went without having been asked to; its containers get until then to end.
    Dead { halt: Halt },
}

/// A sandbox that was given up.
#[derive(Debug)]
struct OldSandbox {
    attempt: SandboxAttempt,
    remains: SandboxRemains,
    task: RetriedTask,
}

/// What may be left in a sandbox that was given up.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum SandboxRemains {
    /// All its containers have been seen to end.
    Nothing,
    /// A process may be left that was not seen to end: nothing starts before it is torn down.
    MaybeProcesses,
}

impl OldSandbox {
    fn may_live(&self) -> bool {
        match self.remains {
            SandboxRemains::Nothing => false,
            SandboxRemains::MaybeProcesses => true,
        }
    }
}

impl Sandboxes {
    /// As an earlier agent left them, as far as the journal tells.
    pub(crate) fn new(attempt: SandboxAttempt) -> Self {
        let state = SandboxStage::Absent(RetriedTask::due());
        Self { attempt, state, died_in_setup: false, old: Vec::new(), ips: Vec::new() }
    }

    pub(crate) fn attempt(&self) -> SandboxAttempt {
        self.attempt
    }

    pub(crate) fn state(&self) -> SandboxStage {
        self.state
    }

    pub(crate) fn ips(&self) -> &[IpAddr] {
        &self.ips
    }

    pub(crate) fn is_ready(&self) -> bool {
        match self.state {
            SandboxStage::Ready => true,
            SandboxStage::Absent(_) | SandboxStage::Dead { .. } => false,
        }
    }

    pub(crate) fn is_dead(&self) -> bool {
        self.dead_halt().is_some()
    }

    /// By when the containers of a dead sandbox have to end.
    pub(crate) fn dead_halt(&self) -> Option<Halt> {
        match self.state {
            SandboxStage::Dead { halt } => Some(halt),
            SandboxStage::Absent(_) | SandboxStage::Ready => None,
        }
    }

    /// The same, to be moved.
    pub(crate) fn dead_halt_mut(&mut self) -> Option<&mut Halt> {
        match &mut self.state {
            SandboxStage::Dead { halt } => Some(halt),
            SandboxStage::Absent(_) | SandboxStage::Ready => None,
        }
    }

    pub(crate) fn is_in_flight(&self) -> bool {
        match &self.state {
            SandboxStage::Absent(task) => task.is_in_flight(),
            SandboxStage::Ready | SandboxStage::Dead { .. } => false,
        }
    }

    /// Whether something of the current one may be in the runtime: also of a setup that failed at
    /// an unknown point.
    pub(crate) fn may_stand(&self) -> bool {
        match &self.state {
            SandboxStage::Ready | SandboxStage::Dead { .. } => true,
            SandboxStage::Absent(task) => task.has_failed() && !task.is_in_flight(),
        }
    }

    pub(crate) fn stands(&self) -> bool {
        match self.state {
            SandboxStage::Ready | SandboxStage::Dead { .. } => true,
            SandboxStage::Absent(_) => false,
        }
    }

    pub(crate) fn earlier_may_live(&self) -> bool {
        self.old.iter().any(OldSandbox::may_live)
    }

    pub(crate) fn has_earlier(&self) -> bool {
        !self.old.is_empty()
    }

    /// When a failed setup or a failed teardown is tried again.
    pub(crate) fn deadlines(&self) -> impl Iterator<Item = Tick> {
        let set_up = match &self.state {
            SandboxStage::Absent(task) => task.deadline(),
            SandboxStage::Ready | SandboxStage::Dead { .. } => None,
        };
        set_up.into_iter().chain(self.old.iter().filter_map(|old| old.task.deadline()))
    }

    /// Takes the sandboxes of the runtime over. A dead one gives its containers until `halt`.
    pub(crate) fn recover(&mut self, snapshot: &Snapshot, halt: Halt) {
        let seen = &snapshot.sandboxes;
        let newest = seen.iter().map(|sandbox| sandbox.attempt).max();
        self.attempt = self.attempt.max(newest.unwrap_or_default());
        for sandbox in seen {
            if sandbox.attempt == self.attempt {
                self.ips = sandbox.ips.clone();
                self.state = match sandbox.state {
                    SandboxSeenState::Ready => SandboxStage::Ready,
                    SandboxSeenState::NotReady => SandboxStage::Dead { halt },
                };
            } else {
                let ended =
                    |c: &ContainerSeen| matches!(c.state, ContainerSeenState::Exited { .. });
                let remains = if sandbox.containers.iter().all(ended) {
                    SandboxRemains::Nothing
                } else {
                    SandboxRemains::MaybeProcesses
                };
                let old =
                    OldSandbox { attempt: sandbox.attempt, remains, task: RetriedTask::due() };
                self.old.push(old);
            }
        }
    }

    /// Sets the sandbox up when it is absent. An attempt in which a container has ended
    /// (`is_used`) is never set up again; it may be asked for when an agent starts on a machine
    /// that lost everything.
    pub(crate) fn drive(&mut self, now: Tick, is_used: bool, outbox: &mut Outbox) {
        if self.earlier_may_live() {
            return;
        }
        if let SandboxStage::Absent(task) = &mut self.state
            && task.is_due(now)
        {
            if is_used {
                self.attempt = self.attempt.next();
            }
            self.died_in_setup = false;
            let action = CoreAction::SetUpSandbox { attempt: self.attempt };
            task.begin(outbox.act(action, PendingAnswer::SandboxSetUp));
        }
    }

    /// The answer to a setup. True if what was set up has died before it: that is to be told
    /// [again](Self::died).
    pub(crate) fn answered(
        &mut self,
        now: Tick,
        id: ActionId,
        result: Result<ActionOutcome, ActionError>,
        outbox: &mut Outbox,
    ) -> bool {
        let task = match &mut self.state {
            SandboxStage::Absent(task) if task.is(id) => task,
            SandboxStage::Absent(_) | SandboxStage::Ready | SandboxStage::Dead { .. } => {
                return false;
            }
        };
        match result {
            Ok(ActionOutcome::SandboxReady { ips }) => {
                self.state = SandboxStage::Ready;
                self.ips = ips;
                return self.died_in_setup;
            }
            Ok(other) => {
                task.failed(now, RetryDelays::USUAL);
                let text = format!("the runtime answered {other:?} to the setup of a sandbox");
                outbox.emit(texts::failed_create_sandbox(&text));
            }
            Err(error) => {
                task.failed(now, RetryDelays::USUAL);
                outbox.emit(texts::failed_create_sandbox(&error.message));
            }
        }
        false
    }

    /// The current sandbox went by itself: its containers get until `halt`, then all of it is
    /// replaced. False if it is another one that died, or if it did not stand.
    pub(crate) fn died(&mut self, attempt: SandboxAttempt, halt: Halt) -> bool {
        self.died_in_setup |= attempt == self.attempt && self.is_in_flight();
        if attempt != self.attempt || !self.is_ready() {
            return false;
        }
        self.state = SandboxStage::Dead { halt };
        true
    }

    /// The current sandbox is not the current one any more, and `remains` of it at most. The next
    /// one gets its number where the reason is known.
    pub(crate) fn give_up(&mut self, remains: SandboxRemains) {
        if self.may_stand() {
            self.old.push(OldSandbox { attempt: self.attempt, remains, task: RetriedTask::due() });
        }
        self.state = SandboxStage::Absent(RetriedTask::due());
    }

    /// The next one is to be set up in place of one that stood.
    pub(crate) fn next_attempt(&mut self) {
        self.attempt = self.attempt.next();
    }

    /// A restart of the pod wants it set up, without the delay after a failure.
    pub(crate) fn set_up_anew(&mut self) {
        self.state = SandboxStage::Absent(RetriedTask::due());
    }

    /// Tears old sandboxes down: at once those that may hold a process, the others when nothing is
    /// on its way to run (`is_idle`).
    pub(crate) fn drive_teardown(&mut self, now: Tick, is_idle: bool, outbox: &mut Outbox) {
        let is_idle = is_idle || self.old_network_is_in_the_way();
        for old in &mut self.old {
            if (is_idle || old.may_live()) && old.task.is_due(now) {
                let attempt = old.attempt;
                let action = CoreAction::TearDownSandbox { attempt };
                old.task.begin(outbox.act(action, PendingAnswer::SandboxTearDown(attempt)));
            }
        }
    }

    /// A setup failed: what the sandbox before it still holds may be the reason.
    fn old_network_is_in_the_way(&self) -> bool {
        match &self.state {
            SandboxStage::Absent(task) => task.has_failed(),
            SandboxStage::Ready | SandboxStage::Dead { .. } => false,
        }
    }

    /// The answer to a teardown. True if that sandbox is gone now.
    pub(crate) fn teardown_answered(
        &mut self,
        now: Tick,
        attempt: SandboxAttempt,
        id: ActionId,
        result: Result<ActionOutcome, ActionError>,
        outbox: &mut Outbox,
    ) -> bool {
        let mut asked = self.old.iter();
        let Some(at) = asked.position(|old| old.attempt == attempt && old.task.is(id)) else {
            return false;
        };
        match result {
            Ok(_) => {
                self.old.remove(at);
                true
            }
            Err(error) => {
                self.old[at].task.failed(now, RetryDelays::USUAL);
                outbox.emit(texts::failed_kill_pod(&error.message));
                false
            }
        }
    }
}
