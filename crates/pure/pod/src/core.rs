//! The core itself: what it holds, how an event is taken in, and the order in which the parts are
//! driven.
//!
//! ```text
//!            snapshot               containers done, deleted, evicted, overdue        all gone
//!  Recovering ───────► Active ──────────────────────────────────────────────► Ending ────────► Finished
//! ```
//! Each event first changes the part it belongs to. Then `step` drives every part towards what is
//! wanted until nothing moves any more: it is level-triggered, so no event has to be remembered and
//! none can be missed. What came out of it leaves as one batch: the journal in front if it changed,
//! then the actions, the status if it changed, events and reports.

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::sync::Arc;

use k8s_openapi::api::core::v1::{Pod, PodStatus};
use rekindle_types::pods::in_full;
use rekindle_types::resources::Amounts;
use rekindle_types::{Tick, TickDuration};

use crate::action::{CoreOutput, CoreReport, HookKind, PodEvent};
use crate::backoff::Task;
use crate::blueprint::Blueprint;
use crate::config::Config;
use crate::container::{Container, Round};
use crate::containers::Clearance;
use crate::event::{ActionError, Event, Outcome};
use crate::failed_pulls::FailedPulls;
use crate::journal::{
    EndingRecord, Journal, NodeStop, RestartRecord, RestartResult, SupersededRestart, VolumesRecord,
};
use crate::key::{ActionId, ContainerKey};
use crate::node_stop::LeftWithNode;
use crate::outbox::{Outbox, Pending};
use crate::resize::Resize;
use crate::sandbox::{OldSandbox, Sandbox};
use crate::volumes::Volumes;

/// More steps than any event can need; beyond it something moves in a circle.
const STEPS_MAX: usize = 1_000;

/// One pod on this node. It does nothing before the first [`Event::RuntimeSnapshot`].
#[derive(Debug)]
pub struct PodCore {
    pub(crate) now: Tick,
    pub(crate) pod: Arc<Pod>,
    pub(crate) config: Config,
    pub(crate) blueprint: Blueprint,
    pub(crate) lifecycle: Lifecycle,
    pub(crate) volumes: Volumes,
    pub(crate) sandbox: Sandbox,
    pub(crate) old_sandboxes: Vec<OldSandbox>,
    /// As the newest sandbox that stood had them.
    pub(crate) ips: Vec<IpAddr>,
    /// `status.startTime`: since when this node has had the pod.
    pub(crate) start_time: Tick,
    /// In the order of the blueprint.
    pub(crate) containers: Vec<Container>,
    /// The journal as it was when the node began to stop.
    pub(crate) left_with_node: Option<Box<LeftWithNode>>,
    /// The pulls that failed.
    pub(crate) failed_pulls: FailedPulls,
    /// Containers that nobody wants any more.
    pub(crate) clearance: BTreeMap<ContainerKey, Clearance>,
    pub(crate) restart: Option<RestartRecord>,
    /// Whose place another restart has taken, oldest first.
    pub(crate) superseded: Vec<SupersededRestart>,
    pub(crate) recent_restarts: Vec<RestartResult>,
    pub(crate) resize: Resize,
    pub(crate) outbox: Outbox,
    /// Something was driven in this step: there may be more to drive.
    pub(crate) moved: bool,
    pub(crate) status_changed: bool,
    pub(crate) keep: Keep,
    pub(crate) finish: FinishRequest,
    /// As written last, or as found in the API.
    pub(crate) status: Arc<PodStatus>,
    persisted: Arc<Journal>,
}

/// Where the pod is between its first sight and its end.
#[derive(Debug)]
pub(crate) enum Lifecycle {
    /// The runtime was not seen yet: what happens meanwhile waits.
    Recovering {
        /// The end that an earlier agent began.
        ending: Option<EndingRecord>,
        early: Vec<Event>,
    },
    /// It runs, or is on its way to.
    Active,
    /// Its containers end, then its sandbox goes.
    Ending(EndingRecord),
    /// Nothing is left.
    Finished(EndingRecord),
}

/// When what changed goes into the journal.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Keep {
    /// Nothing changed.
    Nothing,
    /// Before the next action: until then runtime and status tell the same.
    WithNextAction,
    /// With this batch.
    Now,
}

