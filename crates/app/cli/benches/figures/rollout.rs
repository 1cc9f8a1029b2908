//! A Deployment of many pods on one node: from its creation until its status says that all are
//! available.

use std::time::{Duration, Instant};

use anyhow::Context;
use futures::TryStreamExt;
use k8s_openapi::api::apps::v1::Deployment;
use kube::Api;
use kube::api::{DeleteParams, PostParams};
use kube::runtime::{WatchStreamExt, watcher};
use serde_json::json;

use crate::engine::Engine;
use crate::sample::Report;

const PODS: i32 = 50;
const SAMPLES: usize = 5;
/// A status of which nothing changes for so long will not be what is waited for.
const NEXT_IS_DUE: Duration = Duration::from_secs(60);

pub async fn measure(report: &mut Report) -> anyhow::Result<()> {
    let engine = Engine::start().await?;
    let deployments = Api::<Deployment>::namespaced(engine.client.clone(), "default");
    let mut took = Vec::new();
    for number in 0..SAMPLES {
        let name = format!("rolled-out-{number}");
        let begun = Instant::now();
        deployments.create(&PostParams::default(), &deployment(&name)?).await?;
        wait_available(&deployments, &name).await?;
        took.push(begun.elapsed());
        deployments.delete(&name, &DeleteParams::foreground()).await?;
        wait_gone(&deployments, &name).await?;
    }
    report.durations(
        &format!("{PODS} pods of 2 containers rolled out, all available"),
        "≤ 1 s",
        took,
    );
    Ok(())
}

fn deployment(name: &str) -> anyhow::Result<Deployment> {
    Ok(serde_json::from_value(json!({
        "metadata": {"name": name},
        "spec": {
            "replicas": PODS,
            "selector": {"matchLabels": {"app": name}},
            "template": {
                "metadata": {"labels": {"app": name}},
                "spec": {
                    "terminationGracePeriodSeconds": 1,
                    "containers": [
                        {"name": "one", "image": "localhost/demo", "args": ["signal"]},
                        {"name": "two", "image": "localhost/demo", "args": ["signal"]},
                    ],
                },
            },
        },
    }))?)
}

async fn wait_available(deployments: &Api<Deployment>, name: &str) -> anyhow::Result<()> {
    let config = watcher::Config::default().fields(&format!("metadata.name={name}"));
    let mut seen = Box::pin(watcher(deployments.clone(), config).applied_objects());
    let mut available = 0;
    while available < PODS {
        let next = tokio::time::timeout(NEXT_IS_DUE, seen.try_next()).await;
        let next = next.with_context(|| format!("{available} of {PODS} pods are available"))?;
        let status = next?.context("the watch of deployments ended")?.status;
        available = status.and_then(|status| status.available_replicas).unwrap_or(0);
    }
    Ok(())
}

/// Until the object and all that hangs on it is gone.
async fn wait_gone(deployments: &Api<Deployment>, name: &str) -> anyhow::Result<()> {
    let config = watcher::Config::default().fields(&format!("metadata.name={name}"));
    let mut seen = Box::pin(watcher(deployments.clone(), config));
    loop {
        let next = tokio::time::timeout(NEXT_IS_DUE, seen.try_next()).await;
        let next = next.with_context(|| format!("deployment {name} is being deleted"))?;
        match next?.context("the watch of deployments ended")? {
            watcher::Event::Delete(_) => return Ok(()),
            watcher::Event::InitDone if deployments.get_opt(name).await?.is_none() => return Ok(()),
            watcher::Event::Apply(_)
            | watcher::Event::Init
            | watcher::Event::InitApply(_)
            | watcher::Event::InitDone => {}
        }
    }
}
