//! A cluster in memory: the real API on a memory disk, a node that is only a task, and a wire
//! between operator and API that breaks at a chosen write.

use std::collections::{BTreeMap, BTreeSet};
use std::convert::Infallible;
use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::{Context, Poll};
use std::time::Duration;

use futures::StreamExt;
use http::{Method, Request, Response};
use k8s_openapi::api::apps::v1::Deployment;
use k8s_openapi::api::core::v1::{Node, Pod};
use kube::api::{DeleteParams, Patch, PatchParams, PostParams, Preconditions};
use kube::client::Body;
use kube::runtime::{WatchStreamExt, watcher};
use kube::{Api, Client, ResourceExt};
use rekindle_api::ApiParts;
use rekindle_api::auth::AuthorizationMode;
use rekindle_api_server::{
    Front, FrontBody, FrontParts, InProcessService, NoLogs, OsEntropy, SystemClock,
};
use rekindle_kinds::identity::UserInfo;
use rekindle_operator::{OperatorParts, RestartLimits};
use rekindle_store::Store;
use rekindle_store::memory::MemoryDisk;
use rekindle_types::v1alpha1::{CarriedOutBy, PodRestart, RestartLadder};
use serde_json::{Value, json};
use tokio::sync::Notify;
use tower::Service;

/// The API with one node.
pub struct World {
    front: Front,
    clock: SystemClock,
    /// Of the operators that run from now on.
    pub limits: RestartLimits,
}

