//! One pod: its core, its timers, and the actions under way. One task, so that nothing of a pod
//! happens twice at a time.

mod ending;

use std::collections::BTreeSet;
use std::net::IpAddr;
use std::panic::AssertUnwindSafe;
use std::sync::Arc;

use futures::future::BoxFuture;
use futures::stream::FuturesUnordered;
use futures::{FutureExt, StreamExt};
use k8s_openapi::api::core::v1::{Node, Pod, PodStatus};
use rekindle_pod::room::Rank;
use rekindle_pod::{
    ActionError, ActionErrorKind, ActionId, ActionOutcome, ContainerStartKey, CoreAction,
    CoreEvent, EvictionCause, Journal, PodEviction, RestartReport, RestartRequest, oom_killing,
};
use rekindle_pod_driver::{
    Existence, JournalFailure, NotReadyCause, PodDriver, PodEffect, StatusAnswer,
};
use rekindle_runtime::{Runtime, RuntimeEvent, SandboxSnapshot};
use rekindle_services::WithdrawalCause;
use rekindle_types::pods::is_final;
use rekindle_types::v1alpha1::PodRestart;
use rekindle_types::{PodRef, Tick, causes};
use tokio::sync::{Notify, mpsc, watch};

use super::actions::volumes::VolumeWork;
use super::actions::{PodActions, made};
use super::container_tasks::ContainerTasks;
use super::inbox::{Awaited, WorkerInput};
use super::index::PodView;
use super::journal_file::{BackgroundSync, JournalFile};
use super::placement;
use super::restarts::{RestartReporter, is_settled};
use super::shown_by::{PodSource, StatusTarget};
use super::snapshot::snapshot_of;
use super::spec_change::{concerns_downward_files, concerns_references};
use super::status_writer::{StatusWriting, answered};
use super::termination_message::read_message;
use crate::clock::sleep_until;
use crate::config::AgentDuty;
use crate::container_spec::find_container;
use crate::context::NodeContext;
use crate::durable::write_object;
use crate::layout::PodDirs;
use crate::network::PodNetwork;
use crate::objects::{PodObjects, pod_references};
use crate::shutdown;
use crate::tokens::{PodTokens, VolumesOrigin};

/// What a pod is told of a panic.
const FAILED_INSIDE: &str = "the node agent panicked; its log has the cause";

/// What a worker is started with.
pub(crate) struct WorkerStart {
    pub(crate) pod_ref: PodRef,
    /// What the runtime had of it when the agent started.
    pub(crate) found: Vec<SandboxSnapshot>,
    pub(crate) duty: AgentDuty,
    pub(crate) admission: PodAdmission,
    pub(crate) updates: watch::Receiver<Arc<Pod>>,
    pub(crate) inbox: mpsc::UnboundedReceiver<WorkerInput>,
    /// Takes the pod's status, before it is written to the API.
    pub(crate) shown: watch::Sender<Arc<PodStatus>>,
    pub(crate) source: PodSource,
}

/// Whether the node takes the pod up.
#[derive(Clone, Debug)]
pub(crate) enum PodAdmission {
    /// It does, or has done.
    Granted,
    /// It does not.
    Refused(PodEviction),
    /// Its labels and taints have to be looked at before, of which this is known.
    InQuestion { known: Option<Arc<Node>> },
}

