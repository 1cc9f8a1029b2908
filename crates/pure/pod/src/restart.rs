//! Restarts in place that somebody asks for with a PodRestart.
//!
//! ```text
//!  Containers, Pod:  Stopping ── all have ended ──► Starting ── all run again ──► Succeeded
//!  Container:        Cycling ── each target ended and a later start of it runs ──► Succeeded
//! ```
//! - **Pod** gives the sandbox up, has emptyDir made new if it is named, and sets the next sandbox
//!   up; the old one is torn down later (see `sandbox`). Init containers run again, then all
//!   regular ones, completed ones too. UID, name and persistent volumes stay.
//! - **Containers** does the same in the sandbox that stands (KEP-5532: condition
//!   AllContainersRestarting, grace at least 2 s).
//! - **Container** ends each running container by itself and starts it again, and lets waiting ones
//!   start now. A request may name one, a container or a sidecar: nothing else of the pod is
//!   touched then. It has succeeded when a start of it runs that is not the one that ran when it
//!   was asked for, also when it was waiting then, or had not had its turn.
//!
//! Backoff: after rungs Pod and Containers that a person asked for, every container begins a new
//! series, so the first crash is restarted at once and the next ones wait 10, 20 … s as in a new
//! pod. After those of a ladder the series goes on ([`Series`]). Rung Container skips the current
//! delay and leaves the series as it is. This cannot become an unthrottled loop by itself: the core
//! restarts only on request, a request is carried out once (its id is in the journal), and who
//! makes requests without end, the ladder, has a window, attempts and a budget for it.
//!
//! One restart at a time: a request that comes while another one still stops containers is refused,
//! naming it. When the other one waits for containers to run, which a broken pod never does, the
//! new request takes its place. So it is with one of rung Container while it still stops
//! containers. A request that names another one takes them over until they have ended, so that they
//! are started again whatever becomes of the agent. What has lost its place succeeds when what it
//! asked for is so ([`crate::superseded`]).

use rekindle_types::v1alpha1::{
    EmptyDirPolicy, PodRestartPhase, Rung, has_run_to_its_end, not_restartable,
};
use rekindle_types::{ContainerAttempt, ContainerName, Tick, TickDuration};

