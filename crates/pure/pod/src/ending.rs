//! The end of the pod: why it begins, and what has to be gone before it is over.
//!
//! ```text
//!  Active ── deleted │ containers done │ evicted │ overdue │ declared finished by the API ──► Ending
//!  Ending: containers end (halt) ─► sandbox torn down ─► last status ─► Finish
//! ```
//! A pod whose containers are done is finished here and now, whether it is being deleted or not;
//! its object stays until then.

use rekindle_types::reasons::pod as reason;
use rekindle_types::v1alpha1::PodRestartPhase;
use rekindle_types::{Tick, TickDuration};

use crate::action::CoreReport;
use crate::core::{FinishRequest, Keep, Lifecycle, PodCore};
use crate::event::{Eviction, EvictionCause};
use crate::journal::{EndCause, EndingRecord, Ground, Halt, RestartStage};
use crate::phase;
use crate::texts;

/// What a pod gets at least that its node ends: only who deletes it can want it gone without a
/// signal (`calculateEffectiveGracePeriod` in `pkg/kubelet/pod_workers.go`).
const EVICTION_GRACE_MIN: TickDuration = TickDuration::from_secs(1);

impl PodCore {
    /// `metadata.deletionTimestamp` is set, or the grace was shortened.
    pub(crate) fn delete_requested(&mut self, grace: TickDuration) {
        let halt = Halt::with_grace(self.now, grace);
        self.end(EndCause::Deleted, halt);
    }

    /// The node cannot keep the pod, or does not take it up. One that ends already only ends
    /// sooner.
    pub(crate) fn evict(&mut self, eviction: Eviction) {
        let grace = match eviction.cause {
            EvictionCause::NodePressure
            | EvictionCause::StorageLimit
            | EvictionCause::NodeShutdown => eviction.grace.max(EVICTION_GRACE_MIN),
            EvictionCause::NotAdmitted { .. } => eviction.grace,
        };
        let halt = Halt::with_grace(self.now, grace);
        if self.is_active()
            && let Some(event) = texts::eviction(&eviction)
        {
            self.emit(event);
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

    /// Begins the end, or shortens it: the first cause stays.
    fn end(&mut self, cause: EndCause, halt: Halt) {
        match &mut self.lifecycle {
            Lifecycle::Recovering { .. } => {}
            Lifecycle::Finished(_) => {
                if cause == EndCause::Deleted {
                    self.finish = FinishRequest::Due;
                }
            }
            Lifecycle::Ending(ending) => {
                let sooner = ending.halt.sooner(halt);
                if sooner != ending.halt {
                    ending.halt = sooner;
                    self.keep(Keep::Now);
                }
            }
            Lifecycle::Active => {
                self.conclude_restart_for(&cause);
                self.lifecycle = Lifecycle::Ending(EndingRecord { cause, halt });
                for container in &mut self.containers {
                    container.give_up();
                }
                self.status_changed = true;
                self.keep(Keep::Now);
                self.moved = true;
            }
        }
    }

    fn conclude_restart_for(&mut self, cause: &EndCause) {
        let (phase, message) = match cause {
            EndCause::Deleted => (PodRestartPhase::Failed, "the pod is being deleted".to_owned()),
            // an agent that died while it told of the end finds the pod declared finished
            EndCause::Completed | EndCause::DeclaredFinished
                if self.work_is_done() && self.is_initialized() =>
            {
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
        self.conclude_superseded(phase, &message);
        self.conclude_restart(phase, message);
    }

    /// What the object itself says of the end: a deletion of which the driver will tell too, or a
    /// final phase that somebody else wrote; the kubelet ends such a pod.
    pub(crate) fn obey_object(&mut self) {
        if !self.is_active() {
            return;
        }
        let metadata = &self.pod.metadata;
        if metadata.deletion_timestamp.is_some() {
            let grace = metadata.deletion_grace_period_seconds.map(TickDuration::of_field);
            self.delete_requested(grace.unwrap_or(self.blueprint.grace));
            return;
        }
        if self.is_declared_finished() {
            let halt = Halt::with_grace(self.now, self.blueprint.grace);
            self.end(EndCause::DeclaredFinished, halt);
        }
    }

    /// The API shows a final phase.
    pub(crate) fn is_declared_finished(&self) -> bool {
        let declared = self.pod.status.as_ref().and_then(|status| status.phase.as_deref());
        declared.is_some_and(phase::is_final)
    }

    /// When `activeDeadlineSeconds` are over.
    pub(crate) fn active_deadline(&self) -> Option<Tick> {
        let limit = self.blueprint.active_deadline.filter(|_| self.is_active())?;
        Some(self.start_time + limit)
    }

    /// Ends a pod that is overdue, or whose containers are done.
    pub(crate) fn drive_end(&mut self) {
        let halt = Halt::with_grace(self.now, self.blueprint.grace);
        if self.active_deadline().is_some_and(|deadline| deadline <= self.now) {
            self.emit(texts::deadline_exceeded());
            let reason = reason::DEADLINE_EXCEEDED.to_owned();
            let message = texts::DEADLINE_EXCEEDED_TEXT.to_owned();
            self.end(EndCause::Failed { reason, message, ground: Ground::Pod }, halt);
            return;
        }
        match self.restart.as_ref().map(|restart| &restart.stage) {
            // What ended runs again in the next round.
            Some(RestartStage::Stopping { .. }) => {}
            Some(RestartStage::Starting | RestartStage::Cycling { .. }) | None => {
                if self.work_is_done() || self.initialization_failed() {
                    self.end(EndCause::Completed, halt);
                }
            }
        }
    }

    /// Gives the sandbox up when nothing lives in it any more.
    pub(crate) fn drive_last_teardown(&mut self) {
        if self.nothing_lives() && self.sandbox.may_stand() {
            self.give_up_sandbox();
        }
    }

    /// Nothing is left, and no answer is awaited that could bring something back.
    pub(crate) fn drive_finish(&mut self) {
        let waits = !self.nothing_lives()
            || self.sandbox.stands()
            || self.sandbox.is_in_flight()
            || self.volumes.is_in_flight()
            || !self.old_sandboxes.is_empty()
            || !self.clearance.is_empty();
        if waits {
            return;
        }
        if let Lifecycle::Ending(ending) = &self.lifecycle {
            self.lifecycle = Lifecycle::Finished(ending.clone());
            for container in &mut self.containers {
                container.conclude();
            }
            self.finish = FinishRequest::Due;
            self.status_changed = true;
            self.moved = true;
        }
    }

    pub(crate) fn take_finish(&mut self) -> Option<CoreReport> {
        match std::mem::replace(&mut self.finish, FinishRequest::None) {
            FinishRequest::None => None,
            FinishRequest::Due => Some(CoreReport::Finish),
        }
    }
}