pub(crate) struct PodWorker<R, N> {
    node: Arc<NodeContext<R, N>>,
    pub(super) pod_ref: PodRef,
    dirs: PodDirs,
    driver: PodDriver,
    ips: Vec<IpAddr>,
    updates: watch::Receiver<Arc<Pod>>,
    inbox: mpsc::UnboundedReceiver<WorkerInput>,
    under_way: FuturesUnordered<BoxFuture<'static, (ActionId, Result<ActionOutcome, ActionError>)>>,
    /// Restarts that were asked for, and whose images are being made sure of.
    image_checks: FuturesUnordered<BoxFuture<'static, (RestartRequest, Result<(), String>)>>,
    /// Members' requests that came too late for their groups.
    not_begun: BTreeSet<String>,
    /// Until no rule leads new connections to the pod.
    withdrawal: Option<BoxFuture<'static, ()>>,
    /// The write of a status that is under way.
    status_write: Option<StatusWriting>,
    journal: JournalFile,
    journal_sync: BackgroundSync,
    asked: ContainerTasks,
    shown: watch::Sender<Arc<PodStatus>>,
    shown_by: StatusTarget,
    restarts: RestartReporter,
    objects: Arc<PodObjects>,
    objects_changed: Arc<Notify>,
    volumes: VolumeWork,
    tokens: Arc<PodTokens>,
    payload_update: Option<BoxFuture<'static, ()>>,
    /// Since when a new pod's start is awaited; `None` once it runs, or when an agent before began
    /// it.
    awaited_since: Option<Tick>,
    departure: WorkerDeparture,
    /// Who waits until an eviction is carried out.
    awaited: Vec<Awaited>,
}

/// Whether the worker stays with a pod that is over.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum WorkerDeparture {
    /// Until its object is deleted.
    WithObject,
    /// No longer than it takes: the node is shut down.
    WhenOver,
}

/// Whether the worker goes on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum WorkerFlow {
    Continue,
    Finished,
}

impl<R: Runtime, N: PodNetwork> PodWorker<R, N> {
    /// Takes the pod up where an earlier agent left it, or from the beginning.
    pub(crate) async fn run(node: Arc<NodeContext<R, N>>, start: WorkerStart) {
        let WorkerStart { pod_ref, found, duty, admission, updates, inbox, shown, source } = start;
        let mut worker = Self::new(node, pod_ref, source.clone(), updates, inbox, shown);
        worker.keep_pod(worker.driver.pod());
        // what a worker before has said of the endpoints is not known to this one
        worker.node.routes.leave(worker.pod_ref.uid.clone());
        match duty {
            AgentDuty::Serve => {}
            // before the core looks at what stands, so that it begins nothing
            AgentDuty::EndPods => worker.take(WorkerInput::NodeStops),
        }
        if let Some(refusal) = worker.refusal(admission, &source).await {
            worker.handle(CoreEvent::Eviction(refusal));
        }
        worker.look(found).await;
        if worker.serve().await == WorkerFlow::Finished {
            worker.finish().await;
        }
    }

    fn new(
        node: Arc<NodeContext<R, N>>,
        pod_ref: PodRef,
        source: PodSource,
        mut updates: watch::Receiver<Arc<Pod>>,
        inbox: mpsc::UnboundedReceiver<WorkerInput>,
        shown: watch::Sender<Arc<PodStatus>>,
    ) -> Self {
        let pod = updates.borrow_and_update().clone();
        let dirs = node.dirs.pod(&pod_ref);
        let now = node.clock.now();
        let journal = JournalFile::new(dirs.journal());
        let kept = journal.read::<Journal>();
        let (found, awaited_since) = match &kept {
            Some(_) => (VolumesOrigin::Adopted, None),
            None => (VolumesOrigin::New, Some(now)),
        };
        let driver = PodDriver::new(now, pod.clone(), kept, node.core_config.clone());
        node.room.hold(&pod_ref.uid, driver.core().granted_requests(), Rank::from_pod(&pod));
        let status = shown.subscribe();
        node.index.insert(PodView { pod_ref: pod_ref.clone(), pod: updates.clone(), status });
        let objects_changed = Arc::new(Notify::new());
        let objects = node.objects.subscribe(pod_references(&pod), objects_changed.clone());
        Self {
            shown_by: StatusTarget::start(&node, &pod_ref, &pod, source),
            restarts: RestartReporter::new(
                node.client.clone(),
                pod_ref.uid.clone(),
                node.restart_owners.clone(),
            ),
            objects: Arc::new(objects),
            objects_changed,
            volumes: VolumeWork::new(updates.clone()),
            tokens: Arc::new(PodTokens::new(&pod, found, now)),
            payload_update: None,
            dirs,
            driver,
            ips: Vec::new(),
            updates,
            inbox,
            under_way: FuturesUnordered::new(),
            image_checks: FuturesUnordered::new(),
            not_begun: BTreeSet::new(),
            withdrawal: None,
            status_write: None,
            journal,
            journal_sync: BackgroundSync::default(),
            asked: ContainerTasks::default(),
            shown,
            awaited_since,
            departure: WorkerDeparture::WithObject,
            awaited: Vec::new(),
            pod_ref,
            node,
        }
    }

