//! Which pods are here: follows the API and the runtime, and gives each pod its worker. Does no IO
//! of its own while serving, so that an exit reaches its pod at once.

mod admission;
mod shutdown;
mod statics;

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::Arc;
use std::time::Duration;

use futures::StreamExt;
use futures::stream::BoxStream;
use k8s_openapi::api::core::v1::{Node, Pod, PodStatus};
use kube::Api;
use kube::runtime::WatchStreamExt;
use kube::runtime::watcher::{self, Event};
use rekindle_object_watch::watcher as watch_objects;
use rekindle_pod::Loss;
use rekindle_pod_driver::KnownGroups;
use rekindle_runtime::{Runtime, RuntimeEvent, SandboxSnapshot};
use rekindle_services::HostPort;
use rekindle_types::pod_annotations::is_mirror;
use rekindle_types::v1alpha1::{CarriedOutBy, MemberTurn, PodRestart};
use rekindle_types::{PodRef, PodUid};
use tokio::sync::{mpsc, watch};
use tokio::task::{Id, JoinError, JoinSet};
use tokio::time::Instant;

use super::inbox::WorkerInput;
use super::recovery::{kept_pods, leftovers, pod_ref, remove_leftovers, remove_orphans};
use super::restarts::{RestartReporter, is_settled};
use super::shown_by::PodSource;
use super::worker::{PodAdmission, PodWorker, WorkerStart};
use crate::agent::AgentStopMode;
use crate::config::AgentDuty;
use crate::context::NodeContext;
use crate::eviction::{EvictionOrder, Standing};
use crate::host_ports::claimed_ports;
use crate::network::PodNetwork;
use crate::shutdown::{Shutdown, ShutdownPolicy};
use crate::static_pods::{Listing, StaticPods, disown};
use crate::sysctls::AllowedSysctls;

/// How long a pod whose worker failed inside waits for a new one; doubled each time.
const WORKER_RETRY_MIN: Duration = Duration::from_secs(1);
/// The longest of these waits.
const WORKER_RETRY_MAX: Duration = Duration::from_secs(300);

struct WorkerHandle {
    pod_ref: PodRef,
    updates: watch::Sender<Arc<Pod>>,
    inbox: mpsc::UnboundedSender<WorkerInput>,
    /// As the worker shows it; the last one when the worker has ended.
    status: watch::Receiver<Arc<PodStatus>>,
    failures: u32,
    object: ObjectPresence,
    source: PodSource,
    /// The node's ports that are its own as long as it is not over; none if it was refused.
    ports: Vec<HostPort>,
}

/// Whether the API still has a pod's object.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum ObjectPresence {
    There,
    Gone,
}

/// Whether new pods are taken up.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum ManagerPhase {
    /// The API's first complete list is awaited, and what the folder of static pods holds.
    Recovering,
    /// The same, and everything that is taken up by it is to end.
    RecoveringToEnd,
    Serving,
    /// The node is shut down: pods end one group after the other, and new ones are refused.
    ShuttingDown,
    Stopping,
}

/// Whether the API has ever said which pods it has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum ApiList {
    Awaited,
    Complete,
}

type PodEvents = BoxStream<'static, watcher::Result<Event<Pod>>>;
type RestartEvents = BoxStream<'static, watcher::Result<Event<PodRestart>>>;

pub(crate) struct Manager<R, N> {
    node: Arc<NodeContext<R, N>>,
    phase: ManagerPhase,
    workers: HashMap<PodUid, WorkerHandle>,
    tasks: JoinSet<()>,
    task_pods: HashMap<Id, PodUid>,
    /// Pods that are over here while a finalizer still holds their object in the API.
    over: BTreeSet<PodUid>,
    /// What the runtime had when the agent started, until its pod is taken up.
    found: BTreeMap<PodUid, Vec<SandboxSnapshot>>,
    /// Events of pods that are not taken up yet.
    early: BTreeMap<PodUid, Vec<RuntimeEvent>>,
    /// UIDs of the list that is being received.
    listed: BTreeSet<PodUid>,
    /// New pods that ask for ports of the node, until it is known which ports those have that were
    /// here before.
    awaiting_ports: BTreeMap<PodUid, Pod>,
    api_listed: ApiList,
    statics: StaticPods,
    /// Requests that are not settled, by UID.
    restarts: BTreeMap<String, Arc<PodRestart>>,
    /// Requests for groups of pods.
    groups: KnownGroups,
    listed_restarts: BTreeSet<String>,
    rules: PodRules,
    shutdown: Option<Shutdown>,
}

