//! The core itself: the parts that it is made of, and how an event is sorted to the part that it
//! belongs to.
//!
//! | part | owns |
//! |---|---|
//! | [`DesiredPod`] | the object, its spec as the core reads it, the node's configuration |
//! | [`PodLifecycle`] | where the pod is between its first sight and its end, and why it ends |
//! | [`Containers`] | the containers, those not wanted any more, the pulls that failed |
//! | [`Sandboxes`] | the sandbox, those before it, the addresses |
//! | [`PodVolumes`] | how far the volumes are |
//! | [`InPlaceRestarts`] | the restart that is carried out, and the requests before it |
//! | [`Resize`] | what is wanted and granted of resources, and how far it is in force |
//! | [`JournalKeeper`] | the journal that was given out last, and when the next one is |
//! | [`ShownStatus`] | the status that was given out last |
//! | [`Outbox`] | what is on its way to the driver |
//!
//! Each part owns its fields and knows no part above it: it is given what it has to know (a
//! [`PodContext`] to the containers) and returns what others have to know. The core alone changes
//! several parts at once: [`drive`] has the order, [`restart`] what a restart asks of them,
//! [`take_up`] how an agent that starts again puts them together.
//!
//! Each event first changes the part it belongs to. Then `settle` drives every part towards what is
//! wanted until a step leaves all as it was: it is level-triggered, so no event has to be
//! remembered and none can be missed. What came out of it leaves as one batch: the journal in front
//! if it is due, then the actions, the status if it changed, events and reports.

mod drive;
mod restart;
mod take_up;

use std::sync::Arc;

use k8s_openapi::api::core::v1::{Pod, PodStatus};
use rekindle_types::resources::Amounts;
use rekindle_types::{Tick, TickDuration};

use crate::action::{CoreOutput, CoreReport};
use crate::config::PodConfig;
use crate::containers::{Containers, NeededImage};
use crate::context::PodContext;
use crate::desired_pod::DesiredPod;
use crate::event::{ActionError, ActionOutcome, CoreEvent, RestartRequest};
use crate::journal::Journal;
use crate::journal_keeper::JournalKeeper;
use crate::key::ActionId;
use crate::lifecycle::PodLifecycle;
use crate::outbox::{Outbox, PendingAnswer};
use crate::resize::Resize;
use crate::restarts::InPlaceRestarts;
use crate::sandboxes::Sandboxes;
use crate::shown_status::ShownStatus;
use crate::status_view::StatusView;
use crate::timers;
use crate::volumes::PodVolumes;

/// One pod on this node. It does nothing before the first [`CoreEvent::RuntimeSnapshot`].
#[derive(Debug)]
pub struct PodCore {
    now: Tick,
    desired: DesiredPod,
    lifecycle: PodLifecycle,
    containers: Containers,
    sandboxes: Sandboxes,
    volumes: PodVolumes,
    restarts: InPlaceRestarts,
    resize: Resize,
    journal_keeper: JournalKeeper,
    shown_status: ShownStatus,
    outbox: Outbox,
}

impl PodCore {
    /// A pod that this agent has no journal of: new here, or the journal was lost. Nothing is done
    /// before the snapshot.
    pub fn new(now: Tick, pod: Arc<Pod>, config: PodConfig) -> Self {
        Self::recover(now, pod, Journal::default(), config)
    }

    /// A pod whose journal an earlier agent process left. Nothing is done before the snapshot. A
    /// journal of another [`Journal::VERSION`] is not used.
    pub fn recover(now: Tick, pod: Arc<Pod>, journal: Journal, config: PodConfig) -> Self {
        let journal = match journal.version {
            Journal::VERSION => journal,
            _ => Journal::default(),
        };
        let desired = DesiredPod::new(pod, config);
        let longest = desired.pod().metadata.deletion_grace_period_seconds;
        let longest = TickDuration::from_secs(longest.map_or(0, i64::unsigned_abs));
        let journal = journal.seen_at(now, desired.grace().max(longest));
        let resize = Resize::restore(desired.pod(), &journal);
        let status = desired.api_status().cloned().unwrap_or_default();
        let start_time = status.start_time.as_ref().map_or(now, Tick::from);
        let restarts = InPlaceRestarts::new(&journal);
        let mut core = Self {
            now,
            lifecycle: PodLifecycle::new(start_time, journal.ending.clone()),
            containers: Containers::new(&desired, resize.granted(), &journal),
            sandboxes: Sandboxes::new(journal.sandbox),
            volumes: PodVolumes::new(journal.volumes),
            restarts,
            resize,
            journal_keeper: JournalKeeper::new(journal),
            shown_status: ShownStatus::new(status),
            outbox: Outbox::default(),
            desired,
        };
        core.hold_again();
        core
    }

