//! Restarts in place that somebody asks for with a PodRestart.
//!
//! ```text
//!  Containers, Pod:  Stopping ── all have ended ──► Starting ── all run again ──► Succeeded
//!  Container:        Cycling ── each target ended and a later start of it runs ──► Succeeded
//! ```
//! - **Pod** gives the sandbox up, has emptyDir made new if it is named, and sets the next sandbox up; the old one is torn down
//!   later (see `sandbox`). Init containers run again, then all regular ones, completed ones too. UID, name and persistent
//!   volumes stay.
//! - **Containers** does the same in the sandbox that stands (KEP-5532: condition AllContainersRestarting, grace at least 2 s).
//! - **Container** ends each running container by itself and starts it again, and lets waiting ones start now.
//!
//! Backoff: after rungs Pod and Containers that a person asked for, every container begins a new series, so the first crash is restarted
//! at once and the next ones wait 10, 20 … s as in a new pod. After those of a ladder the series goes on ([`Series`]). Rung Container skips
//! the current delay and leaves the series as it is. This cannot become an unthrottled loop by itself: the core restarts only on
//! request, a request is carried out once (its id is in the journal), and who makes requests without end, the ladder, has a
//! window, attempts and a budget for it.
//!
//! One restart at a time: a request that comes while another one still stops containers is refused, naming it. When the other
//! one waits for containers to run, which a broken pod never does, it is given up as Failed and the new request is taken.

use std::collections::BTreeMap;

use rekindle_types::v1alpha1::{PodRestartPhase, Refresh, Rung};
use rekindle_types::{ContainerAttempt, ContainerName, Tick, TickDuration};

use crate::action::Action;
use crate::backoff::Task;
use crate::blueprint::Role;
use crate::container::{Container, Hold, Round, State, StopReason};
use crate::containers::ClearanceStep;
use crate::core::{Keep, Lifecycle, PodCore};
use crate::event::{RestartRequest, Series};
use crate::journal::{
    Halt, RECENT_RESTARTS, RestartCause, RestartRecord, RestartResult, RestartStage, Standing,
};
use crate::sandbox::{Remains, SandboxState};
use crate::texts;
use crate::volumes::Volumes;

/// The least grace of RestartAllContainers (KEP-5532).
pub(crate) const CONTAINERS_GRACE_MIN: TickDuration = TickDuration::from_secs(2);

impl PodCore {
    pub(crate) fn restart_requested(&mut self, request: RestartRequest) {
        if self.repeat_report(&request.id) {
            return;
        }
        if let Some(refusal) = self.refusal(&request) {
            let RestartRequest { id, .. } = request;
            self.report(id.clone(), PodRestartPhase::Refused, refusal.clone(), self.now);
            self.remember(id, PodRestartPhase::Refused, refusal);
            return;
        }
        let superseded =
            format!("superseded by {} before all containers were running", request.name);
        self.conclude_restart(PodRestartPhase::Failed, superseded);
        let stage = self.first_stage(&request);
        self.emit(texts::restarting(&request));
        let message = texts::doing(request.rung).to_owned();
        self.report(request.id.clone(), PodRestartPhase::Running, message, self.now);
        let cause = RestartCause::Asked { request };
        self.restart = Some(RestartRecord { cause, stage, since: self.now });
        self.keep(Keep::Now);
        self.status_changed = true;
    }

    /// Tells once more how a request goes that is known already.
    fn repeat_report(&mut self, id: &str) -> bool {
        let current = self.restart.as_ref().and_then(|restart| match &restart.cause {
            RestartCause::Asked { request } if request.id == id => {
                Some((doing_now(request.rung, &restart.stage), restart.since))
            }
            RestartCause::Asked { .. } | RestartCause::Rule { .. } => None,
        });
        let (phase, message, at) = if let Some((doing, since)) = current {
            (PodRestartPhase::Running, doing.to_owned(), since)
        } else if let Some(result) = self.recent_restarts.iter().find(|result| result.id == id) {
            (result.phase, result.message.clone(), result.at)
        } else {
            return false;
        };
        self.report(id.to_owned(), phase, message, at);
        true
    }