    /// Why the pod is not taken up, if it is not.
    async fn refusal(
        &mut self,
        admission: PodAdmission,
        source: &PodSource,
    ) -> Option<PodEviction> {
        match admission {
            PodAdmission::Granted => None,
            PodAdmission::Refused(refusal) => Some(refusal),
            PodAdmission::InQuestion { known } => {
                let (client, name) = (&self.node.client, &self.node.name);
                placement::refusal(client, name, self.driver.pod(), known, source).await
            }
        }
    }

    /// Keeps the pod beside its journal, so that it can be ended gracefully when the API forgets it
    /// while no agent runs.
    fn keep_pod(&self, pod: &Pod) {
        let path = self.dirs.pod();
        let made = std::fs::create_dir_all(self.dirs.root());
        if let Err(error) = made
            .map_err(|e| e.to_string())
            .and_then(|()| write_object(&path, pod).map_err(|e| causes(&e)))
        {
            tracing::warn!(pod = %self.pod_ref, error, "failed to write the pod's spec beside its journal");
        }
    }

    async fn look(&mut self, found: Vec<SandboxSnapshot>) {
        let snapshot = snapshot_of(&self.node, self.driver.pod(), &self.dirs, found).await;
        if let Some(newest) = snapshot.sandboxes.last() {
            self.ips.clone_from(&newest.ips);
        }
        self.handle(CoreEvent::RuntimeSnapshot(snapshot));
    }

    fn handle(&mut self, event: CoreEvent) {
        self.driver.handle(self.now(), event);
    }

    fn now(&self) -> Tick {
        self.node.clock.now()
    }

    /// Until the core is done, or the agent ends.
    async fn serve(&mut self) -> WorkerFlow {
        loop {
            if self.carry_out() == WorkerFlow::Finished {
                return WorkerFlow::Finished;
            }
            let timeout = self.timeout();
            let token_due = self.token_due();
            tokio::select! {
                biased;
                input = self.inbox.recv() => match input {
                    Some(input) => self.take(input),
                    None => return WorkerFlow::Continue, // the agent ends and leaves the pods running
                },
                () = done(&mut self.withdrawal) => self.withdrawn(),
                Some((id, result)) = self.under_way.next(), if !self.under_way.is_empty() => {
                    self.answered(id, result);
                }
                Some((request, checked)) = self.image_checks.next(), if !self.image_checks.is_empty() => {
                    self.images_checked(request, checked);
                }
                Ok(()) = self.updates.changed() => self.updated(),
                () = self.objects_changed.notified() => self.update_payloads(),
                () = done(&mut self.payload_update) => self.payload_update = None,
                () = sleep_until(token_due), if token_due.is_some() => self.update_payloads(),
                answer = answered(&mut self.status_write) => self.status_answered(answer),
                () = sleep_until(timeout), if timeout.is_some() => {
                    self.driver.handle_timeout(self.now());
                }
            }
        }
    }

    /// When the driver wants to be called.
    fn timeout(&self) -> Option<tokio::time::Instant> {
        self.driver.poll_timeout().map(|at| self.node.clock.instant_of(at))
    }

