//! The node agent as a whole: how it starts and how it stops.

use std::collections::BTreeSet;
use std::fs::DirBuilder;
use std::io;
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use kube::Client;
use rekindle_net::{EmbeddingPrefix, Ipv6Net};
use rekindle_runtime::{Runtime, RuntimeError, SandboxSnapshot};
use tokio::sync::{Notify, mpsc, watch};
use tokio::task::JoinHandle;

use crate::config::{AgentDuty, NodeConfig};
use crate::context::NodeContext;
use crate::counters::AgentCounters;
use crate::eviction::EvictionManager;
use crate::images::{ImageKeeper, NodeImages};
use crate::layout::NodeDirs;
use crate::local_path::Provisioner;
use crate::logs::Logs;
use crate::network::{NetworkError, PodNetwork};
use crate::node_api::{NodeApi, NodeApiParts};
use crate::objects::ObjectCache;
use crate::pods::{
    EventRecorder, Manager, NodeRoom, PodIndex, PodResolverSources, PodRules, SharedRestartOwners,
    sandbox_network_ids,
};
use crate::register::{Heartbeat, MachineFacts, NodeFitness};
use crate::service_links::ServiceLinks;
use crate::service_rules::AddressesInUse;
use crate::shutdown::ShutdownPolicy;
use crate::spares::{SpareKeeper, SparesAtStop};
use crate::static_pods::{Listing, ManifestFolder, StaticPods};
use crate::streams::PodStreams;
use crate::usage::UsageReader;
use crate::users::PodUsers;

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
pub enum AgentStopMode {
    /// Their containers end gracefully. With a [`ShutdownPolicy`] this is the end of the pods,
    /// which fail in the order of their priorities; without one they stay in the API as they are,
    /// and come back when the node does.
    EndPods,
    /// They run on; the next agent on the same folders takes them up.
    LeavePods,
}

/// Starts node agents.
#[derive(Debug)]
pub struct AgentLauncher;

/// A running node agent. Dropping it is like a crash: the pods run on.
#[derive(Debug)]
pub struct NodeHandle {
    name: String,
    logs: Logs,
    streams: PodStreams,
    usage: UsageReader,
    node_api: NodeApi,
    stop: mpsc::Sender<AgentStopMode>,
    manager: JoinHandle<()>,
    heartbeat: Heartbeat,
    shutdown: ShutdownPolicy,
    /// `None` once it was stopped, and in an agent that only ends pods.
    spares: Option<SpareKeeper>,
    keeper: ImageKeeper,
    static_pods: Option<JoinHandle<()>>,
    /// `None` in an agent that only ends pods.
    evictions: Option<EvictionManager>,
    provisioner: Option<JoinHandle<()>>,
}

impl AgentLauncher {
    /// Takes up what an earlier agent left, registers the node, and serves its pods.
    pub async fn start<R: Runtime, N: PodNetwork>(
        config: NodeConfig,
        client: Client,
        runtime: Arc<R>,
        network: Arc<N>,
    ) -> Result<NodeHandle, NodeError> {
        let dirs = make_folders(&config)?;
        let found = take_stock(&config, runtime.as_ref(), network.as_ref()).await?;
        let machine = MachineFacts::read(&config);
        let node = context(&config, client, runtime, network, &machine, &dirs, &found);
        let node = Arc::new(node);
        let (runtime, network) = (&node.runtime, &node.network);
        let spares = match config.duty {
            AgentDuty::Serve => {
                let taken = node.sandbox_taken.clone();
                Some(SpareKeeper::start(runtime.clone(), network.clone(), taken))
            }
            AgentDuty::EndPods => None,
        };
        let streams = PodStreams::new(runtime.clone(), node.index.clone());
        let (usage, node_api) = figures(&config, &node);
        let logs = Logs::new(node.index.clone(), dirs, config.clock);
        let (shown, images) = watch::channel(Vec::new());
        let keeper = ImageKeeper::start(node.clone(), config.image_gc, shown);
        let (under, pressures) = watch::channel(BTreeSet::new());
        let heartbeat = Heartbeat::start(&node, &config, machine, images, pressures.clone());
        let (statics, listings, static_pods) = follow_static_pods(&config, &node);
        let provisioner = match config.duty {
            AgentDuty::Serve => Some(Provisioner::start(&node)),
            AgentDuty::EndPods => None,
        };
        let (stop, stop_receiver) = mpsc::channel(1);
        let (orders, ordered) = mpsc::unbounded_channel();
        let evictions = match config.duty {
            AgentDuty::Serve => {
                let policy = config.eviction.clone();
                Some(EvictionManager::start(node.clone(), usage.clone(), policy, under, orders))
            }
            AgentDuty::EndPods => None,
        };
        let rules = PodRules {
            shutdown: config.shutdown.clone(),
            sysctls: config.sysctls.clone(),
            pressures,
            node: heartbeat.node(),
            ordered,
        };
        let manager = Manager::new(node, found, statics, config.duty, rules);
        let manager = tokio::spawn(manager.run(stop_receiver, listings));
        Ok(NodeHandle {
            name: config.name,
            logs,
            streams,
            usage,
            node_api,
            stop,
            manager,
            heartbeat,
            shutdown: config.shutdown,
            spares,
            keeper,
            static_pods,
            evictions,
            provisioner,
        })
    }
}

