//! `--nodes auto`: adds and removes further nodes as `rekindle_operator::Scaler` decides (docs/adr/0020).

use std::sync::Arc;
use std::time::Duration;

use anyhow::Context;
use futures::StreamExt;
use k8s_openapi::api::core::v1::Node;
use kube::Client;
use kube::api::{Api, Patch, PatchParams};
use kube::runtime::{WatchStreamExt, watcher};
use rekindle_api::auth::Pki;
use rekindle_api::http::SystemClock;
use rekindle_operator::{NodeSupply, SupplyError};
use serde_json::json;

use super::Ending;
use crate::nodes::{self, Common, Folder, Unmanaged};

/// How long an agent may take to be Ready.
const READY_WITHIN: Duration = Duration::from_secs(60);
/// How long budgets may hold a drain up (cluster-autoscaler's `--max-graceful-termination-sec`).
const DRAINED_WITHIN: Duration = Duration::from_secs(600);

/// Further nodes of this engine.
pub struct AutoNodes {
    pub client: Client,
    pub clock: SystemClock,
    pub folder: Folder,
    pub common: Common,
    pub pki: Arc<Pki>,
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
        let (pki, now) = (Arc::clone(&self.pki), self.clock.now());
        let launch = move || nodes::launch_one_more(&folder, &common, &pki, now);
        let name = tokio::task::spawn_blocking(launch).await??;
        self.ready(&name).await?;
        Ok(name)
    }

    async fn remove(&self, name: &str) -> Result<(), SupplyError> {
        let node = self.folder.find(name)?.context("it is gone already")?;
        nodes::refuse_to_lose_volumes(&node)?;
        let tell = |line: String| tracing::info!("{line}");
        let drain = nodes::drain(&self.client, name, Unmanaged::Refuse, tell);
        let drained = match tokio::time::timeout(DRAINED_WITHIN, drain).await {
            Ok(drained) => drained,
            Err(_elapsed) => Err(anyhow::anyhow!("its pods could not be evicted in time")),
        };
        if let Err(error) = drained {
            self.uncordon(name).await?;
            return Err(error.into());
        }
        nodes::end(node.clone(), Ending::EndPods, &self.client, self.clock).await?;
        nodes::forget(&self.client, name).await?;
        tokio::task::spawn_blocking(move || nodes::take_folder_away(&node)).await??;
        Ok(())
    }
}

impl AutoNodes {
    async fn ready(&self, name: &str) -> anyhow::Result<()> {
        let only = watcher::Config::default().fields(&format!("metadata.name={name}"));
        let nodes = Api::<Node>::all(self.client.clone());
        let seen = watcher(nodes, only).default_backoff().applied_objects();
        let mut ready = std::pin::pin!(seen.filter(|node| {
            let is_ready = node.as_ref().is_ok_and(nodes::is_ready);
            async move { is_ready }
        }));
        let waited = tokio::time::timeout(READY_WITHIN, ready.next()).await;
        waited.map(drop).with_context(|| format!("node {name} runs, but is not Ready yet"))
    }

    async fn uncordon(&self, name: &str) -> anyhow::Result<()> {
        let patch = Patch::Merge(json!({"spec": {"unschedulable": null}}));
        let nodes = Api::<Node>::all(self.client.clone());
        let patched = nodes.patch(name, &PatchParams::default(), &patch).await;
        patched.map(drop).with_context(|| format!("uncordon node {name}"))
    }
}