    /// Takes in one thing that happened. Poll actions and the timeout afterwards. Time never goes
    /// back: an earlier `now` counts as the latest one seen.
    pub fn handle(&mut self, now: Tick, event: CoreEvent) {
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
        match (self.is_held_up(), self.lifecycle.is_ending()) {
            (false, _) => self.outbox.pop().or_else(|| self.tell()),
            (true, true) => self.outbox.pop_end(),
            (true, false) => None,
        }
    }

    /// What was to be persisted cannot be written for now. Until then the grace of what could not
    /// be asked to end stands still, or it would be killed with its stop signal.
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
        let (context, containers, keeper) = self.split_journal();
        keeper.write(&context, containers)
    }

    /// When [`handle_timeout`](Self::handle_timeout) wants to be called; ask again after each
    /// event.
    pub fn poll_timeout(&self) -> Option<Tick> {
        timers::next_deadline(&self.context(), &self.containers, &self.outbox)
    }

    /// The status as it was given to `WriteStatus` last; before that, as the API had it.
    pub fn status(&self) -> &Arc<PodStatus> {
        self.shown_status.get()
    }

    /// The object with the resources that were granted in place of those that are wanted: what is
    /// made and changed is made after this.
    pub fn granted_pod(&self) -> Arc<Pod> {
        self.resize.granted_pod().clone()
    }

    /// What the pod takes up on its node: what was granted to it.
    pub fn granted_requests(&self) -> Amounts {
        self.resize.granted().requests(self.desired.pod())
    }

    /// Whether the pod is on its way to its end, and not only its containers to their next start.
    pub fn is_ending(&self) -> bool {
        self.lifecycle.is_ending()
    }

    /// Whether containers are on their way to their end, for good or to their next start.
    pub fn is_stopping(&self) -> bool {
        self.is_ending() || self.containers.is_any_stopping()
    }

    /// True after [`CoreReport::Finish`] was asked for: nothing of the pod is left here. Nothing
    /// follows but answers: a restart request is refused, a (first or repeated) deletion asks for
    /// `Finish` again.
    pub fn is_finished(&self) -> bool {
        self.lifecycle.is_finished()
    }

    /// The journal as it is now; what [`CoreReport::Persist`] carries at each change.
    pub fn journal(&self) -> Journal {
        self.journal_keeper.journal(&self.context(), &self.containers)
    }

    /// Whether this request was taken up, by this agent or an earlier one, as far as it is
    /// remembered.
    pub fn knows_restart(&self, id: &str) -> bool {
        self.restarts.knows(id)
    }

    /// What the driver makes sure of before it hands this request in: each image once, in the order
    /// of the containers. Nothing for a request that ends no container that runs, that is refused
    /// anyway, or that was taken up already.
    pub fn images_before_restart(&self, request: &RestartRequest) -> Vec<NeededImage> {
        let is_new = self.lifecycle.is_active() && !self.restarts.knows(&request.id);
        if is_new && self.refusal(request).is_none() {
            self.containers.images_before_restart(request)
        } else {
            Vec::new()
        }
    }

    /// What the containers may read of the rest.
    fn context(&self) -> PodContext<'_> {
        PodContext {
            now: self.now,
            desired: &self.desired,
            lifecycle: &self.lifecycle,
            restarts: &self.restarts,
            sandboxes: &self.sandboxes,
            volumes: &self.volumes,
            resize: &self.resize,
        }
    }

    /// The same, with the containers and the outbox to be changed.
    fn split(&mut self) -> (PodContext<'_>, &mut Containers, &mut Outbox) {
        let (context, containers, _, outbox) = self.parts();
        (context, containers, outbox)
    }

    /// The same, with the keeper of the journal to be changed.
    fn split_journal(&mut self) -> (PodContext<'_>, &Containers, &mut JournalKeeper) {
        let (context, containers, keeper, _) = self.parts();
        (context, containers, keeper)
    }

    fn parts(&mut self) -> (PodContext<'_>, &mut Containers, &mut JournalKeeper, &mut Outbox) {
        let context = PodContext {
            now: self.now,
            desired: &self.desired,
            lifecycle: &self.lifecycle,
            restarts: &self.restarts,
            sandboxes: &self.sandboxes,
            volumes: &self.volumes,
            resize: &self.resize,
        };
        (context, &mut self.containers, &mut self.journal_keeper, &mut self.outbox)
    }

    fn time_is(&mut self, now: Tick) {
        if self.context().stands_still(&self.outbox) {
            self.put_halts_off(now.since(self.now));
        }
        self.now = self.now.max(now);
    }

    /// Sorts an event to the part it belongs to.
    fn take_in(&mut self, event: CoreEvent) {
        if self.lifecycle.is_recovering() {
            return self.take_in_early(event);
        }
        match event {
            CoreEvent::SpecChanged(pod) => self.spec_changed(pod),
            CoreEvent::DeleteRequested { grace } => self.delete_requested(grace),
            CoreEvent::NodeStops { grace } => self.node_stops(grace),
            CoreEvent::RestartRequested(request) => self.restart_requested(request),
            CoreEvent::RestartImpossible { request, problem } => {
                self.restart_impossible(request, &problem);
            }
            CoreEvent::RestartReleased { id } => self.restarts.release(&id),
            CoreEvent::ActionResult { id, result } => self.answered(id, result),
            CoreEvent::ContainerExited { key, made, exit } => {
                self.container_exited(&key, made, exit)
            }
            CoreEvent::SandboxDied { attempt } => self.sandbox_died(attempt),
            CoreEvent::ResourcesDecided { ticket, decision } => {
                self.resize.decided(ticket, decision, self.desired.pod(), &mut self.outbox);
            }
            CoreEvent::RuntimeSnapshot(snapshot) => self.compare_with(&snapshot),
            CoreEvent::Eviction(eviction) => self.evict(eviction),
        }
    }

    /// The runtime was not seen yet.
    fn take_in_early(&mut self, event: CoreEvent) {
        match event {
            CoreEvent::RuntimeSnapshot(snapshot) => self.recover_from(snapshot),
            CoreEvent::SpecChanged(pod) => self.spec_changed(pod),
            // Whatever an action of an earlier agent brought, the snapshot shows it; nothing was
            // asked for yet.
            CoreEvent::ActionResult { .. } | CoreEvent::ResourcesDecided { .. } => {}
            CoreEvent::DeleteRequested { .. }
            | CoreEvent::NodeStops { .. }
            | CoreEvent::RestartRequested(_)
            | CoreEvent::RestartImpossible { .. }
            | CoreEvent::RestartReleased { .. }
            | CoreEvent::ContainerExited { .. }
            | CoreEvent::SandboxDied { .. }
            | CoreEvent::Eviction(_) => self.lifecycle.keep_for_later(event),
        }
    }

    /// An answer counts once, and only while the part that asked still waits for just this one.
    fn answered(&mut self, id: ActionId, result: Result<ActionOutcome, ActionError>) {
        let Some(pending) = self.outbox.answered(id) else { return };
        let now = self.now;
        match pending {
            PendingAnswer::Volumes => self.volumes.answered(now, id, result, &mut self.outbox),
            PendingAnswer::SandboxSetUp => {
                if self.sandboxes.answered(now, id, result, &mut self.outbox) {
                    self.sandbox_died(self.sandboxes.attempt());
                }
            }
            PendingAnswer::SandboxTearDown(attempt) => {
                if self.sandboxes.teardown_answered(now, attempt, id, result, &mut self.outbox) {
                    self.containers.forget_strays_of(attempt);
                }
            }
            PendingAnswer::Pull(place) => {
                self.containers.pull_answered(place, id, result, now, &mut self.outbox);
            }
            PendingAnswer::Start(place) => self.start_answered(place, id, result),
            PendingAnswer::Signal(place) | PendingAnswer::Kill(place) => {
                let (context, containers, outbox) = self.split();
                let end = containers.stop_answered(place, id, result, &context, outbox);
                self.follow_end(end);
            }
            PendingAnswer::Probe(place, kind) => {
                let (context, containers, outbox) = self.split();
                containers.probe_answered(place, kind, (id, result), &context, outbox);
            }
            PendingAnswer::Hook(place, kind) => {
                let (context, containers, outbox) = self.split();
                containers.hook_answered(place, kind, (id, result), &context, outbox);
            }
            PendingAnswer::SandboxUpdate => {
                self.resize.sandbox_update_answered(now, id, result, &mut self.outbox);
            }
            PendingAnswer::ContainerUpdate(place) => {
                if let Err(error) = self.containers.update_answered(place, id, result, now) {
                    self.resize.failed(error, &mut self.outbox);
                }
            }
            PendingAnswer::Clearance(key) => self.containers.stray_answered(now, &key, id, result),
        }
    }

    /// Drives all parts until nothing moves, then closes the batch of what is to be done.
    fn settle(&mut self) {
        self.drive();
        self.shown_status.may_have_changed();
        let has_journal = !self.lifecycle.is_recovering() && !self.lifecycle.is_finished();
        // one that is held up has its journal asked for again
        let journal = if !has_journal || self.is_held_up() {
            None
        } else {
            let batch = self.outbox.batch_content();
            let (context, containers, keeper) = self.split_journal();
            keeper.write_if_due(&context, containers, batch)
        };
        self.outbox.close_batch(journal.map(CoreReport::Persist));
    }

    /// What is told comes behind what is done: a start does not wait until the status of the crash
    /// before it is put together.
    fn tell(&mut self) -> Option<CoreOutput> {
        let mut status = None;
        if !self.lifecycle.is_recovering() && self.shown_status.is_to_be_checked() {
            let (context, containers) = (self.context(), &self.containers);
            let built = StatusView { context, containers, before: self.status() }.build();
            status = self.shown_status.checked(built);
        }
        let finish = self.lifecycle.take_finish_report().then_some(CoreReport::Finish);
        self.outbox.tell(status.map(CoreReport::WriteStatus), finish);
        self.outbox.pop()
    }
}
