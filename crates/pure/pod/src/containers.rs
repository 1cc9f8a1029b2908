//! How the pod drives its containers from idle to running, and takes in their ends.
//!
//! The states are drawn in `container`. Every number that a start uses is in the journal before
//! `StartContainer`; it was put there when the start before had ended, so that a restart needs one
//! write of the journal and not two.

use rekindle_types::{Exit, ExitStatus, Tick};

use crate::action::Action;
use crate::backoff::{RetryDelays, Task};
use crate::blueprint::Role;
use crate::container::{Checked, Complaint, FollowUp, Hold, PullStep, State, StopReason};
use crate::core::{Keep, Lifecycle, PodCore};
use crate::event::{ActionError, ActionErrorKind, Made, Outcome};
use crate::health::Health;
use crate::journal::{RestartStage, Standing};
use crate::key::{ActionId, ContainerKey};
use crate::outbox::Pending;
use crate::texts;

/// A container that nobody wants any more, on its way out.
#[derive(Debug)]
pub(crate) struct Clearance {
    pub(crate) step: ClearanceStep,
    pub(crate) task: Task,
}

/// What is to be done with it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ClearanceStep {
    /// It may run: SIGKILL first. No other start of the same container before it is gone.
    Kill,
    /// It was killed; the runtime refuses to take it away until it has ended.
    RemoveKilled,
    /// It has ended.
    Remove,
}

impl PodCore {
    /// Brings one container, whose turn it is, nearer to running.
    pub(crate) fn drive_container(&mut self, place: usize) {
        self.show_image_backoff(place);
        if !self.sandbox.is_ready() || !self.volumes.is_ready() || self.has_stray(place) {
            return;
        }
        let now = self.now;
        let container = &mut self.containers[place];
        match &mut container.state {
            State::Idle(_) if container.standing == Standing::Done => {}
            State::Idle(hold) => match *hold {
                Hold::None => self.begin_start(place),
                Hold::Crash { until } if until <= now => self.begin_restart(place),
                Hold::Retry { until } | Hold::Image { until, .. } if until <= now => {
                    self.begin_start(place);
                }
                Hold::Crash { .. } | Hold::Retry { .. } | Hold::Image { .. } | Hold::SpecChange => {
                }
            },
            State::Pulling { step: PullStep::Await } => self.look_again(place),
            State::Pulling { .. } | State::Starting { .. } | State::Running { .. } => {}
        }
    }

    /// The next start after a crash: the delay after it will be longer.
    fn begin_restart(&mut self, place: usize) {
        let container = &mut self.containers[place];
        if let Some(last) = &container.last {
            let finished_at = last.exit.finished_at;
            let max = self.config.max_container_restart_period;
            container.crash.restart_decided(container.number, self.now, finished_at, max);
            self.keep(Keep::Now);
        }
        self.begin_start(place);
    }

    fn begin_start(&mut self, place: usize) {
        match std::mem::take(&mut self.containers[place].image.checked) {
            Checked::Yes => return self.start(place),
            Checked::No => {}
        }
        let definition = &self.containers[place].definition;
        let known = self.containers[place].image.known.is_some();
        // What was here when it started before is here: one round trip less on a restart.
        if known && !definition.asks_always() {
            let event = texts::image_present(definition);
            self.emit(event);
            self.start(place);
        } else {
            self.ensure_images(place);
        }
    }

    /// Has it made and started: both are asked for at once, as nothing is to be decided between the
    /// two.
    pub(crate) fn start(&mut self, place: usize) {
        let target = match self.target_of(place) {
            Ok(target) => target,
            Err(error) => {
                self.status_changed = true;
                self.creation_failed(place, error);
                return;
            }
        };
        let granted = self.resize.granted.of(&self.containers[place].definition.name);
        if self.containers[place].in_force != *granted {
            self.containers[place].in_force = granted.clone();
            self.keep(Keep::Now);
        }
        self.note_only_start(place);
        let container = &mut self.containers[place];
        container.started_image = Some(container.definition.image.clone());
        let key = container.key(self.sandbox.attempt);
        let action = Action::StartContainer { key, target };
        let action = self.outbox.act(action, Pending::Start(place));
        container.state = State::Starting { action, halted: None };
        self.moved = true;
    }

