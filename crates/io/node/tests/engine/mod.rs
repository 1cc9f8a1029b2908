//! A real engine without controllers: store, API, runtime, network and node in one process, on
//! folders and a bridge of its own. What it made is taken away in the end, also when the test
//! fails. Needs root.
#![allow(dead_code, unreachable_pub, reason = "each user takes a part of it")]
#![allow(missing_docs, clippy::disallowed_methods, reason = "it drives real processes")]
#![allow(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

use std::path::PathBuf;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Weak};
use std::time::Duration;

use futures::StreamExt;
use k8s_openapi::api::core::v1::Pod;
use kube::Client;
use kube::api::{Api as Objects, PostParams, WatchEvent, WatchParams};
use rekindle_api::auth::AuthorizationMode;
use rekindle_api::{Api, ApiParts};
use rekindle_api_server::{Front, FrontParts, NoLogs, OsEntropy, SystemClock};
use rekindle_kinds::identity::UserInfo;
use rekindle_net::{BridgeNetwork, SubnetChoice};
use rekindle_node::{AgentLauncher, AgentStopMode, Clock, NodeConfig, NodeHandle};
use rekindle_runtime::Runtime;
use rekindle_runtime::embedded::{self, EmbeddedRuntime};
use rekindle_runtime::image::{BuiltinImages, HostImage, ImageStore};
use rekindle_store::memory::MemoryDisk;
use rekindle_store::{Store, StoreLimits};
use rekindle_testkit::{EngineNetwork, shims};
use rekindle_types::Tick;
use serde_json::{Value, json};

/// No state takes this long to come, not even on a busy machine.
pub const PATIENCE: Duration = Duration::from_secs(120);

/// What hangs is told by its name, in place of holding the whole run up.
async fn in_time<T>(what: &str, work: impl Future<Output = T>) -> T {
    match tokio::time::timeout(PATIENCE, work).await {
        Ok(done) => done,
        Err(_elapsed) => panic!("not in time: {what}"),
    }
}

pub struct Engine {
    pub folder: tempfile::TempDir,
    pub client: Client,
    front: Front,
    clock: SystemClock,
    id: String,
    own: EngineNetwork,
    network: Option<Arc<BridgeNetwork>>,
    node: Option<NodeHandle>,
    /// The clock of the newest agent's runtime, which is there as long as the runtime.
    runtime: Weak<RuntimeClock>,
}

/// What a runtime reads the time from.
type RuntimeClock = dyn Fn() -> Tick + Send + Sync;

impl Engine {
    /// A node that is Ready.
    pub async fn start() -> Self {
        static NUMBER: AtomicU32 = AtomicU32::new(0);
        let number = NUMBER.fetch_add(1, Ordering::Relaxed);
        let folder = tempfile::Builder::new().prefix("rekindle-node-").tempdir().unwrap();
        let clock = SystemClock::start();
        let front = api(clock);
        let client = Client::new(front.in_process_service(UserInfo::internal("test")), "default");
        let id = format!("n{}-{number}", std::process::id());
        let runtime = Weak::<fn() -> Tick>::new();
        let own = EngineNetwork::unique();
        let mut engine =
            Self { folder, client, front, clock, id, own, network: None, node: None, runtime };
        engine.network =
            Some(Arc::new(BridgeNetwork::open(engine.network_config()).await.unwrap()));
        engine.start_node().await;
        engine
    }

    fn network_config(&self) -> rekindle_net::NetworkConfig {
        rekindle_net::NetworkConfig {
            bridge: self.own.bridge.clone(),
            subnet: SubnetChoice::Fixed(self.own.pod_cidr.parse().unwrap()),
            ipv6: None,
            share: rekindle_net::BridgeShare::Owner,
            state_dir: self.path("net"),
            mtu: 1500,
        }
    }