/// When containers of the world's pods crash.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Health {
    /// Each pod's, until it is restarted in place.
    UntilRestarted,
    /// Those of the first so many pods, whatever is done in place.
    OfTheFirst(usize),
    /// Those on this node.
    OnNode(&'static str),
    /// Those of this image.
    OfImage(&'static str),
}

impl World {
    pub async fn new() -> Self {
        let clock = SystemClock::start();
        let (store, committer) =
            Store::open(MemoryDisk::new(), rekindle_store::StoreLimits::default())
                .expect("an empty disk");
        std::thread::spawn(move || committer.run());
        let api = rekindle_api::Api::new(ApiParts {
            registry: rekindle_kinds::all(),
            store,
            entropy: Box::new(OsEntropy::default()),
            authorizer: AuthorizationMode::Rbac,
            ca_bundle: String::new(),
        });
        for pending in api.bootstrap(clock.now()).expect("a new store") {
            pending.wait().expect("a memory disk");
        }
        let front = Front::new(FrontParts { api, clock: clock.shared(), logs: Arc::new(NoLogs) });
        let world = Self { front, clock, limits: RestartLimits::default() };
        world.add_node("n1").await;
        world
    }

    /// Another node.
    pub async fn add_node(&self, name: &str) {
        let node = json!({
            "metadata": {"name": name},
            "status": {
                "allocatable": {"cpu": "4", "memory": "8Gi", "pods": "110"},
                "conditions": [{"type": "Ready", "status": "True"}],
            },
        });
        let nodes: Api<Node> = Api::all(self.client());
        create(&nodes, node.clone()).await;
        let status = Patch::Merge(json!({"status": node["status"]}));
        nodes.patch_status(name, &PatchParams::default(), &status).await.expect("node status");
    }

    /// A client that nothing breaks.
    pub fn client(&self) -> Client {
        Client::new(self.front.in_process_service(UserInfo::internal("test")), "default")
    }

    /// Runs an operator until its wire cuts it off; without a fault, until the future is dropped.
    pub async fn operate(&self, wire: &Wire) {
        let inner = self.front.in_process_service(UserInfo::internal("operator"));
        let client = Client::new(Tapped { inner, wire: wire.clone() }, "default");
        let dead = wire.dead.clone();
        let (clock, limits) = (self.clock.shared(), self.limits);
        let figures = Arc::default();
        let dead = async move { dead.notified().await };
        let (nodes, role) = Default::default();
        let parts = OperatorParts { client, clock, role, limits, nodes, figures };
        rekindle_operator::run(parts, dead).await;
    }

    /// What an operator without faults is given.
    pub fn parts(&self) -> OperatorParts {
        OperatorParts {
            client: Client::new(
                self.front.in_process_service(UserInfo::internal("operator")),
                "default",
            ),
            clock: self.clock.shared(),
            role: Default::default(),
            limits: self.limits,
            nodes: Default::default(),
            figures: Arc::default(),
        }
    }

    /// Shows a pod as one that waits after its third crash.
    pub async fn crash(&self, pod: &str) {
        show_crash(&Api::default_namespaced(self.client()), pod, 1).await;
    }

    /// The node: each pod that it is given crashes for the third time, and runs once it was
    /// restarted as a whole.
    pub async fn run_node(&self) {
        self.run_nodes(Health::UntilRestarted).await;
    }

    /// The nodes: pods that they are given crash for the third time or run, and end when they are
    /// deleted.
    pub async fn run_nodes(&self, health: Health) {
        let mut first: BTreeSet<String> = BTreeSet::new();
        let mut codes: BTreeMap<String, usize> = BTreeMap::new();
        let pods: Api<Pod> = Api::default_namespaced(self.client());
        let restarts: Api<PodRestart> = Api::default_namespaced(self.client());
        let mut seen_pods = watch(&pods);
        let mut seen_restarts = watch(&restarts);
        loop {
            tokio::select! {
                Some(pod) = seen_pods.next() => {
                    let uid = pod.uid().unwrap_or_default();
                    let node = pod.spec.as_ref().and_then(|spec| spec.node_name.clone());
                    let crashes = match health {
                        Health::UntilRestarted => true,
                        Health::OfTheFirst(count) => {
                            if first.len() < count && node.is_some() {
                                first.insert(uid.clone());
                            }
                            first.contains(&uid)
                        }
                        Health::OnNode(bad) => node.as_deref() == Some(bad),
                        Health::OfImage(bad) => pod.spec.as_ref().is_some_and(|spec| {
                            spec.containers.iter().any(|c| c.image.as_deref() == Some(bad))
                        }),
                    };
                    if pod.metadata.deletion_timestamp.is_some() {
                        end(&pods, &pod).await;
                    } else if crashes {
                        // each in a way of its own: what fails alike is another story
                        let next = codes.len() + 1;
                        let code = *codes.entry(uid).or_insert(next);
                        crash(&pods, &pod, code).await;
                    } else {
                        start(&pods, &pod).await;
                    }
                },
                Some(restart) = seen_restarts.next() => restarted(&pods, &restarts, &restart).await,
            }
        }
    }
}

/// Everything of a kind, as it comes and changes.
pub fn watch<K>(api: &Api<K>) -> futures::stream::BoxStream<'static, K>
where
    K: kube::Resource<DynamicType = ()>
        + Clone
        + std::fmt::Debug
        + serde::de::DeserializeOwned
        + Send
        + 'static,
{
    watcher(api.clone(), watcher::Config::default())
        .applied_objects()
        .map(|seen| seen.expect("nothing breaks the test's own wire"))
        .boxed()
}

/// Creates an object from JSON.
pub async fn create<K>(api: &Api<K>, object: Value)
where
    K: Clone + std::fmt::Debug + serde::Serialize + serde::de::DeserializeOwned,
{
    let object = serde_json::from_value(object).expect("an object of the kind");
    api.create(&PostParams::default(), &object).await.expect("a valid object");
}

/// The ladder `web`, of the pods with `app: web`, with these rungs.
pub async fn ladder(world: &World, rungs: Value) {
    let ladders: Api<RestartLadder> = Api::default_namespaced(world.client());
    let selector = json!({"matchLabels": {"app": "web"}});
    let ladder =
        json!({"metadata": {"name": "web"}, "spec": {"selector": selector, "rungs": rungs}});
    create(&ladders, ladder).await;
}

/// The Deployment `web` of the image `localhost/demo`.
pub async fn deployment(world: &World, replicas: usize) {
    let deployments: Api<Deployment> = Api::default_namespaced(world.client());
    let deployment = json!({
        "metadata": {"name": "web"},
        "spec": {
            "replicas": replicas,
            "selector": {"matchLabels": {"app": "web"}},
            "template": {
                "metadata": {"labels": {"app": "web"}},
                "spec": {"containers": [{"name": "app", "image": "localhost/demo"}]},
            },
        },
    });
    create(&deployments, deployment).await;
}

/// A story that is not over by then hangs.
pub const PATIENCE: Duration = Duration::from_secs(180);

/// Plays a story with a sound wire, and then with one that breaks at each of its writes in each
/// way: the end is the same.
pub async fn ends_the_same_whichever_write_breaks<E, F>(
    story: &str,
    expected: E,
    run: impl Fn(Wire) -> F,
) where
    E: std::fmt::Debug + PartialEq,
    F: Future<Output = E>,
{
    let sound = Wire::sound();
    let end = tokio::time::timeout(PATIENCE, run(sound.clone())).await.expect("the story");
    assert_eq!(end, expected, "{story}");
    for fault in [Fault::DiesBefore, Fault::DiesAfter, Fault::LosesAnswer] {
        for write in 1..=sound.writes() {
            let end = tokio::time::timeout(PATIENCE, run(Wire::broken_at(write, fault))).await;
            let end = end.unwrap_or_else(|_| panic!("{story}: {fault:?} at write {write}: no end"));
            assert_eq!(end, expected, "{story}: {fault:?} at write {write}");
        }
    }
}

/// The kubelet's last word about a pod that was deleted.
async fn end(pods: &Api<Pod>, pod: &Pod) {
    let now = DeleteParams::default().grace_period(0);
    let only = now.preconditions(Preconditions { uid: pod.uid(), resource_version: None });
    match pods.delete(&pod.name_any(), &only).await {
        Ok(_) => {}
        Err(kube::Error::Api(status)) if status.code == 404 || status.code == 409 => {}
        Err(error) => panic!("end pod {}: {error}", pod.name_any()),
    }
}

/// A pod that is new to its node runs.
async fn start(pods: &Api<Pod>, pod: &Pod) {
    if !is_new(pod) {
        return;
    }
    let state = json!({"running": {"startedAt": now()}});
    let shown = Shown { state, restarts: 0, ready: Readiness::Yes, code: 0 };
    show(pods, &pod.name_any(), shown).await;
}

fn is_new(pod: &Pod) -> bool {
    let bound = pod.spec.as_ref().is_some_and(|spec| spec.node_name.is_some());
    let reported = pod.status.as_ref().is_some_and(|s| s.container_statuses.is_some());
    bound && !reported
}

async fn crash(pods: &Api<Pod>, pod: &Pod, code: usize) {
    if !is_new(pod) {
        return;
    }
    show_crash(pods, &pod.name_any(), code).await;
}

async fn show_crash(pods: &Api<Pod>, name: &str, code: usize) {
    let waiting = json!({"waiting": {"reason": "CrashLoopBackOff", "message": "back-off 20s restarting failed container=app"}});
    let shown = Shown { state: waiting, restarts: 2, ready: Readiness::No, code };
    show(pods, name, shown).await;
}

async fn restarted(pods: &Api<Pod>, restarts: &Api<PodRestart>, restart: &PodRestart) {
    let is_taken_up = restart.status.as_ref().and_then(|status| status.phase).is_some();
    let rung = restart.spec.rung();
    if is_taken_up || rung.carried_out_by() == CarriedOutBy::Operator {
        return;
    }
    let running = json!({"running": {"startedAt": now()}});
    let shown = Shown { state: running, restarts: 3, ready: Readiness::Yes, code: 1 };
    show(pods, &restart.spec.pod_name, shown).await;
    let status = json!({"status": {"phase": "Succeeded", "startedAt": now(), "finishedAt": now()}});
    let patch = Patch::Merge(status);
    restarts
        .patch_status(&restart.name_any(), &PatchParams::default(), &patch)
        .await
        .expect("the status of a PodRestart");
}

/// Whether the shown container is ready.
#[derive(Clone, Copy)]
enum Readiness {
    Yes,
    No,
}

/// A container's status.
struct Shown {
    state: Value,
    restarts: u32,
    ready: Readiness,
    /// Of its last end.
    code: usize,
}

async fn show(pods: &Api<Pod>, name: &str, shown: Shown) {
    let Shown { state, restarts, ready, code } = shown;
    let (ready, condition) = match ready {
        Readiness::Yes => (true, "True"),
        Readiness::No => (false, "False"),
    };
    let ended = json!({"terminated": {
        "exitCode": code, "reason": "Error", "containerID": "rekindle://c", "startedAt": now(), "finishedAt": now(),
    }});
    let status = json!({"status": {
        "phase": "Running",
        "startTime": now(),
        "conditions": [{"type": "Ready", "status": condition}],
        "containerStatuses": [{
            "name": "app", "image": "i", "imageID": "", "ready": ready, "started": ready,
            "restartCount": restarts, "state": state,
            "lastState": if restarts > 0 { ended } else { json!({}) },
        }],
    }});
    let patch = Patch::Merge(status);
    match pods.patch_status(name, &PatchParams::default(), &patch).await {
        Ok(_) => {}
        Err(kube::Error::Api(status)) if status.code == 404 => {} // it went meanwhile
        Err(error) => panic!("the status of pod {name}: {error}"),
    }
}

fn now() -> String {
    jiff::Timestamp::now().strftime("%Y-%m-%dT%H:%M:%SZ").to_string()
}

/// What happens at one write of the operator.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
    /// The operator dies before the API has seen the write.
    DiesBefore,
    /// The API carries the write out, and the operator dies before it hears of it.
    DiesAfter,
    /// The API carries the write out, and the answer is lost on the way; the operator lives.
    LosesAnswer,
}

