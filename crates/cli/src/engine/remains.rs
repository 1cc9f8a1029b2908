//! What an engine that was killed left: its pods still run. They are ended as that engine would have ended them, by the node
//! part alone, so that nothing is made again meanwhile and nobody can connect.

use std::sync::Arc;

use anyhow::Context;
use rekindle_api::auth::Pki;
use rekindle_api::http::SystemClock;
use rekindle_node::StopMode;
use rekindle_runtime::Runtime;
use rekindle_runtime::image::registry::RegistrySettings;
use rekindle_types::PodRef;

use super::data_dir::DataDir;
use super::logs::LogSource;
use super::settings::Settings;
use super::{
    Errand, NodeStart, PKI, close_store, network, open_api, open_runtime, open_store, start_node,
    take_network_away,
};

/// Ends the pods with their grace periods and takes network, cgroups and run folder away. Answers the pods that ran.
pub async fn end(data_dir: DataDir, settings: &Settings) -> anyhow::Result<Vec<PodRef>> {
    let clock = SystemClock::start();
    let runtime =
        Arc::new(open_runtime(&data_dir, clock.shared(), RegistrySettings::default()).await?);
    let found = runtime.snapshot().await.context("look for pods that were left running")?;
    let mut pods: Vec<PodRef> = found.into_iter().map(|sandbox| sandbox.key.pod).collect();
    pods.sort();
    pods.dedup();
    let network = Arc::new(network::open(settings, &data_dir).await?);
    let pki = Pki::open(&data_dir.join(PKI), clock.now()).context("prepare the certificates")?;
    let (store, committer) = open_store(&data_dir)?;
    let front = open_api(&store, &data_dir, &pki, clock, LogSource::default())?;
    let start =
        NodeStart { settings, errand: Errand::EndPods, data_dir: &data_dir, front: &front, clock };
    let node = start_node(start, Arc::clone(&runtime), Arc::clone(&network)).await?;
    node.stop(StopMode::EndPods).await;
    take_network_away(network).await;
    runtime.leave().await.context("clear away what the pods left")?;
    close_store(&store, committer);
    Settings::forget(&data_dir)?;
    Ok(pods)
}
