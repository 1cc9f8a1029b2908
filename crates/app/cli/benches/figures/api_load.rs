//! The API under load: durable creates from many clients, and large lists.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use k8s_openapi::api::core::v1::ConfigMap;
use kube::Api;
use kube::api::{ListParams, PostParams};
use serde_json::json;

use crate::engine::Engine;
use crate::sample::{Amount, Report};

const CLIENTS: usize = 32;
const OBJECTS: usize = 5_000;
const LISTS: usize = 20;

pub async fn measure(engine: &Engine, report: &mut Report) -> anyhow::Result<()> {
    let next = Arc::new(AtomicUsize::new(0));
    let start = Instant::now();
    let mut clients = tokio::task::JoinSet::new();
    for _ in 0..CLIENTS {
        let (next, client) = (Arc::clone(&next), engine.client.clone());
        clients.spawn(async move {
            let objects = Api::<ConfigMap>::namespaced(client, "default");
            loop {
                let number = next.fetch_add(1, Ordering::Relaxed);
                if number >= OBJECTS {
                    return anyhow::Ok(());
                }
                let object = serde_json::from_value(json!({
                    "metadata": {"name": format!("load-{number}"), "labels": {"group": (number % 100).to_string()}},
                    "data": {"key": "value"},
                }))?;
                objects.create(&PostParams::default(), &object).await?;
            }
        });
    }
    while let Some(done) = clients.join_next().await {
        done??;
    }
    let per_second = OBJECTS as f64 / start.elapsed().as_secs_f64();
    report.amount(
        "creates of a ConfigMap per second, 32 clients, durable (client on the same cores)",
        "report",
        Amount::rate(per_second),
        format!("{per_second:.0} /s"),
    );

    let objects = Api::<ConfigMap>::namespaced(engine.client.clone(), "default");
    let all = lists(&objects, &ListParams::default()).await?;
    report.durations("list 5,000 ConfigMaps, decoded by the client", "report", all);
    let some = lists(&objects, &ListParams::default().labels("group=7")).await?;
    report.durations("list 50 of them by a label", "report", some);
    Ok(())
}

async fn lists(objects: &Api<ConfigMap>, params: &ListParams) -> anyhow::Result<Vec<Duration>> {
    let mut samples = Vec::new();
    for _ in 0..LISTS {
        let start = Instant::now();
        objects.list(params).await?;
        samples.push(start.elapsed());
    }
    Ok(samples)
}
