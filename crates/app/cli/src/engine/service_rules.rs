//! The rules that lead connections to Services to their pods: one table of the engine's own, for
//! the pods of all nodes.

use std::net::IpAddr;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use anyhow::Context;
use kube::Client;
use rekindle_kinds::service_range::ServiceRange;
use rekindle_net::rules::{
    Ipv6Ranges, LoopbackNodePorts, PodEgress, RuleTableConfig, TableOwnership,
};
use rekindle_net::{BridgeNetwork, ForwardingUsers, IpNet, Ipv4Net, Ipv6Net};
use rekindle_node::{
    PodRoutes, ServiceNames, ServiceRanges, ServiceRules, serve_routes, warn_of_unrouted_services,
};
use rekindle_types::{IpFamily, causes};
use tokio::net::UnixListener;

use super::data_dir::{DataDir, RUN_ROOT};
use super::service_range::ChosenServiceRange;
use super::settings::EngineSettings;
use super::writer_task::WriterTask;
use crate::unix_socket;

/// The user that the writer is to the API.
pub const USER: &str = "system:kube-proxy";

/// Where agents in processes of their own ask, in the engine's run folder.
const SOCKET: &str = "service-rules.sock";

/// The folder that says which engines need the machine to forward packets, beside the run folders.
const FORWARDING: &str = "forwarding";
/// The same for IPv6.
const IPV6_FORWARDING: &str = "forwarding-ipv6";

/// The path of that socket.
pub fn socket(engine_dir: &Path) -> Option<PathBuf> {
    DataDir::run_dir_of(engine_dir).map(|run_dir| run_dir.join(SOCKET))
}

/// The writer of the rules, if the kernel can have any.
pub struct RuleWriter {
    /// How the node's pods ask for what concerns them.
    pub routes: PodRoutes,
    /// What names of Services lead to.
    pub service_names: ServiceNames,
    task: WriterTask,
    /// Follows ranges that users add.
    ranges: WriterTask,
    config: RuleTableConfig,
    forwarding: ForwardingUsers,
    ipv6_forwarding: ForwardingUsers,
    socket: PathBuf,
}

impl RuleWriter {
    /// Begins to write. A machine without nftables does without: only the names of Services lead to
    /// pods, and the log says so. Agents in processes of their own are answered that it does.
    pub async fn start(
        settings: &EngineSettings,
        network: &Arc<BridgeNetwork>,
        services: ChosenServiceRange,
        data_dir: &DataDir,
        client: Client,
        clock: rekindle_node::Clock,
    ) -> anyhow::Result<Self> {
        let bridge = settings.bridge.as_str();
        let mut writer = Self::idle(bridge, network, data_dir)?;
        writer.config.services = ipv4(services.range);
        if let Some(ranges) = &mut writer.config.ipv6 {
            ranges.services = services.second.and_then(ipv6);
            // an interface of IPv6 forwards nothing unless the machine does, also between pods
            let joined = writer.ipv6_forwarding.join();
            joined.context("let the machine forward packets of pods (IPv6)")?;
        }
        let second = writer.config.ipv6.and_then(|ranges| ranges.services);
        let first = writer.config.services.map(IpNet::from);
        for range in first.into_iter().chain(second.map(IpNet::from)) {
            network.route_services(range).await.context("route the addresses of Services")?;
        }
        let listener = unix_socket::listen(&writer.socket)?;
        let mut writer = match ServiceRules::open(writer.config.clone(), &settings.node_name) {
            Ok(rules) => {
                // answers to what pods send out come in elsewhere than by the bridge
                writer.forwarding.join().context("let the machine forward packets of pods")?;
                let (routes, requests) = PodRoutes::new();
                let rules_client = client.clone();
                let serve_others = serve_others(listener, routes.clone());
                let task = WriterTask::start(async move {
                    tokio::select! {
                        () = rules.serve(rules_client, clock, requests) => {}
                        () = serve_others => {}
                    }
                });
                let service_names = ServiceNames::ClusterIps;
                Self { routes, service_names, task, ..writer }
            }
            Err(error) => {
                tracing::warn!(
                    error = causes(&error),
                    "failed to prepare rules for Services: their addresses lead nowhere; their names lead to pods, at the ports of the pods"
                );
                let serve_others = serve_others(listener, PodRoutes::default());
                let warn = warn_of_unrouted_services(client.clone(), clock, causes(&error));
                let task = WriterTask::start(async move {
                    tokio::join!(serve_others, warn);
                });
                Self { task, ..writer }
            }
        };
        let (bridge, network) = (bridge.to_owned(), Arc::clone(network));
        let ranges = ServiceRanges::new(bridge, network, writer.routes.clone());
        writer.ranges = WriterTask::start(ranges.serve(client, clock));
        Ok(writer)
    }

    /// One that writes nothing, for an engine that takes away what is left.
    pub fn idle(bridge: &str, network: &BridgeNetwork, data_dir: &DataDir) -> anyhow::Result<Self> {
        let config = RuleTableConfig {
            bridge: bridge.to_owned(),
            pods: network.subnet(),
            services: None,
            ipv6: network.ipv6_subnet().map(|pods| Ipv6Ranges { pods, services: None }),
            egress: PodEgress::Masquerade,
            loopback_node_ports: LoopbackNodePorts::Serve,
            ownership: TableOwnership::Exclusive,
        };
        let users = |folder, family| {
            ForwardingUsers::new(&Path::new(RUN_ROOT).join(folder), bridge, family)
        };
        let socket = data_dir.run_dir()?.join(SOCKET);
        Ok(Self {
            routes: PodRoutes::default(),
            service_names: ServiceNames::Endpoints,
            task: WriterTask::default(),
            ranges: WriterTask::default(),
            config,
            forwarding: users(FORWARDING, IpFamily::V4),
            ipv6_forwarding: users(IPV6_FORWARDING, IpFamily::V6),
            socket,
        })
    }

    /// Writes no more. The rules stay, and lead to pods that run on.
    pub async fn stop(&mut self) {
        self.ranges.stop().await;
        self.task.stop().await;
    }

    /// Takes the rules away.
    pub async fn remove(mut self) {
        self.stop().await;
        if let Err(error) = ServiceRules::remove(self.config).await {
            tracing::warn!(error = causes(&error), "failed to remove the rules of Services");
        }
        if let Err(error) = unix_socket::remove(&self.socket) {
            tracing::warn!(
                "failed to remove the socket of nodes that ask for rules of Services: {error:#}"
            );
        }
        if let Err(error) = self.forwarding.leave() {
            tracing::warn!(error = causes(&error), "failed to put net.ipv4.ip_forward back");
        }
        if let Err(error) = self.ipv6_forwarding.leave() {
            let error = causes(&error);
            tracing::warn!(error, "failed to put net.ipv6.conf.all.forwarding back");
        }
    }
}

/// Serves agents in processes of their own.
async fn serve_others(listener: UnixListener, routes: PodRoutes) {
    if let Err(error) = serve_routes(listener, routes).await {
        tracing::error!(%error, "failed to listen to nodes that ask for rules of Services");
    }
}

/// The range, if it is one of IPv4.
fn ipv4(range: ServiceRange) -> Option<Ipv4Net> {
    match range.network() {
        IpAddr::V4(network) => Ipv4Net::new(network, range.prefix()).ok(),
        IpAddr::V6(_) => None,
    }
}

fn ipv6(range: ServiceRange) -> Option<Ipv6Net> {
    match range.network() {
        IpAddr::V4(_) => None,
        IpAddr::V6(network) => Ipv6Net::new(network, range.prefix()).ok(),
    }
}