    pub(crate) fn start_answered(
        &mut self,
        place: usize,
        id: ActionId,
        result: Result<Outcome, ActionError>,
    ) {
        match self.containers[place].state {
            State::Starting { action, .. } if action == id => {}
            State::Idle(_)
            | State::Pulling { .. }
            | State::Starting { .. }
            | State::Running { .. } => return,
        }
        self.status_changed = true;
        self.put_halt_off_for_start(place);
        match result {
            Ok(Outcome::ContainerMade { made, start }) => {
                self.tell_of_creation(place);
                match start {
                    Ok(started_at) => self.started(place, made, started_at),
                    Err(error) if error.kind == ActionErrorKind::ContainerStart => {
                        self.could_not_start(place, made, error.message);
                    }
                    Err(error) => self.start_unclear(place, error.message),
                }
            }
            Ok(other) => {
                let message = format!("the runtime answered {other:?} to the start");
                let error = ActionError { kind: ActionErrorKind::Other, message };
                self.creation_failed(place, error);
            }
            Err(error) => self.creation_failed(place, error),
        }
    }

    fn tell_of_creation(&mut self, place: usize) {
        let event = texts::created(&self.containers[place].definition);
        self.emit(event);
    }

    fn creation_failed(&mut self, place: usize, error: ActionError) {
        let reason = match error.kind {
            ActionErrorKind::InvalidImageName
            | ActionErrorKind::ImageNeverPull
            | ActionErrorKind::ImagePull => {
                self.image_failed(place, error);
                return;
            }
            ActionErrorKind::ContainerConfig => {
                rekindle_types::reasons::waiting::CREATE_CONTAINER_CONFIG_ERROR
            }
            ActionErrorKind::Sandbox
            | ActionErrorKind::Volume
            | ActionErrorKind::ContainerCreate
            | ActionErrorKind::ContainerStart
            | ActionErrorKind::Other => rekindle_types::reasons::waiting::CREATE_CONTAINER_ERROR,
        };
        self.unnote_only_start(place, error.kind);
        let until = self.next_try(place);
        let container = &mut self.containers[place];
        container.state = State::Idle(Hold::Retry { until });
        let event = texts::failed(&container.definition, &error.message);
        container.complaint = Some(Complaint { reason, message: error.message });
        self.emit(event);
    }

    /// When something that failed before the container ran is tried again.
    pub(crate) fn next_try(&mut self, place: usize) -> Tick {
        let container = &mut self.containers[place];
        let until = self.now + RetryDelays::USUAL.after(container.failures);
        container.failures = container.failures.saturating_add(1);
        until
    }

    /// Its command cannot be executed: it has ended without having run.
    fn could_not_start(&mut self, place: usize, made: Made, message: String) {
        let event = texts::failed(&self.containers[place].definition, &message);
        self.emit(event);
        let (status, now) = (ExitStatus::StartError, self.now);
        self.runs(place, made, now);
        let exit = Exit { status, started_at: now, finished_at: now, message };
        self.container_ended(place, exit);
    }

    /// Whether it runs is not known: the same start is asked for again, which does nothing if it
    /// does.
    fn start_unclear(&mut self, place: usize, message: String) {
        let until = self.next_try(place);
        let container = &mut self.containers[place];
        container.state = State::Idle(Hold::Retry { until });
        let event = texts::failed(&container.definition, &message);
        let reason = rekindle_types::reasons::waiting::RUN_CONTAINER_ERROR;
        container.complaint = Some(Complaint { reason, message });
        self.emit(event);
    }

    fn runs(&mut self, place: usize, made: Made, started_at: Tick) {
        let container = &mut self.containers[place];
        let health = Health::fresh(&container.definition, started_at, self.now);
        container.state = State::Running { made, started_at, health, stop: None };
    }

