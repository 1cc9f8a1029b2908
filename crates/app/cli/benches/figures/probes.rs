//! What probing costs: pods that do nothing but answer.

use std::time::Duration;

use k8s_openapi::api::core::v1::Pod;
use kube::Api;
use kube::api::PostParams;
use serde_json::json;

use crate::engine::Engine;
use crate::idle::{idle_percent, wait_running};
use crate::sample::{Amount, Report};

const PODS: usize = 100;

pub async fn measure(report: &mut Report) -> anyhow::Result<()> {
    let engine = Engine::start().await?;
    let pods = Api::<Pod>::namespaced(engine.client.clone(), "default");
    for number in 0..PODS {
        pods.create(&PostParams::default(), &pod(number)?).await?;
    }
    wait_running(&pods, PODS).await?;
    // the work of starting them ends meanwhile, and each has been probed
    tokio::time::sleep(Duration::from_secs(15)).await;
    let percent = idle_percent(&engine).await?;
    report.amount(
        &format!("CPU while {PODS} pods are probed by HTTP and by a command every 10 s (engine and shims)"),
        "≤ 1 % of a core",
        Amount::cost(percent),
        format!("{percent:.2} %"),
    );
    Ok(())
}

/// A server that is asked by HTTP whether it lives, and by a command whether it is ready.
fn pod(number: usize) -> anyhow::Result<Pod> {
    Ok(serde_json::from_value(json!({
        "metadata": {"name": format!("probed-{number}")},
        "spec": {
            "terminationGracePeriodSeconds": 1,
            "containers": [{
                "name": "web",
                "image": "localhost/demo",
                "args": ["server", "--port", "8080"],
                "livenessProbe": {"httpGet": {"path": "/healthz", "port": 8080}, "periodSeconds": 10},
                "readinessProbe": {
                    "exec": {"command": ["/demo", "--version"]},
                    "periodSeconds": 10,
                },
            }],
        },
    }))?)
}
