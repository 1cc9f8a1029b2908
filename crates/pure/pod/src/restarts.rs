//! Restarts in place that a PodRestart asks for.
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
//! A member of a group stays in the stage Stopping when all has ended, behind a [`StartBarrier`],
//! until the driver says that the others have stopped too
//! ([`RestartReleased`](crate::CoreEvent::RestartReleased)).
//!
//! One restart at a time: a request that comes while another one still stops containers is refused,
//! naming it. When the other one waits for containers to run, which a broken pod never does, the
//! new request takes its place. So it is with one of rung Container while it still stops
//! containers. A request that names another one takes them over until they have ended, so that they
//! are started again whatever becomes of the agent. What has lost its place succeeds when what it
//! asked for is so.
//!
//! What takes the place of a request never leaves out what that one had begun. So each of them
//! still gets what it asked for, by another's hand. It stays Running until that is so and has
//! Succeeded then; it ends with the pod, if that comes first.

use rekindle_types::v1alpha1::{PodRestartPhase, Rung, has_run_to_its_end, not_restartable};
use rekindle_types::{ContainerName, Tick, TickDuration};

use crate::action::{CoreReport, RestartReport};
use crate::blueprint::Definition;
use crate::desired_pod::DesiredPod;
use crate::event::RestartRequest;
use crate::journal::{
    EndCause, Halt, Journal, RECENT_RESTARTS, RestartCause, RestartRecord, RestartResult,
    RestartStage, SUPERSEDED_MAX, StartBarrier, SupersededGoal, SupersededRestart, Targets,
};
use crate::lifecycle::{LifecycleStageName, PodLifecycle};
use crate::outbox::Outbox;
use crate::texts;

/// The least grace of RestartAllContainers (KEP-5532).
pub(crate) const CONTAINERS_GRACE_MIN: TickDuration = TickDuration::from_secs(2);

/// The restart that is carried out, the requests that gave way to another one, and those that are
/// done with.
#[derive(Debug)]
pub(crate) struct InPlaceRestarts {
    current: Option<RestartRecord>,
    /// Oldest first.
    superseded: Vec<SupersededRestart>,
    /// Oldest first.
    recent: Vec<RestartResult>,
}

/// The name of a stage, to see whether it changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum RestartStageName {
    Stopping,
    Starting,
    Cycling,
}

impl InPlaceRestarts {
    /// As an earlier agent left them.
    pub(crate) fn new(journal: &Journal) -> Self {
        Self {
            current: journal.restart.clone(),
            superseded: journal.superseded.clone(),
            recent: journal.recent_restarts.clone(),
        }
    }

    /// The restart that is carried out.
    pub(crate) fn current(&self) -> Option<&RestartRecord> {
        self.current.as_ref()
    }

    /// Its stage.
    pub(crate) fn stage(&self) -> Option<&RestartStage> {
        self.current.as_ref().map(|restart| &restart.stage)
    }

    /// The name of its stage.
    pub(crate) fn stage_name(&self) -> Option<RestartStageName> {
        self.stage().map(|stage| match stage {
            RestartStage::Stopping { .. } => RestartStageName::Stopping,
            RestartStage::Starting => RestartStageName::Starting,
            RestartStage::Cycling { .. } => RestartStageName::Cycling,
        })
    }

    /// All containers are being ended for it.
    pub(crate) fn is_stopping(&self) -> bool {
        self.stage_name() == Some(RestartStageName::Stopping)
    }

    pub(crate) fn superseded(&self) -> &[SupersededRestart] {
        &self.superseded
    }

    pub(crate) fn recent(&self) -> &[RestartResult] {
        &self.recent
    }

    /// By when all containers have to end for it.
    pub(crate) fn stopping_halt(&self) -> Option<Halt> {
        match self.stage()? {
            RestartStage::Stopping { halt } => Some(*halt),
            RestartStage::Starting | RestartStage::Cycling { .. } => None,
        }
    }

