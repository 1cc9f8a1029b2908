//! The end of further nodes together with the engine.

use std::sync::Arc;

use anyhow::Context;
use kube::Client;
use rekindle_api_server::SystemClock;
use rekindle_node::AgentStopMode;
use rekindle_runtime::Runtime;
use rekindle_types::{PodRef, TickDuration};
use rustix::process::Signal;

use super::folder::{FurtherNode, NodesFolder, socket};
use crate::engine::data_dir::DataDir;
use crate::engine::images::{EngineDir, runtime_dir};
use crate::engine::network::{self, NetworkUse};
use crate::engine::node::{self, ImageSources, NodePurpose, NodeStart};
use crate::unix_socket;

/// Ends all agents, and their pods or not. What an agent that died had left is ended, too. What
/// goes wrong with one is told in the log, and the others are ended all the same.
pub async fn end_all(
    folder: &NodesFolder,
    ending: AgentStopMode,
    client: &Client,
    clock: SystemClock,
) {
    let nodes = folder.list().unwrap_or_else(|error| {
        tracing::warn!("failed to list further nodes: {error:#}");
        Vec::new()
    });
    let ends = nodes.into_iter().map(|node| async move {
        let name = node.file.name.clone();
        if let Err(error) = end(node, ending, client, clock).await {
            tracing::warn!(node = name, "failed to end a node: {error:#}");
        }
    });
    futures::future::join_all(ends).await;
}

/// Ends a node's agent, and its pods or not; also what one that died had left.
pub async fn end(
    node: FurtherNode,
    ending: AgentStopMode,
    client: &Client,
    clock: SystemClock,
) -> anyhow::Result<()> {
    let told = node.clone();
    let ran = tokio::task::spawn_blocking(move || {
        let Some(agent) = told.agent()? else { return anyhow::Ok(false) };
        agent.signal(match ending {
            AgentStopMode::EndPods => Signal::TERM,
            AgentStopMode::LeavePods => Signal::QUIT,
        })?;
        agent.signal(Signal::CONT)?; // one that somebody has stopped could not hear
        agent.wait()?;
        Ok(true)
    });
    match (ran.await.context("wait for the agent")??, ending) {
        (true, _) | (false, AgentStopMode::LeavePods) => Ok(()),
        (false, AgentStopMode::EndPods) => end_left(&node, client, clock).await.map(drop),
    }
}

/// Ends what an agent that does not run any more left of its pods, as that agent would have.
/// Answers the pods that ran.
pub async fn end_left(
    node: &FurtherNode,
    client: &Client,
    clock: SystemClock,
) -> anyhow::Result<Vec<PodRef>> {
    if !runtime_dir(&node.path).exists() {
        return Ok(Vec::new()); // it never ran
    }
    let common = &node.file.common;
    let data_dir = DataDir::hold(&node.path)?;
    let engine = EngineDir::new(&common.engine_dir);
    let subnets = (common.subnet, common.ipv6_pods);
    let network =
        network::join(&common.bridge, subnets, node.file.guest(), &data_dir, NetworkUse::End)
            .await?;
    let network = Arc::new(network);
    let sources = ImageSources::default();
    let runtime = node::open_runtime(&data_dir, &engine, clock.shared(), sources).await?;
    let runtime = Arc::new(runtime);
    let found = runtime.snapshot().await.context("look for pods that were left running")?;
    let start = NodeStart {
        name: &node.file.name,
        data_dir: &data_dir,
        client: client.clone(),
        clock,
        purpose: NodePurpose::EndPods,
        max_container_restart_period: TickDuration::from_secs(
            common.max_container_restart_period_seconds,
        ),
        pod_pids_limit: common.pod_pids_limit,
        heartbeat_period: common.heartbeat_period,
        number: node.file.guest(),
    };
    let agent = node::start(start, Arc::clone(&runtime), Arc::clone(&network)).await?;
    agent.stop(AgentStopMode::EndPods).await;
    if let Some(socket) = socket(data_dir.path()) {
        unix_socket::remove(&socket)?;
    }
    node::take_away(network, &runtime).await;
    let mut pods: Vec<PodRef> = found.into_iter().map(|sandbox| sandbox.key.pod).collect();
    pods.sort();
    pods.dedup();
    Ok(pods)
}