/// Whether this batch ends with [`CoreReport::Finish`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum FinishRequest {
    None,
    Due,
}

impl PodCore {
    /// A pod that this agent has no journal of: new here, or the journal was lost. Nothing is done
    /// before the snapshot.
    pub fn new(now: Tick, pod: Arc<Pod>, config: Config) -> Self {
        Self::recover(now, pod, Journal::default(), config)
    }

    /// A pod whose journal an earlier agent process left. Nothing is done before the snapshot. A
    /// journal of another [`Journal::VERSION`] is not used.
    pub fn recover(now: Tick, pod: Arc<Pod>, journal: Journal, config: Config) -> Self {
        let journal = match journal.version {
            Journal::VERSION => journal,
            _ => Journal::default(),
        };
        let blueprint = Blueprint::of(&pod);
        let longest = pod.metadata.deletion_grace_period_seconds.map_or(0, i64::unsigned_abs);
        let journal = journal.seen_at(now, blueprint.grace.max(TickDuration::from_secs(longest)));
        let resize = Resize::restore(&pod, &journal);
        let status = pod.status.clone().unwrap_or_default();
        let mut records = journal.containers.clone();
        let max = config.max_container_restart_period;
        let containers = blueprint.containers.iter().map(|definition| {
            let mut record = records.remove(&definition.name).unwrap_or_default();
            record.crash.cap(max);
            let granted = resize.granted.of(&definition.name);
            Container::restore(definition.clone(), *record, granted.clone(), journal.node_stop)
        });
        let mut core = Self {
            now,
            config,
            containers: containers.collect(),
            left_with_node: None,
            failed_pulls: FailedPulls::default(),
            blueprint,
            lifecycle: Lifecycle::Recovering { ending: journal.ending.clone(), early: Vec::new() },
            volumes: match journal.volumes {
                VolumesRecord::Kept => Volumes::Unready(Task::due()),
                VolumesRecord::RefreshDue => Volumes::Stale(Task::due()),
            },
            sandbox: Sandbox::new(journal.sandbox),
            old_sandboxes: Vec::new(),
            ips: Vec::new(),
            start_time: status.start_time.as_ref().map_or(now, Tick::from),
            clearance: BTreeMap::new(),
            restart: journal.restart.clone(),
            superseded: journal.superseded.clone(),
            recent_restarts: journal.recent_restarts.clone(),
            resize,
            outbox: Outbox::default(),
            moved: false,
            status_changed: false,
            keep: Keep::Nothing,
            finish: FinishRequest::None,
            status: Arc::new(status),
            persisted: Arc::new(journal),
            pod,
        };
        core.hold_what_was_due();
        core.hold_round_again();
        core
    }

    /// Takes in one thing that happened. Poll actions and the timeout afterwards. Time never goes
    /// back: an earlier `now` counts as the latest one seen.
    pub fn handle(&mut self, now: Tick, event: Event) {
        self.time_is(now);
        self.take_in(event);
        self.settle();
    }

    /// A deadline may have passed; calling it early or twice does no harm.
    pub fn handle_timeout(&mut self, now: Tick) {
        self.time_is(now);
        self.settle();
    }

    /// The next thing to do or to tell, oldest first. Actions may be carried out at the same time,
    /// but to poll on after a [`CoreReport::Persist`] says that it is done, or that it [cannot
    /// be](Self::hold_up).
    ///
    /// While the journal cannot be written these are preStop hooks, stop signals and SIGKILL of a
    /// pod that is over, which need none: an agent that starts before it was written finds out anew
    /// that the pod is over, and asks once more. All else waits: a restart would be carried out
    /// twice, and how containers ended is known nowhere else once a sandbox is gone.
    pub fn poll_output(&mut self) -> Option<CoreOutput> {
        match (self.is_held_up(), self.is_ending()) {
            (false, _) => self.outbox.pop().or_else(|| self.tell()),
            (true, true) => self.outbox.pop_end(),
            (true, false) => None,
        }
    }

    /// What was to be persisted cannot be written for now. Meanwhile the grace of what could not be
    /// asked to end stands still, or it would be killed with its stop signal.
    /// [`journal_again`](Self::journal_again) is to be tried until it is written, and then
    /// [`go_on`](Self::go_on).
    pub fn hold_up(&mut self) {
        self.outbox.hold_up();
    }