    /// By when containers have to end for it, all or some.
    pub(crate) fn halt(&self) -> Option<Halt> {
        match self.stage()? {
            RestartStage::Stopping { halt } | RestartStage::Cycling { halt, .. } => Some(*halt),
            RestartStage::Starting => None,
        }
    }

    /// The same, to be moved.
    pub(crate) fn halt_mut(&mut self) -> Option<&mut Halt> {
        match &mut self.current.as_mut()?.stage {
            RestartStage::Stopping { halt } | RestartStage::Cycling { halt, .. } => Some(halt),
            RestartStage::Starting => None,
        }
    }

    /// As [`stopping_halt`](Self::stopping_halt), to be moved.
    pub(crate) fn stopping_halt_mut(&mut self) -> Option<&mut Halt> {
        match &mut self.current.as_mut()?.stage {
            RestartStage::Stopping { halt } => Some(halt),
            RestartStage::Starting | RestartStage::Cycling { .. } => None,
        }
    }

    /// The starts that are replaced, if containers are restarted one by one.
    pub(crate) fn targets(&self) -> Option<&Targets> {
        match self.stage()? {
            RestartStage::Cycling { targets, .. } => Some(targets),
            RestartStage::Stopping { .. } | RestartStage::Starting => None,
        }
    }

    /// Whether the sandbox is the same after the restart that is carried out.
    pub(crate) fn keeps_sandbox(&self) -> bool {
        self.current.as_ref().is_some_and(|restart| match restart.cause.rung() {
            Rung::Container | Rung::Containers => true,
            Rung::Pod | Rung::Recreate | Rung::Reschedule | Rung::Rollback => false,
        })
    }

    /// Whether a restart rule brought the restart about.
    pub(crate) fn is_by_rule(&self) -> bool {
        self.current.as_ref().is_some_and(|restart| match restart.cause {
            RestartCause::Rule { .. } => true,
            RestartCause::Asked { .. } => false,
        })
    }

    /// The container whose rule restarts all, once all are being started again.
    pub(crate) fn starting_trigger(&self) -> Option<&ContainerName> {
        let restart = self.current.as_ref()?;
        match (&restart.cause, &restart.stage) {
            (RestartCause::Rule { container }, RestartStage::Starting) => Some(container),
            (RestartCause::Rule { .. } | RestartCause::Asked { .. }, _) => None,
        }
    }

    /// Whether a request was taken up before.
    pub(crate) fn knows(&self, id: &str) -> bool {
        let is_current = self.current.as_ref().is_some_and(|restart| match &restart.cause {
            RestartCause::Asked { request } => request.id == id,
            RestartCause::Rule { .. } => false,
        });
        is_current
            || self.superseded.iter().any(|restart| restart.request.id == id)
            || self.recent.iter().any(|result| result.id == id)
    }

    /// Tells once more how a request goes that is known already. False if it is not.
    pub(crate) fn repeat_report(&self, id: &str, outbox: &mut Outbox) -> bool {
        let current = self.current.as_ref().and_then(|restart| match &restart.cause {
            RestartCause::Asked { request } if request.id == id => Some((restart, request)),
            RestartCause::Asked { .. } | RestartCause::Rule { .. } => None,
        });
        if let Some(held) = current.and_then(|(restart, _)| restart.held()) {
            outbox.note(CoreReport::Restart(held));
            return true;
        }
        let current =
            current.map(|(restart, request)| (doing_now(request, &restart.stage), restart.since));
        let superseded = self.superseded.iter().find(|restart| restart.request.id == id);
        let (phase, message, at) = if let Some((doing, since)) = current {
            (PodRestartPhase::Running, doing, since)
        } else if let Some(restart) = superseded {
            (PodRestartPhase::Running, texts::superseded(&restart.by), restart.since)
        } else if let Some(result) = self.recent.iter().find(|result| result.id == id) {
            (result.phase, result.message.clone(), result.at)
        } else {
            return false;
        };
        report(outbox, id.to_owned(), phase, message, at);
        true
    }

