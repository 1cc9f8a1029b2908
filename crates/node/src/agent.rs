//! The node agent as a whole: what it is given, how it starts and how it stops.

use std::collections::BTreeMap;
use std::fs::DirBuilder;
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use kube::Client;
use rekindle_runtime::{Runtime, RuntimeError};
use rekindle_types::TickDuration;
use tokio::sync::{Notify, mpsc, watch};
use tokio::task::JoinHandle;

use crate::clock::Clock;
use crate::context::NodeContext;
use crate::images::{ImageGcPolicy, Keeper, NodeImages};
use crate::layout::NodeDirs;
use crate::local_path::Provisioner;
use crate::logs::Logs;
use crate::network::{NetworkError, PodNetwork};
use crate::objects::ObjectCache;
use crate::pods::{Manager, ManagerStop, NodeRoom, PodIndex, Recorder, sandbox_network_ids};
use crate::register::{Heartbeat, MachineFacts};
use crate::spares::{Leaving, SpareKeeper};
use crate::static_pods::{Folder, Listing, StaticPods};
use crate::streams::PodStreams;

/// Images that are pulled at the same time. The kubelet pulls one after the other unless told otherwise; then one registry
/// that hangs stops every pod of the node.
const PARALLEL_IMAGE_PULLS: usize = 3;

/// What a node agent is given.
#[derive(Clone, Debug)]
pub struct Config {
    /// The Node object's name.
    pub name: String,
    /// Where the agent keeps its own things, beneath `node/`.
    pub data_dir: PathBuf,
    /// Where container logs go. It belongs to this node alone: logs of pods that are not here are removed.
    pub log_dir: PathBuf,
    /// InternalIP addresses of the node, and `status.hostIP` of its pods: usually the bridge's gateway.
    pub addresses: Vec<IpAddr>,
    /// Where containers reach the API; without it they are not told.
    pub api: Option<ApiAddresses>,
    /// The subnet that pods get addresses from, for `spec.podCIDR`.
    pub pod_cidr: Option<String>,
    /// Amounts that replace what the machine has, by resource name (`cpu`, `memory`, `pods`, …): several nodes on one machine
    /// share it by this.
    pub capacity: BTreeMap<String, String>,
    /// Labels of the node beside the usual ones.
    pub labels: BTreeMap<String, String>,
    /// The kubelet's `crashLoopBackOff.maxContainerRestartPeriod`.
    pub max_container_restart_period: TickDuration,
    /// Images that are pulled at the same time; the kubelet's `maxParallelImagePulls`, 1 being its `serializeImagePulls`.
    pub max_parallel_image_pulls: usize,
    /// Processes and threads of one pod at most; the kubelet's `podPidsLimit`. `None` is no limit.
    pub pod_pids_limit: Option<u64>,
    /// When unused images are removed.
    pub image_gc: ImageGcPolicy,
    /// The domain of services, for /etc/hosts: `cluster.local`.
    pub cluster_domain: String,
    /// Shown as the node's kubelet version: `v1.37.0+rekindle.0.1.0`.
    pub version: String,
    /// Where ticks come from; the same clock as the runtime's.
    pub clock: Clock,
    /// The folder of static pods' manifests, which exists; the kubelet's `staticPodPath`.
    pub static_pods: Option<PathBuf>,
    /// What the agent is started for.
    pub duty: Duty,
}

/// Where containers reach the API.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ApiAddresses {
    /// Those with a network of their own.
    pub of_pods: SocketAddr,
    /// Those on the node's network.
    pub of_the_node: SocketAddr,
}

/// What an agent is started for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Duty {
    /// To run the pods of its node.
    Serve,
    /// To end what an agent that was killed left running, gracefully, and to start nothing: told to stop with `EndPods`, it
    /// returns when that is done.
    EndPods,
}