/// What pods have to go by, beside their objects.
pub(crate) struct PodRules {
    /// What the end of the node is to them.
    pub(crate) shutdown: ShutdownPolicy,
    /// The kernel settings that new pods may have.
    pub(crate) sysctls: AllowedSysctls,
    /// What the node is under: new pods may be refused.
    pub(crate) pressures: watch::Receiver<Standing>,
    /// The node's object as the API showed it last.
    pub(crate) node: watch::Receiver<Option<Arc<Node>>>,
    /// Pods that have to go.
    pub(crate) ordered: mpsc::UnboundedReceiver<EvictionOrder>,
}

impl<R: Runtime, N: PodNetwork> Manager<R, N> {
    /// A manager for a node where `found` stands already.
    pub(crate) fn new(
        node: Arc<NodeContext<R, N>>,
        found: Vec<SandboxSnapshot>,
        statics: StaticPods,
        duty: AgentDuty,
        rules: PodRules,
    ) -> Self {
        let mut by_pod: BTreeMap<PodUid, Vec<SandboxSnapshot>> = BTreeMap::new();
        for sandbox in found {
            by_pod.entry(sandbox.key.pod.uid.clone()).or_default().push(sandbox);
        }
        Self {
            node,
            phase: match duty {
                AgentDuty::Serve => ManagerPhase::Recovering,
                AgentDuty::EndPods => ManagerPhase::RecoveringToEnd,
            },
            workers: HashMap::new(),
            tasks: JoinSet::new(),
            task_pods: HashMap::new(),
            over: BTreeSet::new(),
            found: by_pod,
            early: BTreeMap::new(),
            listed: BTreeSet::new(),
            awaiting_ports: BTreeMap::new(),
            api_listed: ApiList::Awaited,
            statics,
            restarts: BTreeMap::new(),
            groups: KnownGroups::default(),
            listed_restarts: BTreeSet::new(),
            rules,
            shutdown: None,
        }
    }

    /// Until told to stop.
    pub(crate) async fn run(
        mut self,
        mut stop: mpsc::Receiver<AgentStopMode>,
        mut static_pods: mpsc::Receiver<Listing>,
    ) {
        let mut pods = self.watch_pods();
        let mut restarts = self.watch_restarts();
        let runtime = self.node.runtime.clone();
        loop {
            let wake = self.drive_shutdown();
            if self.phase == ManagerPhase::Stopping && self.tasks.is_empty() {
                return;
            }
            tokio::select! {
                biased;
                event = runtime.next_event() => self.runtime_event(event),
                Some(ended) = self.tasks.join_next_with_id(), if !self.tasks.is_empty() => {
                    self.worker_ended(ended);
                }
                mode = stop.recv() => match mode {
                    Some(AgentStopMode::EndPods) => self.stop(),
                    Some(AgentStopMode::LeavePods) | None => {
                        self.tasks.shutdown().await;
                        return;
                    }
                },
                Some(event) = pods.next() => self.pod_event(event),
                Some(listing) = static_pods.recv() => self.statics_listed(listing),
                Some(event) = restarts.next() => self.restart_event(event),
                Some(EvictionOrder { uid, eviction, over }) = self.rules.ordered.recv() => {
                    self.tell(&uid, WorkerInput::Evict(eviction, over));
                }
                () = tokio::time::sleep_until(wake.unwrap_or_else(Instant::now)), if wake.is_some() => {}
            }
        }
    }

    fn watch_pods(&self) -> PodEvents {
        let mine = watcher::Config::default().fields(&format!("spec.nodeName={}", self.node.name));
        watch_objects(Api::all(self.node.client.clone()), mine).default_backoff().boxed()
    }

    fn watch_restarts(&self) -> RestartEvents {
        let config = watcher::Config::default();
        watch_objects(Api::all(self.node.client.clone()), config).default_backoff().boxed()
    }

