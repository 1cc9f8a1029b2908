//! What an agent hears of one of its pods: of its object, of its deadlines, of the runtime's
//! answers, and of what ends.

use std::sync::Arc;

use k8s_openapi::api::core::v1::{Pod, PodStatus};
use rekindle_pod::{
    ActionError, ActionId, ContainerKey, Event, Eviction, EvictionCause, Loss, Outcome,
    RestartRequest,
};
use rekindle_types::{Exit, ExitStatus, SandboxAttempt, Tick, TickDuration};

use super::{Ends, Life, PodOnNode, SIGKILL, graces, named, pauses, ready};
use crate::known_bugs::KnownBug;
use crate::pace::Pace;

/// What a pod gets at a hard threshold of its node.
const EVICTION_GRACE: TickDuration = TickDuration::from_secs(1);

impl PodOnNode {
    /// The sandbox dies with all in it.
    pub(crate) fn sandbox_dies(&mut self, now: Tick, attempt: SandboxAttempt) {
        if self.sandboxes.remove(&attempt).is_none() {
            return;
        }
        let inside: Vec<ContainerKey> =
            self.running().filter(|key| key.sandbox == attempt).cloned().collect();
        for key in inside {
            self.signalled.remove(&key);
            self.graces.forget(&key);
            self.exits(now, key, ExitStatus::Signal { signal: SIGKILL });
        }
        self.core.handle(self.clock.shows(now), Event::SandboxDied { attempt });
    }

    /// Its node cannot keep it.
    pub(crate) fn evicted(&mut self, now: Tick) {
        self.graces.given(EVICTION_GRACE);
        let (cause, grace) = (EvictionCause::NodePressure, EVICTION_GRACE);
        let message = "The node was low on resource: memory.".to_owned();
        let eviction = Eviction { cause, message, grace };
        self.core.handle(self.clock.shows(now), Event::Eviction(eviction));
    }

    /// The runtime finds the sandbox of another pod under this one's name.
    pub(crate) fn inherit(&mut self, other: Self) {
        self.sandboxes.extend(other.torn_down);
    }

    /// The object changed in the API. What it says of the pod's readiness the node says again when
    /// it is not so, as the agent's writer of statuses does: the node lifecycle controller may say
    /// that nobody heard of the node when it is back already.
    pub(crate) fn updated(&mut self, now: Tick, pod: Arc<Pod>) -> Option<Arc<PodStatus>> {
        let is_news = self.seen.see(&pod);
        let old = std::mem::replace(&mut self.pod, pod.clone());
        if rekindle_pod::concerns_core(&old, &pod) {
            let shown = self.clock.shows(now);
            self.core.handle(shown, Event::SpecChanged(pod.clone()));
            self.tell_deletion(shown);
        }
        // one that waits to be written is newer
        let own = self.core.status();
        let is_other = is_news
            && self.backlog.status.is_none()
            && ready(Some(own)).zip(ready(pod.status.as_ref())).is_some_and(|(own, of)| own != of);
        is_other.then(|| own.clone())
    }

    /// The object is gone from the API.
    pub(crate) fn vanished(&mut self, now: Tick, loss: Loss) {
        self.has_vanished = true;
        let grace = self.deletion_grace.unwrap_or_else(|| graces::of_spec(&self.pod));
        self.delete(self.clock.shows(now), loss.grace_seconds(grace));
    }

    pub(crate) fn restart(&mut self, now: Tick, request: RestartRequest, object: (String, String)) {
        if self.requests.insert(request.id.clone(), object).is_none() {
            request.grace.into_iter().for_each(|grace| self.graces.given(grace));
            let shown = self.clock.shows(now);
            self.pauses.asked(shown, &self.pod, &request);
            self.core.handle(shown, Event::RestartRequested(request));
        }
    }

    pub(super) fn tell_deletion(&mut self, now: Tick) {
        if self.pod.metadata.deletion_timestamp.is_none() {
            return;
        }
        let grace = self.pod.metadata.deletion_grace_period_seconds;
        let grace = grace.unwrap_or_else(|| graces::of_spec(&self.pod));
        if self.deletion_grace != Some(grace) {
            self.delete(now, grace);
        }
    }

    pub(super) fn delete(&mut self, now: Tick, grace: i64) {
        self.deletion_grace = Some(grace);
        if !self.waits_for_room() {
            self.ends = Ends::Told;
        }
        let grace = TickDuration::of_field(grace);
        self.graces.given(grace);
        self.core.handle(now, Event::DeleteRequested { grace });
    }

    /// A deadline has come.
    pub(crate) fn timeout(&mut self, now: Tick) {
        self.core.handle_timeout(self.clock.shows(now));
    }

    /// The runtime answers.
    pub(crate) fn answered(
        &mut self,
        now: Tick,
        id: ActionId,
        result: Result<Outcome, ActionError>,
        pace: &mut Pace,
    ) {
        self.leading_on.remove(&id);
        self.note_pace(self.clock.shows(now), id, pace);
        self.hooks.answered(id);
        self.probed.answered(id);
        self.core.handle(self.clock.shows(now), Event::ActionResult { id, result });
    }

    /// A process ends, if it still runs, and the agent hears of it as its bug lets it.
    pub(crate) fn process_ends(
        &mut self,
        now: Tick,
        key: ContainerKey,
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
    pub(crate) fn exits(&mut self, now: Tick, key: ContainerKey, status: ExitStatus) {
        let shown = self.clock.shows(now);
        let Some(exit) = self.ended(shown, &key, status) else { return };
        let made = self.made(&key);
        self.core.handle(shown, Event::ContainerExited { key, made, exit });
    }

    pub(super) fn ended(
        &mut self,
        now: Tick,
        key: &ContainerKey,
        status: ExitStatus,
    ) -> Option<Exit> {
        let life = self.containers.get_mut(key)?;
        let Life::Running { started_at, .. } = *life else { return None };
        let exit = Exit { status, started_at, finished_at: now, message: String::new() };
        *life = Life::Exited(exit.clone());
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
