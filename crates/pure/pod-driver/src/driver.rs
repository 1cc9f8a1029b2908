//! The driver: its core, and what lies between the core and the loop.

use std::collections::BTreeSet;
use std::sync::Arc;

use k8s_openapi::api::core::v1::{Pod, PodStatus};
use rekindle_pod::{
    ActionId, CoreEvent, CoreOutput, CoreReport, Journal, Loss, PodConfig, PodCore, concerns_core,
};
use rekindle_types::{Tick, TickDuration};

use crate::effect::{Existence, JournalFailure, NotReadyCause, PodEffect};
use crate::grace::{deletion_grace_seconds, spec_grace_seconds};
use crate::journal_gate::JournalGate;
use crate::latest_write::Urgency;
use crate::routing_gate::RoutingGate;
use crate::status_queue::{StatusAnswer, StatusQueue, ready};

/// Whether the pod is to run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum DriverMode {
    /// As its spec says.
    Serving,
    /// The node stops: containers end, and nothing is written that would say the pod is over.
    NodeStopping,
}

/// One pod on a node, for one process of the agent.
#[derive(Debug)]
pub struct PodDriver {
    core: PodCore,
    /// As seen last in the API.
    pod: Arc<Pod>,
    mode: DriverMode,
    existence: Existence,
    gate: JournalGate,
    routing: RoutingGate,
    /// Actions under way that a start waits for: another status follows soon.
    leading_on: BTreeSet<ActionId>,
    /// The newest status, until all that goes ahead of it is given out.
    untold: Option<Arc<PodStatus>>,
    statuses: StatusQueue,
    /// The core has finished, and the loop was not told so.
    finish_due: bool,
    /// Grace of the deletion as last told to the core, in seconds.
    deletion_grace: Option<i64>,
}

impl PodDriver {
    /// Takes a pod up, from the journal of an earlier agent if there is one. Nothing is done before
    /// the first `CoreEvent::RuntimeSnapshot`.
    pub fn new(now: Tick, pod: Arc<Pod>, journal: Option<Journal>, config: PodConfig) -> Self {
        let statuses = StatusQueue::new(&pod);
        let routing = RoutingGate::new(config.endpoint_withdrawal_timeout);
        let core = match journal {
            Some(journal) => PodCore::recover(now, pod.clone(), journal, config),
            None => PodCore::new(now, pod.clone(), config),
        };
        Self {
            core,
            pod,
            mode: DriverMode::Serving,
            existence: Existence::Exists,
            gate: JournalGate::Open,
            routing,
            leading_on: BTreeSet::new(),
            untold: None,
            statuses,
            finish_due: false,
            deletion_grace: None,
        }
    }

    /// Takes in one thing that happened. Poll effects afterwards.
    pub fn handle(&mut self, now: Tick, event: CoreEvent) {
        self.gate.input_came();
        match event {
            CoreEvent::SpecChanged(pod) => {
                self.object_changed(now, pod);
            }
            CoreEvent::NodeStops { .. } => {
                self.mode = DriverMode::NodeStopping;
                self.core.handle(now, event);
            }
            CoreEvent::ActionResult { id, .. } => {
                self.leading_on.remove(&id);
                self.core.handle(now, event);
            }
            CoreEvent::RuntimeSnapshot(_) => {
                self.core.handle(now, event);
                self.tell_deletion(now);
            }
            CoreEvent::DeleteRequested { .. }
            | CoreEvent::RestartRequested(_)
            | CoreEvent::RestartImpossible { .. }
            | CoreEvent::RestartReleased { .. }
            | CoreEvent::ContainerExited { .. }
            | CoreEvent::SandboxDied { .. }
            | CoreEvent::ResourcesDecided { .. }
            | CoreEvent::Eviction(_) => self.core.handle(now, event),
        }
    }

    /// A deadline may have passed; calling it early or twice does no harm.
    pub fn handle_timeout(&mut self, now: Tick) {
        self.gate.input_came();
        self.core.handle_timeout(now);
    }