use crate::action::{CoreReport, RestartReport};
use crate::backoff::Task;
use crate::blueprint::Role;
use crate::container::{Container, Hold, Round, State, StopReason};
use crate::core::{Keep, Lifecycle, PodCore};
use crate::event::{RestartRequest, Series};
use crate::journal::{
    Halt, RECENT_RESTARTS, RestartCause, RestartRecord, RestartResult, RestartStage, Standing,
    Targets,
};
use crate::sandbox::SandboxState;
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
            return self.conclude_request(id, PodRestartPhase::Refused, refusal);
        }
        let left = self.still_stopping(&request);
        self.supersede(&request.name);
        let stage = self.first_stage(&request, left);
        self.emit(texts::restarting(&request, self.named(&request)));
        let message = texts::doing(&request);
        self.report(request.id.clone(), PodRestartPhase::Running, message, self.now);
        let cause = RestartCause::Asked { request };
        self.restart = Some(RestartRecord { cause, stage, since: self.now });
        self.keep(Keep::Now);
        self.status_changed = true;
    }

    /// Whether a request was taken up before.
    pub(crate) fn knows_restart(&self, id: &str) -> bool {
        let is_current = self.restart.as_ref().is_some_and(|restart| match &restart.cause {
            RestartCause::Asked { request } => request.id == id,
            RestartCause::Rule { .. } => false,
        });
        is_current
            || self.superseded.iter().any(|restart| restart.request.id == id)
            || self.recent_restarts.iter().any(|result| result.id == id)
    }

    /// Tells once more how a request goes that is known already.
    pub(crate) fn repeat_report(&mut self, id: &str) -> bool {
        let current = self.restart.as_ref().and_then(|restart| match &restart.cause {
            RestartCause::Asked { request } if request.id == id => {
                Some((doing_now(request, &restart.stage), restart.since))
            }
            RestartCause::Asked { .. } | RestartCause::Rule { .. } => None,
        });
        let superseded = self.superseded.iter().find(|restart| restart.request.id == id);
        let (phase, message, at) = if let Some((doing, since)) = current {
            (PodRestartPhase::Running, doing, since)
        } else if let Some(restart) = superseded {
            (PodRestartPhase::Running, texts::superseded(&restart.by), restart.since)
        } else if let Some(result) = self.recent_restarts.iter().find(|result| result.id == id) {
            (result.phase, result.message.clone(), result.at)
        } else {
            return false;
        };
        self.report(id.to_owned(), phase, message, at);
        true
    }

    /// Why a request cannot be carried out.
    pub(crate) fn refusal(&self, request: &RestartRequest) -> Option<String> {
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
        if let Some(refusal) = self.refusal_of_named(request) {
            return Some(refusal);
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

    /// Why the one container that a request names cannot be restarted by itself.
    fn refusal_of_named(&self, request: &RestartRequest) -> Option<String> {
        let ContainerName(name) = request.container.as_ref()?;
        if request.rung != Rung::Container {
            let rung = request.rung;
            return Some(format!(
                "rung {rung} restarts all containers: one of them is named on the rung Container only"
            ));
        }
        let pod = self.pod_name();
        let spec = self.pod.spec.as_ref()?;
        not_restartable(spec, pod, name).or_else(|| {
            let is_done = self.named(request)?.standing == Standing::Done;
            is_done.then(|| has_run_to_its_end(pod, name))
        })
    }

    /// The container that a request names.
    pub(crate) fn named(&self, request: &RestartRequest) -> Option<&Container> {
        let name = request.container.as_ref()?;
        self.containers.iter().find(|container| container.definition.name == *name)
    }

    /// The containers that the restart in progress stops, as far as a request that names one would
    /// lose sight of them.
    fn still_stopping(&self, request: &RestartRequest) -> Targets {
        let stage = self.restart.as_ref().map(|restart| &restart.stage);
        let (Some(RestartStage::Cycling { targets, .. }), Some(_)) = (stage, &request.container)
        else {
            return Targets::new();
        };
        let stopping = self.containers.iter().filter(|container| {
            let target = targets.get(&container.definition.name);
            container.is_live() && target == Some(&Some(container.number))
        });
        stopping
            .map(|container| (container.definition.name.clone(), Some(container.number)))
            .collect()
    }

    fn first_stage(&mut self, request: &RestartRequest, left: Targets) -> RestartStage {
        let grace = request.grace.unwrap_or(self.blueprint.grace);
        match request.rung {
            Rung::Container => RestartStage::Cycling {
                halt: Halt::with_grace(self.now, grace),
                targets: match &request.container {
                    Some(name) => left.into_iter().chain(self.cycle_target(name)).collect(),
                    None => self.cycle_targets(),
                },
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
    fn cycle_targets(&mut self) -> Targets {
        self.let_go_of_pulls(None);
        let mut targets = Targets::new();
        let replaceable =
            self.containers.iter_mut().filter(|c| c.definition.role != Role::Ephemeral);
        for container in replaceable {
            let replaced = match &container.state {
                State::Running { .. } => Some(container.number),
                State::Idle(Hold::Crash { .. }) => container.last.as_ref().map(|last| last.attempt),
                State::Idle(_) | State::Pulling { .. } | State::Starting { .. } => None,
            };
            container.release();
            if let Some(attempt) = replaced {
                targets.insert(container.definition.name.clone(), Some(attempt));
            }
        }
        targets
    }

    /// The start of one container that its restart replaces: the one that runs, else the last one.
    /// If it waits, it is let go at once.
    fn cycle_target(&mut self, name: &ContainerName) -> Targets {
        self.let_go_of_pulls(Some(name));
        let named = self.containers.iter_mut().filter(|c| c.definition.name == *name);
        let target = named.map(|container| {
            let replaced = match &container.state {
                State::Running { .. } => Some(container.number),
                State::Idle(_) | State::Pulling { .. } | State::Starting { .. } => {
                    container.last.as_ref().map(|last| last.attempt)
                }
            };
            container.release();
            (name.clone(), replaced)
        });
        target.collect()
    }

    /// Drives the restart in progress.
    pub(crate) fn drive_restart(&mut self) {
        let Some(restart) = &self.restart else { return };
        match restart.stage.clone() {
            RestartStage::Stopping { .. } => self.begin_starting(),
            RestartStage::Starting => {
                if self.all_run_again() {
                    self.restart_succeeded();
                }
            }
            RestartStage::Cycling { halt, targets } => {
                let named = match &restart.cause {
                    RestartCause::Asked { request } => request.container.clone(),
                    RestartCause::Rule { .. } => None,
                };
                self.drive_cycle(halt, &targets, named.as_ref());
            }
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
                let message = texts::starting(&request);
                if request.rung == Rung::Pod {
                    self.replace_sandbox(request.empty_dirs);
                }
                self.begin_round(match request.series {
                    Series::Anew => Round::Afresh,
                    Series::GoesOn => Round::GoesOn,
                });
                self.report(request.id, PodRestartPhase::Running, message, self.now);
            }
            RestartCause::Rule { container } => {
                self.begin_round(Round::ByRule);
                self.hold_round(&container);
                self.tell_of_held_round(&container);
            }
        }
    }

    fn replace_sandbox(&mut self, empty_dirs: EmptyDirPolicy) {
        if self.sandbox.stands() {
            self.give_up_sandbox();
            self.sandbox.attempt = self.sandbox.attempt.next();
        } else {
            self.sandbox.state = SandboxState::Absent(Task::due());
        }
        match empty_dirs {
            EmptyDirPolicy::Clear => self.volumes = Volumes::Stale(Task::due()),
            EmptyDirPolicy::Keep => {}
        }
    }

    /// Init containers are done, sidecars run, regular containers run or have run to their end.
    pub(crate) fn all_run_again(&self) -> bool {
        self.is_initialized()
            && self.containers.iter().all(|container| match container.definition.role {
                Role::Init | Role::Ephemeral => true,
                Role::Sidecar => container.is_running(),
                Role::Regular => container.is_running() || container.standing == Standing::Done,
            })
    }

    /// What a request that names another container has taken over has only to end.
    fn drive_cycle(&mut self, halt: Halt, targets: &Targets, named: Option<&ContainerName>) {
        let kill_at = match halt {
            Halt::AtOnce => self.now,
            Halt::By { deadline, .. } => deadline,
        };
        let mut open = false;
        for place in 0..self.containers.len() {
            let container = &self.containers[place];
            let Some(target) = targets.get(&container.definition.name) else { continue };
            let is_taken_over = named.is_some_and(|name| *name != container.definition.name);
            let is_over = is_taken_over && Some(container.number) > *target;
            if is_over || container.runs_later_than(*target) {
                continue;
            }
            open = true;
            if container.is_running() {
                self.begin_stop(place, kill_at, StopReason::RestartAsked);
            } else if container.ended_with(*target) && container.is_held_by_backoff() {
                // An agent that was killed since holds it for a crash that was none. What failed
                // since keeps its delay.
                self.containers[place].release();
            }
        }
        if !open {
            self.restart_succeeded();
        }
    }

    fn restart_succeeded(&mut self) {
        let message = match self.restart.as_ref().map(|restart| &restart.cause) {
            Some(RestartCause::Asked { request }) => {
                let message = texts::done(request);
                let event = texts::restarted(request, self.named(request), &message);
                self.emit(event);
                message
            }
            Some(RestartCause::Rule { .. }) | None => String::new(), // nobody asked
        };
        self.conclude_restart(PodRestartPhase::Succeeded, message);
    }

    /// The restart in progress, if there is one, is over.
    pub(crate) fn conclude_restart(&mut self, phase: PodRestartPhase, message: String) {
        let Some(restart) = self.restart.take() else { return };
        match restart.cause {
            RestartCause::Asked { request: RestartRequest { id, .. } } => {
                self.conclude_request(id, phase, message);
            }
            RestartCause::Rule { .. } => self.keep(Keep::Now),
        }
        self.status_changed = true;
        self.moved = true;
    }

    pub(crate) fn report(&mut self, id: String, phase: PodRestartPhase, message: String, at: Tick) {
        self.outbox.note(CoreReport::Restart(RestartReport { id, phase, message, at }));
    }

    /// A request is over. It is remembered how, so that the same request, told again, is told so
    /// again.
    pub(crate) fn conclude_request(&mut self, id: String, phase: PodRestartPhase, message: String) {
        self.report(id.clone(), phase, message.clone(), self.now);
        if self.recent_restarts.len() == RECENT_RESTARTS {
            self.recent_restarts.remove(0);
        }
        self.recent_restarts.push(RestartResult { id, phase, message, at: self.now });
        self.keep(Keep::Now);
    }
}

/// What a restart is at, for people.
fn doing_now(request: &RestartRequest, stage: &RestartStage) -> String {
    match stage {
        RestartStage::Stopping { .. } | RestartStage::Cycling { .. } => texts::doing(request),
        RestartStage::Starting => texts::starting(request),
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
    pub(crate) fn runs_later_than(&self, target: Option<ContainerAttempt>) -> bool {
        let ended_later = self.last.as_ref().is_some_and(|last| Some(last.attempt) > target);
        (self.is_running() && Some(self.number) > target)
            || (self.standing == Standing::Done && ended_later)
    }

    /// Its newest end is that of this start.
    fn ended_with(&self, attempt: Option<ContainerAttempt>) -> bool {
        self.last.as_ref().is_some_and(|last| Some(last.attempt) == attempt)
    }

    /// It is held by the backoff of crashes.
    pub(crate) fn is_held_by_backoff(&self) -> bool {
        match self.state {
            State::Idle(Hold::Crash { .. }) => true,
            State::Idle(
                Hold::None | Hold::Retry { .. } | Hold::Image { .. } | Hold::SpecChange,
            )
            | State::Pulling { .. }
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
            | State::Starting { .. }
            | State::Running { .. } => {}
        }
    }
}
