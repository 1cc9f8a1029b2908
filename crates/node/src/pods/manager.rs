//! Which pods are here: follows the API and the runtime, and gives each pod its worker. Does no IO of its own while serving,
//! so that an exit reaches its pod at once.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::Arc;
use std::time::Duration;

use futures::StreamExt;
use futures::stream::BoxStream;
use k8s_openapi::api::core::v1::Pod;
use kube::Api;
use kube::runtime::watcher::{self, Event};
use kube::runtime::{WatchStreamExt, watcher as watch_objects};
use rekindle_runtime::{Runtime, RuntimeEvent, SandboxSnapshot};
use rekindle_types::v1alpha1::{CarriedOutBy, PodRestart, Rung};
use rekindle_types::{PodRef, PodUid};
use tokio::sync::{mpsc, watch};
use tokio::task::{Id, JoinError, JoinSet};

use super::recovery::{kept_pods, leftovers, pod_ref, remove_leftovers, remove_orphans};
use super::restarts::is_settled;
use super::worker::{Input, Worker, WorkerStart};
use crate::agent::Duty;
use crate::context::NodeContext;
use crate::network::PodNetwork;

/// How long a pod whose worker failed inside waits for a new one; doubled each time.
const WORKER_RETRY_MIN: Duration = Duration::from_secs(1);
/// The longest of these waits.
const WORKER_RETRY_MAX: Duration = Duration::from_secs(300);

/// What becomes of the pods when the manager stops.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum StopMode {
    /// Their containers end gracefully; the pods come back with the node.
    EndPods,
    /// They run on, and the next agent takes them up.
    LeavePods,
}

struct WorkerHandle {
    pod_ref: PodRef,
    updates: watch::Sender<Arc<Pod>>,
    inbox: mpsc::UnboundedSender<Input>,
    failures: u32,
    object: Object,
}

/// Whether the API still has a pod's object.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Object {
    There,
    Gone,
}

/// Whether new pods are taken up.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Phase {
    /// The API's first complete list is awaited.
    Recovering,
    /// The same, and everything that is taken up by it is to end.
    RecoveringToEnd,
    Serving,
    Stopping,
}

type PodEvents = BoxStream<'static, watcher::Result<Event<Pod>>>;
type RestartEvents = BoxStream<'static, watcher::Result<Event<PodRestart>>>;

pub(crate) struct Manager<R, N> {
    node: Arc<NodeContext<R, N>>,
    phase: Phase,
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
    /// Requests that are not settled, by UID.
    restarts: BTreeMap<String, Arc<PodRestart>>,
    listed_restarts: BTreeSet<String>,
}

impl<R: Runtime, N: PodNetwork> Manager<R, N> {
    /// A manager for a node where `found` stands already.
    pub(crate) fn new(
        node: Arc<NodeContext<R, N>>,
        found: Vec<SandboxSnapshot>,
        duty: Duty,
    ) -> Self {
        let mut by_pod: BTreeMap<PodUid, Vec<SandboxSnapshot>> = BTreeMap::new();
        for sandbox in found {
            by_pod.entry(sandbox.key.pod.uid.clone()).or_default().push(sandbox);
        }
        Self {
            node,
            phase: match duty {
                Duty::Serve => Phase::Recovering,
                Duty::EndPods => Phase::RecoveringToEnd,
            },
            workers: HashMap::new(),
            tasks: JoinSet::new(),
            task_pods: HashMap::new(),
            over: BTreeSet::new(),
            found: by_pod,
            early: BTreeMap::new(),
            listed: BTreeSet::new(),
            restarts: BTreeMap::new(),
            listed_restarts: BTreeSet::new(),
        }
    }