impl Config {
    /// The usual node of this name on these folders.
    pub fn new(name: &str, data_dir: &Path, log_dir: &Path) -> Self {
        Self {
            name: name.to_owned(),
            data_dir: data_dir.to_owned(),
            log_dir: log_dir.to_owned(),
            addresses: Vec::new(),
            api: None,
            pod_cidr: None,
            capacity: BTreeMap::new(),
            labels: BTreeMap::new(),
            max_container_restart_period: TickDuration::from_secs(300),
            max_parallel_image_pulls: PARALLEL_IMAGE_PULLS,
            pod_pids_limit: None,
            image_gc: ImageGcPolicy::default(),
            cluster_domain: "cluster.local".to_owned(),
            version: format!("v1.37.0+rekindle.{}", env!("CARGO_PKG_VERSION")),
            clock: Clock::system(),
            static_pods: None,
            duty: Duty::Serve,
        }
    }
}

/// Why a node agent did not start.
#[derive(Debug, thiserror::Error)]
pub enum NodeError {
    /// A folder of the agent cannot be made.
    #[error("create folder {} for the node agent", path.display())]
    Folder {
        /// Which.
        path: PathBuf,
        /// Why.
        #[source]
        source: io::Error,
    },
    /// The runtime does not say what runs.
    #[error("ask the runtime what runs on node {node}")]
    Runtime {
        /// The node.
        node: String,
        /// Why.
        #[source]
        source: Box<RuntimeError>,
    },
    /// The network does not take the sandboxes that stand.
    #[error("put the network of node {node} in order")]
    Network {
        /// The node.
        node: String,
        /// Why.
        #[source]
        source: NetworkError,
    },
}

/// What becomes of the pods when the agent stops.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StopMode {
    /// Their containers end gracefully. The pods stay in the API, and come back when the node does.
    EndPods,
    /// They run on; the next agent on the same folders takes them up.
    LeavePods,
}

/// Starts node agents.
#[derive(Debug)]
pub struct Node;

/// A running node agent. Dropping it is like a crash: the pods run on.
#[derive(Debug)]
pub struct Handle {
    name: String,
    logs: Logs,
    streams: PodStreams,
    stop: mpsc::Sender<ManagerStop>,
    manager: JoinHandle<()>,
    heartbeat: Heartbeat,
    /// `None` once it was stopped, and in an agent that only ends pods.
    spares: Option<SpareKeeper>,
    keeper: Keeper,
    static_pods: Option<JoinHandle<()>>,
    provisioner: Option<JoinHandle<()>>,
}

impl Node {
    /// Takes up what an earlier agent left, registers the node, and serves its pods.
    pub async fn start<R: Runtime, N: PodNetwork>(
        config: Config,
        client: Client,
        runtime: Arc<R>,
        network: Arc<N>,
    ) -> Result<Handle, NodeError> {
        let dirs = make_folders(&config)?;
        let found = runtime.snapshot().await.map_err(|source| NodeError::Runtime {
            node: config.name.clone(),
            source: Box::new(source),
        })?;
        // before any pod is served: what it attaches later is not in this list
        network
            .release_all_except(&sandbox_network_ids(&found))
            .await
            .map_err(|source| NodeError::Network { node: config.name.clone(), source })?;
        let machine = MachineFacts::read(&config);
        let index = PodIndex::default();
        let sandbox_taken = Arc::new(Notify::new());
        let spares = match config.duty {
            Duty::Serve => {
                Some(SpareKeeper::start(runtime.clone(), network.clone(), sandbox_taken.clone()))
            }
            Duty::EndPods => None,
        };
        let streams = PodStreams::new(Arc::clone(&runtime), index.clone());
        let node = Arc::new(NodeContext {
            name: config.name.clone(),
            clock: config.clock,
            objects: ObjectCache::new(client.clone()),
            recorder: Recorder::start(client.clone(), &config.name, config.clock),
            index: index.clone(),
            images: NodeImages::new(config.max_parallel_image_pulls),
            allocatable: machine.allocatable(),
            room: NodeRoom::new(&machine.allocatable),
            pod_pids_limit: config.pod_pids_limit,
            host_ips: config.addresses.clone(),
            api: config.api,
            core_config: rekindle_pod::Config {
                max_container_restart_period: config.max_container_restart_period,
                host_ips: config.addresses.clone(),
            },
            cluster_domain: config.cluster_domain.clone(),
            sandbox_taken: sandbox_taken.clone(),
            client: client.clone(),
            runtime,
            network,
            dirs: dirs.clone(),
        });
        let (shown, images) = watch::channel(Vec::new());
        let keeper = Keeper::start(node.clone(), config.image_gc, shown);
        let heartbeat = Heartbeat::start(client, &config, machine, images);
        let (statics, listings, static_pods) = follow_static_pods(&config, &node);
        let provisioner = match config.duty {
            Duty::Serve => Some(Provisioner::start(&node)),
            Duty::EndPods => None,
        };
        let (stop, stop_receiver) = mpsc::channel(1);
        let manager = Manager::new(node, found, statics, config.duty);
        let manager = tokio::spawn(manager.run(stop_receiver, listings));
        let logs = Logs::new(index, dirs, config.clock);
        Ok(Handle {
            name: config.name,
            logs,
            streams,
            stop,
            manager,
            heartbeat,
            spares,
            keeper,
            static_pods,
            provisioner,
        })
    }
}

