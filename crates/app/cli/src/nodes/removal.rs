//! What goes with a further node: its objects in the API, its folder, and what would be lost with
//! that.

use anyhow::{Context, bail};
use k8s_openapi::api::coordination::v1::Lease;
use k8s_openapi::api::core::v1::{Node, Pod};
use kube::api::{Api, DeleteParams, ListParams};
use kube::{Client, ResourceExt};

use super::FurtherNode;

/// Where leases of nodes live.
const LEASES: &str = "kube-node-lease";

/// The volumes of class local-path live in the node's folder.
pub fn refuse_to_lose_volumes(node: &FurtherNode) -> anyhow::Result<()> {
    let folder = node.path.join("local-path");
    let volumes = match std::fs::read_dir(&folder) {
        Ok(entries) => entries.count(),
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => 0,
        Err(error) => return Err(error).with_context(|| format!("list {}", folder.display())),
    };
    if volumes > 0 {
        bail!(
            "{volumes} volumes of class local-path are on node {}, and go with it: delete their claims first",
            node.file.name
        );
    }
    Ok(())
}

/// Takes the node's objects away, and what was left on it: pods that belong to a node, such as
/// those of its own files.
pub async fn forget(client: &Client, name: &str) -> anyhow::Result<()> {
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

/// Takes the node's folder away: the node is no more.
pub fn take_folder_away(node: &FurtherNode) -> anyhow::Result<()> {
    std::fs::remove_dir_all(&node.path).with_context(|| format!("remove {}", node.path.display()))
}

/// What is not there is gone.
fn gone(deleted: Result<(), kube::Error>) -> Result<(), kube::Error> {
    match deleted {
        Err(kube::Error::Api(status)) if status.code == 404 => Ok(()),
        other => other,
    }
}