    fn pod_event(&mut self, event: watcher::Result<Event<Pod>>) {
        match event {
            Ok(Event::Init) => {
                self.listed.clear();
                self.statics.begin_mirrors();
            }
            Ok(Event::InitApply(pod) | Event::Apply(pod)) if is_mirror(&pod) => {
                self.mirror_seen(pod);
            }
            Ok(Event::Delete(mirror)) if is_mirror(&mirror) => {
                let uid = PodUid(mirror.metadata.uid.clone().unwrap_or_default());
                self.node.index.mirror_gone(&uid);
                self.statics.mirror_gone(&mirror);
                // an API that lets a pod become a mirror would leave its containers here for ever
                match self.workers.get(&uid).map(|worker| &worker.source) {
                    Some(PodSource::Api) => self.pod_gone(&uid, Loss::Missing),
                    Some(PodSource::File(_)) | None => {}
                }
            }
            Ok(Event::InitApply(pod)) => {
                if let Some(uid) = &pod.metadata.uid {
                    self.listed.insert(PodUid(uid.clone()));
                }
                self.pod_seen(pod);
            }
            Ok(Event::InitDone) => self.pods_listed(),
            Ok(Event::Apply(pod)) => self.pod_seen(pod),
            Ok(Event::Delete(pod)) => {
                let uid = PodUid(pod.metadata.uid.clone().unwrap_or_default());
                self.pod_gone(&uid, Loss::Deleted);
            }
            Err(error) => tracing::warn!(%error, "failed to watch pods; trying again"),
        }
    }

    fn pod_seen(&mut self, mut pod: Pod) {
        pod.metadata.managed_fields = None; // large, and nobody here reads them
        disown(&mut pod);
        let Some(pod_ref) = pod_ref(&pod) else { return };
        if let Some(worker) = self.workers.get(&pod_ref.uid) {
            worker.updates.send_replace(Arc::new(pod));
        } else if self.has_to_wait_for_ports(&pod) {
            self.awaiting_ports.insert(pod_ref.uid, pod);
        } else if self.phase != ManagerPhase::Stopping && !self.over.contains(&pod_ref.uid) {
            let admission = self.admission(&pod);
            self.start_worker(pod_ref, Arc::new(pod), PodSource::Api, admission);
        }
    }

    fn pod_gone(&mut self, uid: &PodUid, loss: Loss) {
        self.over.remove(uid);
        self.awaiting_ports.remove(uid);
        if let Some(worker) = self.workers.get_mut(uid) {
            worker.object = ObjectPresence::Gone;
        }
        self.tell(uid, WorkerInput::Vanished(loss));
    }

    /// A complete list has been received: what is not in it is gone.
    fn pods_listed(&mut self) {
        self.statics.mirrors_listed();
        let is_gone = |(uid, worker): &(&PodUid, &WorkerHandle)| match worker.source {
            PodSource::Api => !self.listed.contains(*uid),
            PodSource::File(_) => false,
        };
        let vanished: Vec<PodUid> =
            self.workers.iter().filter(is_gone).map(|(uid, _)| uid.clone()).collect();
        for uid in vanished {
            self.pod_gone(&uid, Loss::Missing);
        }
        self.over.retain(|uid| self.listed.contains(uid));
        self.awaiting_ports.retain(|uid, _| self.listed.contains(uid));
        self.api_listed = ApiList::Complete;
        self.take_up();
    }

    /// When it is known what the API and the folder of static pods ask for: takes up what an
    /// earlier agent left. To end it, what the folder asks for need not be known: the task that
    /// reads it may have ended already.
    fn take_up(&mut self) {
        if self.api_listed == ApiList::Awaited {
            return;
        }
        match self.phase {
            ManagerPhase::Recovering if !self.statics.is_known() => {}
            ManagerPhase::Recovering => {
                self.phase = ManagerPhase::Serving;
                self.start_statics();
                self.recover();
                self.take_up_those_awaiting_ports();
                self.node.room.listed();
            }
            ManagerPhase::RecoveringToEnd => {
                self.recover();
                self.phase = ManagerPhase::Stopping;
            }
            ManagerPhase::Serving => self.start_statics(),
            ManagerPhase::ShuttingDown | ManagerPhase::Stopping => {}
        }
    }