    /// Why a request cannot be carried out.
    fn refusal(&self, request: &RestartRequest) -> Option<String> {
        let pod = self.pod_name();
        match request.rung {
            Rung::Container | Rung::Containers | Rung::Pod => {}
            Rung::Recreate | Rung::Reschedule | Rung::Rollback => {
                let rung = request.rung;
                return Some(format!(
                    "rung {rung} is not a restart in place: not done by the node"
                ));
            }
        }
        match &self.lifecycle {
            Lifecycle::Recovering { .. } | Lifecycle::Active => {}
            Lifecycle::Ending(_) => return Some(format!("pod {pod} is terminating")),
            Lifecycle::Finished(_) => {
                let phase = self.status.phase.as_deref().unwrap_or("unknown");
                return Some(format!("pod {pod} has finished (phase {phase})"));
            }
        }
        let other = self.restart.as_ref()?;
        match other.stage {
            RestartStage::Stopping { .. } => Some(match &other.cause {
                RestartCause::Asked { request } => {
                    format!("restart {} of pod {pod} is in progress", request.name)
                }
                RestartCause::Rule { container } => format!(
                    "all containers of pod {pod} are being restarted by a rule of container {container}"
                ),
            }),
            RestartStage::Starting | RestartStage::Cycling { .. } => None,
        }
    }

    fn first_stage(&mut self, request: &RestartRequest) -> RestartStage {
        let grace = request.grace.unwrap_or(self.blueprint.grace);
        match request.rung {
            Rung::Container => RestartStage::Cycling {
                halt: Halt::with_grace(self.now, grace),
                targets: self.cycle_targets(),
            },
            Rung::Containers => RestartStage::Stopping {
                halt: Halt::with_grace(self.now, grace.max(CONTAINERS_GRACE_MIN)),
            },
            Rung::Pod | Rung::Recreate | Rung::Reschedule | Rung::Rollback => {
                RestartStage::Stopping { halt: Halt::with_grace(self.now, grace) }
            }
        }
    }

    /// The starts that a Container restart replaces. What waits is let go at once.
    fn cycle_targets(&mut self) -> BTreeMap<ContainerName, ContainerAttempt> {
        let mut targets = BTreeMap::new();
        let replaceable =
            self.containers.iter_mut().filter(|c| c.definition.role != Role::Ephemeral);
        for container in replaceable {
            let replaced = match &container.state {
                State::Running { .. } => Some(container.number),
                State::Idle(Hold::Crash { .. }) => container.last.as_ref().map(|last| last.attempt),
                State::Idle(_)
                | State::Pulling { .. }
                | State::Creating { .. }
                | State::Created { .. }
                | State::Starting { .. } => None,
            };
            container.release();
            if let Some(attempt) = replaced {
                targets.insert(container.definition.name.clone(), attempt);
            }
        }
        targets
    }

    /// Drives the restart in progress.
    pub(crate) fn drive_restart(&mut self) {
        let Some(restart) = &self.restart else { return };
        let rung = restart.cause.rung();
        match restart.stage.clone() {
            RestartStage::Stopping { .. } => self.begin_starting(),
            RestartStage::Starting => {
                if self.all_run_again() {
                    self.restart_succeeded(rung);
                }
            }
            RestartStage::Cycling { halt, targets } => self.drive_cycle(halt, &targets),
        }
    }

    /// All containers have ended: everything is started anew.
    fn begin_starting(&mut self) {
        let settled = self.nothing_halted_lives()
            && !self.sandbox.is_in_flight()
            && !self.volumes.is_in_flight();
        let Some(restart) = self.restart.as_mut().filter(|_| settled) else { return };
        restart.stage = RestartStage::Starting;
        match restart.cause.clone() {
            RestartCause::Asked { request } => {
                if request.rung == Rung::Pod {
                    self.replace_sandbox(request.refresh);
                }
                self.begin_round(match request.series {
                    Series::Anew => Round::Afresh,
                    Series::GoesOn => Round::GoesOn,
                });
                let message = texts::starting(request.rung).to_owned();
                self.report(request.id, PodRestartPhase::Running, message, self.now);
            }
            RestartCause::Rule { container } => {
                self.begin_round(Round::ByRule);
                self.hold_round(&container);
                self.tell_of_held_round(&container);
            }
        }
    }

    fn replace_sandbox(&mut self, refresh: Vec<Refresh>) {
        if self.sandbox.stands() {
            let dead = match self.sandbox.state {
                SandboxState::Dead { .. } => true,
                SandboxState::Ready | SandboxState::Absent(_) => false,
            };
            let strays = self.clearance.values().any(|e| e.step != ClearanceStep::Remove);
            let remains = if dead || strays { Remains::MaybeProcesses } else { Remains::Nothing };
            self.give_up_sandbox(remains);
            self.sandbox.attempt = self.sandbox.attempt.next();
        } else {
            self.sandbox.state = SandboxState::Absent(Task::due());
        }
        if refresh.contains(&Refresh::EmptyDir) {
            self.volumes = Volumes::Stale(Task::due());
        }
        self.sandbox.refresh = refresh;
    }

