//! What follows the end of a container, and what is told of it.

use rekindle_types::restart_rules::{self, RuleAction};
use rekindle_types::{ContainerName, EndedByNode, Exit, ExitStatus, SandboxAttempt};

use super::container::{PodContainer, ProcessState, StartHold};
use crate::blueprint::{RestartPolicy, RoleInPod};
use crate::context::PodContext;
use crate::event::Made;
use crate::journal::{ContainerStanding, EndedContainer, RestartStage};
use crate::outbox::Outbox;
use crate::stop_reason::StopReason;
use crate::texts;

/// What follows the end of a container.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum FollowUp {
    /// Nothing in this round.
    Stay,
    /// Another start, after the delay of its backoff.
    RestartByPolicy,
    /// Another start at once, which is no crash.
    RestartAsAsked,
    /// Its round ends: what follows is decided for all containers together.
    AwaitRound,
    /// It makes all containers start anew, itself after the delay of its backoff.
    RestartAll,
}

/// What the end of a container asks of the rest of its pod.
#[must_use]
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum EndConsequence {
    None,
    /// One of its rules answers the end with a restart of all containers.
    RestartAll {
        trigger: ContainerName,
    },
}

impl PodContainer {
    /// Its process has ended.
    pub(super) fn end(
        &mut self,
        context: &PodContext<'_>,
        mut exit: Exit,
        outbox: &mut Outbox,
    ) -> EndConsequence {
        // A clock that ran ahead must not hold the container longer.
        exit.finished_at = exit.finished_at.min(context.now);
        exit.started_at = exit.started_at.min(exit.finished_at);
        let follow_up = self.follow_up_in(context, exit.status);
        exit.message = self.told_of_end(&exit);
        if context.lifecycle.ending().is_none() && self.is_stopped_with_node() {
            self.tell_of_node_stop(&mut exit);
        }
        self.ended(context.sandboxes.attempt(), exit, follow_up);
        if follow_up == FollowUp::RestartByPolicy && self.complain_of_crash_loop(context) {
            outbox.emit(texts::back_off(&self.definition, &context.desired.full_name()));
        }
        match follow_up {
            FollowUp::RestartAll => {
                EndConsequence::RestartAll { trigger: self.definition.name.clone() }
            }
            FollowUp::Stay
            | FollowUp::RestartByPolicy
            | FollowUp::RestartAsAsked
            | FollowUp::AwaitRound => EndConsequence::None,
        }
    }

    /// It ran when it was looked at last, and is nowhere now: its end was not seen.
    pub(super) fn vanish(
        &mut self,
        context: &PodContext<'_>,
        outbox: &mut Outbox,
    ) -> EndConsequence {
        let now = context.now;
        let started_at = match self.state {
            ProcessState::Running { started_at, .. } => started_at,
            ProcessState::Idle(_)
            | ProcessState::Pulling { .. }
            | ProcessState::Starting { .. } => now,
        };
        let (status, message) = (ExitStatus::Unknown, texts::VANISHED.to_owned());
        let exit = Exit { status, started_at, finished_at: now, message };
        self.end(context, exit, outbox)
    }

    /// What follows an end with this status in the pod as it is.
    pub(super) fn follow_up_in(&self, context: &PodContext<'_>, status: ExitStatus) -> FollowUp {
        if self.definition.role == RoleInPod::Ephemeral || context.lifecycle.ending().is_some() {
            return FollowUp::Stay;
        }
        match context.restarts.stage() {
            Some(RestartStage::Stopping { .. }) => return FollowUp::AwaitRound,
            Some(RestartStage::Cycling { targets, .. })
                if targets.get(&self.definition.name) == Some(&Some(self.number)) =>
            {
                return FollowUp::RestartAsAsked;
            }
            Some(RestartStage::Cycling { .. } | RestartStage::Starting) | None => {}
        }
        if self.is_stopped_with_node() {
            return self.follow_up_of_node_stop(status);
        }
        match self.stop().map(|stop| stop.reason) {
            Some(StopReason::RestartAsked | StopReason::ImageChanged | StopReason::Resize) => {
                FollowUp::RestartAsAsked
            }
            Some(StopReason::StartupFailed | StopReason::LivenessFailed) => {
                self.follow_up_of_probe(status)
            }
            Some(StopReason::Halt | StopReason::RestartRule | StopReason::PostStartFailed)
            | None => self.follow_up(status),
        }
    }