    fn runtime_config(&self) -> embedded::RuntimeConfig {
        let builtins = BuiltinImages {
            engine_dirs: vec![self.folder.path().to_owned()],
            host_write_limit_bytes: 64 << 20,
            host_image: HostImage::On,
        };
        embedded::RuntimeConfig {
            data_dir: self.path("runtime"),
            run_dir: self.path("run"),
            engine_id: self.id.clone(),
            other_users: rekindle_runtime::embedded::nobody_else(),
            images: Arc::new(ImageStore::open(&self.path("images"), builtins).unwrap()),
            registries: Default::default(),
            clock: self.clock.shared(),
        }
    }

    pub fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// An agent, on what the one before has left.
    pub async fn start_node(&mut self) {
        let runtime = self.runtime_config();
        self.runtime = Arc::downgrade(&runtime.clock);
        let opened = in_time("the runtime opens", EmbeddedRuntime::open(runtime));
        let runtime = Arc::new(opened.await.unwrap());
        let network = self.network.clone().unwrap();
        let mut config = NodeConfig::new("node-a", self.folder.path(), &self.path("logs"));
        config.addresses = vec![network.gateway().into()];
        // what the machine has left is none of these tests' business
        config.eviction = rekindle_node::EvictionPolicy::off();
        config.clock = Clock::showing(self.clock.now());
        let client =
            Client::new(self.front.in_process_service(UserInfo::internal("node")), "default");
        let started =
            in_time("the agent starts", AgentLauncher::start(config, client, runtime, network));
        let mut node = started.await.unwrap();
        in_time("the node is ready", node.ready()).await;
        self.node = Some(node);
    }

    /// `kill -9` of the agent, as far as one process can do that to a part of itself.
    pub async fn crash_node(&mut self) {
        drop(self.node.take());
        in_time("the agent is gone", self.runtime_is_gone()).await;
    }

    /// Calls that were under way when an agent went go on to their ends, where those of a process
    /// end with it. What they make meanwhile the next agent, which has looked by then, would not
    /// know.
    async fn runtime_is_gone(&self) {
        while self.runtime.strong_count() > 0 {
            tokio::task::yield_now().await;
        }
    }

    pub fn node(&self) -> &NodeHandle {
        self.node.as_ref().unwrap()
    }

    /// Ends the pods and takes everything away.
    pub async fn end(mut self) {
        if let Some(node) = self.node.take() {
            in_time("the pods end", node.stop(AgentStopMode::EndPods)).await;
        }
        let network = Arc::into_inner(self.network.take().unwrap());
        let network = network.expect("a node that has stopped holds nothing");
        in_time("the network closes", network.close()).await.unwrap();
        in_time("the agent is gone", self.runtime_is_gone()).await;
        in_time("the runtime leaves", leave(self.runtime_config())).await;
        assert_eq!(shims::end(self.folder.path()), 0, "shims that nobody has ended");
    }

    pub fn pods(&self) -> Objects<Pod> {
        Objects::default_namespaced(self.client.clone())
    }

    /// Creates a pod on the node from containers as JSON.
    pub async fn create(&self, name: &str, spec: Value) -> Pod {
        let mut spec = spec;
        spec["nodeName"] = json!("node-a");
        let pod = json!({
            "apiVersion": "v1", "kind": "Pod", "metadata": { "name": name }, "spec": spec,
        });
        let pod: Pod = serde_json::from_value(pod).unwrap();
        self.pods().create(&PostParams::default(), &pod).await.unwrap()
    }

    /// Waits until the pod is so in the API.
    pub async fn until(&self, name: &str, what: &str, mut is_so: impl FnMut(&Pod) -> bool) -> Pod {
        let waited = tokio::time::timeout(PATIENCE, async {
            let first = self.pods().get(name).await.unwrap();
            let version = first.metadata.resource_version.clone().unwrap();
            if is_so(&first) {
                return first;
            }
            let params = WatchParams::default().fields(&format!("metadata.name={name}"));
            let mut events = self.pods().watch(&params, &version).await.unwrap().boxed();
            while let Some(event) = events.next().await {
                match event.unwrap() {
                    WatchEvent::Added(pod) | WatchEvent::Modified(pod) if is_so(&pod) => {
                        return pod;
                    }
                    _ => {}
                }
            }
            panic!("the watch ended before {name} was {what}");
        });
        match waited.await {
            Ok(pod) => pod,
            Err(_) => {
                let pod = self.pods().get_opt(name).await.unwrap();
                panic!("{name} was never {what}: {}", serde_json::to_string_pretty(&pod).unwrap())
            }
        }
    }
}