    /// Carries out, or begins, all that the driver asks for.
    fn carry_out(&mut self) -> WorkerFlow {
        while let Some(effect) = self.driver.poll_effect(self.now()) {
            match effect {
                PodEffect::Persist(journal) => self.persist(&journal),
                PodEffect::Perform(id, action) => self.begin(id, action),
                PodEffect::WithdrawEndpoints => self.withdraw(),
                PodEffect::AdmitEndpoints => {
                    self.node.routes.admit(self.pod_ref.uid.clone(), self.ips.clone());
                }
                PodEffect::ExcludeEndpoints(cause) => self.exclude(cause),
                PodEffect::Advance => self.advance(),
                PodEffect::RequestResources(request) => {
                    let rank = Rank::from_pod(self.driver.pod());
                    self.node.room.request(&self.pod_ref.uid, *request, rank);
                }
                PodEffect::Show(status) => self.show(status),
                PodEffect::WriteStatus(write) => {
                    self.status_write = Some(self.shown_by.write(write));
                }
                PodEffect::Record(event) => self.node.recorder.pod_event(&self.pod_ref, event),
                PodEffect::ReportRestart(report) => self.report(report),
                PodEffect::Finish => return WorkerFlow::Finished,
            }
        }
        WorkerFlow::Continue
    }

    /// Has the actions go as far as they can without waiting.
    fn advance(&mut self) {
        while let Some(Some((id, result))) = self.under_way.next().now_or_never() {
            self.answered(id, result);
        }
    }

    fn withdraw(&mut self) {
        let cause = match self.driver.core().is_ending() {
            true => WithdrawalCause::Terminating,
            false => WithdrawalCause::Restarting,
        };
        let mut withdrawal = self.node.routes.withdraw(self.pod_ref.uid.clone(), cause);
        match (&mut withdrawal).now_or_never() {
            Some(()) => self.driver.endpoints_withdrawn(),
            None => self.withdrawal = Some(withdrawal),
        }
    }

    fn exclude(&self, cause: NotReadyCause) {
        let cause = match cause {
            NotReadyCause::ContainerDown => WithdrawalCause::ContainerDown,
            NotReadyCause::Unready => WithdrawalCause::Unready,
        };
        // nothing waits for it
        drop(self.node.routes.withdraw(self.pod_ref.uid.clone(), cause));
    }

    fn withdrawn(&mut self) {
        self.withdrawal = None;
        self.driver.endpoints_withdrawn();
    }

    fn begin(&mut self, id: ActionId, action: CoreAction) {
        let end = self.asked.begins(&action);
        let perform = AssertUnwindSafe(self.actions().perform(action)).catch_unwind();
        self.under_way.push(Box::pin(async move {
            let performed = match end {
                None => perform.await,
                Some(end) => tokio::select! {
                    biased;
                    performed = perform => performed,
                    () = end.reached() => Ok(Err(ActionError {
                        kind: ActionErrorKind::Other,
                        message: "the container has ended".to_owned(),
                    })),
                },
            };
            let result = performed.unwrap_or_else(|_| {
                // the panic hook has told where; the pod retries, and no other pod is touched
                let message = FAILED_INSIDE.to_owned();
                Err(ActionError { kind: ActionErrorKind::Other, message })
            });
            (id, result)
        }));
    }

    fn actions(&self) -> PodActions<R, N> {
        PodActions {
            node: self.node.clone(),
            pod_ref: self.pod_ref.clone(),
            dirs: self.dirs.clone(),
            pod: self.driver.core().granted_pod(),
            ips: self.ips.clone(),
            objects: self.objects.clone(),
            volumes: self.volumes.clone(),
            tokens: self.tokens.clone(),
        }
    }