    /// The newest journal is written.
    pub fn go_on(&mut self) {
        self.outbox.go_on();
    }

    /// Whether a journal waits to be written.
    pub fn is_held_up(&self) -> bool {
        self.outbox.is_held_up()
    }

    /// The journal as it is now, to be written instead of one that could not be; ask for it before
    /// each try. No Persist follows for what is in it.
    pub fn journal_again(&mut self, now: Tick) -> Arc<Journal> {
        self.handle_timeout(now);
        self.keep = Keep::Nothing;
        self.persisted = Arc::new(self.journal());
        self.persisted.clone()
    }

    /// When [`handle_timeout`](Self::handle_timeout) wants to be called; ask again after each
    /// event.
    pub fn poll_timeout(&self) -> Option<Tick> {
        self.next_deadline()
    }

    /// The status as it was given to `WriteStatus` last; before that, as the API had it.
    pub fn status(&self) -> &Arc<PodStatus> {
        &self.status
    }

    /// The object with the resources that were granted in place of those that are wanted: what is
    /// made and changed is made after this.
    pub fn granted_pod(&self) -> Arc<Pod> {
        self.resize.granted_pod.clone()
    }

    /// What the pod takes up on its node: what was granted to it.
    pub fn granted_requests(&self) -> Amounts {
        self.resize.granted.requests(&self.pod)
    }

    /// True after [`CoreReport::Finish`] was asked for: nothing of the pod is left here. Nothing
    /// follows but answers: a restart request is refused, a (first or repeated) deletion asks for
    /// `Finish` again.
    pub fn is_finished(&self) -> bool {
        match self.lifecycle {
            Lifecycle::Finished(_) => true,
            Lifecycle::Recovering { .. } | Lifecycle::Active | Lifecycle::Ending(_) => false,
        }
    }

    /// The journal as it is now; what [`CoreReport::Persist`] carries at each change.
    pub fn journal(&self) -> Journal {
        if let Some(left) = &self.left_with_node {
            return self.journal_left(left);
        }
        let (ending, volumes) = match &self.lifecycle {
            Lifecycle::Recovering { ending, .. } => (ending.clone(), &self.volumes),
            Lifecycle::Ending(ending) | Lifecycle::Finished(ending) => {
                (Some(ending.clone()), &self.volumes)
            }
            Lifecycle::Active => (None, &self.volumes),
        };
        let (containers, halt) = (self.containers.iter(), self.recorded_halt());
        Journal {
            version: Journal::VERSION,
            sandbox: self.sandbox.attempt,
            volumes: match volumes {
                Volumes::Stale(_) => VolumesRecord::RefreshDue,
                Volumes::Unready(_) | Volumes::Ready | Volumes::Remount(_) => VolumesRecord::Kept,
            },
            containers: containers
                .map(|c| {
                    let name = c.definition.name.clone();
                    let record = c.record(self.resize.granted.of(&name), halt);
                    (name, Box::new(record))
                })
                .collect(),
            resources: Some(self.resize.record()),
            ending,
            restart: self.restart.clone(),
            superseded: self.superseded.clone(),
            recent_restarts: self.recent_restarts.clone(),
            node_stop: NodeStop::None,
        }
    }

    fn time_is(&mut self, now: Tick) {
        if self.stands_still() {
            self.put_halts_off(now.since(self.now));
        }
        self.now = self.now.max(now);
    }

    /// Sorts an event to the part it belongs to.
    pub(crate) fn take_in(&mut self, event: Event) {
        if let Lifecycle::Recovering { early, .. } = &mut self.lifecycle {
            match event {
                Event::RuntimeSnapshot(snapshot) => self.recover_from(snapshot),
                Event::SpecChanged(pod) => self.spec_changed(pod),
                // Whatever an action of an earlier agent brought, the snapshot shows it; nothing
                // was asked for yet.
                Event::ActionResult { .. } | Event::ResourcesDecided { .. } => {}
                Event::DeleteRequested { .. }
                | Event::NodeStops { .. }
                | Event::RestartRequested(_)
                | Event::RestartImpossible { .. }
                | Event::ContainerExited { .. }
                | Event::SandboxDied { .. }
                | Event::Eviction(_) => early.push(event),
            }
            return;
        }
        match event {
            Event::SpecChanged(pod) => self.spec_changed(pod),
            Event::DeleteRequested { grace } => self.delete_requested(grace),
            Event::NodeStops { grace } => self.node_stops(grace),
            Event::RestartRequested(request) => self.restart_requested(request),
            Event::RestartImpossible { request, problem } => {
                self.restart_impossible(request, &problem);
            }
            Event::ActionResult { id, result } => self.answered(id, result),
            Event::ContainerExited { key, made, exit } => self.container_exited(&key, made, exit),
            Event::SandboxDied { attempt } => self.sandbox_died(attempt),
            Event::ResourcesDecided { ticket, decision } => {
                self.resources_decided(ticket, decision);
            }
            Event::RuntimeSnapshot(snapshot) => self.compare_with(&snapshot),
            Event::Eviction(eviction) => self.evict(eviction),
        }
    }