impl Drop for Engine {
    /// After a failed test: ends what runs, and takes network, cgroups and mounts away.
    fn drop(&mut self) {
        let Some(network) = self.network.take() else { return };
        drop((self.node.take(), network));
        let (runtime, network) = (self.runtime_config(), self.network_config());
        // a test's own runtime may not be blocked on from inside
        let cleaned = std::thread::spawn(move || {
            let tokio = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
            tokio.block_on(async {
                leave(runtime).await;
                BridgeNetwork::open(network).await.unwrap().close().await.unwrap();
            });
        });
        if cleaned.join().is_err() {
            eprintln!("something of engine {} is left behind", self.id);
        }
        let ended = shims::end(self.folder.path());
        if ended > 0 {
            eprintln!("{ended} shims of engine {} had to be killed", self.id);
        }
        let mounts = std::fs::read_to_string("/proc/self/mounts").unwrap_or_default();
        let points = mounts.lines().filter_map(|line| line.split(' ').nth(1)).map(PathBuf::from);
        for point in points.filter(|point| point.starts_with(self.folder.path())) {
            let _gone = rustix::mount::unmount(point, rustix::mount::UnmountFlags::DETACH);
        }
    }
}

/// Ends what an agent has left, and takes its cgroups away.
async fn leave(config: embedded::RuntimeConfig) {
    let runtime = EmbeddedRuntime::open(config).await.unwrap();
    for sandbox in runtime.snapshot().await.unwrap() {
        runtime.remove_sandbox(&sandbox.key).await.unwrap();
    }
    runtime.leave().await.unwrap();
}

fn api(clock: SystemClock) -> Front {
    let (store, committer) = Store::open(MemoryDisk::default(), StoreLimits::default()).unwrap();
    std::thread::spawn(move || committer.run());
    let api = Api::new(ApiParts {
        registry: rekindle_kinds::all(),
        store,
        entropy: Box::new(OsEntropy::default()),
        authorizer: AuthorizationMode::Rbac,
        ca_bundle: String::new(),
    });
    for pending in api.bootstrap(clock.now()).unwrap() {
        pending.wait().unwrap();
    }
    Front::new(FrontParts { api, clock: clock.shared(), logs: Arc::new(NoLogs) })
}

/// The statuses of the pod's containers: name, restarts, whether it runs.
pub fn containers(pod: &Pod) -> Vec<(String, i32, bool)> {
    let statuses = pod.status.as_ref().and_then(|status| status.container_statuses.as_ref());
    let running = |state: &Option<k8s_openapi::api::core::v1::ContainerState>| {
        state.as_ref().is_some_and(|state| state.running.is_some())
    };
    statuses
        .into_iter()
        .flatten()
        .map(|status| (status.name.clone(), status.restart_count, running(&status.state)))
        .collect()
}

/// Whether all containers of the pod run and have been restarted so often.
pub fn all_run(pod: &Pod, restarts: i32) -> bool {
    let found = containers(pod);
    let wanted = pod.spec.as_ref().map_or(0, |spec| spec.containers.len());
    found.len() == wanted && found.iter().all(|(_, count, runs)| *runs && *count == restarts)
}

/// A container of the host's image that runs a shell script.
pub fn shell(name: &str, script: &str) -> Value {
    json!({ "name": name, "image": "localhost/host", "imagePullPolicy": "IfNotPresent", "command": ["/bin/sh", "-c", script] })
}