/// The way from one operator to the API. Clones are one.
#[derive(Clone)]
pub struct Wire {
    /// Which write breaks (from 1), and how.
    fault: Option<(usize, Fault)>,
    writes: Arc<AtomicUsize>,
    dead: Arc<Notify>,
}

impl Wire {
    pub fn sound() -> Self {
        Self { fault: None, writes: Arc::default(), dead: Arc::default() }
    }

    pub fn broken_at(write: usize, fault: Fault) -> Self {
        Self { fault: Some((write, fault)), ..Self::sound() }
    }

    /// How many writes went over it, events aside.
    pub fn writes(&self) -> usize {
        self.writes.load(Ordering::SeqCst)
    }

    /// What happens to this request.
    fn fate(&self, request: &Request<Body>) -> Option<Fault> {
        // Events say what happened and decide nothing.
        if request.method() == Method::GET || request.uri().path().contains("/events") {
            return None;
        }
        let number = self.writes.fetch_add(1, Ordering::SeqCst) + 1;
        self.fault.filter(|(at, _)| *at == number).map(|(_, fault)| fault)
    }
}

/// The in-process API behind a wire.
#[derive(Clone)]
struct Tapped {
    inner: InProcessService,
    wire: Wire,
}

impl Service<Request<Body>> for Tapped {
    type Response = Response<FrontBody>;
    type Error = io::Error;
    type Future = Pin<Box<dyn Future<Output = io::Result<Self::Response>> + Send>>;

    fn poll_ready(&mut self, _context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: Request<Body>) -> Self::Future {
        let fate = self.wire.fate(&request);
        let dead = self.wire.dead.clone();
        let mut inner = self.inner.clone();
        Box::pin(async move {
            if fate == Some(Fault::DiesBefore) {
                dead.notify_one();
                std::future::pending::<Infallible>().await;
            }
            let answer = match inner.call(request).await {
                Ok(answer) => answer,
                Err(never) => match never {},
            };
            match fate {
                None | Some(Fault::DiesBefore) => Ok(answer),
                Some(Fault::DiesAfter) => {
                    dead.notify_one();
                    std::future::pending().await
                }
                Some(Fault::LosesAnswer) => Err(io::ErrorKind::ConnectionReset.into()),
            }
        })
    }
}