    /// Whether another start would follow if it were ended now, or one is still to come.
    pub(super) fn would_run_again(&self) -> bool {
        match &self.state {
            ProcessState::Running { .. } | ProcessState::Starting { .. } => {
                self.follow_up(ExitStatus::Unknown) != FollowUp::Stay
            }
            ProcessState::Idle(_) | ProcessState::Pulling { .. } => {
                self.standing != ContainerStanding::Done
            }
        }
    }

    /// What rules and policy say of an end.
    pub(crate) fn follow_up(&self, status: ExitStatus) -> FollowUp {
        if self.definition.role == RoleInPod::Init && status.is_success() {
            return FollowUp::Stay;
        }
        match restart_rules::first_match(&self.definition.rules, status.code()) {
            Some(RuleAction::Restart) => return FollowUp::RestartByPolicy,
            Some(RuleAction::RestartAllContainers) => return FollowUp::RestartAll,
            None => {}
        }
        match self.definition.policy {
            RestartPolicy::Always => FollowUp::RestartByPolicy,
            RestartPolicy::OnFailure if status.is_success() => FollowUp::Stay,
            RestartPolicy::OnFailure => FollowUp::RestartByPolicy,
            RestartPolicy::Never => FollowUp::Stay,
        }
    }

    /// What follows when a probe has ended it: it is started again unless it never is, whatever its
    /// exit code says.
    pub(crate) fn follow_up_of_probe(&self, status: ExitStatus) -> FollowUp {
        match (self.follow_up(status), self.definition.policy) {
            (FollowUp::Stay, RestartPolicy::Always | RestartPolicy::OnFailure) => {
                FollowUp::RestartByPolicy
            }
            (other, _) => other,
        }
    }

    /// What is told of its end: first why the node brought it about, as long as that is still why.
    pub(crate) fn told_of_end(&mut self, exit: &Exit) -> String {
        let failed = self.failed.take().filter(|_| self.ends_for_failure());
        let message = exit.message.clone();
        match (failed, exit.status) {
            // those have a reason of their own
            (Some(_), ExitStatus::OomKilled | ExitStatus::StartError | ExitStatus::Unknown) => {
                message
            }
            (Some(words), _) if message.is_empty() => words,
            (Some(words), _) => format!("{words}: {message}"),
            (None, _) => EndedByNode::disown(message),
        }
    }

    /// It runs, and is being stopped because something of it failed.
    fn ends_for_failure(&self) -> bool {
        self.stop().is_some_and(|stop| stop.reason.failing().is_some())
    }

    /// Its process has ended (or could not be started): the number is used up.
    pub(crate) fn ended(&mut self, sandbox: SandboxAttempt, exit: Exit, follow_up: FollowUp) {
        let made = match std::mem::replace(&mut self.state, ProcessState::Idle(StartHold::None)) {
            ProcessState::Running { made, .. } => made,
            ProcessState::Idle(_)
            | ProcessState::Pulling { .. }
            | ProcessState::Starting { .. } => Made::default(),
        };
        self.before = self.last.take();
        self.last = Some(EndedContainer {
            sandbox,
            attempt: self.number,
            container_id: made.container_id,
            image_id: made.image_id,
            exit,
        });
        self.number = self.number.next();
        self.update = None;
        self.complaint = None;
        self.stand_after(follow_up);
    }

    /// Where it stands after an end that this follows.
    pub(crate) fn stand_after(&mut self, follow_up: FollowUp) {
        match follow_up {
            FollowUp::Stay => self.standing = ContainerStanding::Done,
            FollowUp::RestartByPolicy | FollowUp::RestartAll => {
                self.standing = ContainerStanding::Started;
                self.hold_by_backoff();
            }
            FollowUp::RestartAsAsked | FollowUp::AwaitRound => {
                self.standing = ContainerStanding::Started
            }
        }
    }

    /// It is not started again, as the pod ends: what it shows is its last end, if it has one.
    pub(crate) fn give_up(&mut self) {
        match self.state {
            ProcessState::Idle(_) if self.last.is_some() => {
                self.standing = ContainerStanding::Done;
                self.complaint = None;
            }
            ProcessState::Idle(_)
            | ProcessState::Pulling { .. }
            | ProcessState::Starting { .. }
            | ProcessState::Running { .. } => {}
        }
    }

    /// Nothing of the pod is left: what was made of it and never ran is gone, too.
    pub(crate) fn conclude(&mut self) {
        self.state = ProcessState::Idle(StartHold::None);
        self.give_up();
    }
}