    /// Its process runs.
    fn started(&mut self, place: usize, made: Made, started_at: Tick) {
        let container = &mut self.containers[place];
        if container.started_image.as_ref() == Some(&container.definition.image) {
            container.image.known.get_or_insert_with(|| made.image_id.clone());
        }
        self.runs(place, made, started_at);
        let container = &mut self.containers[place];
        container.standing = Standing::Started;
        container.complaint = None;
        container.failures = 0;
        let event = texts::started(&container.definition);
        let old = container.last.as_ref().map(|last| ContainerKey {
            sandbox: last.sandbox,
            name: container.definition.name.clone(),
            attempt: last.attempt,
        });
        self.emit(event);
        if let Some(key) = old.filter(|key| key.sandbox == self.sandbox.attempt) {
            self.clear(key, ClearanceStep::Remove);
        }
        self.open_gate(place);
        self.let_joiners_try_again(place);
        self.status_changed = true;
        self.moved = true;
    }

    /// The runtime says that a start has come to its end. It may say so before it answers the
    /// start, and after an answer from which nobody knew whether it ran.
    pub(crate) fn container_exited(&mut self, key: &ContainerKey, made: Made, exit: Exit) {
        if let Some(entry) = self.clearance.get_mut(key) {
            if entry.step == ClearanceStep::Kill {
                entry.task = Task::due();
            }
            entry.step = ClearanceStep::Remove;
            return;
        }
        let Some(place) = self.place_of(key) else { return };
        if *key != self.containers[place].key(self.sandbox.attempt) {
            return;
        }
        match self.containers[place].state {
            State::Running { .. } => return self.container_ended(place, exit),
            State::Starting { .. } => {
                self.put_halt_off_for_start(place);
                self.tell_of_creation(place);
            }
            State::Idle(_) | State::Pulling { .. } => {}
        }
        match exit.status {
            ExitStatus::StartError => self.could_not_start(place, made, exit.message),
            ExitStatus::Code { .. }
            | ExitStatus::Signal { .. }
            | ExitStatus::OomKilled
            | ExitStatus::Unknown => {
                self.started(place, made, exit.started_at);
                self.container_ended(place, exit);
            }
        }
    }

    /// It ran when it was looked at last, and is nowhere now: nobody saw how it ended.
    pub(crate) fn container_vanished(&mut self, place: usize) {
        let started_at = match self.containers[place].state {
            State::Running { started_at, .. } => started_at,
            State::Idle(_) | State::Pulling { .. } | State::Starting { .. } => self.now,
        };
        let exit = Exit {
            status: ExitStatus::Unknown,
            started_at,
            finished_at: self.now,
            message: texts::VANISHED.to_owned(),
        };
        self.container_ended(place, exit);
    }

    pub(crate) fn container_ended(&mut self, place: usize, mut exit: Exit) {
        // A clock that ran ahead must not hold the container longer.
        exit.finished_at = exit.finished_at.min(self.now);
        exit.started_at = exit.started_at.min(exit.finished_at);
        let follow_up = self.follow_up(place, exit.status);
        exit.message = self.containers[place].told_of_end(&exit);
        let goes_on = match &self.lifecycle {
            Lifecycle::Recovering { ending: None, .. } | Lifecycle::Active => true,
            Lifecycle::Recovering { ending: Some(_), .. }
            | Lifecycle::Ending(_)
            | Lifecycle::Finished(_) => false,
        };
        if goes_on && self.containers[place].is_stopped_with_node() {
            self.containers[place].tell_of_node_stop(&mut exit);
        }
        let sandbox = self.sandbox.attempt;
        self.containers[place].ended(sandbox, exit, follow_up);
        if follow_up == FollowUp::RestartByPolicy && self.complain_of_crash_loop(place) {
            let event = texts::back_off(&self.containers[place].definition, &self.pod_text());
            self.emit(event);
        }
        if follow_up == FollowUp::RestartAll {
            self.restart_by_rule(place);
        }
        self.status_changed = true;
        // While all containers end, nothing is decided before the last one has, and each write
        // would delay that.
        self.keep(if self.halt().is_some() { Keep::WithNextAction } else { Keep::Now });
        self.moved = true;
    }

    /// Shows CrashLoopBackOff when it is held; whether it is.
    pub(crate) fn complain_of_crash_loop(&mut self, place: usize) -> bool {
        let pod = self.pod_text();
        let container = &mut self.containers[place];
        match container.state {
            State::Idle(Hold::Crash { until }) if until > self.now => {
                let delay = container.crash_delay();
                container.complaint =
                    Some(texts::crash_loop(&container.definition.name, &pod, delay));
                true
            }
            State::Idle(_)
            | State::Pulling { .. }
            | State::Starting { .. }
            | State::Running { .. } => false,
        }
    }

