//! Rounds: with each sandbox, and with each restart of all containers, all of them begin anew.

use rekindle_types::{ContainerAttempt, Tick, TickDuration};

use super::Containers;
use super::container::{PodContainer, ProcessState, StartHold};
use crate::blueprint::RoleInPod;
use crate::context::PodContext;
use crate::journal::{ContainerStanding, RestartCause, RestartRecord, RestartStage, SidecarGate};
use crate::outbox::Outbox;
use crate::texts;

/// Why a round begins.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum RoundCause {
    /// A person asked for it: every container runs again, at once, and its backoff series is over.
    Afresh,
    /// A ladder asked for it: every container runs again, at once, and the backoff series go on.
    GoesOn,
    /// A restart rule says so: every container runs again, and the backoff series go on.
    ByRule,
    /// The sandbox died.
    NewSandbox,
}

impl Containers {
    /// A new round begins.
    pub(crate) fn begin_round(
        &mut self,
        round: RoundCause,
        context: &PodContext<'_>,
        outbox: &mut Outbox,
    ) {
        match round {
            RoundCause::Afresh | RoundCause::GoesOn => self.let_go_of_pulls(context.now),
            RoundCause::ByRule | RoundCause::NewSandbox => {}
        }
        for container in &mut self.list {
            container.begin_round(round, context.now, context.desired.crash_delay_max());
            // what goes on being held goes on saying so
            container.complain_of_crash_loop(context);
        }
        self.carry_ephemerals_over(context, outbox);
    }

    /// What waited in a round that a new sandbox began goes on waiting, as
    /// `begin_round_in_new_sandbox` has it. A restart that is carried out has begun another kind of
    /// round: what it let go, or holds as a whole, is not held here.
    pub(crate) fn hold_what_was_due(&mut self, restart: Option<&RestartRecord>) {
        let round = restart.map(|restart| (&restart.stage, &restart.cause));
        let may_be_let_go = match round {
            Some((RestartStage::Starting, RestartCause::Rule { .. })) => return,
            Some((RestartStage::Starting, RestartCause::Asked { .. })) => true,
            Some((RestartStage::Stopping { .. } | RestartStage::Cycling { .. }, _)) | None => false,
        };
        for container in &mut self.list {
            let waits = container.definition.role == RoleInPod::Regular
                && container.standing == ContainerStanding::Due
                && !(may_be_let_go && container.crash_delay() == TickDuration::ZERO);
            if waits {
                container.hold_by_backoff();
            }
        }
    }
}

impl PodContainer {
    /// Shows CrashLoopBackOff when it is held; whether it is.
    pub(super) fn complain_of_crash_loop(&mut self, context: &PodContext<'_>) -> bool {
        match self.state {
            ProcessState::Idle(StartHold::Crash { until }) if until > context.now => {
                let (name, delay) = (&self.definition.name, self.crash_delay());
                let pod = context.desired.full_name();
                self.complaint = Some(texts::crash_loop(name, &pod, delay));
                true
            }
            ProcessState::Idle(_)
            | ProcessState::Pulling { .. }
            | ProcessState::Starting { .. }
            | ProcessState::Running { .. } => false,
        }
    }

    /// Holds it for the delay of its backoff, counted from its end.
    pub(crate) fn hold_by_backoff(&mut self) {
        let until = match &self.last {
            Some(last) if !self.crash.has_decided(self.number) => {
                last.exit.finished_at + self.crash_delay()
            }
            Some(_) | None => return,
        };
        self.state = ProcessState::Idle(StartHold::Crash { until });
    }

    /// What the next restart waits, from its last end on.
    pub(crate) fn crash_delay(&self) -> TickDuration {
        match &self.last {
            Some(last) => self.crash.delay_after(last.exit.finished_at),
            None => TickDuration::ZERO,
        }
    }

    /// A new round begins: what ended is to be started again, and what never ran still is.
    /// `max` is the longest delay of the node's backoff.
    pub(crate) fn begin_round(&mut self, round: RoundCause, now: Tick, max: TickDuration) {
        if self.definition.role == RoleInPod::Ephemeral {
            return; // see `ephemeral`
        }
        self.gate = SidecarGate::Closed;
        self.image.is_checked = false;
        match round {
            RoundCause::Afresh => {
                self.standing = ContainerStanding::Due;
                self.crash.clear();
                self.let_go();
            }
            RoundCause::GoesOn => {
                self.standing = ContainerStanding::Due;
                self.decide_ahead(now, max);
                self.let_go();
            }
            RoundCause::ByRule => {
                self.standing = ContainerStanding::Due;
                self.let_go_unless_its_image_is_missing();
            }
            RoundCause::NewSandbox => self.begin_round_in_new_sandbox(),
        }
    }