    /// The API has a new version of the object. False if it concerns neither the core nor
    /// the rest of the node: most versions are echoes of the last status write.
    pub fn object_changed(&mut self, now: Tick, pod: Arc<Pod>) -> bool {
        self.gate.input_came();
        self.statuses.observe(now, &pod);
        let old = std::mem::replace(&mut self.pod, pod.clone());
        let is_news = concerns_core(&old, &pod);
        if is_news {
            self.core.handle(now, CoreEvent::SpecChanged(pod));
            self.tell_deletion(now);
        }
        is_news
    }

    /// The object is gone from the API: all of the pod ends.
    pub fn object_vanished(&mut self, now: Tick, loss: Loss) {
        self.gate.input_came();
        self.existence = Existence::Vanished;
        self.statuses.close();
        let own = deletion_grace_seconds(&self.pod);
        let own = own.unwrap_or_else(|| spec_grace_seconds(&self.pod));
        self.delete(now, loss.grace_seconds(own));
    }

    /// The node stops, and the pod comes back with it: containers end within the grace of the spec.
    pub fn node_stops(&mut self, now: Tick) {
        let grace = TickDuration::of_field(spec_grace_seconds(&self.pod));
        self.handle(now, CoreEvent::NodeStops { grace });
    }

    /// The journal of the last [`PodEffect::Persist`] is on the disk.
    pub fn journal_written(&mut self) {
        self.gate.written();
        if self.gate == JournalGate::Open {
            self.core.go_on();
        }
    }

    /// It could not be written. A pod that waits has its newest journal given out again when
    /// something happens, and after a second.
    pub fn journal_failed(&mut self, now: Tick) -> JournalFailure {
        match self.mode {
            DriverMode::Serving => {
                self.gate = JournalGate::failed(now);
                self.core.hold_up();
                JournalFailure::Waits
            }
            DriverMode::NodeStopping => {
                self.gate = JournalGate::Open;
                self.core.go_on();
                JournalFailure::GoesOn
            }
        }
    }

    /// No rule leads new connections to the pod: the answer to the last
    /// [`PodEffect::WithdrawEndpoints`].
    pub fn endpoints_withdrawn(&mut self) {
        self.routing.withdrawn();
    }

    /// What became of the last [`PodEffect::WriteStatus`].
    pub fn status_answered(&mut self, now: Tick, answer: StatusAnswer) {
        self.statuses.answered(now, answer);
    }

    /// The next thing to do, oldest first. `None` while a journal is being written.
    pub fn poll_effect(&mut self, now: Tick) -> Option<PodEffect> {
        if self.gate.is_retry_due(now) {
            let journal = self.core.journal_again(now);
            self.gate = JournalGate::Retrying { is_stale: false };
            return Some(PodEffect::Persist(journal));
        }
        if self.gate.is_closed() {
            return None;
        }
        while let Some(effect) = self.routing.poll(now) {
            if self.is_serving() || !matches!(effect, PodEffect::Record(_)) {
                return Some(effect);
            }
        }
        // nothing follows a core's last report but a further deletion
        while !self.finish_due {
            let Some(output) = self.core.poll_output() else { break };
            if let Some(effect) = self.effect_of(now, output) {
                return Some(effect);
            }
        }
        self.tell(now)
    }

    /// When [`handle_timeout`](Self::handle_timeout) wants to be called; ask again after each
    /// input.
    pub fn poll_timeout(&self) -> Option<Tick> {
        let timeouts = [
            self.core.poll_timeout(),
            self.gate.poll_timeout(),
            self.routing.poll_timeout(),
            self.statuses.poll_timeout(),
        ];
        timeouts.into_iter().flatten().min()
    }

    /// The core, to be asked.
    pub const fn core(&self) -> &PodCore {
        &self.core
    }

    /// The object as seen last.
    pub const fn pod(&self) -> &Arc<Pod> {
        &self.pod
    }

    /// Whether the API still has the object.
    pub const fn existence(&self) -> Existence {
        self.existence
    }

    /// Whether the pod ends with its node, and comes back with it.
    pub fn is_node_stopping(&self) -> bool {
        self.mode == DriverMode::NodeStopping
    }

    /// Whether a journal waits to be written.
    pub fn is_held_up(&self) -> bool {
        self.core.is_held_up()
    }

