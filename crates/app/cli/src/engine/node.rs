//! A node of this process: its runtime, its network and its agent. The engine's own, or that of a
//! further node's process.

use std::net::{IpAddr, Ipv4Addr, UdpSocket};
use std::path::PathBuf;
use std::sync::Arc;

use anyhow::Context;
use kube::Client;
use rekindle_api_server::{Clock, SystemClock};
use rekindle_net::BridgeNetwork;
use rekindle_node::{
    AgentDuty, AgentLauncher, ApiAddresses, NodeConfig, NodeHandle, NodeSettings, PodRoutes,
    PolicyGate,
};
use rekindle_runtime::embedded::{self, EmbeddedRuntime};
use rekindle_runtime::image::HostImage;
use rekindle_runtime::image::registry::RegistrySettings;
use rekindle_types::TickDuration;

use super::data_dir::DataDir;
use super::images::{self, EngineDir};
use super::opened::OpenedApi;
use super::settings::EngineSettings;
use crate::args::Registries;

/// Between two signs of life of a node whose engine does not say anything about it.
const HEARTBEAT_PERIOD: TickDuration = TickDuration::from_secs(10);

/// What a node is started for.
pub enum NodePurpose {
    /// To run pods.
    Serve(Box<NodeService>),
    /// To end what a killed agent left.
    EndPods,
}

/// What a node that runs pods needs to know.
pub struct NodeService {
    /// How it behaves when it runs out of something, and when it is shut down.
    pub settings: NodeSettings,
    /// Where containers reach the API.
    pub api: ApiAddresses,
    /// Where pods reach cluster DNS, if there is any.
    pub cluster_dns: Option<Ipv4Addr>,
    /// Who keeps new connections away from pods that end.
    pub routes: PodRoutes,
    /// Who says that NetworkPolicies hold for a pod.
    pub policies: PolicyGate,
    /// The folder of static pods' manifests, which exists.
    pub static_pods: PathBuf,
}

/// What a node agent is started with, beside the runtime and the network.
pub struct NodeStart<'a> {
    /// The Node object's name.
    pub name: &'a str,
    /// The node's own folder.
    pub data_dir: &'a DataDir,
    /// How it reaches the API.
    pub client: Client,
    pub clock: SystemClock,
    pub purpose: NodePurpose,
    /// The longest wait between restarts of a crashing container.
    pub max_container_restart_period: TickDuration,
    /// The most processes and threads of a pod.
    pub pod_pids_limit: Option<u64>,
    /// Between two signs of life.
    pub heartbeat_period: TickDuration,
    /// Its number among the nodes of the machine: 0 for the engine's own.
    pub number: u8,
}

impl<'a> NodeStart<'a> {
    /// The engine's own node.
    pub fn of_engine(
        settings: &'a EngineSettings,
        data_dir: &'a DataDir,
        api: &OpenedApi,
        purpose: NodePurpose,
    ) -> Self {
        let name = &settings.node_name;
        Self {
            name,
            data_dir,
            client: api.client(&format!("system:node:{name}")),
            clock: api.clock,
            purpose,
            max_container_restart_period: settings.max_container_restart_period(),
            pod_pids_limit: settings.pod_pids_limit,
            heartbeat_period: HEARTBEAT_PERIOD,
            number: 0,
        }
    }
}

/// Starts the agent.
pub async fn start(
    start: NodeStart<'_>,
    runtime: Arc<EmbeddedRuntime>,
    network: Arc<BridgeNetwork>,
) -> anyhow::Result<NodeHandle> {
    let data_dir = start.data_dir;
    let mut config = NodeConfig::new(start.name, data_dir.path(), &data_dir.join("logs"));
    config.addresses = vec![network.gateway().into()];
    config.addresses.extend(network.ipv6_gateway().map(IpAddr::V6));
    config.external_address = outside_address();
    config.pod_cidrs = vec![network.range().to_string()];
    config.pod_cidrs.extend(network.ipv6_range().map(|range| range.to_string()));
    config.max_container_restart_period = start.max_container_restart_period;
    config.pod_pids_limit = start.pod_pids_limit;
    config.heartbeat_period = start.heartbeat_period;
    config.clock = rekindle_node::Clock::showing(start.clock.now());
    match start.purpose {
        NodePurpose::Serve(service) => {
            config.duty = AgentDuty::Serve;
            config.eviction = service.settings.eviction;
            config.shutdown = service.settings.shutdown;
            config.image_gc = service.settings.image_gc;
            config.user_ids = service.settings.user_ids.of_node(start.number);
            config.sysctls = service.settings.sysctls;
            if let Some(timeout) = service.settings.endpoint_withdrawal_timeout {
                config.endpoint_withdrawal_timeout = timeout;
            }
            if let Some(max_pods) = service.settings.max_pods {
                config.max_pods = max_pods;
            }
            config.api = Some(service.api);
            config.cluster_dns = service.cluster_dns.map(IpAddr::V4);
            config.resolv_conf = service.settings.resolv_conf;
            config.routes = service.routes;
            config.policies = service.policies;
            config.static_pods = Some(service.static_pods);
        }
        NodePurpose::EndPods => config.duty = AgentDuty::EndPods,
    }
    AgentLauncher::start(config, start.client, runtime, network).await.context("start the node")
}

/// Where a runtime has images from, beside what was loaded.
#[derive(Debug, Default)]
pub struct ImageSources {
    /// How registries are asked.
    pub registries: RegistrySettings,
    /// Whether containers may have the machine's own files.
    pub host_image: HostImage,
}

/// The container runtime of a data directory, on the images of its engine.
pub async fn open_runtime(
    data_dir: &DataDir,
    engine: &EngineDir,
    clock: Clock,
    sources: ImageSources,
) -> anyhow::Result<EmbeddedRuntime> {
    let folder = images::runtime_dir(data_dir.path());
    EmbeddedRuntime::open(embedded::RuntimeConfig {
        run_dir: data_dir.run_dir()?,
        engine_id: data_dir.engine_id().to_owned(),
        images: Arc::new(engine.open_images(sources.host_image)?),
        other_users: engine.users_beside(&folder),
        data_dir: folder,
        registries: sources.registries,
        clock,
    })
    .await
    .context("start the container runtime")
}

/// How registries are asked.
pub fn registry_settings(args: &Registries) -> RegistrySettings {
    let plain_http = args.plain_http.iter().cloned().collect();
    RegistrySettings { plain_http, ..RegistrySettings::default() }
}

/// For a node that has ended its pods: takes its network, its cgroups and its run folder away. The
/// node has ended, and with it the other owner of the network.
pub async fn take_away(network: Arc<BridgeNetwork>, runtime: &EmbeddedRuntime) {
    network.settle().await;
    match Arc::into_inner(network) {
        Some(network) => {
            if let Err(error) = network.close().await {
                tracing::warn!(%error, "failed to remove the pod network");
            }
        }
        None => tracing::warn!("failed to remove the pod network: it is still in use"),
    }
    if let Err(error) = runtime.leave().await {
        tracing::warn!(error = error.chain(), "failed to remove what the pods left");
    }
}

/// The address that the machine has for the outside: that of its default route. Nothing is sent.
fn outside_address() -> Option<IpAddr> {
    /// Any address outside will do; this one belongs to documentation (RFC 5737).
    const OUTSIDE: (Ipv4Addr, u16) = (Ipv4Addr::new(192, 0, 2, 1), 9);
    let socket = UdpSocket::bind((Ipv4Addr::UNSPECIFIED, 0)).ok()?;
    socket.connect(OUTSIDE).ok()?;
    socket.local_addr().ok().map(|address| address.ip())
}