    /// The next start is decided now, so that an agent that is killed before it was made does not
    /// hold it for the backoff again. A delay that is cut short by it is made up for by the next
    /// one.
    fn decide_ahead(&mut self, now: Tick, max: TickDuration) {
        let Some(last) = &self.last else { return };
        self.crash.restart_decided(self.number, now, last.exit.finished_at, max);
        if self.is_held_by_backoff() {
            self.crash.lengthen(max);
        }
    }

    /// As the kubelet does: containers that need not run again stay ended, the others keep their
    /// backoff; init containers are forgotten by it and start at once.
    fn begin_round_in_new_sandbox(&mut self) {
        let stays = match self.definition.role {
            RoleInPod::Regular | RoleInPod::Ephemeral => self.standing == ContainerStanding::Done,
            RoleInPod::Init | RoleInPod::Sidecar => false,
        };
        if stays {
            self.complaint = None;
            return;
        }
        self.standing = ContainerStanding::Due;
        match self.state {
            // The answer is as good for this sandbox.
            ProcessState::Pulling { .. } => {}
            ProcessState::Idle(_)
            | ProcessState::Starting { .. }
            | ProcessState::Running { .. } => self.let_go_unless_its_image_is_missing(),
        }
        if self.definition.role == RoleInPod::Regular {
            self.hold_by_backoff();
        }
    }

    /// Nothing but its turn keeps it from its next start.
    fn let_go(&mut self) {
        self.complaint = None;
        self.state = ProcessState::Idle(StartHold::None);
    }

    /// The back-off of an image is that of the pod and the image (kubelet: image manager,
    /// `EnsureImageExists`): a new sandbox brings no image nearer.
    fn let_go_unless_its_image_is_missing(&mut self) {
        match self.state {
            ProcessState::Idle(StartHold::Image { .. }) => {}
            ProcessState::Idle(
                StartHold::None
                | StartHold::Crash { .. }
                | StartHold::Retry { .. }
                | StartHold::SpecChange,
            )
            | ProcessState::Pulling { .. }
            | ProcessState::Starting { .. }
            | ProcessState::Running { .. } => self.let_go(),
        }
    }

    /// A start after this one runs, or has run and is not followed by another.
    pub(crate) fn runs_later_than(&self, target: Option<ContainerAttempt>) -> bool {
        let ended_later = self.last.as_ref().is_some_and(|last| Some(last.attempt) > target);
        (self.is_running() && Some(self.number) > target)
            || (self.standing == ContainerStanding::Done && ended_later)
    }

    /// Its newest end is that of this start.
    pub(super) fn ended_with(&self, attempt: Option<ContainerAttempt>) -> bool {
        self.last.as_ref().is_some_and(|last| Some(last.attempt) == attempt)
    }

    /// It is held by the backoff of crashes.
    pub(crate) fn is_held_by_backoff(&self) -> bool {
        match self.state {
            ProcessState::Idle(StartHold::Crash { .. }) => true,
            ProcessState::Idle(
                StartHold::None
                | StartHold::Retry { .. }
                | StartHold::Image { .. }
                | StartHold::SpecChange,
            )
            | ProcessState::Pulling { .. }
            | ProcessState::Starting { .. }
            | ProcessState::Running { .. } => false,
        }
    }

    /// Nothing but its turn keeps it waiting any more.
    pub(super) fn release(&mut self) {
        match self.state {
            ProcessState::Idle(
                StartHold::Crash { .. } | StartHold::Retry { .. } | StartHold::Image { .. },
            ) => {
                self.state = ProcessState::Idle(StartHold::None);
                self.complaint = None;
            }
            ProcessState::Idle(StartHold::None | StartHold::SpecChange)
            | ProcessState::Pulling { .. }
            | ProcessState::Starting { .. }
            | ProcessState::Running { .. } => {}
        }
    }
}
