//! The order in which the parts are driven, and what concerns several of them at once.
//!
//! ```text
//!  Active:  image changes ─► restarts ─► halt ─► stops ─► end ─► volumes ─► dead sandbox ─► limits
//!           ─► sandbox ─► containers ─► health ─► strays ─► teardown
//!  Ending:  halt ─► stops ─► health ─► strays ─► last teardown ─► teardown ─► finish
//! ```

use std::sync::Arc;

use k8s_openapi::api::core::v1::Pod;
use rekindle_types::reasons::pod as reason;
use rekindle_types::{Exit, SandboxAttempt, TickDuration};

use super::PodCore;
use crate::action::LimitStep;
use crate::containers::{ContainersProgress, EndConsequence, RoundCause};
use crate::event::{ActionError, ActionOutcome, EvictionCause, Made, PodEviction};
use crate::journal::{EndCause, Ground, Halt};
use crate::key::{ActionId, ContainerStartKey};
use crate::lifecycle::LifecycleStageName;
use crate::resize;
use crate::restarts::RestartStageName;
use crate::sandboxes::{SandboxRemains, SandboxStage};
use crate::texts;
use crate::volumes::VolumesStage;

/// More steps than any event can need; beyond it something moves in a circle.
const STEPS_MAX: usize = 1_000;

/// What a pod gets at least that its node ends: only who deletes it can want it gone without a
/// signal (`calculateEffectiveGracePeriod` in `pkg/kubelet/pod_workers.go`).
const EVICTION_GRACE_MIN: TickDuration = TickDuration::from_secs(1);

/// How far the parts are, as far as one looks at another. Two of these are compared to see whether
/// a step has moved anything.
#[derive(PartialEq)]
struct PodProgress {
    lifecycle: LifecycleStageName,
    restart: Option<RestartStageName>,
    superseded: usize,
    volumes: VolumesStage,
    sandbox: (SandboxAttempt, SandboxStage),
    limits: resize::LimitProgress,
    containers: ContainersProgress,
}

impl PodCore {
    /// Drives all parts until nothing moves.
    pub(super) fn drive(&mut self) {
        let mut before = self.progress();
        for _ in 0..STEPS_MAX {
            match self.lifecycle.stage() {
                LifecycleStageName::Recovering | LifecycleStageName::Finished => return,
                LifecycleStageName::Active => self.step_active(),
                LifecycleStageName::Ending => self.step_ending(),
            }
            let after = self.progress();
            if after == before {
                return;
            }
            before = after;
        }
        panic!("pod core of {} moves in a circle", self.desired.name());
    }

    fn progress(&self) -> PodProgress {
        PodProgress {
            lifecycle: self.lifecycle.stage(),
            restart: self.restarts.stage_name(),
            superseded: self.restarts.superseded().len(),
            volumes: self.volumes.stage(),
            sandbox: (self.sandboxes.attempt(), self.sandboxes.state()),
            limits: self.resize.progress(),
            containers: self.containers.progress(),
        }
    }

    fn step_active(&mut self) {
        let (context, containers, outbox) = self.split();
        containers.drive_image_changes(&context, outbox);
        self.drive_restart();
        self.settle_superseded();
        self.drive_halt();
        self.drive_end();
        if !self.lifecycle.is_active() {
            return;
        }
        let may_refresh = self.containers.nothing_lives() && !self.sandboxes.earlier_may_live();
        self.volumes.drive(self.now, may_refresh, &mut self.outbox);
        self.drive_dead_sandbox();
        self.drive_resize();
        if self.context().halt().is_none() {
            if self.volumes.let_sandbox_start() {
                let is_used = self.containers.have_used(self.sandboxes.attempt());
                self.sandboxes.drive(self.now, is_used, &mut self.outbox);
            }
            let (context, containers, outbox) = self.split();
            containers.drive(&context, outbox);
        }
        self.drive_health();
        let is_idle = self.sandboxes.is_ready()
            && self.volumes.is_ready()
            && !self.containers.any_is_on_its_way();
        self.sandboxes.drive_teardown(self.now, is_idle, &mut self.outbox);
    }

    fn step_ending(&mut self) {
        self.drive_halt();
        self.drive_health();
        if self.containers.nothing_lives() && self.sandboxes.may_stand() {
            self.give_up_sandbox();
        }
        let is_idle = self.lifecycle.is_ending();
        self.sandboxes.drive_teardown(self.now, is_idle, &mut self.outbox);
        self.drive_finish();
    }

    fn drive_halt(&mut self) {
        let (context, containers, outbox) = self.split();
        containers.drive_halt(&context, outbox);
        containers.drive_stops(&context, outbox);
    }

    fn drive_health(&mut self) {
        let (context, containers, outbox) = self.split();
        containers.drive_health(&context, outbox);
        containers.drive_strays(context.now, outbox);
    }

