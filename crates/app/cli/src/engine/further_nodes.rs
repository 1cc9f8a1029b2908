//! The agents of further nodes, as the arguments say.

use std::sync::Arc;

use anyhow::Context;
use rekindle_api_server::SystemClock;
use rekindle_api_server::pki::CertificateAuthority;

use super::images::EngineDir;
use super::own_node::OwnNode;
use super::settings::EngineSettings;
use crate::args::{NodesWanted, Up};
use crate::background;
use crate::nodes::{self, CommonNodeSettings, NodesFolder};

/// What further nodes are told.
pub fn common_of(
    args: &Up,
    settings: &EngineSettings,
    engine_dir: &EngineDir,
    own: &OwnNode,
) -> anyhow::Result<CommonNodeSettings> {
    let mut node = args.node.clone();
    if let Some(file) = &mut node.node_config {
        // an agent is started somewhere else
        *file = std::path::absolute(&file)
            .with_context(|| format!("find the node's settings {}", file.display()))?;
    }
    Ok(CommonNodeSettings {
        program: background::fingerprint()?,
        engine_dir: engine_dir.path().to_owned(),
        first_node: settings.node_name.clone(),
        api_of_the_node: own.api.of_the_node,
        api_of_pods: own.api.of_pods,
        cluster_dns: own.cluster_dns.address,
        bridge: settings.bridge.clone(),
        subnet: own.network.subnet(),
        ipv6_pods: own.network.ipv6_prefix(),
        max_container_restart_period_seconds: settings.max_container_restart_period_seconds,
        pod_pids_limit: settings.pod_pids_limit,
        heartbeat_period: args.failing.heartbeat_period(),
        node,
        registries: args.registries.clone(),
    })
}

/// Starts the agents of all further nodes, and of as many new ones as were asked for.
pub async fn launch(
    folder: &NodesFolder,
    common: &CommonNodeSettings,
    args: &Up,
    pki: &Arc<CertificateAuthority>,
    clock: SystemClock,
) -> anyhow::Result<()> {
    let at_least = usize::from(args.nodes.map_or(1, NodesWanted::at_least)) - 1;
    let (folder, common, pki) = (folder.clone(), common.clone(), Arc::clone(pki));
    let launch = move || {
        folder.create()?;
        if let Err(error) = common.keep(folder.path()) {
            // on a full disk: the nodes of before go on, and none can be added
            tracing::warn!("failed to prepare further nodes: {error:#}");
        }
        nodes::launch_all(&folder, &common, at_least, &pki, clock.now())
    };
    tokio::task::spawn_blocking(launch).await.context("start further nodes")?
}
