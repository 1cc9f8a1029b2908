//! What it costs to be asked what everything uses.

use std::time::{Duration, Instant};

use k8s_openapi::api::core::v1::Pod;
use kube::Api;
use kube::api::PostParams;

use crate::engine::Engine;
use crate::idle::wait_running;
use crate::restarts::pod;
use crate::sample::Report;

const PODS: usize = 100;
const SAMPLES: usize = 20;
/// As long as the engine keeps what it has found by walking through volumes and layers, and a
/// little more.
const WALKS_KEPT: Duration = Duration::from_secs(12);

pub async fn measure(report: &mut Report) -> anyhow::Result<()> {
    let engine = Engine::start().await?;
    let pods = Api::<Pod>::namespaced(engine.client.clone(), "default");
    for number in 0..PODS {
        pods.create(&PostParams::default(), &pod(&format!("asked-{number}"))?).await?;
    }
    wait_running(&pods, PODS).await?;
    let first = ask(&engine, "stats/summary").await?;
    report.durations(&format!("/stats/summary of {PODS} pods, first"), "≤ 500 ms", vec![first]);
    for path in ["stats/summary", "metrics/resource", "metrics/cadvisor", "metrics"] {
        let mut samples = Vec::new();
        for _ in 0..SAMPLES {
            samples.push(ask(&engine, path).await?);
        }
        report.durations(&format!("/{path} of {PODS} pods, again"), "≤ 50 ms", samples);
    }
    tokio::time::sleep(WALKS_KEPT).await;
    let anew = ask(&engine, "stats/summary").await?;
    report.durations(
        &format!("/stats/summary of {PODS} pods, walked anew"),
        "≤ 500 ms",
        vec![anew],
    );
    Ok(())
}

async fn ask(engine: &Engine, path: &str) -> anyhow::Result<Duration> {
    let path = format!("/api/v1/nodes/node-1/proxy/{path}");
    let request = http::Request::get(path).body(Vec::new())?;
    let start = Instant::now();
    let text = engine.client.request_text(request).await?;
    anyhow::ensure!(text.contains("asked-0") || text.contains("kubelet_"), "no answer: {text}");
    Ok(start.elapsed())
}