    /// Whether the newest status stands in the API, or never will: how containers ended is known
    /// nowhere else once the journal is gone.
    pub fn is_status_settled(&self) -> bool {
        self.untold.is_none() && self.statuses.is_settled()
    }

    /// The grace of the deletion that the core was told last, in seconds.
    pub const fn deletion_grace_told(&self) -> Option<i64> {
        self.deletion_grace
    }

    /// Tells the core once for each grace: a repeated one changes nothing and would only cost.
    fn tell_deletion(&mut self, now: Tick) {
        if let Some(grace) = deletion_grace_seconds(&self.pod)
            && self.deletion_grace != Some(grace)
        {
            self.delete(now, grace);
        }
    }

    fn delete(&mut self, now: Tick, grace_seconds: i64) {
        self.deletion_grace = Some(grace_seconds);
        let grace = TickDuration::of_field(grace_seconds);
        self.core.handle(now, CoreEvent::DeleteRequested { grace });
    }

    /// What the loop does for an output of the core, if anything.
    fn effect_of(&mut self, now: Tick, output: CoreOutput) -> Option<PodEffect> {
        match output {
            CoreOutput::Act(id, action) if action.ends_container() => {
                self.routing.pass(now, id, action)
            }
            CoreOutput::Act(id, action) => {
                if action.leads_on() {
                    self.leading_on.insert(id);
                }
                Some(PodEffect::Perform(id, action))
            }
            CoreOutput::Report(report) => self.effect_of_report(report),
        }
    }

    fn effect_of_report(&mut self, report: CoreReport) -> Option<PodEffect> {
        match report {
            CoreReport::Persist(journal) => {
                self.gate = JournalGate::Writing;
                Some(PodEffect::Persist(journal))
            }
            CoreReport::WriteStatus(status) => {
                match ready(Some(&status)) {
                    // it is about to be withdrawn, and serves until then
                    Some("True") if self.core.is_stopping() => {}
                    Some("True") => self.routing.ready(),
                    Some(_) | None => self.routing.not_ready(not_ready_cause(&self.pod, &status)),
                }
                self.untold = Some(status);
                Some(PodEffect::Advance)
            }
            CoreReport::EmitEvent(event) => self.is_serving().then_some(PodEffect::Record(event)),
            CoreReport::Restart(report) => {
                self.is_serving().then_some(PodEffect::ReportRestart(report))
            }
            CoreReport::RequestResources(request) => Some(PodEffect::RequestResources(request)),
            CoreReport::Finish => {
                self.finish_due = true;
                None
            }
        }
    }

    /// What comes when all that goes ahead of it is given out. A status is held while an action is
    /// under way that brings another one in milliseconds: its write would only delay that one.
    fn tell(&mut self, now: Tick) -> Option<PodEffect> {
        let urgency = match self.leading_on.is_empty() {
            true => Urgency::Now,
            false => Urgency::Soon,
        };
        if let Some(status) = self.untold.take() {
            if self.is_serving() && self.existence == Existence::Exists {
                self.statuses.submit(now, status.clone(), urgency);
            }
            return Some(PodEffect::Show(status));
        }
        if urgency == Urgency::Now {
            self.statuses.release();
        }
        if let Some(write) = self.statuses.poll(now) {
            return Some(PodEffect::WriteStatus(write));
        }
        std::mem::take(&mut self.finish_due).then_some(PodEffect::Finish)
    }

    fn is_serving(&self) -> bool {
        self.mode == DriverMode::Serving
    }
}

/// Why a pod with this status is not ready.
fn not_ready_cause(pod: &Pod, status: &PodStatus) -> NotReadyCause {
    let never = pod.spec.as_ref().and_then(|spec| spec.restart_policy.as_deref()) == Some("Never");
    let runs = status.phase.as_deref() == Some("Running");
    let mut containers = status.container_statuses.iter().flatten();
    let is_down =
        containers.any(|status| status.state.as_ref().is_none_or(|state| state.running.is_none()));
    match runs && !never && is_down {
        true => NotReadyCause::ContainerDown,
        false => NotReadyCause::Unready,
    }
}
