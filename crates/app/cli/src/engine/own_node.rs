//! The engine's own node: the pods' network, what pods reach on it (the API, cluster DNS), the
//! runtime and the agent.

use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;

use anyhow::Context;
use rekindle_net::BridgeNetwork;
use rekindle_node::{ApiAddresses, NodeHandle, NodeSettings, ServiceNames};
use rekindle_runtime::embedded::EmbeddedRuntime;
use tokio::task::JoinHandle;

use super::cluster_dns::ClusterDns;
use super::data_dir::DataDir;
use super::images::EngineDir;
use super::network::{self, NetworkUse};
use super::network_policies::{self, PolicyWriter};
use super::node::{self, ImageSources, NodePurpose, NodeService, NodeStart};
use super::opened::OpenedApi;
use super::phase::PhaseNotifier;
use super::pod_api::PodApi;
use super::service_range::ChosenServiceRange;
use super::service_rules::{self, RuleWriter};
use super::serving::ServedApi;
use super::settings::EngineSettings;
use crate::args::Up;

/// The user that cluster DNS is to the API.
const CLUSTER_DNS: &str = "system:serviceaccount:kube-system:cluster-dns";

/// How long a start waits for its node. A webhook for Nodes may be served by a pod of this very
/// node, and then refuses it until the pod runs.
const REGISTRATION_MAX: Duration = Duration::from_secs(5);

/// A node that runs.
pub struct OwnNode {
    pub handle: NodeHandle,
    pub network: Arc<BridgeNetwork>,
    pub runtime: Arc<EmbeddedRuntime>,
    /// Where the API is reached.
    pub api: ApiAddresses,
    /// Where pods ask for names.
    pub cluster_dns: ClusterDns,
    /// Writes the rules of Services.
    pub rules: RuleWriter,
    /// Writes the rules of NetworkPolicies.
    pub policies: PolicyWriter,
    /// The server that pods reach.
    pub pod_server: JoinHandle<std::io::Result<()>>,
}

impl OwnNode {
    /// Starts it; it becomes Ready a moment later, for which [`Self::registered`] waits.
    pub async fn start(
        args: &Up,
        data_dir: &DataDir,
        (settings, node_settings, services): (&EngineSettings, NodeSettings, ChosenServiceRange),
        serving: &ServedApi,
        phases: &PhaseNotifier,
    ) -> anyhow::Result<Self> {
        let network = Arc::new(network::open(settings, data_dir, NetworkUse::Pods).await?);
        services.check_pods(network.subnet())?;
        let api = &serving.api;
        let user = api.client(service_rules::USER);
        let bridge = &settings.bridge;
        let clock = rekindle_node::Clock::showing(api.clock.now());
        let rules = RuleWriter::start(settings, &network, services, data_dir, user, clock).await?;
        let policies =
            PolicyWriter::start(bridge, network.ipv6_prefix(), api.client(network_policies::USER));
        let (client, names) = (api.client(CLUSTER_DNS), rules.service_names);
        let dns = (&node_settings, data_dir);
        let cluster_dns = ClusterDns::start(&network, dns, client, names);
        let pod_api = PodApi::open(&network, &settings.bridge, api, services, serving.address)?;
        publish(api, pod_api.addresses).await.context("publish the API to pods")?;
        let addresses = match names {
            ServiceNames::ClusterIps => {
                ApiAddresses { of_pods: services.range.api_service(), ..pod_api.addresses }
            }
            ServiceNames::Endpoints => pod_api.addresses,
        };
        let pod_server = pod_api.serve(&serving.threads, api.front.clone(), phases.stopped())?;
        let registries = node::registry_settings(&args.registries);
        let sources = ImageSources { registries, host_image: args.node.host_image };
        let engine_dir = EngineDir::new(data_dir.path());
        let clock = api.clock;
        let runtime = node::open_runtime(data_dir, &engine_dir, clock.shared(), sources).await;
        let runtime = Arc::new(runtime?);
        let static_pods = settings.static_pods(data_dir)?;
        let cluster_dns = cluster_dns.await.context("start cluster DNS")?;
        let service = NodeService {
            settings: node_settings,
            api: addresses,
            cluster_dns: cluster_dns.address,
            routes: rules.routes.clone(),
            policies: policies.gate.clone(),
            static_pods,
        };
        let purpose = NodePurpose::Serve(Box::new(service));
        let mut start = NodeStart::of_engine(settings, data_dir, api, purpose);
        start.heartbeat_period = args.failing.heartbeat_period();
        if network.ipv6_prefix().is_some() {
            // pods that run without a second address get it when the node takes them up
            policies.gate.settled().await;
        }
        let handle = node::start(start, Arc::clone(&runtime), Arc::clone(&network)).await?;
        let api = addresses;
        Ok(Self { handle, network, runtime, api, cluster_dns, rules, policies, pod_server })
    }

    /// Waits until its Node is Ready in the API, for a while at most: the heartbeat goes on trying,
    /// and says why it fails.
    pub async fn registered(&mut self) {
        if tokio::time::timeout(REGISTRATION_MAX, self.handle.ready()).await.is_err() {
            tracing::warn!(
                node = self.handle.name(),
                "failed to register the node in time; continuing without it"
            );
        }
    }

    /// Resolves when the server for pods ends by itself, which it does not do while all is well.
    pub async fn failure(&mut self) -> anyhow::Result<Infallible> {
        let ended = (&mut self.pod_server).await;
        ended
            .context("the API server for pods panicked")?
            .context("the API server for pods cannot go on")?;
        anyhow::bail!(
            "the API server for pods ended unasked; the pods go on: start the engine again"
        )
    }
}

/// Makes the Service `kubernetes` lead to the listener for pods.
async fn publish(api: &OpenedApi, addresses: ApiAddresses) -> anyhow::Result<()> {
    let published = api.front.api().publish_api_service(addresses.of_pods, api.clock.now());
    let pending = published.map_err(|error| anyhow::anyhow!("{}", error.status().message))?;
    for write in pending {
        write.await?;
    }
    Ok(())
}