    /// An answer counts once, and only while the part that asked still waits for just this one.
    fn answered(&mut self, id: ActionId, result: Result<Outcome, ActionError>) {
        match self.outbox.answered(id) {
            None => {}
            Some(Pending::Volumes) => self.volumes_answered(id, result),
            Some(Pending::SandboxSetUp) => self.sandbox_answered(id, result),
            Some(Pending::SandboxTearDown(attempt)) => self.teardown_answered(attempt, id, result),
            Some(Pending::Pull(place)) => self.pull_answered(place, id, result),
            Some(Pending::Start(place)) => self.start_answered(place, id, result),
            Some(Pending::Signal(place) | Pending::Kill(place)) => {
                self.stop_answered(place, id, result);
            }
            Some(Pending::Probe(place, kind)) => self.probe_answered(place, kind, id, result),
            Some(Pending::Hook(place, HookKind::PostStart)) => {
                self.post_start_answered(place, id, result);
            }
            Some(Pending::Hook(place, HookKind::PreStop)) => {
                self.pre_stop_answered(place, id, result);
            }
            Some(Pending::SandboxUpdate) => self.sandbox_update_answered(id, result),
            Some(Pending::ContainerUpdate(place)) => {
                self.container_update_answered(place, id, result);
            }
            Some(Pending::Clearance(key)) => self.clearance_answered(&key, id, result),
        }
    }

    /// Drives all parts until nothing moves, then closes the batch of what is to be done.
    fn settle(&mut self) {
        let mut steps = 0;
        loop {
            self.moved = false;
            self.step();
            steps += 1;
            if !self.moved {
                break;
            }
            assert!(steps < STEPS_MAX, "pod core of {} moves in a circle", self.pod_name());
        }
        self.close_batch();
    }

    fn step(&mut self) {
        match self.lifecycle {
            Lifecycle::Recovering { .. } | Lifecycle::Finished(_) => {}
            Lifecycle::Active => self.step_active(),
            Lifecycle::Ending(_) => self.step_ending(),
        }
    }

    fn step_active(&mut self) {
        self.drive_image_changes();
        self.drive_restart();
        self.settle_superseded();
        self.drive_halt();
        self.drive_stops();
        self.drive_end();
        if !self.is_active() {
            return;
        }
        self.drive_volumes();
        self.drive_dead_sandbox();
        self.drive_resize();
        if self.halt().is_none() {
            self.drive_sandbox();
            self.drive_containers();
        }
        self.drive_health();
        self.drive_clearance();
        self.drive_teardown();
    }

    fn step_ending(&mut self) {
        self.drive_halt();
        self.drive_stops();
        self.drive_health();
        self.drive_clearance();
        self.drive_last_teardown();
        self.drive_teardown();
        self.drive_finish();
    }

    fn close_batch(&mut self) {
        let journal = match self.lifecycle {
            Lifecycle::Recovering { .. } | Lifecycle::Finished(_) => None,
            Lifecycle::Active | Lifecycle::Ending(_) => self.changed_journal(),
        };
        self.outbox.close_batch(journal.map(CoreReport::Persist));
    }

    /// What is told comes behind what is done: a start does not wait until the status of the crash
    /// before it is put together.
    fn tell(&mut self) -> Option<CoreOutput> {
        let status = match self.lifecycle {
            Lifecycle::Recovering { .. } => None,
            Lifecycle::Finished(_) | Lifecycle::Active | Lifecycle::Ending(_) => {
                self.changed_status()
            }
        };
        let last = self.take_finish();
        self.outbox.tell(status.map(CoreReport::WriteStatus), last);
        self.outbox.pop()
    }

