//! From the start of the process to an API that answers and a node that is Ready.

use std::time::Instant;

use anyhow::Context;
use futures::TryStreamExt;
use k8s_openapi::api::core::v1::Node;
use kube::Api;
use kube::runtime::{WatchStreamExt, watcher};

use crate::engine::Engine;
use crate::sample::Report;

pub async fn measure(report: &mut Report) -> anyhow::Result<()> {
    let (mut api, mut node) = (Vec::new(), Vec::new());
    for _ in 0..5 {
        let engine = Engine::start().await?;
        api.push(engine.api_after);
        let nodes = watcher(Api::<Node>::all(engine.client.clone()), watcher::Config::default());
        let mut nodes = Box::pin(nodes.applied_objects());
        loop {
            let seen = nodes.try_next().await?.context("the watch of nodes ended")?;
            if is_ready(&seen) {
                node.push(Instant::now() - engine.started);
                break;
            }
        }
    }
    report.durations("process start → API answers", "≤ 50 ms", api);
    report.durations("process start → node Ready, seen by a client", "≤ 150 ms", node);
    Ok(())
}

fn is_ready(node: &Node) -> bool {
    node.status
        .iter()
        .flat_map(|status| status.conditions.iter().flatten())
        .any(|condition| condition.type_ == "Ready" && condition.status == "True")
}