    /// Asks for what is wanted of resources, and puts what was granted into force.
    fn drive_resize(&mut self) {
        self.resize.ask(self.desired.pod(), &mut self.outbox);
        if self.context().halt().is_some() {
            return;
        }
        let (now, is_ready) = (self.now, self.sandboxes.is_ready());
        let step = match self.resize.progress() {
            resize::LimitProgress::Raise(task) if task.is_due(now) && is_ready => {
                self.containers.raise_step(&self.context())
            }
            resize::LimitProgress::Lower(task) if task.is_due(now) && is_ready => LimitStep::Settle,
            resize::LimitProgress::Containers => {
                let (context, containers, outbox) = self.split();
                if containers.drive_limits(&context, outbox) {
                    self.resize.containers_are_done();
                }
                return;
            }
            resize::LimitProgress::Settled
            | resize::LimitProgress::Raise(_)
            | resize::LimitProgress::Lower(_) => {
                return;
            }
        };
        self.resize.update_sandbox(self.sandboxes.attempt(), step, &mut self.outbox);
    }

    /// Replaces a dead sandbox once its containers have ended. Whether something is left to be
    /// started in a new one was asked before: a pod without is ending by then.
    fn drive_dead_sandbox(&mut self) {
        if self.sandboxes.is_dead() && self.containers.nothing_lives() {
            self.give_up_sandbox();
            self.sandboxes.next_attempt();
            self.begin_round(RoundCause::NewSandbox);
        }
    }

    /// The current sandbox is not the current one any more. In a dead one the ends were not seen,
    /// and strays may still be due to be killed.
    pub(super) fn give_up_sandbox(&mut self) {
        let may_live = self.sandboxes.is_dead() || self.containers.stray_may_run();
        let remains =
            if may_live { SandboxRemains::MaybeProcesses } else { SandboxRemains::Nothing };
        self.sandboxes.give_up(remains);
        self.containers.forget_strays_of(self.sandboxes.attempt());
    }

    pub(super) fn begin_round(&mut self, round: RoundCause) {
        let (context, containers, outbox) = self.split();
        containers.begin_round(round, &context, outbox);
    }

    /// Ends a pod that is overdue, or whose containers are done.
    fn drive_end(&mut self) {
        let halt = Halt::with_grace(self.now, self.desired.grace());
        let deadline = self.lifecycle.active_deadline(self.desired.active_deadline());
        if deadline.is_some_and(|deadline| deadline <= self.now) {
            self.outbox.emit(texts::deadline_exceeded());
            let reason = reason::DEADLINE_EXCEEDED.to_owned();
            let message = texts::DEADLINE_EXCEEDED_TEXT.to_owned();
            self.end(EndCause::Failed { reason, message, ground: Ground::Pod }, halt);
            return;
        }
        // while all stop, what ended runs again in the next round
        let is_over = self.containers.work_is_done() || self.containers.initialization_failed();
        if is_over && !self.restarts.is_stopping() {
            self.end(EndCause::Completed, halt);
        }
    }

    /// Nothing is left, and no answer is awaited that could bring something back.
    fn drive_finish(&mut self) {
        let waits = !self.containers.nothing_lives()
            || self.sandboxes.stands()
            || self.sandboxes.is_in_flight()
            || self.volumes.is_in_flight()
            || self.sandboxes.has_earlier()
            || self.containers.have_strays();
        if !waits {
            self.lifecycle.finish();
            self.containers.conclude();
        }
    }

    /// Begins the end, or shortens it: the first cause stays.
    fn end(&mut self, cause: EndCause, halt: Halt) {
        if self.lifecycle.is_active() {
            let is_complete = self.containers.work_is_done() && self.containers.are_initialized();
            self.restarts.end_with_pod(self.now, &cause, is_complete, &mut self.outbox);
        }
        if self.lifecycle.end(cause, halt) {
            self.containers.give_up();
        }
    }

    /// `metadata.deletionTimestamp` is set, or the grace was shortened.
    pub(super) fn delete_requested(&mut self, grace: TickDuration) {
        self.end(EndCause::Deleted, Halt::with_grace(self.now, grace));
    }

    /// The pod's node stops, and the pod comes back with it. It may be told while the pod ends for
    /// another reason, which stays.
    pub(super) fn node_stops(&mut self, grace: TickDuration) {
        let (context, containers, keeper) = self.split_journal();
        keeper.leave_with_node(&context, containers);
        self.delete_requested(grace);
    }

