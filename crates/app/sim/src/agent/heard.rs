//! What an agent hears of one of its pods: of its object, of its deadlines, of the runtime's
//! answers, and of what ends.

use std::sync::Arc;

use k8s_openapi::api::core::v1::Pod;
use rekindle_pod::{
    ActionError, ActionId, ActionOutcome, ContainerStartKey, CoreEvent, EvictionCause, Loss,
    PodEviction, RestartRequest,
};
use rekindle_pod_driver::StatusAnswer;
use rekindle_types::{Exit, ExitStatus, SandboxAttempt, Tick, TickDuration};

use super::{ContainerLife, RequestObject, SIGKILL, SimulatedPod, named, pauses};
use crate::known_bugs::KnownBug;
use crate::pace::RuntimePace;

/// What a pod gets at a hard threshold of its node.
const EVICTION_GRACE: TickDuration = TickDuration::from_secs(1);

impl SimulatedPod {
    /// The sandbox dies with all in it.
    pub(crate) fn sandbox_dies(&mut self, now: Tick, attempt: SandboxAttempt) {
        if self.sandboxes.remove(&attempt).is_none() {
            return;
        }
        let inside: Vec<ContainerStartKey> =
            self.running().filter(|key| key.sandbox == attempt).cloned().collect();
        for key in inside {
            self.signalled.remove(&key);
            self.graces.forget(&key);
            self.exits(now, key, ExitStatus::Signal { signal: SIGKILL });
        }
        self.driver.handle(self.clock.shows(now), CoreEvent::SandboxDied { attempt });
    }

    /// Its node cannot keep it.
    pub(crate) fn evicted(&mut self, now: Tick) {
        self.graces.given(EVICTION_GRACE);
        let (cause, grace) = (EvictionCause::NodePressure, EVICTION_GRACE);
        let message = "The node was low on resource: memory.".to_owned();
        let eviction = PodEviction { cause, message, grace };
        self.driver.handle(self.clock.shows(now), CoreEvent::Eviction(eviction));
    }

    /// The runtime finds the sandbox of another pod under this one's name.
    pub(crate) fn inherit(&mut self, other: Self) {
        self.sandboxes.extend(other.torn_down);
    }

    /// The object changed in the API.
    pub(crate) fn updated(&mut self, now: Tick, pod: Arc<Pod>) {
        self.pod = pod.clone();
        self.driver.object_changed(self.clock.shows(now), pod);
        self.note_deletion();
    }

    /// The object is gone from the API.
    pub(crate) fn vanished(&mut self, now: Tick, loss: Loss) {
        self.driver.object_vanished(self.clock.shows(now), loss);
        self.note_end();
    }

    pub(crate) fn restart(&mut self, now: Tick, request: RestartRequest, object: RequestObject) {
        if self.requests.insert(request.id.clone(), object).is_none() {
            request.grace.into_iter().for_each(|grace| self.graces.given(grace));
            let shown = self.clock.shows(now);
            self.pauses.asked(shown, &self.pod, &request);
            self.driver.handle(shown, CoreEvent::RestartRequested(request));
        }
    }

    /// The group of a request has stopped, or is over.
    pub(crate) fn release(&mut self, now: Tick, id: &str) {
        let shown = self.clock.shows(now);
        self.driver.handle(shown, CoreEvent::RestartReleased { id: id.to_owned() });
    }

    /// The agent may have been told that the pod is deleted.
    pub(super) fn note_deletion(&mut self) {
        let told = self.driver.deletion_grace_told();
        if told.is_some() && told != self.deletion_grace {
            self.note_end();
        }
    }

    /// The agent was told that the pod is to end.
    pub(super) fn note_end(&mut self) {
        self.deletion_grace = self.driver.deletion_grace_told();
        if !self.waits_for_room() {
            self.is_told_to_end = true;
        }
        self.graces.given(TickDuration::of_field(self.deletion_grace.unwrap_or_default()));
    }

    /// A deadline has come.
    pub(crate) fn timeout(&mut self, now: Tick) {
        self.driver.handle_timeout(self.clock.shows(now));
    }

    /// The runtime answers.
    pub(crate) fn answered(
        &mut self,
        now: Tick,
        id: ActionId,
        result: Result<ActionOutcome, ActionError>,
        pace: &mut RuntimePace,
    ) {
        self.note_pace(self.clock.shows(now), id, pace);
        self.hooks.answered(id);
        self.probed.answered(id);
        self.driver.handle(self.clock.shows(now), CoreEvent::ActionResult { id, result });
    }

    /// The API answers the write of a status, or the node gives it up.
    pub(crate) fn status_answered(&mut self, now: Tick, answer: StatusAnswer) {
        self.driver.status_answered(self.clock.shows(now), answer);
    }

    /// A process ends, if it still runs, and the agent hears of it as its bug lets it.
    pub(crate) fn process_ends(
        &mut self,
        now: Tick,
        key: ContainerStartKey,
        status: ExitStatus,
        bug: Option<KnownBug>,
    ) {
        if self.misses_end(&key, bug) {
            self.ended(self.clock.shows(now), &key, status);
            return;
        }
        match bug {
            Some(KnownBug::RuleWhileTerminating) if self.obeys_rule(now, &key, status) => {}
            Some(KnownBug::ProbeLoopLeaked) => {
                self.probed.leak(&key.name);
                self.exits(now, key, status);
            }
            Some(_) | None => self.exits(now, key, status),
        }
    }

    /// A process ends, if it still runs.
    pub(crate) fn exits(&mut self, now: Tick, key: ContainerStartKey, status: ExitStatus) {
        let shown = self.clock.shows(now);
        let Some(exit) = self.ended(shown, &key, status) else { return };
        let made = self.made(&key);
        self.driver.handle(shown, CoreEvent::ContainerExited { key, made, exit });
    }

    pub(super) fn ended(
        &mut self,
        now: Tick,
        key: &ContainerStartKey,
        status: ExitStatus,
    ) -> Option<Exit> {
        let life = self.containers.get_mut(key)?;
        let ContainerLife::Running { started_at, .. } = *life else { return None };
        let exit = Exit { status, started_at, finished_at: now, message: String::new() };
        *life = ContainerLife::Exited(exit.clone());
        self.pauses.ended(now, &self.pod, key, status);
        self.last_ends.note(&key.name, status);
        self.signalled.remove(key);
        if self.deletion_grace.is_none() && pauses::restarts_all(&self.pod, key, status) {
            self.graces.ruled(now);
        }
        let was_killed = status == ExitStatus::Signal { signal: SIGKILL };
        if let Some(early) = self.graces.ended(now, &self.pod, key, was_killed) {
            self.breaks(|| {
                let (had, grace) = (early.had.as_micros() / 1_000, early.grace.as_micros() / 1_000);
                let start = named(key);
                format!("P5: {start} was killed after {had} ms of its grace period of {grace} ms")
            });
        }
        Some(exit)
    }
}
