//! `rekindle node list`.

use std::collections::BTreeMap;
use std::process::ExitCode;

use anyhow::Context;
use comfy_table::{Table, presets};
use k8s_openapi::api::core::v1::{Node, Pod};
use kube::ResourceExt;
use kube::api::{Api, ListParams};
use rekindle_operator::SCALE_DOWN;

use super::EngineHandle;
use crate::args::NodeList;
use crate::client;
use crate::output;
use rekindle_types::nodes;

/// Carries the command out.
pub fn run(args: &NodeList) -> anyhow::Result<ExitCode> {
    let engine = EngineHandle::find(&args.data_dir)?;
    let mut agents =
        BTreeMap::from([(engine.common.first_node.clone(), "in the engine".to_owned())]);
    for node in engine.folder.list()? {
        let agent = match node.agent()? {
            Some(agent) => format!("pid {}", agent.pid()),
            None => "does not run".to_owned(),
        };
        agents.insert(node.file.name, agent);
    }
    let (nodes, pods) = client::block_on(async {
        let client = client::connect_with(&engine.path().join("kubeconfig")).await?;
        let all = ListParams::default();
        let nodes = Api::<Node>::all(client.clone()).list(&all).await.context("list the nodes")?;
        let pods = Api::<Pod>::all(client).list(&all).await.context("list the pods")?;
        Ok((nodes, pods))
    })?;
    let mut table = Table::new();
    table.load_preset(presets::NOTHING);
    table.set_header(["NAME", "STATUS", "AGENT", "PODS", "ADDRESSES OF PODS", "WITH --nodes auto"]);
    for (name, agent) in agents {
        let node = nodes.iter().find(|node| node.name_any() == name);
        let there =
            |pod: &&Pod| pod.spec.as_ref().and_then(|s| s.node_name.as_ref()) == Some(&name);
        let range = node.and_then(|node| node.spec.as_ref()?.pod_cidr.clone());
        table.add_row([
            name.clone(),
            status(node),
            agent,
            pods.iter().filter(there).count().to_string(),
            range.unwrap_or_default(),
            node.and_then(|node| node.annotations().get(SCALE_DOWN).cloned()).unwrap_or_default(),
        ]);
    }
    output::print(&format!("{table}\n"))?;
    Ok(ExitCode::SUCCESS)
}

/// As `kubectl get nodes` has it.
fn status(node: Option<&Node>) -> String {
    let Some(node) = node else { return "not registered".to_owned() };
    let ready = match nodes::readiness(node) {
        Some("True") => "Ready",
        Some("False") => "NotReady",
        Some(_) | None => "Unknown",
    };
    if nodes::is_cordoned(node) { format!("{ready},SchedulingDisabled") } else { ready.to_owned() }
}
