//! The engine: store, API, controllers, ladder and node in one process, wired together.
//!
//! ```text
//!   Serving    store (committer thread) ── Api ── Front ──┬── Server: TLS on --listen              ┐ threads of
//!                                                         ├── Server: TLS on the bridge, for pods  ┘ their own
//!                                                         └── in process: all that follows, and the table of `up`
//!   OwnNode    network, cluster DNS, runtime, agent
//!   Folder     the agents of further nodes, processes of their own
//!   Deciding   controllers and ladders, the number of nodes
//!
//!   Routes: what a node is asked ── its own node, or the agent of a further one
//! ```
//!
//! It starts from the bottom up and stops from the top down, so that nothing ever talks to a part
//! that is not there.

mod adding;
mod admission_config;
mod api_threads;
mod audit_log;
mod audit_webhook;
mod auto_nodes;
pub mod cluster_dns;
pub mod data_dir;
mod deciding;
pub mod encryption;
mod ending;
mod failing_nodes;
mod further_nodes;
pub mod images;
mod ipv6_range;
mod key_upkeep;
pub mod lock;
pub mod logs;
pub mod network;
mod network_policies;
pub mod node;
pub mod node_config;
pub mod nodes;
mod opened;
mod orders;
mod own_node;
mod phase;
mod pod_api;
mod pod_dialer;
pub mod preflight;
pub mod remains;
mod routes;
pub mod service_range;
pub mod service_rules;
mod serving;
pub mod settings;
pub mod streams;
pub mod unfinished_restore;
mod writer_task;

use std::sync::Arc;

use anyhow::Context;
use kube::Client;
use rekindle_api_server::Clock;
use rekindle_node::AgentStopMode;
use rekindle_operator::LadderFigures;
use tokio::signal::unix::{SignalKind, signal};

use crate::args::Up;
use crate::nodes::{NodesFolder, end_all};
use crate::output;
use adding::NodeAdditionGate;
use auto_nodes::AutoNodes;
use data_dir::{DataDir, PKI};
use deciding::DecisionTasks;
pub use ending::EndSignals;
use images::EngineDir;
use key_upkeep::KeyUpkeep;
use orders::EngineOrders;
use own_node::OwnNode;
use phase::PhaseNotifier;
use routes::NodeRoutes;
use serving::ServedApi;
use settings::EngineSettings;

/// Whom the scaling of nodes acts as.
const SCALER: &str = "system:rekindle-node-scaling";

/// A running engine.
pub struct Engine {
    client: Client,
    serving: ServedApi,
    own: OwnNode,
    further: NodesFolder,
    deciding: DecisionTasks,
    phases: PhaseNotifier,
    data_dir: DataDir,
}

impl Engine {
    /// Starts everything; returns when the API listens, its own node is Ready and every further
    /// node's agent runs. Those nodes become Ready a moment later.
    pub async fn start(args: &Up, data_dir: DataDir) -> anyhow::Result<Self> {
        let EngineOrders { settings, node, limits, candidacy, webhook, services } =
            EngineOrders::read(args, &data_dir).await?;
        let engine_dir = EngineDir::new(data_dir.path());
        let routes = NodeRoutes::new(&settings.node_name, NodesFolder::from_engine(&engine_dir));
        let figures = Arc::new(LadderFigures::default());
        let phases = PhaseNotifier::running();
        let front = (&routes, &figures);
        let serving = ServedApi::start(args, &data_dir, services, front, &phases).await?;
        settings.keep(&data_dir)?;
        let mut own =
            OwnNode::start(args, &data_dir, (&settings, node, services), &serving, &phases).await?;
        routes.started(&own.handle);
        let further = routes.further;
        let (pki, clock) = (Arc::clone(&serving.api.pki), serving.api.clock);
        let common = further_nodes::common_of(args, &settings, &engine_dir, &own)?;
        further_nodes::launch(&further, &common, args, &pki, clock).await?;
        let upkeep = KeyUpkeep {
            folder: data_dir.join(PKI),
            front: serving.api.front.clone(),
            pki: Arc::clone(&pki),
            clock,
            kubeconfig: serving.kubeconfig.clone(),
            nodes: further.clone(),
            common: common.clone(),
        };
        tokio::spawn(upkeep.run(phases.stopped()));
        let gate = NodeAdditionGate::open();
        let mut deciding = DecisionTasks::new(gate.clone());
        let (client, folder) = (serving.api.client(SCALER), further.clone());
        deciding.scale(args, AutoNodes { client, clock, folder, common, pki, gate });
        deciding.control(args, (limits, figures), candidacy, &serving.api, &phases);
        deciding::tell(webhook, &serving.api, &phases);
        let client = serving.api.client("system:rekindle-up");
        own.registered().await;
        Ok(Self { client, serving, own, further, deciding, phases, data_dir })
    }

    /// A client inside the process.
    pub fn client(&self) -> &Client {
        &self.client
    }

    /// The engine's clock.
    pub fn clock(&self) -> Clock {
        self.serving.api.clock.shared()
    }

    /// Says where the API is.
    pub fn announce(&self) {
        self.serving.announce();
        if let Some(hint) = crate::plugin::hint() {
            output::tell(format!("plugins    {hint}"));
        }
    }

    /// Waits until somebody asks the engine to end. A part that fails for good ends the engine too,
    /// with its pods left alone.
    pub async fn end_signal(&mut self, signals: &mut EndSignals) -> anyhow::Result<AgentStopMode> {
        tokio::select! {
            ending = signals.next() => Ok(ending),
            Err(failure) = self.serving.failure() => Err(failure),
            Err(failure) = self.own.failure() => Err(failure),
        }
    }

    /// Stops from the top down. A second Ctrl-C meanwhile ends the process at once and leaves the
    /// pods.
    pub async fn stop(self, ending: AgentStopMode) -> anyhow::Result<()> {
        if ending == AgentStopMode::EndPods {
            output::note("ending the pods; press Ctrl-C again to leave them running");
        }
        let mut again = signal(SignalKind::interrupt()).context("listen for signals")?;
        tokio::select! {
            () = self.stop_parts(ending) => Ok(()),
            _ = again.recv() => anyhow::bail!("ended at once: pods may still run, the next `rekindle up` finds them"),
        }
    }

    async fn stop_parts(mut self, ending: AgentStopMode) {
        // The controllers first, wherever they run: what the node ends now must not be made again.
        // The lease is kept: the next engine has the same name and need not wait.
        self.serving.api.front.api().close_to_leaders();
        self.deciding.stop().await;
        let further = end_all(&self.further, ending, &self.client, self.serving.api.clock);
        let OwnNode {
            handle,
            network,
            runtime,
            mut cluster_dns,
            mut rules,
            mut policies,
            pod_server,
            ..
        } = self.own;
        tokio::join!(handle.stop(ending), further);
        match ending {
            AgentStopMode::EndPods => {
                cluster_dns.remove(&self.data_dir).await;
                rules.remove().await;
                policies.remove().await;
                node::take_away(network, &runtime).await;
                if let Err(error) = EngineSettings::forget(&self.data_dir) {
                    tracing::warn!("failed to remove the settings of this start: {error:#}");
                }
            }
            AgentStopMode::LeavePods => {
                cluster_dns.stop().await;
                rules.stop().await;
                policies.stop().await;
            }
        }
        self.phases.stop();
        serving::wait_for(pod_server).await;
        self.serving.close().await;
    }
}