    pub(crate) fn follow_up(&self, place: usize, status: ExitStatus) -> FollowUp {
        let container = &self.containers[place];
        if container.definition.role == Role::Ephemeral {
            return FollowUp::Stay;
        }
        match &self.lifecycle {
            Lifecycle::Ending(_) | Lifecycle::Finished(_) => return FollowUp::Stay,
            Lifecycle::Recovering { ending: Some(_), .. } => return FollowUp::Stay,
            Lifecycle::Recovering { ending: None, .. } | Lifecycle::Active => {}
        }
        match self.restart.as_ref().map(|restart| &restart.stage) {
            Some(RestartStage::Stopping { .. }) => return FollowUp::AwaitRound,
            Some(RestartStage::Cycling { targets, .. })
                if targets.get(&container.definition.name) == Some(&Some(container.number)) =>
            {
                return FollowUp::RestartAsAsked;
            }
            Some(RestartStage::Cycling { .. } | RestartStage::Starting) | None => {}
        }
        if container.is_stopped_with_node() {
            return container.follow_up_of_node_stop(status);
        }
        match &container.state {
            State::Running { stop: Some(stop), .. } => match stop.reason {
                StopReason::RestartAsked | StopReason::ImageChanged | StopReason::Resize => {
                    FollowUp::RestartAsAsked
                }
                StopReason::Halt | StopReason::RestartRule | StopReason::PostStartFailed => {
                    container.follow_up(status)
                }
                StopReason::StartupFailed | StopReason::LivenessFailed => {
                    container.follow_up_of_probe(status)
                }
            },
            State::Running { stop: None, .. }
            | State::Idle(_)
            | State::Pulling { .. }
            | State::Starting { .. } => container.follow_up(status),
        }
    }

    /// A running container whose image in the spec is another one is ended and started with that
    /// one.
    pub(crate) fn drive_image_changes(&mut self) {
        for place in 0..self.containers.len() {
            let container = &self.containers[place];
            let changed = container
                .started_image
                .as_ref()
                .is_some_and(|image| *image != container.definition.image);
            if changed && container.is_running() {
                let kill_at = self.now + self.blueprint.grace;
                self.begin_stop(place, kill_at, StopReason::ImageChanged);
            }
        }
    }

    fn has_stray(&self, place: usize) -> bool {
        let name = &self.containers[place].definition.name;
        self.clearance
            .iter()
            .any(|(key, entry)| key.name == *name && entry.step != ClearanceStep::Remove)
    }

    /// Has a container taken away.
    pub(crate) fn clear(&mut self, key: ContainerKey, step: ClearanceStep) {
        self.clearance.entry(key).or_insert(Clearance { step, task: Task::due() });
    }

    pub(crate) fn drive_clearance(&mut self) {
        let now = self.now;
        for (key, entry) in &mut self.clearance {
            if entry.task.is_due(now) {
                let action = match entry.step {
                    ClearanceStep::Kill => Action::KillContainer { key: key.clone() },
                    ClearanceStep::RemoveKilled | ClearanceStep::Remove => {
                        Action::RemoveContainer { key: key.clone() }
                    }
                };
                entry.task.begin(self.outbox.act(action, Pending::Clearance(key.clone())));
            }
        }
    }

    pub(crate) fn clearance_answered(
        &mut self,
        key: &ContainerKey,
        id: ActionId,
        result: Result<Outcome, ActionError>,
    ) {
        let now = self.now;
        let Some(entry) = self.clearance.get_mut(key).filter(|entry| entry.task.is(id)) else {
            return;
        };
        match (result, entry.step) {
            (Ok(_), ClearanceStep::Kill) => {
                entry.step = ClearanceStep::RemoveKilled;
                entry.task = Task::due();
                self.moved = true;
            }
            (Ok(_), ClearanceStep::RemoveKilled | ClearanceStep::Remove) => {
                self.clearance.remove(key);
                self.moved = true;
            }
            (Err(_), ClearanceStep::Kill | ClearanceStep::RemoveKilled | ClearanceStep::Remove) => {
                entry.task.failed(now, RetryDelays::USUAL)
            }
        }
    }
}