/// What the tasks of the agent share: nothing of it is in use yet.
fn context<R: Runtime, N: PodNetwork>(
    config: &NodeConfig,
    client: Client,
    runtime: Arc<R>,
    network: Arc<N>,
    machine: &MachineFacts,
    dirs: &NodeDirs,
    found: &[SandboxSnapshot],
) -> NodeContext<R, N> {
    NodeContext {
        name: config.name.clone(),
        clock: config.clock,
        objects: ObjectCache::new(client.clone()),
        services: ServiceLinks::follow(client.clone()),
        recorder: EventRecorder::start(client.clone(), &config.name, config.clock),
        index: PodIndex::default(),
        restart_owners: SharedRestartOwners::restore(dirs),
        counters: Arc::new(AgentCounters::default()),
        images: NodeImages::new(config.max_parallel_image_pulls),
        allocatable: machine.allocatable(),
        room: NodeRoom::new(&machine.allocatable),
        pod_pids_limit: config.pod_pids_limit,
        users: PodUsers::restore(config.user_ids, dirs, found),
        host_ips: config.addresses.clone(),
        api: config.api,
        core_config: rekindle_pod::PodConfig {
            max_container_restart_period: config.max_container_restart_period,
            host_ips: config.addresses.clone(),
            endpoint_withdrawal_timeout: config.endpoint_withdrawal_timeout,
        },
        cluster_domain: config.cluster_domain.clone(),
        resolvers: PodResolverSources::from_config(config),
        routes: config.routes.clone(),
        policies: config.policies.clone(),
        sandbox_taken: Arc::new(Notify::new()),
        client,
        runtime,
        network,
        dirs: dirs.clone(),
    }
}

/// What reads the node's figures, and what tells them.
fn figures<R: Runtime, N: PodNetwork>(
    config: &NodeConfig,
    node: &NodeContext<R, N>,
) -> (UsageReader, NodeApi) {
    let (runtime, index) = (&node.runtime, &node.index);
    let usage = UsageReader::new(runtime.clone(), index.clone(), node.dirs.clone(), config.clock);
    let node_api = NodeApi::new(NodeApiParts {
        config: config.clone(),
        runtime: runtime.clone(),
        index: index.clone(),
        usage: usage.clone(),
        counters: node.counters.clone(),
        dirs: node.dirs.clone(),
    });
    (usage, node_api)
}

impl NodeHandle {
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

    /// Answers what a kubelet's HTTP API is asked.
    pub fn node_api(&self) -> NodeApi {
        self.node_api.clone()
    }

    /// Reads what this node and its pods use.
    pub fn usage(&self) -> UsageReader {
        self.usage.clone()
    }

    /// Waits until the node is registered and Ready in the API.
    pub async fn ready(&mut self) {
        self.heartbeat.ready().await;
    }

    /// Stops the agent; with `EndPods` it returns when the last container has ended, which takes at
    /// most the longest grace period of a pod, or as long as a shutdown may take.
    pub async fn stop(mut self, mode: AgentStopMode) {
        let leaving = match mode {
            AgentStopMode::EndPods => SparesAtStop::End,
            AgentStopMode::LeavePods => SparesAtStop::Stay,
        };
        if mode == AgentStopMode::EndPods && self.shutdown.is_on() {
            self.heartbeat.say(NodeFitness::ShuttingDown);
        }
        if let Some(spares) = self.spares.take() {
            spares.stop(leaving).await;
        }
        if self.stop.send(mode).await.is_err() {
            tracing::error!(node = self.name, "failed to stop the node agent: it had ended before");
        }
        for task in self.static_pods.iter().chain(&self.provisioner) {
            task.abort();
        }
        self.keeper.stop().await;
        if let Some(evictions) = &mut self.evictions {
            evictions.stop().await;
        }
        if let Err(error) = (&mut self.manager).await {
            tracing::error!(node = self.name, %error, "failed to stop the node agent: its task panicked");
        }
        match mode {
            AgentStopMode::EndPods => self.heartbeat.stop_not_ready().await,
            AgentStopMode::LeavePods => self.heartbeat.stop(),
        }
    }
}

impl Drop for NodeHandle {
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
    config: &NodeConfig,
    node: &NodeContext<R, N>,
) -> (StaticPods, mpsc::Receiver<Listing>, Option<JoinHandle<()>>) {
    match (&config.static_pods, config.duty) {
        (Some(folder), AgentDuty::Serve) => {
            let (client, recorder) = (node.client.clone(), node.recorder.clone());
            let (listings, task) =
                ManifestFolder::start(folder.clone(), &config.name, client, recorder);
            (StaticPods::default(), listings, Some(task))
        }
        (None, AgentDuty::Serve) | (_, AgentDuty::EndPods) => {
            (StaticPods::none(), mpsc::channel(1).1, None)
        }
    }
}

/// What an earlier agent left, as the runtime shows it; the network forgets all else. Before any
/// pod is served: what it attaches later is not in this list.
async fn take_stock<R: Runtime, N: PodNetwork>(
    config: &NodeConfig,
    runtime: &R,
    network: &N,
) -> Result<Vec<SandboxSnapshot>, NodeError> {
    let node = || config.name.clone();
    let found = runtime
        .snapshot()
        .await
        .map_err(|source| NodeError::Runtime { node: node(), source: Box::new(source) })?;
    let addresses = network
        .release_all_except(&sandbox_network_ids(&found))
        .await
        .map_err(|source| NodeError::Network { node: node(), source })?;
    if let Some(range) = config.pod_cidrs.first().and_then(|range| range.parse().ok()) {
        let second = config.pod_cidrs.get(1).and_then(|range| range.parse::<Ipv6Net>().ok());
        let ipv6_prefix = second.map(|range| EmbeddingPrefix::new(range.network()));
        config.routes.keep_ports(AddressesInUse { range, ipv6_prefix, addresses });
    }
    Ok(found)
}

/// Makes the agent's folders. What is answered has no links in it: everything beneath is opened
/// without following any.
fn make_folders(config: &NodeConfig) -> Result<NodeDirs, NodeError> {
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