    /// The API's list is known: ends what an earlier agent left of pods that are not in it.
    fn recover(&mut self) {
        let mut unreadable = Vec::new();
        let known = self.listed.iter().chain(self.workers.keys()).cloned().collect();
        for (uid, pod) in kept_pods(&self.node, &known) {
            match pod.as_ref().and_then(|pod| pod_ref(pod)).zip(pod) {
                Some((pod_ref, pod)) => {
                    self.start_worker(pod_ref, pod, PodSource::Api, PodAdmission::Granted);
                    self.pod_gone(&uid, Loss::Missing);
                }
                None => unreadable.push(uid),
            }
        }
        let known: BTreeSet<PodUid> = self.workers.keys().cloned().collect();
        let orphans: Vec<_> = std::mem::take(&mut self.found).into_values().flatten().collect();
        let of_sandboxes = orphans.iter().map(|sandbox| sandbox.key.pod.uid.clone());
        let nobodys: BTreeSet<PodUid> = unreadable.iter().cloned().chain(of_sandboxes).collect();
        self.early.clear();
        let leftovers = leftovers(&self.node, &unreadable, &known);
        let node = self.node.clone();
        // among the workers' tasks, so that an agent that stops waits for it
        self.tasks.spawn(async move {
            let left = remove_orphans(node.clone(), orphans).await;
            let removed = tokio::task::spawn_blocking(move || remove_leftovers(&leftovers)).await;
            match removed {
                Ok(()) => node.users.forget_all(nobodys.difference(&left), &node.dirs),
                Err(error) => {
                    tracing::error!(%error, "failed to remove what an earlier agent left: the task panicked");
                }
            }
        });
    }

    /// Gives a pod its worker; one that is refused only ends.
    fn start_worker(
        &mut self,
        pod_ref: PodRef,
        pod: Arc<Pod>,
        source: PodSource,
        admission: PodAdmission,
    ) {
        let uid = pod_ref.uid.clone();
        let ports = match admission {
            PodAdmission::Granted | PodAdmission::InQuestion { .. } => claimed_ports(&pod),
            PodAdmission::Refused(_) => Vec::new(),
        };
        let (shown, status) = watch::channel(Arc::new(pod.status.clone().unwrap_or_default()));
        let (updates, updates_receiver) = watch::channel(pod);
        let (inbox, inbox_receiver) = mpsc::unbounded_channel();
        let found = self.found.remove(&uid).unwrap_or_default();
        self.node.room.expect(uid.clone(), inbox.clone());
        let start = WorkerStart {
            pod_ref: pod_ref.clone(),
            found,
            duty: self.duty(),
            admission,
            updates: updates_receiver,
            inbox: inbox_receiver,
            shown,
            source: source.clone(),
        };
        let handle = WorkerHandle {
            pod_ref,
            updates,
            inbox,
            status,
            failures: 0,
            object: ObjectPresence::There,
            source,
            ports,
        };
        let task = self.tasks.spawn(PodWorker::run(self.node.clone(), start));
        self.task_pods.insert(task.id(), uid.clone());
        self.workers.insert(uid.clone(), handle);
        for event in self.early.remove(&uid).unwrap_or_default() {
            self.tell(&uid, WorkerInput::Runtime(Box::new(event)));
        }
        self.tell_restarts(&uid);
    }

    fn tell(&self, uid: &PodUid, input: WorkerInput) {
        if let Some(worker) = self.workers.get(uid)
            && worker.inbox.send(input).is_err()
        {
            tracing::debug!(pod = %worker.pod_ref, "a pod's worker has ended already");
        }
    }

    fn runtime_event(&mut self, event: RuntimeEvent) {
        let uid = match &event {
            RuntimeEvent::ContainerExited { key, .. }
            | RuntimeEvent::ProcessesOomKilled { key } => key.sandbox.pod.uid.clone(),
            RuntimeEvent::SandboxDied { key } => key.pod.uid.clone(),
        };
        if self.workers.contains_key(&uid) {
            self.tell(&uid, WorkerInput::Runtime(Box::new(event)));
        } else if matches!(self.phase, ManagerPhase::Recovering | ManagerPhase::RecoveringToEnd) {
            self.early.entry(uid).or_default().push(event);
        } else {
            tracing::debug!(%uid, "an event of a pod that is not here any more");
        }
    }

    fn worker_ended(&mut self, ended: Result<(Id, ()), JoinError>) {
        match ended {
            Ok((id, ())) => {
                let Some(uid) = self.task_pods.remove(&id) else { return };
                self.node.room.release(&uid);
                if let Some(handle) = self.workers.remove(&uid)
                    && handle.object == ObjectPresence::There
                {
                    self.over.insert(uid);
                }
                // what it was told while it went it has not read
                self.restarts.values().for_each(|restart| self.tell_if_lost(restart));
                if self.phase == ManagerPhase::Serving {
                    self.start_statics(); // one may have waited for this one's name
                }
            }
            Err(error) => {
                let Some(uid) = self.task_pods.remove(&error.id()) else { return };
                self.replace_worker(&uid, &error);
            }
        }
    }