    /// Why a request cannot be carried out. `last_phase` is the phase that was written last, and
    /// `is_done` says that the container that it names has run to its end.
    pub(crate) fn refusal(
        &self,
        request: &RestartRequest,
        desired: &DesiredPod,
        lifecycle: &PodLifecycle,
        last_phase: Option<&str>,
        is_done: bool,
    ) -> Option<String> {
        let pod = desired.name();
        match request.rung {
            Rung::Container | Rung::Containers | Rung::Pod => {}
            Rung::Recreate | Rung::Reschedule | Rung::Rollback => {
                let rung = request.rung;
                return Some(format!(
                    "rung {rung} is not a restart in place: not done by the node"
                ));
            }
        }
        match lifecycle.stage() {
            LifecycleStageName::Recovering | LifecycleStageName::Active => {}
            LifecycleStageName::Ending => return Some(format!("pod {pod} is terminating")),
            LifecycleStageName::Finished => {
                let phase = last_phase.unwrap_or("unknown");
                return Some(format!("pod {pod} has finished (phase {phase})"));
            }
        }
        if let Some(refusal) = refusal_of_named(request, desired, is_done) {
            return Some(refusal);
        }
        let other = self.current.as_ref()?;
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

    /// Takes a request up, in place of the restart that is carried out. `named` is the container
    /// that it names.
    pub(crate) fn begin(
        &mut self,
        now: Tick,
        request: RestartRequest,
        stage: RestartStage,
        named: Option<&Definition>,
        outbox: &mut Outbox,
    ) {
        outbox.emit(texts::restarting(&request, named));
        let message = texts::doing(&request);
        report(outbox, request.id.clone(), PodRestartPhase::Running, message, now);
        let barrier = match &request.group {
            Some(group) => StartBarrier::Closed { until: now + group.limit, reached: None },
            None => StartBarrier::Open,
        };
        let cause = RestartCause::Asked { request };
        self.current = Some(RestartRecord { cause, stage, since: now, barrier });
    }

    /// The others of the group have stopped, or the group is over.
    pub(crate) fn release(&mut self, id: &str) {
        if let Some(restart) = &mut self.current
            && let RestartCause::Asked { request } = &restart.cause
            && request.id == id
        {
            restart.barrier = StartBarrier::Open;
        }
    }

    /// All has ended: whether it may start again. What has to wait says so once.
    pub(crate) fn passes_barrier(&mut self, now: Tick, outbox: &mut Outbox) -> bool {
        let Some(restart) = &mut self.current else { return false };
        match &mut restart.barrier {
            StartBarrier::Open => true,
            StartBarrier::Closed { until, .. } if *until <= now => true,
            StartBarrier::Closed { reached: Some(_), .. } => false,
            StartBarrier::Closed { reached, .. } => {
                *reached = Some(now);
                restart.held().into_iter().for_each(|held| outbox.note(CoreReport::Restart(held)));
                false
            }
        }
    }

    /// When what waits for the others of its group starts without them.
    pub(crate) fn barrier_deadline(&self) -> Option<Tick> {
        match self.current.as_ref()?.barrier {
            StartBarrier::Closed { until, reached: Some(_) } => Some(until),
            StartBarrier::Closed { reached: None, .. } | StartBarrier::Open => None,
        }
    }

    /// A container ended as one of its rules answers with a restart of all: in the same sandbox,
    /// without preStop, and with the least grace (KEP-5532).
    pub(crate) fn begin_by_rule(
        &mut self,
        now: Tick,
        container: ContainerName,
        outbox: &mut Outbox,
    ) {
        self.supersede(now, &format!("a restart rule of container {container}"), outbox);
        let halt = Halt::with_grace(now, CONTAINERS_GRACE_MIN);
        self.current = Some(RestartRecord {
            cause: RestartCause::Rule { container },
            stage: RestartStage::Stopping { halt },
            since: now,
            barrier: StartBarrier::Open,
        });
    }

    /// All containers have ended: they are started again. Why they are restarted.
    pub(crate) fn begin_starting(&mut self) -> Option<RestartCause> {
        let restart = self.current.as_mut()?;
        restart.stage = RestartStage::Starting;
        Some(restart.cause.clone())
    }

    /// The restart that is carried out, if there is one, has done what it was for. `named` finds
    /// the container that a request names.
    pub(crate) fn succeeded<'a>(
        &mut self,
        now: Tick,
        named: impl Fn(&RestartRequest) -> Option<&'a Definition>,
        outbox: &mut Outbox,
    ) {
        let message = match self.current.as_ref().map(|restart| &restart.cause) {
            Some(RestartCause::Asked { request }) => {
                let message = texts::done(request);
                outbox.emit(texts::restarted(request, named(request), &message));
                message
            }
            Some(RestartCause::Rule { .. }) | None => String::new(), // it was not asked for
        };
        self.conclude(now, PodRestartPhase::Succeeded, message, outbox);
    }