    /// Until told to stop.
    pub(crate) async fn run(mut self, mut stop: mpsc::Receiver<StopMode>) {
        let mut pods = self.watch_pods();
        let mut restarts = self.watch_restarts();
        let runtime = self.node.runtime.clone();
        loop {
            if self.phase == Phase::Stopping && self.tasks.is_empty() {
                return;
            }
            tokio::select! {
                biased;
                event = runtime.next_event() => self.runtime_event(event),
                Some(ended) = self.tasks.join_next_with_id(), if !self.tasks.is_empty() => {
                    self.worker_ended(ended);
                }
                mode = stop.recv() => match mode {
                    Some(StopMode::EndPods) => self.end_pods(),
                    Some(StopMode::LeavePods) | None => {
                        self.tasks.shutdown().await;
                        return;
                    }
                },
                Some(event) = pods.next() => self.pod_event(event),
                Some(event) = restarts.next() => self.restart_event(event),
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
            Ok(Event::Init) => self.listed.clear(),
            Ok(Event::InitApply(pod)) => {
                if let Some(uid) = &pod.metadata.uid {
                    self.listed.insert(PodUid(uid.clone()));
                }
                self.pod_seen(pod);
            }
            Ok(Event::InitDone) => self.pods_listed(),
            Ok(Event::Apply(pod)) => self.pod_seen(pod),
            Ok(Event::Delete(pod)) => {
                self.pod_gone(&PodUid(pod.metadata.uid.clone().unwrap_or_default()));
            }
            Err(error) => tracing::warn!(%error, "the watch of pods failed; it is retried"),
        }
    }

    fn pod_seen(&mut self, mut pod: Pod) {
        pod.metadata.managed_fields = None; // large, and nobody here reads them
        let Some(pod_ref) = pod_ref(&pod) else { return };
        if let Some(worker) = self.workers.get(&pod_ref.uid) {
            worker.updates.send_replace(Arc::new(pod));
        } else if self.phase != Phase::Stopping && !self.over.contains(&pod_ref.uid) {
            self.start_worker(pod_ref, Arc::new(pod));
        }
    }

    fn pod_gone(&mut self, uid: &PodUid) {
        self.over.remove(uid);
        if let Some(worker) = self.workers.get_mut(uid) {
            worker.object = Object::Gone;
        }
        self.tell(uid, Input::Vanished);
    }

    /// A complete list has been received: what is not in it is gone.
    fn pods_listed(&mut self) {
        let vanished: Vec<PodUid> =
            self.workers.keys().filter(|uid| !self.listed.contains(*uid)).cloned().collect();
        for uid in vanished {
            self.pod_gone(&uid);
        }
        self.over.retain(|uid| self.listed.contains(uid));
        match self.phase {
            Phase::Recovering => {
                self.phase = Phase::Serving;
                self.recover();
            }
            Phase::RecoveringToEnd => {
                self.recover();
                self.phase = Phase::Stopping;
            }
            Phase::Serving | Phase::Stopping => {}
        }
    }

    /// The API's list is known: ends what an earlier agent left of pods that are not in it.
    fn recover(&mut self) {
        let mut unreadable = Vec::new();
        for (uid, pod) in kept_pods(&self.node, &self.listed) {
            match pod.as_ref().and_then(|pod| pod_ref(pod)).zip(pod) {
                Some((pod_ref, pod)) => {
                    self.start_worker(pod_ref, pod);
                    self.pod_gone(&uid);
                }
                None => unreadable.push(uid),
            }
        }
        let known: BTreeSet<PodUid> = self.workers.keys().cloned().collect();
        let orphans = std::mem::take(&mut self.found).into_values().flatten().collect();
        self.early.clear();
        let leftovers = leftovers(&self.node, &unreadable, &known);
        let node = self.node.clone();
        // among the workers' tasks, so that an agent that stops waits for it
        self.tasks.spawn(async move {
            remove_orphans(node, orphans).await;
            let removed = tokio::task::spawn_blocking(move || remove_leftovers(&leftovers)).await;
            if let Err(error) = removed {
                tracing::error!(%error, "removing what an earlier agent left failed inside");
            }
        });
    }

    fn start_worker(&mut self, pod_ref: PodRef, pod: Arc<Pod>) {
        let uid = pod_ref.uid.clone();
        let (updates, updates_receiver) = watch::channel(pod);
        let (inbox, inbox_receiver) = mpsc::unbounded_channel();
        let found = self.found.remove(&uid).unwrap_or_default();
        let start = WorkerStart {
            pod_ref: pod_ref.clone(),
            found,
            duty: self.duty(),
            updates: updates_receiver,
            inbox: inbox_receiver,
        };
        let handle = WorkerHandle { pod_ref, updates, inbox, failures: 0, object: Object::There };
        let task = self.tasks.spawn(Worker::run(self.node.clone(), start));
        self.task_pods.insert(task.id(), uid.clone());
        self.workers.insert(uid.clone(), handle);
        for event in self.early.remove(&uid).unwrap_or_default() {
            self.tell(&uid, Input::Runtime(Box::new(event)));
        }
        self.tell_restarts(&uid);
    }

    fn tell(&self, uid: &PodUid, input: Input) {
        if let Some(worker) = self.workers.get(uid)
            && worker.inbox.send(input).is_err()
        {
            tracing::debug!(pod = %worker.pod_ref, "a pod's worker has ended already");
        }
    }

    fn runtime_event(&mut self, event: RuntimeEvent) {
        let uid = match &event {
            RuntimeEvent::ContainerExited { key, .. } => key.sandbox.pod.uid.clone(),
            RuntimeEvent::SandboxDied { key } => key.pod.uid.clone(),
        };
        if self.workers.contains_key(&uid) {
            self.tell(&uid, Input::Runtime(Box::new(event)));
        } else if matches!(self.phase, Phase::Recovering | Phase::RecoveringToEnd) {
            self.early.entry(uid).or_default().push(event);
        } else {
            tracing::debug!(%uid, "an event of a pod that is not here any more");
        }
    }

    fn worker_ended(&mut self, ended: Result<(Id, ()), JoinError>) {
        match ended {
            Ok((id, ())) => {
                if let Some(uid) = self.task_pods.remove(&id)
                    && let Some(handle) = self.workers.remove(&uid)
                    && handle.object == Object::There
                {
                    self.over.insert(uid);
                }
            }
            Err(error) => {
                let Some(uid) = self.task_pods.remove(&error.id()) else { return };
                self.replace_worker(&uid, &error);
            }
        }
    }

    /// A worker failed inside. The pod's containers run on; a new worker takes the pod up as after a crash of the agent.
    fn replace_worker(&mut self, uid: &PodUid, error: &JoinError) {
        let Some(mut handle) = self.workers.remove(uid) else { return };
        handle.failures += 1;
        let wait = WORKER_RETRY_MIN
            .saturating_mul(2_u32.saturating_pow(handle.failures.saturating_sub(1)))
            .min(WORKER_RETRY_MAX);
        tracing::error!(pod = %handle.pod_ref, %error, ?wait, "the worker of a pod failed inside; the pod is taken up anew");
        let (inbox, inbox_receiver) = mpsc::unbounded_channel();
        let (node, pod_ref) = (self.node.clone(), handle.pod_ref.clone());
        let updates = handle.updates.subscribe();
        let duty = self.duty();
        let task = self.tasks.spawn(async move {
            tokio::time::sleep(wait).await;
            let found = node.runtime.snapshot().await.unwrap_or_else(|error| {
                tracing::error!(error = error.chain(), "the runtime cannot say what runs");
                Vec::new()
            });
            let found = found.into_iter().filter(|sandbox| sandbox.key.pod == pod_ref).collect();
            let inbox = inbox_receiver;
            Worker::run(node, WorkerStart { pod_ref, found, duty, updates, inbox }).await;
        });
        self.task_pods.insert(task.id(), uid.clone());
        handle.inbox = inbox;
        self.workers.insert(uid.clone(), handle);
        self.tell_restarts(uid);
    }

    /// What a worker that is started now is started for.
    fn duty(&self) -> Duty {
        match self.phase {
            Phase::Recovering | Phase::Serving => Duty::Serve,
            Phase::RecoveringToEnd | Phase::Stopping => Duty::EndPods,
        }
    }

    fn end_pods(&mut self) {
        self.phase = match self.phase {
            // what runs is not known before the list is
            Phase::Recovering | Phase::RecoveringToEnd => Phase::RecoveringToEnd,
            Phase::Serving | Phase::Stopping => Phase::Stopping,
        };
        for worker in self.workers.values() {
            if worker.inbox.send(Input::NodeStops).is_err() {
                tracing::debug!(pod = %worker.pod_ref, "a pod's worker has ended already");
            }
        }
    }

    fn restart_event(&mut self, event: watcher::Result<Event<PodRestart>>) {
        match event {
            Ok(Event::Init) => self.listed_restarts.clear(),
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
            }
            Ok(Event::Apply(restart)) => self.restart_seen(restart),
            Ok(Event::Delete(restart)) => {
                self.restart_gone(&restart.metadata.uid.unwrap_or_default());
            }
            Err(error) => tracing::debug!(%error, "the watch of PodRestarts failed; it is retried"),
        }
    }

