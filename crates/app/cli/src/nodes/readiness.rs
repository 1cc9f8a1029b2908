//! What a Node says of itself.

use std::time::Duration;

use anyhow::bail;
use futures::StreamExt;
use k8s_openapi::api::core::v1::Node;
use kube::runtime::WatchStreamExt;
use kube::runtime::watcher::{self};
use kube::{Api, Client};
use rekindle_object_watch::watcher;
use rekindle_types::nodes;

/// Waits until the API says that a node is Ready.
///
/// # Errors
/// When it does not say so in time.
pub async fn wait_ready(client: Client, name: &str, within: Duration) -> anyhow::Result<()> {
    let only = watcher::Config::default().fields(&format!("metadata.name={name}"));
    let seen = watcher(Api::<Node>::all(client), only).default_backoff().applied_objects();
    let mut ready = std::pin::pin!(seen.filter(|node| {
        let is_ready = node.as_ref().is_ok_and(nodes::is_ready);
        async move { is_ready }
    }));
    match tokio::time::timeout(within, ready.next()).await {
        Ok(_) => Ok(()),
        Err(_elapsed) => bail!("node {name} runs, but is not Ready yet"),
    }
}