    fn changed_journal(&mut self) -> Option<Arc<Journal>> {
        if self.is_held_up() {
            return None; // it is asked for again
        }
        match self.keep {
            Keep::Nothing => return None,
            Keep::WithNextAction if !self.outbox.has_actions() => return None,
            Keep::WithNextAction | Keep::Now => self.keep = Keep::Nothing,
        }
        let journal = self.journal();
        if journal == *self.persisted {
            return None;
        }
        self.persisted = Arc::new(journal);
        Some(self.persisted.clone())
    }

    fn changed_status(&mut self) -> Option<Arc<PodStatus>> {
        if !std::mem::take(&mut self.status_changed) {
            return None;
        }
        let status = self.build_status();
        if status == *self.status {
            return None;
        }
        self.status = Arc::new(status);
        Some(self.status.clone())
    }

    /// The API object changed. A pod with another UID is another pod, and not this core's.
    fn spec_changed(&mut self, pod: Arc<Pod>) {
        if pod.metadata.uid != self.pod.metadata.uid {
            return;
        }
        self.resources_wanted_anew(&pod);
        let old = std::mem::replace(&mut self.pod, pod);
        self.status_changed = true;
        let blueprint = Blueprint::of(&self.pod);
        if blueprint != self.blueprint {
            for definition in &blueprint.containers {
                let container = self.containers.iter_mut();
                match { container }.find(|c| c.definition.name == definition.name) {
                    Some(container) => container.redefine(definition.clone()),
                    // No others can be added, and none removed; the API refuses it.
                    None => self.add_ephemeral(definition),
                }
            }
            self.blueprint = blueprint;
        }
        self.mount_further(&old);
        self.obey_object();
    }

    /// The journal changed.
    pub(crate) fn keep(&mut self, keep: Keep) {
        self.keep = self.keep.max(keep);
    }

    pub(crate) fn begin_round(&mut self, round: Round) {
        match round {
            Round::Afresh | Round::GoesOn => self.let_go_of_pulls(None),
            Round::ByRule | Round::NewSandbox => {}
        }
        for container in &mut self.containers {
            container.begin_round(round, self.now, self.config.max_container_restart_period);
        }
        // what goes on being held goes on saying so
        for place in 0..self.containers.len() {
            self.complain_of_crash_loop(place);
        }
        self.carry_ephemerals_over();
        self.status_changed = true;
        self.keep(Keep::Now);
        self.moved = true;
    }

    pub(crate) fn is_active(&self) -> bool {
        match self.lifecycle {
            Lifecycle::Active => true,
            Lifecycle::Recovering { .. } | Lifecycle::Ending(_) | Lifecycle::Finished(_) => false,
        }
    }

    pub(crate) fn is_ending(&self) -> bool {
        match self.lifecycle {
            Lifecycle::Ending(_) => true,
            Lifecycle::Recovering { .. } | Lifecycle::Active | Lifecycle::Finished(_) => false,
        }
    }

    /// No container has a process, or may get one from an action in flight.
    pub(crate) fn nothing_lives(&self) -> bool {
        !self.containers.iter().any(Container::is_live)
    }

    /// The same of this sandbox and of earlier ones that are still to be torn down.
    pub(crate) fn no_process_is_left(&self) -> bool {
        self.nothing_lives() && !self.earlier_sandbox_may_live()
    }

    pub(crate) fn earlier_sandbox_may_live(&self) -> bool {
        self.old_sandboxes.iter().any(OldSandbox::may_live)
    }

    pub(crate) fn emit(&mut self, event: PodEvent) {
        self.outbox.note(CoreReport::EmitEvent(event));
    }

    pub(crate) fn pod_name(&self) -> &str {
        self.pod.metadata.name.as_deref().unwrap_or_default()
    }

    /// As the kubelet writes a pod in messages.
    pub(crate) fn pod_text(&self) -> String {
        in_full(&self.pod.metadata)
    }

    /// What a container's record would be, for the journal's reader.
    pub(crate) fn place_of(&self, key: &ContainerKey) -> Option<usize> {
        self.containers.iter().position(|c| c.definition.name == key.name)
    }
}
