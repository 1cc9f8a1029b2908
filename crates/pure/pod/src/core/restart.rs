//! What a restart in place asks of several parts: which containers end, and what is started anew.
//! `restarts` draws its stages.

use rekindle_types::v1alpha1::{EmptyDirPolicy, PodRestartPhase, Rung};

use super::PodCore;
use crate::containers::RoundCause;
use crate::event::{RestartRequest, Series};
use crate::journal::{Halt, RestartCause, RestartStage, Targets};
use crate::restarts::{CONTAINERS_GRACE_MIN, report};
use crate::texts;

impl PodCore {
    pub(super) fn restart_requested(&mut self, request: RestartRequest) {
        if self.restarts.repeat_report(&request.id, &mut self.outbox) {
            return;
        }
        if let Some(refusal) = self.refusal(&request) {
            return self.conclude_request(request.id, PodRestartPhase::Refused, refusal);
        }
        let left = self.containers.still_stopping(&request, &self.context());
        self.restarts.supersede(self.now, &request.name, &mut self.outbox);
        let stage = self.first_stage(&request, left);
        let named = self.containers.named(&request);
        self.restarts.begin(self.now, request, stage, named, &mut self.outbox);
    }

    /// The driver could not make sure of an image. What has changed since the request came is
    /// looked at anew.
    pub(super) fn restart_impossible(&mut self, request: RestartRequest, problem: &str) {
        if self.restarts.repeat_report(&request.id, &mut self.outbox) {
            return;
        }
        match self.refusal(&request) {
            Some(refusal) => self.conclude_request(request.id, PodRestartPhase::Refused, refusal),
            None => {
                let message = format!("not restarted, and nothing was ended: {problem}");
                self.conclude_request(request.id, PodRestartPhase::Failed, message);
            }
        }
    }

    fn conclude_request(&mut self, id: String, phase: PodRestartPhase, message: String) {
        self.restarts.conclude_request(self.now, id, phase, message, &mut self.outbox);
    }

    /// Why a request cannot be carried out.
    pub(super) fn refusal(&self, request: &RestartRequest) -> Option<String> {
        let last_phase = self.status().phase.as_deref();
        let named = request.container.as_ref().and_then(|name| self.containers.find(name));
        let is_done = named.is_some_and(|container| container.is_done());
        self.restarts.refusal(request, &self.desired, &self.lifecycle, last_phase, is_done)
    }

    fn first_stage(&mut self, request: &RestartRequest, left: Targets) -> RestartStage {
        let (now, grace) = (self.now, request.grace.unwrap_or(self.desired.grace()));
        match request.rung {
            Rung::Container => RestartStage::Cycling {
                halt: Halt::with_grace(now, grace),
                targets: match &request.container {
                    Some(name) => {
                        let named = self.containers.cycle_target(name, now);
                        left.into_iter().chain(named).collect()
                    }
                    None => self.containers.cycle_targets(now),
                },
            },
            Rung::Containers if request.is_fast => RestartStage::Stopping { halt: Halt::AtOnce },
            Rung::Containers => RestartStage::Stopping {
                halt: Halt::with_grace(now, grace.max(CONTAINERS_GRACE_MIN)),
            },
            Rung::Pod | Rung::Recreate | Rung::Reschedule | Rung::Rollback => {
                RestartStage::Stopping { halt: Halt::with_grace(now, grace) }
            }
        }
    }

    /// Drives the restart in progress.
    pub(super) fn drive_restart(&mut self) {
        let Some(restart) = self.restarts.current() else { return };
        let is_done = match restart.stage.clone() {
            RestartStage::Stopping { .. } => return self.begin_starting(),
            RestartStage::Starting => self.containers.all_run_again(),
            RestartStage::Cycling { halt, targets } => {
                let named = match &restart.cause {
                    RestartCause::Asked { request } => request.container.clone(),
                    RestartCause::Rule { .. } => None,
                };
                let (context, containers, outbox) = self.split();
                containers.drive_cycle(halt, &targets, named.as_ref(), &context, outbox)
            }
        };
        if is_done {
            let (now, containers) = (self.now, &self.containers);
            let named = |request: &RestartRequest| containers.named(request);
            self.restarts.succeeded(now, named, &mut self.outbox);
        }
    }

    /// All containers have ended: everything is started anew.
    fn begin_starting(&mut self) {
        let settled = self.containers.nothing_halted_lives(&self.context())
            && !self.sandboxes.is_in_flight()
            && !self.volumes.is_in_flight();
        if !settled || !self.restarts.passes_barrier(self.now, &mut self.outbox) {
            return;
        }
        match self.restarts.begin_starting() {
            Some(RestartCause::Asked { request }) => {
                let message = texts::starting(&request);
                if request.rung == Rung::Pod {
                    self.replace_sandbox(request.empty_dirs);
                }
                self.begin_round(match request.series {
                    Series::Anew => RoundCause::Afresh,
                    Series::GoesOn => RoundCause::GoesOn,
                });
                report(&mut self.outbox, request.id, PodRestartPhase::Running, message, self.now);
            }
            Some(RestartCause::Rule { container }) => {
                self.begin_round(RoundCause::ByRule);
                let (context, containers, outbox) = self.split();
                containers.hold_round(&container, &context);
                containers.tell_of_held_round(&container, &context, outbox);
            }
            None => {}
        }
    }

    fn replace_sandbox(&mut self, empty_dirs: EmptyDirPolicy) {
        if self.sandboxes.stands() {
            self.give_up_sandbox();
            self.sandboxes.next_attempt();
        }
        match empty_dirs {
            EmptyDirPolicy::Clear => self.volumes.refresh(),
            EmptyDirPolicy::Keep => {}
        }
        self.sandboxes.set_up_anew();
    }

    pub(super) fn settle_superseded(&mut self) {
        let (now, containers) = (self.now, &self.containers);
        let named = |request: &RestartRequest| containers.named(request);
        let is_so = |wanted: &_| containers.have(wanted);
        self.restarts.settle_superseded(now, is_so, named, &mut self.outbox);
    }
}