    /// The node cannot keep the pod, or does not take it up. One that ends already only ends
    /// sooner.
    pub(super) fn evict(&mut self, eviction: PodEviction) {
        let grace = match eviction.cause {
            EvictionCause::NodePressure
            | EvictionCause::StorageLimit
            | EvictionCause::NodeShutdown => eviction.grace.max(EVICTION_GRACE_MIN),
            EvictionCause::NotAdmitted { .. } => eviction.grace,
        };
        let halt = Halt::with_grace(self.now, grace);
        if self.lifecycle.is_active()
            && let Some(event) = texts::eviction(&eviction)
        {
            self.outbox.emit(event);
        }
        let message = eviction.message;
        let (reason, message, ground) = match eviction.cause {
            EvictionCause::NodePressure => (reason::EVICTED.to_owned(), message, Ground::Node),
            EvictionCause::StorageLimit => (reason::EVICTED.to_owned(), message, Ground::Pod),
            EvictionCause::NodeShutdown => (reason::TERMINATED.to_owned(), message, Ground::Node),
            EvictionCause::NotAdmitted { refusal } => (
                refusal.as_str().to_owned(),
                format!("Pod was rejected: {message}"),
                Ground::NotAdmitted,
            ),
        };
        self.end(EndCause::Failed { reason, message, ground }, halt);
    }

    /// What the object itself says of the end: a deletion of which the driver will tell too, or a
    /// final phase that was written by another client; the kubelet ends such a pod.
    pub(super) fn obey_object(&mut self) {
        if !self.lifecycle.is_active() {
            return;
        }
        if let Some(grace) = self.desired.deletion_grace() {
            self.delete_requested(grace);
        } else if self.desired.is_declared_finished() {
            let halt = Halt::with_grace(self.now, self.desired.grace());
            self.end(EndCause::DeclaredFinished, halt);
        }
    }

    /// The API object changed. A pod with another UID is another pod, and not this core's.
    pub(super) fn spec_changed(&mut self, pod: Arc<Pod>) {
        if pod.metadata.uid != self.desired.pod().metadata.uid {
            return;
        }
        self.resize.observe(&pod);
        let old = self.desired.replace(pod);
        self.containers.redefine(self.desired.definitions(), self.resize.granted());
        self.volumes.mount_further(&old, self.desired.pod());
        self.obey_object();
    }

    /// For so long nothing could be asked to end.
    pub(super) fn put_halts_off(&mut self, by: TickDuration) {
        let halts = self.restarts.halt_mut().into_iter().chain(self.sandboxes.dead_halt_mut());
        halts.for_each(|halt| halt.put_off(by));
        self.containers.put_stops_off(by, &self.outbox);
    }

    /// What was being started when all was to end can be asked to from now on, and so it has its
    /// grace from now on, with the sidecars that waited for it. What was asked before keeps the
    /// deadline that it was given.
    fn put_halt_off_for_start(&mut self, place: usize) {
        let Some(since) = self.containers.halted_since(place) else { return };
        let by = self.now.since(since);
        match self.lifecycle.stage() {
            LifecycleStageName::Ending => {
                self.lifecycle.halt_mut().into_iter().for_each(|halt| halt.put_off(by));
            }
            LifecycleStageName::Recovering | LifecycleStageName::Finished => {}
            LifecycleStageName::Active => {
                let of_restart = self.restarts.stopping_halt_mut();
                let halts = of_restart.into_iter().chain(self.sandboxes.dead_halt_mut());
                halts.for_each(|halt| halt.put_off(by));
            }
        }
        // others that are still being started have waited for these moments, too
        self.containers.halt_starts_from(self.now);
    }

    pub(super) fn start_answered(
        &mut self,
        place: usize,
        id: ActionId,
        result: Result<ActionOutcome, ActionError>,
    ) {
        if !self.containers.awaits_start(place, id) {
            return;
        }
        self.put_halt_off_for_start(place);
        let (context, containers, outbox) = self.split();
        let end = containers.start_answered(place, result, &context, outbox);
        self.follow_end(end);
    }

    /// The runtime says that a start has come to its end.
    pub(super) fn container_exited(&mut self, key: &ContainerStartKey, made: Made, exit: Exit) {
        if self.containers.stray_ended(key) {
            return;
        }
        let Some(place) = self.containers.place_of(&key.name) else { return };
        if *key != self.containers.key(place, self.sandboxes.attempt()) {
            return;
        }
        self.put_halt_off_for_start(place);
        let (context, containers, outbox) = self.split();
        let end = containers.exited(place, made, exit, &context, outbox);
        self.follow_end(end);
    }

    /// Does what the end of a container asks of the rest of the pod.
    pub(super) fn follow_end(&mut self, end: EndConsequence) {
        match end {
            EndConsequence::None => {}
            EndConsequence::RestartAll { trigger } => {
                self.restarts.begin_by_rule(self.now, trigger, &mut self.outbox);
            }
        }
    }

    /// The current sandbox went by itself: its containers get the pod's grace, then all of it is
    /// replaced.
    pub(super) fn sandbox_died(&mut self, attempt: SandboxAttempt) {
        let halt = Halt::with_signal(self.now, self.desired.grace());
        if self.sandboxes.died(attempt, halt) {
            self.containers.signal_again();
            if self.lifecycle.is_active() && self.containers.any_would_run_again() {
                self.outbox.emit(texts::sandbox_changed());
            }
        }
    }
}