    /// The restart that is carried out, if there is one, is over.
    fn conclude(
        &mut self,
        now: Tick,
        phase: PodRestartPhase,
        message: String,
        outbox: &mut Outbox,
    ) {
        let Some(restart) = self.current.take() else { return };
        match restart.cause {
            RestartCause::Asked { request } => {
                self.conclude_request(now, request.id, phase, message, outbox);
            }
            RestartCause::Rule { .. } => {}
        }
    }

    /// A request is over. It is remembered how, so that the same request, told again, is told so
    /// again.
    pub(crate) fn conclude_request(
        &mut self,
        now: Tick,
        id: String,
        phase: PodRestartPhase,
        message: String,
        outbox: &mut Outbox,
    ) {
        report(outbox, id.clone(), phase, message.clone(), now);
        if self.recent.len() == RECENT_RESTARTS {
            self.recent.remove(0);
        }
        self.recent.push(RestartResult { id, phase, message, at: now });
    }

    /// The restart that is carried out, if there is one, gives way to another one.
    pub(crate) fn supersede(&mut self, now: Tick, by: &str, outbox: &mut Outbox) {
        let Some(restart) = self.current.take() else { return };
        let RestartRecord { cause, stage, since, barrier: _ } = restart;
        let request = match cause {
            RestartCause::Asked { request } => request,
            RestartCause::Rule { .. } => return, // it was not asked for
        };
        let wanted = match stage {
            // nothing takes its place: it refuses other requests, and no rule is asked until it
            // is over
            RestartStage::Stopping { .. } => {
                return self.fail_superseded(now, request, by, outbox);
            }
            RestartStage::Starting => SupersededGoal::AllRunning,
            RestartStage::Cycling { targets, .. } => {
                SupersededGoal::Restarted { targets: own(&request, targets) }
            }
        };
        if self.superseded.len() == SUPERSEDED_MAX {
            let oldest = self.superseded.remove(0);
            self.fail_superseded(now, oldest.request, &oldest.by, outbox);
        }
        let message = texts::superseded(by);
        report(outbox, request.id.clone(), PodRestartPhase::Running, message, now);
        self.superseded.push(SupersededRestart { request, wanted, by: by.to_owned(), since });
    }

    fn fail_superseded(
        &mut self,
        now: Tick,
        request: RestartRequest,
        by: &str,
        outbox: &mut Outbox,
    ) {
        let message = format!("superseded by {by} before all containers were running");
        self.conclude_request(now, request.id, PodRestartPhase::Failed, message, outbox);
    }

