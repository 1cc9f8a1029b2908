//! `rekindle node remove`: the pods go elsewhere first, then the agent ends, then the Node goes.

use std::process::ExitCode;

use anyhow::{Context, bail};
use k8s_openapi::api::coordination::v1::Lease;
use k8s_openapi::api::core::v1::{Node, Pod};
use kube::api::{Api, DeleteParams, ListParams};
use kube::{Client, ResourceExt};

use super::drain::{self, Unmanaged};
use super::{Engine, end};
use crate::args::NodeRemove;
use crate::client;
use crate::nodes::FurtherNode;

/// Where leases of nodes live.
const LEASES: &str = "kube-node-lease";

/// Carries the command out. Interrupted, it can be given again.
pub fn run(args: &NodeRemove) -> anyhow::Result<ExitCode> {
    let name = &args.node.name;
    let engine = Engine::find(&args.node.data_dir)?;
    let node = engine.node(name)?;
    let unmanaged = match args.force {
        true => Unmanaged::Delete,
        false => {
            refuse_to_lose_volumes(&node)?;
            Unmanaged::Refuse
        }
    };
    client::block_on(async {
        let client = client::connect_with(&engine.path().join("kubeconfig")).await?;
        drain::drain(&client, name, unmanaged).await.with_context(|| format!("drain node {name}"))
    })?;
    end(&engine, &node).with_context(|| format!("stop node {name}"))?;
    client::block_on(async {
        let client = client::connect_with(&engine.path().join("kubeconfig")).await?;
        forget(&client, name).await
    })?;
    std::fs::remove_dir_all(&node.path)
        .with_context(|| format!("remove {}", node.path.display()))?;
    println!("node {name} removed");
    Ok(ExitCode::SUCCESS)
}

/// The volumes of class local-path live in the node's folder.
fn refuse_to_lose_volumes(node: &FurtherNode) -> anyhow::Result<()> {
    let folder = node.path.join("local-path");
    let volumes = match std::fs::read_dir(&folder) {
        Ok(entries) => entries.count(),
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => 0,
        Err(error) => return Err(error).with_context(|| format!("list {}", folder.display())),
    };
    if volumes > 0 {
        bail!(
            "{volumes} volumes of class local-path are on node {}, and go with it: delete their claims, or give --force",
            node.file.name
        );
    }
    Ok(())
}

/// Takes the node's objects away, and what was left on it: pods that belong to a node, such as those of its own files.
async fn forget(client: &Client, name: &str) -> anyhow::Result<()> {
    let there = ListParams::default().fields(&format!("spec.nodeName={name}"));
    let at_once = DeleteParams::default().grace_period(0);
    for pod in Api::<Pod>::all(client.clone()).list(&there).await.context("list its pods")? {
        let api =
            Api::<Pod>::namespaced(client.clone(), pod.metadata.namespace.as_deref().unwrap_or(""));
        gone(api.delete(&pod.name_any(), &at_once).await.map(drop))
            .with_context(|| format!("delete pod {}", pod.name_any()))?;
    }
    let usual = DeleteParams::default();
    gone(Api::<Node>::all(client.clone()).delete(name, &usual).await.map(drop))
        .with_context(|| format!("delete node {name}"))?;
    let leases = Api::<Lease>::namespaced(client.clone(), LEASES);
    gone(leases.delete(name, &usual).await.map(drop))
        .with_context(|| format!("delete the lease of node {name}"))
}

/// What is not there is gone.
fn gone(deleted: Result<(), kube::Error>) -> Result<(), kube::Error> {
    match deleted {
        Err(kube::Error::Api(status)) if status.code == 404 => Ok(()),
        other => other,
    }
}