    /// Init containers are done, sidecars run, regular containers run or have run to their end.
    fn all_run_again(&self) -> bool {
        self.is_initialized()
            && self.containers.iter().all(|container| match container.definition.role {
                Role::Init | Role::Ephemeral => true,
                Role::Sidecar => container.is_running(),
                Role::Regular => container.is_running() || container.standing == Standing::Done,
            })
    }

    fn drive_cycle(&mut self, halt: Halt, targets: &BTreeMap<ContainerName, ContainerAttempt>) {
        let kill_at = match halt {
            Halt::AtOnce => self.now,
            Halt::By { deadline } => deadline,
        };
        let mut open = false;
        for place in 0..self.containers.len() {
            let container = &self.containers[place];
            let Some(target) = targets.get(&container.definition.name) else { continue };
            if container.runs_later_than(*target) {
                continue;
            }
            open = true;
            if container.is_running() {
                self.begin_stop(place, kill_at, StopReason::RestartAsked);
            } else if container.ended_with(*target) && container.is_held_by_backoff() {
                // An agent that was killed since holds it for a crash that was none. What failed since keeps its delay.
                self.containers[place].release();
            }
        }
        if !open {
            self.restart_succeeded(Rung::Container);
        }
    }

    fn restart_succeeded(&mut self, rung: Rung) {
        let message = texts::done(rung).to_owned();
        if let Some(RestartRecord { cause: RestartCause::Asked { request }, .. }) = &self.restart {
            let event = texts::restarted(request, &message);
            self.emit(event);
        }
        self.conclude_restart(PodRestartPhase::Succeeded, message);
    }

    /// The restart in progress, if there is one, is over.
    pub(crate) fn conclude_restart(&mut self, phase: PodRestartPhase, message: String) {
        let Some(restart) = self.restart.take() else { return };
        match restart.cause {
            RestartCause::Asked { request: RestartRequest { id, .. } } => {
                self.report(id.clone(), phase, message.clone(), self.now);
                self.remember(id, phase, message);
            }
            RestartCause::Rule { .. } => self.keep(Keep::Now),
        }
        self.status_changed = true;
        self.moved = true;
    }

    fn report(&mut self, id: String, phase: PodRestartPhase, message: String, at: Tick) {
        self.outbox.note(Action::ReportRestart { id, phase, message, at });
    }

    /// So that the request, told again, is told how it went.
    fn remember(&mut self, id: String, phase: PodRestartPhase, message: String) {
        if self.recent_restarts.len() == RECENT_RESTARTS {
            self.recent_restarts.remove(0);
        }
        self.recent_restarts.push(RestartResult { id, phase, message, at: self.now });
        self.keep(Keep::Now);
    }
}

/// What a restart is at, for people.
fn doing_now(rung: Rung, stage: &RestartStage) -> &'static str {
    match stage {
        RestartStage::Stopping { .. } | RestartStage::Cycling { .. } => texts::doing(rung),
        RestartStage::Starting => texts::starting(rung),
    }
}

/// Whether the sandbox is the same after this restart.
pub(crate) fn keeps_sandbox(restart: &RestartRecord) -> bool {
    match restart.cause.rung() {
        Rung::Container | Rung::Containers => true,
        Rung::Pod | Rung::Recreate | Rung::Reschedule | Rung::Rollback => false,
    }
}

impl Container {
    /// A start after this one runs, or has run and is not followed by another.
    fn runs_later_than(&self, target: ContainerAttempt) -> bool {
        let ended_later = self.last.as_ref().is_some_and(|last| last.attempt > target);
        (self.is_running() && self.number > target)
            || (self.standing == Standing::Done && ended_later)
    }

    /// Its newest end is that of this start.
    fn ended_with(&self, attempt: ContainerAttempt) -> bool {
        self.last.as_ref().is_some_and(|last| last.attempt == attempt)
    }

    /// It is held by the backoff of crashes.
    pub(crate) fn is_held_by_backoff(&self) -> bool {
        match self.state {
            State::Idle(Hold::Crash { .. }) => true,
            State::Idle(
                Hold::None | Hold::Retry { .. } | Hold::Image { .. } | Hold::SpecChange,
            )
            | State::Pulling { .. }
            | State::Creating { .. }
            | State::Created { .. }
            | State::Starting { .. }
            | State::Running { .. } => false,
        }
    }

    /// Nothing but its turn keeps it waiting any more.
    fn release(&mut self) {
        match self.state {
            State::Idle(Hold::Crash { .. } | Hold::Retry { .. } | Hold::Image { .. }) => {
                self.state = State::Idle(Hold::None);
                self.complaint = None;
            }
            State::Idle(Hold::None | Hold::SpecChange)
            | State::Pulling { .. }
            | State::Creating { .. }
            | State::Created { .. }
            | State::Starting { .. }
            | State::Running { .. } => {}
        }
    }
}
