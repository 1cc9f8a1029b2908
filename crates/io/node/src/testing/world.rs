//! Everything together.

use std::sync::Arc;

use rekindle_types::Tick;
use serde_json::Value;

use super::{FakeApi, FakeNetwork, Machine, TestFolder};
use crate::agent::{AgentLauncher, NodeHandle};
use crate::clock::Clock;
use crate::config::NodeConfig;
use crate::eviction::EvictionPolicy;

/// API, machine, network and disk of one node, `node-a`.
pub(crate) struct World {
    pub(crate) api: FakeApi,
    pub(crate) machine: Machine,
    pub(crate) network: FakeNetwork,
    pub(crate) folder: TestFolder,
    pub(crate) clock: Clock,
}

impl World {
    pub(crate) fn new() -> Self {
        let clock = Clock::of_timers(Tick::from_secs(1_760_000_000));
        let machine = Machine::new(clock);
        Self {
            api: FakeApi::new(machine.clone()),
            machine,
            network: FakeNetwork::default(),
            folder: TestFolder::new(),
            clock,
        }
    }

    pub(crate) fn config(&self) -> NodeConfig {
        let mut config =
            NodeConfig::new("node-a", &self.folder.join("data"), &self.folder.join("logs"));
        config.addresses = vec!["10.88.0.254".parse().unwrap()];
        config.cluster_dns = Some(config.addresses[0]);
        config.clock = self.clock;
        config.static_pods = self.static_pods();
        // what the machine has left is none of these tests' business
        config.eviction = EvictionPolicy::off();
        config
    }

    /// The folder of static pods, when a test has made it.
    pub(crate) fn static_pods(&self) -> Option<std::path::PathBuf> {
        Some(self.folder.join("static-pods")).filter(|folder| folder.is_dir())
    }

    /// Starts an agent on what stands.
    pub(crate) async fn agent(&self) -> NodeHandle {
        self.agent_with(|_| {}).await
    }

    /// As [`agent`](Self::agent), on a node with rules: host ports are opened.
    pub(crate) async fn agent_with_rules(&self) -> NodeHandle {
        self.agent_with(|config| config.routes = self.network.routes()).await
    }

    /// As [`agent`](Self::agent), with another configuration.
    pub(crate) async fn agent_with(&self, change: impl FnOnce(&mut NodeConfig)) -> NodeHandle {
        let runtime = Arc::new(self.machine.connect());
        let network = Arc::new(self.network.clone());
        let mut config = self.config();
        change(&mut config);
        AgentLauncher::start(config, self.api.client(), runtime, network).await.unwrap()
    }

    /// `kill -9` of an agent.
    pub(crate) fn crash(&self, agent: NodeHandle) {
        self.machine.disconnect();
        self.api.disconnect();
        drop(agent);
    }

    /// The pod's status in the API.
    pub(crate) fn status(&self, pod: &str) -> Value {
        self.api.get("pods", pod).map(|pod| pod["status"].clone()).unwrap_or_default()
    }

    /// Until the node has renewed its lease so often, which it does every ten seconds of virtual
    /// time.
    pub(crate) async fn lease_renewals(&self, count: usize) {
        let until = self.api.requests("PATCH leases") + count;
        self.api.until("lease renewals", |api| api.requests("PATCH leases") >= until).await;
    }

    /// Waits until all containers of a pod are shown as running.
    pub(crate) async fn until_running(&self, pod: &str) {
        self.api.until(&format!("{pod} runs"), |api| all_running(api, pod)).await;
    }
}

/// Whether every container of the pod is shown as running.
pub(crate) fn all_running(api: &FakeApi, pod: &str) -> bool {
    let Some(object) = api.get("pods", pod) else { return false };
    let statuses = object["status"]["containerStatuses"].as_array().cloned().unwrap_or_default();
    let wanted = object["spec"]["containers"].as_array().map_or(0, Vec::len);
    statuses.len() == wanted && statuses.iter().all(|status| status["state"]["running"].is_object())
}
