//! `--nodes auto`: adds and removes further nodes as `rekindle_operator::NodeScaler` decides
//! (docs/adr/0020).

use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, bail};
use kube::Client;
use rekindle_api_server::SystemClock;
use rekindle_api_server::pki::CertificateAuthority;
use rekindle_node::AgentStopMode;
use rekindle_operator::{NodeSupply, SupplyError, say_being_removed};
use rustix::process::Signal;

use super::adding::NodeAdditionGate;
use crate::nodes::{self, CommonNodeSettings, FurtherNode, NodesFolder, UnmanagedPodPolicy};

/// How long an agent may take to be Ready.
const READY_WITHIN: Duration = Duration::from_secs(60);
/// How long budgets may hold a drain up (cluster-autoscaler's `--max-graceful-termination-sec`).
const DRAINED_WITHIN: Duration = Duration::from_secs(600);

/// Further nodes of this engine.
pub struct AutoNodes {
    pub client: Client,
    pub clock: SystemClock,
    pub folder: NodesFolder,
    pub common: CommonNodeSettings,
    pub pki: Arc<CertificateAuthority>,
    pub gate: NodeAdditionGate,
}

impl NodeSupply for AutoNodes {
    fn first(&self) -> String {
        self.common.first_node.clone()
    }

    fn further(&self) -> Result<Vec<String>, SupplyError> {
        let nodes = self.folder.list()?;
        Ok(nodes.into_iter().map(|node| node.file.name).collect())
    }

    async fn add(&self) -> Result<String, SupplyError> {
        let (folder, common) = (self.folder.clone(), self.common.clone());
        let (pki, now, gate) = (Arc::clone(&self.pki), self.clock.now(), self.gate.clone());
        let launch = move || gate.pass(|| nodes::launch_one_more(&folder, &common, &pki, now));
        let name = tokio::task::spawn_blocking(launch).await??;
        match nodes::wait_ready(self.client.clone(), &name, READY_WITHIN).await {
            Ok(()) => Ok(name),
            Err(error) => {
                // it would be counted, and the next look would add another one for the same pods
                if let Err(left) = self.give_up(&name).await {
                    tracing::warn!(
                        node = name,
                        "failed to remove a node that was not Ready: {left:#}"
                    );
                }
                Err(error.into())
            }
        }
    }

    async fn remove(&self, name: &str) -> Result<(), SupplyError> {
        Ok(self.take_away(self.find(name)?).await?)
    }
}

impl AutoNodes {
    fn find(&self, name: &str) -> anyhow::Result<FurtherNode> {
        self.folder.find(name)?.context("it is gone already")
    }

    /// Takes a new node away again. It may just have become Ready, with pods on it, so it goes as
    /// any other.
    async fn give_up(&self, name: &str) -> anyhow::Result<()> {
        match say_being_removed(&self.client, name).await {
            Ok(()) => {}
            // it never registered
            Err(kube::Error::Api(status)) if status.code == 404 => {}
            Err(error) => return Err(error).context("say that it is being removed"),
        }
        self.take_away(self.find(name)?).await
    }

    async fn drain(&self, name: &str) -> anyhow::Result<()> {
        let tell = |line: String| tracing::info!("{line}");
        let drain = nodes::drain(&self.client, name, UnmanagedPodPolicy::AsAnnotated, tell);
        let drained = tokio::time::timeout(DRAINED_WITHIN, drain).await;
        drained.context("its pods could not be evicted in time")?
    }

    /// Drains the node, ends it and forgets it. Where that fails it is left as it is, cordon and
    /// all: the scaler gives it back, as it does after an engine that ended meanwhile.
    async fn take_away(&self, node: FurtherNode) -> anyhow::Result<()> {
        nodes::refuse_to_lose_volumes(&node)?;
        let name = node.file.name.as_str();
        match node.agent()? {
            Some(agent) => {
                agent.signal(Signal::CONT)?; // one that somebody has stopped could not end its pods
                self.drain(name).await?;
            }
            // nobody would end what is evicted; what is going already is ended below
            None if nodes::all_are_going(&self.client, name).await? => {}
            None => bail!("its agent does not run, and its pods are not to end yet"),
        }
        nodes::end(node.clone(), AgentStopMode::EndPods, &self.client, self.clock).await?;
        nodes::forget(&self.client, name).await?;
        let take_away = move || nodes::take_folder_away(&node);
        tokio::task::spawn_blocking(take_away).await.context("take its folder away")?
    }
}