impl Handle {
    /// The node's name.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Reads the logs of this node's pods.
    pub fn logs(&self) -> Logs {
        self.logs.clone()
    }

    /// Opens streams into this node's pods.
    pub fn streams(&self) -> PodStreams {
        self.streams.clone()
    }

    /// Waits until the node is registered and Ready in the API.
    pub async fn ready(&mut self) {
        self.heartbeat.ready().await;
    }

    /// Stops the agent; with `EndPods` it returns when the last container has ended, which takes at most the longest grace
    /// period of a pod.
    pub async fn stop(mut self, mode: StopMode) {
        let manager_mode = match mode {
            StopMode::EndPods => ManagerStop::EndPods,
            StopMode::LeavePods => ManagerStop::LeavePods,
        };
        let leaving = match mode {
            StopMode::EndPods => Leaving::End,
            StopMode::LeavePods => Leaving::Stay,
        };
        if let Some(spares) = self.spares.take() {
            spares.stop(leaving).await;
        }
        if self.stop.send(manager_mode).await.is_err() {
            tracing::error!(node = self.name, "the node agent had ended before it was told to");
        }
        for task in self.static_pods.iter().chain(&self.provisioner) {
            task.abort();
        }
        self.keeper.stop().await;
        if let Err(error) = (&mut self.manager).await {
            tracing::error!(node = self.name, %error, "the node agent failed inside");
        }
        match mode {
            StopMode::EndPods => self.heartbeat.stop_not_ready().await,
            StopMode::LeavePods => self.heartbeat.stop(),
        }
    }
}

impl Drop for Handle {
    fn drop(&mut self) {
        self.manager.abort();
        if let Some(spares) = &self.spares {
            spares.abort();
        }
        for task in self.static_pods.iter().chain(&self.provisioner) {
            task.abort();
        }
        self.heartbeat.stop();
    }
}

/// What is known of static pods, what is heard of them, and the task that reads their folder.
fn follow_static_pods<R: Runtime, N: PodNetwork>(
    config: &Config,
    node: &NodeContext<R, N>,
) -> (StaticPods, mpsc::Receiver<Listing>, Option<JoinHandle<()>>) {
    match (&config.static_pods, config.duty) {
        (Some(folder), Duty::Serve) => {
            let (client, recorder) = (node.client.clone(), node.recorder.clone());
            let (listings, task) = Folder::start(folder.clone(), &config.name, client, recorder);
            (StaticPods::default(), listings, Some(task))
        }
        (None, Duty::Serve) | (_, Duty::EndPods) => (StaticPods::none(), mpsc::channel(1).1, None),
    }
}

/// Makes the agent's folders. What is answered has no links in it: everything beneath is opened without following any.
fn make_folders(config: &Config) -> Result<NodeDirs, NodeError> {
    let failed = |path: &Path| {
        let path = path.to_owned();
        move |source| NodeError::Folder { path, source }
    };
    let make = |path: &Path, mode: u32| {
        DirBuilder::new().recursive(true).mode(mode).create(path).map_err(failed(path))
    };
    let real = |path: &Path| path.canonicalize().map_err(failed(path));
    make(&config.data_dir, 0o700)?;
    make(&config.log_dir, 0o755)?;
    let dirs = NodeDirs::new(&real(&config.data_dir)?, &real(&config.log_dir)?);
    make(dirs.root(), 0o700)?;
    make(&dirs.pods(), 0o755)?;
    make(&dirs.trash(), 0o700)?;
    Ok(dirs)
}