    /// A worker failed inside. The pod's containers run on; a new worker takes the pod up as after
    /// a crash of the agent.
    fn replace_worker(&mut self, uid: &PodUid, error: &JoinError) {
        let Some(mut handle) = self.workers.remove(uid) else { return };
        handle.failures += 1;
        let wait = WORKER_RETRY_MIN
            .saturating_mul(2_u32.saturating_pow(handle.failures.saturating_sub(1)))
            .min(WORKER_RETRY_MAX);
        tracing::error!(pod = %handle.pod_ref, %error, ?wait, "restarted the worker of a pod: its task panicked");
        let (inbox, inbox_receiver) = mpsc::unbounded_channel();
        let (shown, status) = watch::channel(handle.status.borrow().clone());
        let (node, pod_ref) = (self.node.clone(), handle.pod_ref.clone());
        let updates = handle.updates.subscribe();
        let (duty, source) = (self.duty(), handle.source.clone());
        let task = self.tasks.spawn(async move {
            tokio::time::sleep(wait).await;
            let found = node.runtime.snapshot().await.unwrap_or_else(|error| {
                tracing::error!(
                    error = error.chain(),
                    "failed to list the sandboxes of the runtime"
                );
                Vec::new()
            });
            let found = found.into_iter().filter(|sandbox| sandbox.key.pod == pod_ref).collect();
            let start = WorkerStart {
                pod_ref,
                found,
                duty,
                admission: PodAdmission::Granted,
                updates,
                inbox: inbox_receiver,
                shown,
                source,
            };
            PodWorker::run(node, start).await;
        });
        self.task_pods.insert(task.id(), uid.clone());
        self.node.room.expect(uid.clone(), inbox.clone());
        (handle.inbox, handle.status) = (inbox, status);
        self.workers.insert(uid.clone(), handle);
        self.tell_restarts(uid);
    }

    /// What a worker that is started now is started for.
    fn duty(&self) -> AgentDuty {
        match self.phase {
            ManagerPhase::Recovering | ManagerPhase::Serving | ManagerPhase::ShuttingDown => {
                AgentDuty::Serve
            }
            ManagerPhase::RecoveringToEnd | ManagerPhase::Stopping => AgentDuty::EndPods,
        }
    }

    fn end_pods(&mut self) {
        self.phase = match self.phase {
            // what runs is not known before the list is
            ManagerPhase::Recovering | ManagerPhase::RecoveringToEnd => {
                ManagerPhase::RecoveringToEnd
            }
            ManagerPhase::Serving | ManagerPhase::ShuttingDown | ManagerPhase::Stopping => {
                ManagerPhase::Stopping
            }
        };
        for worker in self.workers.values() {
            if worker.inbox.send(WorkerInput::NodeStops).is_err() {
                tracing::debug!(pod = %worker.pod_ref, "a pod's worker has ended already");
            }
        }
        self.take_up();
    }

    fn restart_event(&mut self, event: watcher::Result<Event<PodRestart>>) {
        match event {
            Ok(Event::Init) => {
                self.listed_restarts.clear();
                self.groups.list_begins();
            }
            Ok(Event::InitApply(restart)) => {
                self.listed_restarts.extend(restart.metadata.uid.clone());
                self.restart_seen(restart);
            }
            Ok(Event::InitDone) => {
                let gone: Vec<String> = self
                    .restarts
                    .keys()
                    .filter(|id| !self.listed_restarts.contains(*id))
                    .cloned()
                    .collect();
                for id in gone {
                    self.restart_gone(&id);
                }
                self.node.restart_owners.lock().keep_only(&self.listed_restarts);
                self.groups.list_ends();
                let members = self.restarts.values().filter(|r| r.spec.member_of.is_some());
                members.for_each(|member| self.tell_turn(member));
            }
            Ok(Event::Apply(restart)) => self.restart_seen(restart),
            Ok(Event::Delete(restart)) if restart.is_of_group() => {
                self.groups.forget(&restart);
                self.tell_members(&restart);
            }
            Ok(Event::Delete(restart)) => {
                self.restart_gone(&restart.metadata.uid.unwrap_or_default());
            }
            Err(error) => tracing::debug!(%error, "the watch of PodRestarts failed; it is retried"),
        }
    }

