//! How a container comes from idle to running, and what its start is answered with.
//!
//! The states are drawn in [`container`](super::container). Every number that a start uses is in
//! the journal before `StartContainer`; it was put there when the start before had ended, so that a
//! restart needs one write of the journal and not two.

use rekindle_types::reasons::waiting;
use rekindle_types::{Exit, ExitStatus, Tick};

use super::Containers;
use super::container::{PodContainer, ProcessState, PullStep, StartHold};
use super::end::EndConsequence;
use super::strays::StrayStep;
use crate::action::CoreAction;
use crate::backoff::RetryDelays;
use crate::complaint::Complaint;
use crate::context::PodContext;
use crate::event::{ActionError, ActionErrorKind, ActionOutcome, Made};
use crate::health::ContainerHealth;
use crate::journal::ContainerStanding;
use crate::key::{ActionId, ContainerStartKey};
use crate::outbox::{Outbox, PendingAnswer};
use crate::texts;

impl Containers {
    /// Brings one container, whose turn it is, nearer to running.
    pub(super) fn drive_container(
        &mut self,
        place: usize,
        context: &PodContext<'_>,
        outbox: &mut Outbox,
    ) {
        let now = context.now;
        let container = &mut self.list[place];
        container.show_image_backoff(now, outbox);
        let can_start = context.sandboxes.is_ready() && context.volumes.is_ready();
        if !can_start || self.strays.may_run(&container.definition.name) {
            return;
        }
        match &container.state {
            ProcessState::Idle(_) if container.standing == ContainerStanding::Done => {}
            ProcessState::Idle(hold) => match *hold {
                StartHold::None => self.begin_start(place, context, outbox),
                StartHold::Crash { until } if until <= now => {
                    container.decide_restart(context);
                    self.begin_start(place, context, outbox);
                }
                StartHold::Retry { until } | StartHold::Image { until, .. } if until <= now => {
                    self.begin_start(place, context, outbox);
                }
                StartHold::Crash { .. }
                | StartHold::Retry { .. }
                | StartHold::Image { .. }
                | StartHold::SpecChange => {}
            },
            ProcessState::Pulling { step: PullStep::Await } => self.look_again(place, outbox),
            ProcessState::Pulling { .. }
            | ProcessState::Starting { .. }
            | ProcessState::Running { .. } => {}
        }
    }

    fn begin_start(&mut self, place: usize, context: &PodContext<'_>, outbox: &mut Outbox) {
        let container = &mut self.list[place];
        if std::mem::take(&mut container.image.is_checked) {
            return self.start(place, context, outbox);
        }
        let definition = &container.definition;
        // What was here when it started before is here: one round trip less on a restart.
        if container.image.known.is_some() && !definition.asks_always() {
            outbox.emit(texts::image_present(definition));
            self.start(place, context, outbox);
        } else {
            container.ensure_images(outbox);
        }
    }

    /// Has it made and started: both are asked for at once, as nothing is to be decided between the
    /// two.
    fn start(&mut self, place: usize, context: &PodContext<'_>, outbox: &mut Outbox) {
        match self.target_of(place, context) {
            Ok(target) => self.list[place].ask_for_start(target, context, outbox),
            Err(error) => self.creation_failed(place, error, context.now, outbox),
        }
    }

    /// Whether this is the answer to the start under way.
    pub(crate) fn awaits_start(&self, place: usize, id: ActionId) -> bool {
        match self.list[place].state {
            ProcessState::Starting { action, .. } => action == id,
            ProcessState::Idle(_) | ProcessState::Pulling { .. } | ProcessState::Running { .. } => {
                false
            }
        }
    }

    /// The answer to the start under way.
    pub(crate) fn start_answered(
        &mut self,
        place: usize,
        result: Result<ActionOutcome, ActionError>,
        context: &PodContext<'_>,
        outbox: &mut Outbox,
    ) -> EndConsequence {
        let error = match result {
            Ok(ActionOutcome::ContainerMade { made, start }) => {
                let container = &mut self.list[place];
                outbox.emit(texts::created(&container.definition));
                match start {
                    Ok(started_at) => self.started(place, made, started_at, context, outbox),
                    Err(error) if error.kind == ActionErrorKind::ContainerStart => {
                        return container.could_not_start(made, error.message, context, outbox);
                    }
                    Err(error) => container.start_unclear(error.message, context.now, outbox),
                }
                return EndConsequence::None;
            }
            Ok(other) => {
                let message = format!("the runtime answered {other:?} to the start");
                ActionError { kind: ActionErrorKind::Other, message }
            }
            Err(error) => error,
        };
        self.creation_failed(place, error, context.now, outbox);
        EndConsequence::None
    }