    fn persist(&mut self, journal: &Journal) {
        match self.journal.write(journal) {
            Ok(()) => {
                self.driver.journal_written();
                self.journal_sync.schedule(self.journal.path().to_owned());
            }
            Err(error) => {
                let error = causes(&error);
                match self.driver.journal_failed(self.now()) {
                    JournalFailure::Waits => {
                        tracing::warn!(pod = %self.pod_ref, error, "failed to write the journal; the pod waits");
                    }
                    JournalFailure::GoesOn => {
                        tracing::warn!(pod = %self.pod_ref, error, "failed to persist container exit states");
                    }
                }
            }
        }
    }

    fn show(&mut self, status: Arc<PodStatus>) {
        if status.phase.as_deref() == Some("Running")
            && let Some(since) = self.awaited_since.take()
        {
            self.node.counters.pod_start.observe(self.now().since(since));
        }
        self.shown.send_replace(status);
    }

    fn status_answered(&mut self, answer: StatusAnswer) {
        self.status_write = None;
        self.driver.status_answered(self.now(), answer);
    }

    pub(super) fn report(&mut self, report: RestartReport) {
        let shown_as = self.shown_by.uid(&self.pod_ref);
        self.restarts.report(shown_as.as_deref(), report);
    }

    fn answered(&mut self, id: ActionId, result: Result<ActionOutcome, ActionError>) {
        if let Ok(ActionOutcome::SandboxReady { ips }) = &result {
            self.ips.clone_from(ips);
        }
        if let Err(error) = &result {
            tracing::debug!(pod = %self.pod_ref, kind = ?error.kind, error = error.message, "action failed");
        }
        self.handle(CoreEvent::ActionResult { id, result });
    }

    fn take(&mut self, input: WorkerInput) {
        match input {
            WorkerInput::Runtime(event) => self.runtime_event(*event),
            WorkerInput::Restart(restart) => self.restart(&restart),
            WorkerInput::Resources { ticket, decision } => {
                self.handle(CoreEvent::ResourcesDecided { ticket, decision });
                // files may tell of limits
                self.update_payloads();
            }
            WorkerInput::RestartReleased(restart) => self.release(&restart),
            WorkerInput::RestartForgotten(id) => self.forget_restart(id),
            WorkerInput::Vanished(loss) => self.driver.object_vanished(self.now(), loss),
            WorkerInput::Evict(eviction, awaited) => {
                self.awaited.push(awaited);
                self.handle(CoreEvent::Eviction(eviction));
            }
            WorkerInput::NodeShutsDown { grace } => {
                self.departure = WorkerDeparture::WhenOver;
                self.handle(CoreEvent::Eviction(PodEviction {
                    cause: EvictionCause::NodeShutdown,
                    message: shutdown::MESSAGE.to_owned(),
                    grace,
                }));
            }
            // it ends already, and for good
            WorkerInput::NodeStops if self.departure == WorkerDeparture::WhenOver => {}
            WorkerInput::NodeStops => self.driver.node_stops(self.now()),
        }
    }

    fn runtime_event(&mut self, event: RuntimeEvent) {
        match event {
            RuntimeEvent::ContainerExited { key, created, mut exit } => {
                let pod = self.driver.pod();
                if let Ok(container) = find_container(pod, &key.name.0) {
                    exit.message = read_message(pod, &container, &self.dirs, key.attempt, &exit);
                }
                let key = ContainerStartKey {
                    sandbox: key.sandbox.attempt,
                    name: key.name,
                    attempt: key.attempt,
                };
                self.asked.ended(&key);
                self.handle(CoreEvent::ContainerExited { key, made: made(created), exit });
            }
            RuntimeEvent::ProcessesOomKilled { key } => {
                if !self.driver.is_node_stopping() {
                    let event = oom_killing(self.driver.pod(), &key.name);
                    self.node.recorder.pod_event(&self.pod_ref, event);
                }
            }
            RuntimeEvent::SandboxDied { key } => {
                self.asked.sandbox_gone(key.attempt);
                self.handle(CoreEvent::SandboxDied { attempt: key.attempt });
            }
        }
    }