    fn restart_seen(&mut self, restart: PodRestart) {
        let Some(id) = restart.metadata.uid.clone() else { return };
        let restart = Arc::new(restart);
        match restart.carried_out_by() {
            CarriedOutBy::Node => {}
            CarriedOutBy::Operator if restart.is_of_group() => {
                self.groups.see(restart.clone());
                return self.tell_members(&restart);
            }
            CarriedOutBy::Operator => return,
        }
        self.tell_turn(&restart);
        if is_settled(&restart) {
            self.node.restart_owners.lock().forget(&id);
            self.restarts.remove(&id);
        } else {
            self.tell_if_lost(&restart);
            self.restarts.insert(id, restart);
        }
    }

    /// A group has changed, or is gone: its members may have to do something else.
    fn tell_members(&self, group: &PodRestart) {
        let all = self.restarts.values();
        let members = all.filter(|request| KnownGroups::is_member(group, request));
        members.for_each(|member| self.tell_turn(member));
    }

    /// Tells the pod of a request what is done with it now.
    fn tell_turn(&self, restart: &Arc<PodRestart>) {
        if let Some(uid) = self.target_of(restart) {
            self.tell_turn_to(&uid, restart);
        }
    }

    fn tell_turn_to(&self, uid: &PodUid, restart: &Arc<PodRestart>) {
        // what is over is told in any case
        let turn = if is_settled(restart) { MemberTurn::Stop } else { self.groups.turn(restart) };
        match turn {
            MemberTurn::Wait => {}
            MemberTurn::Stop => self.tell(uid, WorkerInput::Restart(restart.clone())),
            MemberTurn::Start => self.tell(uid, WorkerInput::RestartReleased(restart.clone())),
        }
    }

    /// A request that a pod has taken up which is not here any more: nobody else carries it out, or
    /// tells what came of it.
    fn tell_if_lost(&self, restart: &Arc<PodRestart>) {
        match self.phase {
            ManagerPhase::Serving => {}
            // the pod may be taken up yet, or ends and tells
            ManagerPhase::Recovering
            | ManagerPhase::RecoveringToEnd
            | ManagerPhase::ShuttingDown
            | ManagerPhase::Stopping => {
                return;
            }
        }
        let id = restart.metadata.uid.as_deref().unwrap_or_default();
        let owner = self.node.restart_owners.lock().owner_in_journal(id).cloned();
        if let Some(pod) = owner.filter(|uid| !self.workers.contains_key(uid)) {
            let (client, owners) = (self.node.client.clone(), self.node.restart_owners.clone());
            let reporter = RestartReporter::new(client, pod, owners);
            reporter.report_lost(restart, self.node.clock.now());
        }
    }

    fn restart_gone(&mut self, id: &str) {
        if let Some(restart) = self.restarts.remove(id)
            && let Some(uid) = self.target_of(&restart)
        {
            self.tell(&uid, WorkerInput::RestartForgotten(id.to_owned()));
        }
        self.node.restart_owners.lock().forget(id);
    }

    /// The pod that a request means. While an old pod of the name still ends, it is the new one.
    fn target_of(&self, restart: &PodRestart) -> Option<PodUid> {
        let meant = self.workers.iter().filter(|(_, worker)| self.is_for(restart, &worker.pod_ref));
        let ends = |worker: &WorkerHandle| {
            worker.object == ObjectPresence::Gone
                || worker.updates.borrow().metadata.deletion_timestamp.is_some()
        };
        meant.min_by_key(|(_, worker)| ends(worker)).map(|(uid, _)| uid.clone())
    }

    /// A pod was taken up: hands it the requests that are open.
    fn tell_restarts(&self, uid: &PodUid) {
        let Some(worker) = self.workers.get(uid) else { return };
        let meant = self.restarts.values().filter(|restart| self.is_for(restart, &worker.pod_ref));
        meant.for_each(|restart| self.tell_turn_to(uid, restart));
    }

    /// Whether a request is for this very pod. That a pod does not exist, or has another UID, is
    /// for the controllers to say.
    fn is_for(&self, restart: &PodRestart, pod: &PodRef) -> bool {
        let same_uid = |uid: &str| self.node.index.resolve(&PodUid(uid.to_owned())) == pod.uid;
        let id = restart.metadata.uid.as_deref().unwrap_or_default();
        restart.metadata.namespace.as_deref() == Some(&pod.namespace)
            && restart.spec.pod_name == pod.name
            && restart.pod_uid().is_none_or(same_uid)
            && self.node.restart_owners.lock().is_free_for(id, &pod.uid)
    }
}
