//! `rekindle node remove`: the pods go elsewhere first, then the agent ends, then the Node goes.

use std::process::ExitCode;

use anyhow::Context;

use super::{EngineHandle, end, woken_agent};
use crate::args::NodeRemove;
use crate::client;
use crate::nodes::{self, CordonResult, UnmanagedPodPolicy};
use crate::output;

/// Carries the command out. Interrupted, it can be given again.
pub fn run(args: &NodeRemove) -> anyhow::Result<ExitCode> {
    let name = &args.node.name;
    let engine = EngineHandle::find(&args.node.data_dir)?;
    let node = engine.node(name)?;
    let unmanaged = match args.force {
        true => UnmanagedPodPolicy::Delete,
        false => {
            let refused = nodes::refuse_to_lose_volumes(&node);
            refused.with_context(|| format!("node {name} is not removed without --force"))?;
            UnmanagedPodPolicy::Refuse
        }
    };
    let cordoned = client::block_on(async {
        let client = client::connect_with(&engine.path().join("kubeconfig")).await?;
        nodes::cordon(&client, name).await.with_context(|| format!("cordon node {name}"))
    })?;
    match cordoned {
        // Nobody but an agent can say that the node's pods have ended; cordoned, it gets no others
        // meanwhile.
        CordonResult::Done => drop(woken_agent(&engine, &node)?),
        CordonResult::NoNode => {}
    }
    client::block_on(async {
        let client = client::connect_with(&engine.path().join("kubeconfig")).await?;
        let drained = nodes::drain(&client, name, unmanaged, output::tell).await;
        drained.with_context(|| format!("drain node {name}"))
    })?;
    end(&engine, &node).with_context(|| format!("stop node {name}"))?;
    client::block_on(async {
        let client = client::connect_with(&engine.path().join("kubeconfig")).await?;
        nodes::forget(&client, name).await
    })?;
    nodes::take_folder_away(&node)?;
    output::tell(format!("node {name} removed"));
    Ok(ExitCode::SUCCESS)
}