    fn creation_failed(
        &mut self,
        place: usize,
        error: ActionError,
        now: Tick,
        outbox: &mut Outbox,
    ) {
        let reason = match error.kind {
            ActionErrorKind::InvalidImageName
            | ActionErrorKind::ImageNeverPull
            | ActionErrorKind::ImagePull => {
                self.image_failed(place, error, now, outbox);
                return;
            }
            ActionErrorKind::ContainerConfig => waiting::CREATE_CONTAINER_CONFIG_ERROR,
            ActionErrorKind::Sandbox
            | ActionErrorKind::Volume
            | ActionErrorKind::ContainerCreate
            | ActionErrorKind::ContainerStart
            | ActionErrorKind::Other => waiting::CREATE_CONTAINER_ERROR,
        };
        let container = &mut self.list[place];
        container.unnote_only_start(error.kind);
        let until = container.next_try(now);
        container.state = ProcessState::Idle(StartHold::Retry { until });
        outbox.emit(texts::failed(&container.definition, &error.message));
        container.complaint = Some(Complaint { reason, message: error.message });
    }

    /// Its process runs.
    fn started(
        &mut self,
        place: usize,
        made: Made,
        started_at: Tick,
        context: &PodContext<'_>,
        outbox: &mut Outbox,
    ) {
        let container = &mut self.list[place];
        if container.started_image.as_ref() == Some(&container.definition.image) {
            container.image.known.get_or_insert_with(|| made.image_id.clone());
        }
        container.runs(made, started_at, context.now);
        container.standing = ContainerStanding::Started;
        container.complaint = None;
        container.failures = 0;
        let old = container.last.as_ref().map(|last| ContainerStartKey {
            sandbox: last.sandbox,
            name: container.definition.name.clone(),
            attempt: last.attempt,
        });
        outbox.emit(texts::started(&container.definition));
        container.open_gate();
        if let Some(key) = old.filter(|key| key.sandbox == context.sandboxes.attempt()) {
            self.strays.clear(key, StrayStep::Remove);
        }
        self.let_joiners_try_again(place);
    }

    /// The runtime says that a start has come to its end. It may say so before it answers the
    /// start, and after an answer that left open whether it ran.
    pub(crate) fn exited(
        &mut self,
        place: usize,
        made: Made,
        exit: Exit,
        context: &PodContext<'_>,
        outbox: &mut Outbox,
    ) -> EndConsequence {
        let container = &mut self.list[place];
        match container.state {
            ProcessState::Running { .. } => return container.end(context, exit, outbox),
            ProcessState::Starting { .. } => outbox.emit(texts::created(&container.definition)),
            ProcessState::Idle(_) | ProcessState::Pulling { .. } => {}
        }
        match exit.status {
            ExitStatus::StartError => {
                container.could_not_start(made, exit.message, context, outbox)
            }
            ExitStatus::Code { .. }
            | ExitStatus::Signal { .. }
            | ExitStatus::OomKilled
            | ExitStatus::Unknown => {
                self.started(place, made, exit.started_at, context, outbox);
                self.list[place].end(context, exit, outbox)
            }
        }
    }
}

impl PodContainer {
    /// The next start after a crash: the delay after it will be longer.
    fn decide_restart(&mut self, context: &PodContext<'_>) {
        if let Some(last) = &self.last {
            let finished_at = last.exit.finished_at;
            let max = context.desired.crash_delay_max();
            self.crash.restart_decided(self.number, context.now, finished_at, max);
        }
    }

    fn ask_for_start(
        &mut self,
        target: Option<ContainerStartKey>,
        context: &PodContext<'_>,
        outbox: &mut Outbox,
    ) {
        let granted = context.resize.granted().of(&self.definition.name);
        if self.in_force != *granted {
            self.in_force = granted.clone();
        }
        self.note_only_start();
        self.started_image = Some(self.definition.image.clone());
        let key = self.key(context.sandboxes.attempt());
        let action = CoreAction::StartContainer { key, target };
        let action = outbox.act(action, PendingAnswer::Start(self.place));
        self.state = ProcessState::Starting { action, halted: None };
    }

    /// When something that failed before the container ran is tried again.
    pub(super) fn next_try(&mut self, now: Tick) -> Tick {
        let until = now + RetryDelays::USUAL.after(self.failures);
        self.failures = self.failures.saturating_add(1);
        until
    }

    /// Its command cannot be executed: it has ended without having run.
    fn could_not_start(
        &mut self,
        made: Made,
        message: String,
        context: &PodContext<'_>,
        outbox: &mut Outbox,
    ) -> EndConsequence {
        outbox.emit(texts::failed(&self.definition, &message));
        let (status, now) = (ExitStatus::StartError, context.now);
        self.runs(made, now, now);
        let exit = Exit { status, started_at: now, finished_at: now, message };
        self.end(context, exit, outbox)
    }

    /// Whether it runs is not known: the same start is asked for again, which does nothing if it
    /// does.
    fn start_unclear(&mut self, message: String, now: Tick, outbox: &mut Outbox) {
        let until = self.next_try(now);
        self.state = ProcessState::Idle(StartHold::Retry { until });
        outbox.emit(texts::failed(&self.definition, &message));
        self.complaint = Some(Complaint { reason: waiting::RUN_CONTAINER_ERROR, message });
    }

    pub(super) fn runs(&mut self, made: Made, started_at: Tick, now: Tick) {
        let health = ContainerHealth::fresh(&self.definition, started_at, now);
        self.state = ProcessState::Running { made, started_at, health, stop: None };
    }
}
