//! What an engine that was killed left: its pods still run. They are ended as that engine would
//! have ended them, by the node part alone, so that nothing is made again meanwhile and nobody can
//! connect.

use std::sync::Arc;

use anyhow::Context;
use rekindle_api_server::NoLogs;
use rekindle_node::AgentStopMode;
use rekindle_runtime::Runtime;
use rekindle_store::StoreLimits;
use rekindle_types::PodRef;
use rustix::process::Signal;

use super::cluster_dns;
use super::data_dir::DataDir;
use super::encryption;
use super::images::EngineDir;
use super::ipv6_range::Ipv6Range;
use super::network::{self, NetworkUse};
use super::network_policies::PolicyWriter;
use super::node::{self, ImageSources, NodePurpose, NodeStart};
use super::opened::OpenedApi;
use super::service_range::ChosenServiceRange;
use super::service_rules::RuleWriter;
use super::settings::EngineSettings;
use crate::nodes::{FurtherNode, NodesFolder, end_left};

/// Ends the pods of all nodes with their grace periods and takes network, cgroups and run folders
/// away. Answers the pods that ran.
pub async fn end(data_dir: DataDir, settings: &EngineSettings) -> anyhow::Result<Vec<PodRef>> {
    let encryption = encryption::read(settings.encryption_provider_config.as_deref())?;
    let second = settings.ipv6_range(&data_dir)?.map(Ipv6Range::services).transpose()?;
    let services = ChosenServiceRange::last(&data_dir)?.with_second(second)?;
    // how pods end is written whatever there is
    let limits = StoreLimits { total_bytes_max: usize::MAX / 2, ..StoreLimits::DEFAULT };
    let api = OpenedApi::open(&data_dir, Arc::new(NoLogs), services, (encryption, limits))?;
    let clock = api.clock;
    let engine_dir = EngineDir::new(data_dir.path());
    let sources = ImageSources::default();
    let runtime = node::open_runtime(&data_dir, &engine_dir, clock.shared(), sources).await?;
    let runtime = Arc::new(runtime);
    let found = runtime.snapshot().await.context("look for pods that were left running")?;
    let mut pods: Vec<PodRef> = found.into_iter().map(|sandbox| sandbox.key.pod).collect();
    let network = Arc::new(network::open(settings, &data_dir, NetworkUse::End).await?);
    let client = api.client("system:rekindle-down");
    for further in NodesFolder::from_engine(&engine_dir).list()? {
        // it has lost its API; what it began is in its journals, and is ended by what follows it
        let ended = kill(&further).await;
        ended.with_context(|| format!("end the agent of node {}", further.file.name))?;
        let left = end_left(&further, &client, clock).await;
        pods.extend(left.with_context(|| format!("end the pods of node {}", further.file.name))?);
    }
    let start = NodeStart::of_engine(settings, &data_dir, &api, NodePurpose::EndPods);
    let node = node::start(start, Arc::clone(&runtime), Arc::clone(&network)).await?;
    node.stop(AgentStopMode::EndPods).await;
    RuleWriter::idle(&settings.bridge, &network, &data_dir)?.remove().await;
    PolicyWriter::idle(&settings.bridge).remove().await;
    cluster_dns::end(&data_dir).await?;
    node::take_away(network, &runtime).await;
    api.close();
    EngineSettings::forget(&data_dir)?;
    pods.sort();
    pods.dedup();
    Ok(pods)
}

async fn kill(node: &FurtherNode) -> anyhow::Result<()> {
    let node = node.clone();
    let killed = tokio::task::spawn_blocking(move || {
        let Some(agent) = node.agent()? else { return Ok(()) };
        agent.signal(Signal::KILL)?;
        agent.wait()
    });
    killed.await.context("wait for it")?
}
