//! The process of a further node's agent.

use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Arc;

use anyhow::{Context, bail};
use rekindle_api_server::SystemClock;
use rekindle_api_server::node_link::{self, NodeParts};
use rekindle_net::BridgeNetwork;
use rekindle_node::{AgentStopMode, ApiAddresses, PodRoutes, PolicyGate, follow_requests};
use rekindle_runtime::embedded::EmbeddedRuntime;
use rekindle_types::TickDuration;
use tokio::task::JoinHandle;

use super::file::NodeFile;
use super::folder::socket;
use super::launch::KUBECONFIG;
use crate::args::NodeAgent;
use crate::background::{ParentReport, event_loop, init_log};
use crate::client;
use crate::engine::data_dir::DataDir;
use crate::engine::images::EngineDir;
use crate::engine::logs::LogSource;
use crate::engine::network::{self, NetworkUse};
use crate::engine::node::{
    self, ImageSources, NodePurpose, NodeService, NodeStart, registry_settings,
};
use crate::engine::nodes::NodeSource;
use crate::engine::streams::StreamSource;
use crate::engine::{EndSignals, node_config, service_rules};
use crate::footprint;
use crate::process_limits;
use crate::unix_socket;

/// A running agent.
struct RunningAgent {
    node: rekindle_node::NodeHandle,
    network: Arc<BridgeNetwork>,
    runtime: Arc<EmbeddedRuntime>,
    line: JoinHandle<std::io::Result<()>>,
    socket: PathBuf,
    /// Held to the end.
    _data_dir: DataDir,
}

/// Serves a node until it is told to end.
pub fn run(args: &NodeAgent) -> anyhow::Result<ExitCode> {
    init_log("info");
    let report = ParentReport::take()?;
    process_limits::take();
    event_loop()?.block_on(async {
        let mut signals = EndSignals::listen()?;
        let mut agent = report.send(RunningAgent::start(&args.folder).await)?;
        footprint::shrink_after_start();
        let ending = agent.end_signal(&mut signals).await?;
        agent.stop(ending).await;
        Ok(ExitCode::SUCCESS)
    })
}

impl RunningAgent {
    async fn start(folder: &Path) -> anyhow::Result<Self> {
        let data_dir = DataDir::hold(folder)?;
        let Some(file) = NodeFile::kept(data_dir.path())? else {
            bail!("{} is no node's folder: it holds no node.json", folder.display());
        };
        let common = &file.common;
        let clock = SystemClock::start();
        let client = client::connect_with(&data_dir.join(KUBECONFIG)).await?;
        let subnets = (common.subnet, common.ipv6_pods);
        let network =
            network::join(&common.bridge, subnets, file.guest(), &data_dir, NetworkUse::Pods)
                .await?;
        let network = Arc::new(network);
        let engine = EngineDir::new(&common.engine_dir);
        let registries = registry_settings(&common.registries);
        let sources = ImageSources { registries, host_image: common.node.host_image };
        let runtime = node::open_runtime(&data_dir, &engine, clock.shared(), sources).await?;
        let runtime = Arc::new(runtime);
        let service = NodeService {
            settings: node_config::read(&common.node)?,
            api: ApiAddresses { of_pods: common.api_of_pods, of_the_node: common.api_of_the_node },
            cluster_dns: common.cluster_dns,
            routes: routes(&common.engine_dir)?,
            // the engine writes the rules when the pod's status has the address
            policies: PolicyGate::default(),
            static_pods: data_dir.static_pods()?,
        };
        let start = NodeStart {
            name: &file.name,
            data_dir: &data_dir,
            client,
            clock,
            purpose: NodePurpose::Serve(Box::new(service)),
            max_container_restart_period: TickDuration::from_secs(
                common.max_container_restart_period_seconds,
            ),
            pod_pids_limit: common.pod_pids_limit,
            heartbeat_period: common.heartbeat_period,
            number: file.guest(),
        };
        let node = node::start(start, Arc::clone(&runtime), Arc::clone(&network)).await?;
        let socket = socket(data_dir.path()).context("the run folder has no name")?;
        let line = open_line(&socket, &node)?;
        Ok(Self { node, network, runtime, line, socket, _data_dir: data_dir })
    }

    /// Until somebody asks it to end. A line that fails for good ends it, too, with its pods left
    /// alone.
    async fn end_signal(&mut self, signals: &mut EndSignals) -> anyhow::Result<AgentStopMode> {
        tokio::select! {
            ending = signals.next() => Ok(ending),
            ended = &mut self.line => {
                ended.context("the line to the engine failed inside")?.context("the line to the engine")?;
                bail!("the line to the engine ended unasked; the pods go on: start the node again")
            }
        }
    }

    async fn stop(self, ending: AgentStopMode) {
        self.node.stop(ending).await;
        self.line.abort();
        if let Err(error) = unix_socket::remove(&self.socket) {
            tracing::warn!("failed to remove the agent's socket: {error:#}");
        }
        match ending {
            AgentStopMode::EndPods => node::take_away(self.network, &self.runtime).await,
            AgentStopMode::LeavePods => {}
        }
    }
}

/// The way to who writes the rules of Services: the engine.
fn routes(engine_dir: &Path) -> anyhow::Result<PodRoutes> {
    let socket = service_rules::socket(engine_dir).context("the run folder has no name")?;
    let (routes, requests) = PodRoutes::new();
    tokio::spawn(async move { follow_requests(&socket, requests).await });
    Ok(routes)
}

/// Listens where the engine asks.
fn open_line(
    path: &Path,
    node: &rekindle_node::NodeHandle,
) -> anyhow::Result<JoinHandle<std::io::Result<()>>> {
    let (logs, streams, nodes) =
        (LogSource::default(), StreamSource::default(), NodeSource::default());
    logs.set(node.logs());
    streams.set(node.streams());
    nodes.set(node.name(), node.node_api());
    let parts =
        NodeParts { logs: Arc::new(logs), streams: Arc::new(streams), nodes: Arc::new(nodes) };
    let listener = unix_socket::listen(path)?;
    Ok(tokio::spawn(node_link::serve(listener, parts)))
}