    fn restart(&mut self, restart: &Arc<PodRestart>) {
        let Some(request) = RestartRequest::from_restart(restart) else { return };
        if is_settled(restart) {
            self.forget_restart(request.id);
        } else if self.restarts.register(&request.id, restart.clone()) {
            self.begin_restart(request);
        }
    }

    /// The group is over, or all of it has stopped. A request that an earlier agent has taken up
    /// goes on; one that was not begun by now is not begun any more.
    fn release(&mut self, restart: &Arc<PodRestart>) {
        let Some(request) = RestartRequest::from_restart(restart) else { return };
        let id = request.id.clone();
        if !self.driver.core().knows_restart(&id) {
            self.not_begun.insert(id);
            return;
        }
        if self.restarts.register(&id, restart.clone()) {
            self.handle(CoreEvent::RestartRequested(request));
        }
        self.handle(CoreEvent::RestartReleased { id });
    }

    /// The request is over or gone, and holds nothing.
    fn forget_restart(&mut self, id: String) {
        self.restarts.forget(&id);
        self.not_begun.remove(&id);
        self.handle(CoreEvent::RestartReleased { id });
    }

    /// What runs is ended when the images are there that it starts from again: nearly always they
    /// are, and nothing is waited for.
    fn begin_restart(&mut self, request: RestartRequest) {
        let needed = self.driver.core().images_before_restart(&request);
        let check = AssertUnwindSafe(self.actions().have_images(needed)).catch_unwind();
        self.image_checks.push(Box::pin(async move {
            (request, check.await.unwrap_or_else(|_| Err(FAILED_INSIDE.to_owned())))
        }));
        if let Some(Some((request, checked))) = self.image_checks.next().now_or_never() {
            self.images_checked(request, checked);
        }
    }

    fn images_checked(&mut self, request: RestartRequest, checked: Result<(), String>) {
        if request.group.is_some()
            && (self.not_begun.contains(&request.id) || !self.restarts.knows(&request.id))
        {
            return; // the others of its group have started, or its request is over
        }
        self.handle(match checked {
            Ok(()) => CoreEvent::RestartRequested(request),
            Err(problem) => CoreEvent::RestartImpossible { request, problem },
        });
    }

    /// The object changed in the API.
    fn updated(&mut self) {
        let pod = self.updates.borrow_and_update().clone();
        let old = self.driver.pod().clone();
        if !self.driver.object_changed(self.now(), pod.clone()) {
            return;
        }
        if old.spec != pod.spec || old.metadata.generation != pod.metadata.generation {
            self.keep_pod(&pod);
        }
        if concerns_downward_files(&old, &pod) {
            self.update_payloads();
        }
        if concerns_references(&old, &pod) {
            let changed = self.objects_changed.clone();
            self.objects = Arc::new(self.node.objects.subscribe(pod_references(&pod), changed));
        }
    }

    /// When a token in the pod's volumes is to be replaced: not while they are brought up to date
    /// anyway, nor when nobody reads it any more.
    fn token_due(&self) -> Option<tokio::time::Instant> {
        let is_over = self.shown.borrow().phase.as_deref().is_some_and(is_final);
        let exists = self.driver.existence() == Existence::Exists;
        let serves = !self.driver.is_node_stopping() && exists && !is_over;
        if !serves || self.payload_update.is_some() {
            return None;
        }
        self.tokens.next_refresh().map(|due| self.node.clock.instant_of(due))
    }

    /// Not an action of the core. A new change takes the place of an update that is still under
    /// way.
    fn update_payloads(&mut self) {
        self.payload_update = Some(Box::pin(self.actions().update_payloads()));
    }
}

/// Until the future, if there is one, is done.
async fn done(future: &mut Option<BoxFuture<'static, ()>>) {
    match future {
        Some(future) => future.await,
        None => std::future::pending().await,
    }
}