    fn restart_seen(&mut self, restart: PodRestart) {
        let Some(id) = restart.metadata.uid.clone() else { return };
        match restart.spec.rung.unwrap_or(Rung::Pod).carried_out_by() {
            CarriedOutBy::Node => {}
            CarriedOutBy::Operator => return,
        }
        let restart = Arc::new(restart);
        if let Some(uid) = self.target_of(&restart) {
            self.tell(&uid, Input::Restart(restart.clone()));
        }
        if is_settled(&restart) {
            self.restarts.remove(&id);
        } else {
            self.restarts.insert(id, restart);
        }
    }

    fn restart_gone(&mut self, id: &str) {
        if let Some(restart) = self.restarts.remove(id)
            && let Some(uid) = self.target_of(&restart)
        {
            self.tell(&uid, Input::RestartForgotten(id.to_owned()));
        }
    }

    /// The pod that a request means. While an old pod of the name still ends, it is the new one.
    fn target_of(&self, restart: &PodRestart) -> Option<PodUid> {
        let meant = self.workers.iter().filter(|(_, worker)| is_for(restart, &worker.pod_ref));
        let ends = |worker: &WorkerHandle| {
            worker.object == Object::Gone
                || worker.updates.borrow().metadata.deletion_timestamp.is_some()
        };
        meant.min_by_key(|(_, worker)| ends(worker)).map(|(uid, _)| uid.clone())
    }

    /// A pod was taken up: hands it the requests that are open.
    fn tell_restarts(&self, uid: &PodUid) {
        let Some(worker) = self.workers.get(uid) else { return };
        for restart in self.restarts.values().filter(|restart| is_for(restart, &worker.pod_ref)) {
            self.tell(uid, Input::Restart(restart.clone()));
        }
    }
}

/// Whether a request is for this very pod. That a pod does not exist, or has another UID, is for the controllers to say.
fn is_for(restart: &PodRestart, pod: &PodRef) -> bool {
    let same_uid = restart.spec.pod_uid.as_ref().is_none_or(|uid| *uid == pod.uid.0);
    restart.metadata.namespace.as_deref() == Some(&pod.namespace)
        && restart.spec.pod_name == pod.name
        && same_uid
}