    /// Those that gave way and have what they asked for (`is_so`) have succeeded.
    pub(crate) fn settle_superseded<'a>(
        &mut self,
        now: Tick,
        is_so: impl Fn(&SupersededGoal) -> bool,
        named: impl Fn(&RestartRequest) -> Option<&'a Definition>,
        outbox: &mut Outbox,
    ) {
        // while all stop, what runs now is about to end
        if self.superseded.is_empty() || self.is_stopping() {
            return;
        }
        let all = std::mem::take(&mut self.superseded);
        let (done, left) = all.into_iter().partition(|restart| is_so(&restart.wanted));
        self.superseded = left;
        for SupersededRestart { request, by, .. } in done {
            let message = texts::done_by(&request, &by);
            outbox.emit(texts::restarted(&request, named(&request), &message));
            self.conclude_request(now, request.id, PodRestartPhase::Succeeded, message, outbox);
        }
    }

    /// The pod ends: so do they. `is_complete` says that all its containers have done their work.
    pub(crate) fn end_with_pod(
        &mut self,
        now: Tick,
        cause: &EndCause,
        is_complete: bool,
        outbox: &mut Outbox,
    ) {
        let (phase, message) = match cause {
            EndCause::Deleted => (PodRestartPhase::Failed, "the pod is being deleted".to_owned()),
            // an agent that died while it told of the end finds the pod declared finished
            EndCause::Completed | EndCause::DeclaredFinished if is_complete => {
                (PodRestartPhase::Succeeded, "the containers ran to completion".to_owned())
            }
            EndCause::Completed => {
                (PodRestartPhase::Failed, "an init container failed for good".to_owned())
            }
            EndCause::Failed { reason, message, .. } => {
                (PodRestartPhase::Failed, format!("the pod failed: {reason}: {message}"))
            }
            EndCause::DeclaredFinished => {
                (PodRestartPhase::Failed, "the API declares the pod finished".to_owned())
            }
        };
        for SupersededRestart { request, .. } in std::mem::take(&mut self.superseded) {
            self.conclude_request(now, request.id, phase, message.clone(), outbox);
        }
        self.conclude(now, phase, message, outbox);
    }
}

impl RestartRecord {
    /// What it tells, if all has ended and it waits for the others of its group.
    fn held(&self) -> Option<RestartReport> {
        match (&self.cause, self.barrier) {
            (RestartCause::Asked { request }, StartBarrier::Closed { reached: Some(at), .. }) => {
                let message = texts::waiting_for_group(&request.group.as_ref()?.name);
                let (id, phase) = (request.id.clone(), PodRestartPhase::Running);
                Some(RestartReport { id, phase, message, at, is_held: true })
            }
            (
                RestartCause::Asked { .. },
                StartBarrier::Open | StartBarrier::Closed { reached: None, .. },
            )
            | (RestartCause::Rule { .. }, _) => None,
        }
    }
}

/// Tells how a request goes.
pub(crate) fn report(
    outbox: &mut Outbox,
    id: String,
    phase: PodRestartPhase,
    message: String,
    at: Tick,
) {
    outbox.note(CoreReport::Restart(RestartReport { id, phase, message, at, is_held: false }));
}

/// Why the one container that a request names cannot be restarted by itself.
fn refusal_of_named(
    request: &RestartRequest,
    desired: &DesiredPod,
    is_done: bool,
) -> Option<String> {
    let ContainerName(name) = request.container.as_ref()?;
    if request.rung != Rung::Container {
        let rung = request.rung;
        return Some(format!(
            "rung {rung} restarts all containers: one of them is named on the rung Container only"
        ));
    }
    let pod = desired.name();
    let spec = desired.pod().spec.as_ref()?;
    not_restartable(spec, pod, name).or_else(|| is_done.then(|| has_run_to_its_end(pod, name)))
}

/// What a restart is at, for people.
fn doing_now(request: &RestartRequest, stage: &RestartStage) -> String {
    match stage {
        RestartStage::Stopping { .. } | RestartStage::Cycling { .. } => texts::doing(request),
        RestartStage::Starting => texts::starting(request),
    }
}

/// Without what a request that names one container had taken over from those before it.
fn own(request: &RestartRequest, mut targets: Targets) -> Targets {
    if let Some(named) = &request.container {
        targets.retain(|name, _| name == named);
    }
    targets
}
