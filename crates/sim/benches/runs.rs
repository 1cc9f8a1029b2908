//! How long runs take: `cargo bench -p rekindle-sim`. Wall-clock time is what is wanted here.
#![allow(clippy::disallowed_methods, reason = "a benchmark tells how long things take")]
#![allow(clippy::unwrap_used, reason = "a benchmark says by failing what it expected")]

use std::time::Instant;

use rekindle_sim::{Outcome, Policy, Scenario};
use serde_json::{Value, json};

const CRASH_LOOP: &str = include_str!("../../../examples/sim/crash-loop.yaml");

fn documents(text: &str) -> Vec<Value> {
    rekindle_manifest::objects(text).unwrap().into_iter().map(Value::Object).collect()
}

/// 30,000 pods on 1,000 nodes: a bad revision of one of thirty Deployments after ten minutes, 30 % of the nodes without a network
/// from minute 20 to minute 40.
fn large(nodes: usize, deployments: usize, replicas: usize) -> Vec<Value> {
    let deployment = |name: &str, image: &str| {
        json!({
            "apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": name},
            "spec": {
                "replicas": replicas,
                "selector": {"matchLabels": {"app": name}},
                "template": {
                    "metadata": {"labels": {"app": name}},
                    "spec": {"containers": [{"name": "app", "image": image}]},
                },
            },
        })
    };
    let mut documents = vec![json!({
        "apiVersion": "rekindle.dev/v1alpha1", "kind": "Scenario",
        "spec": {
            "for": "1h", "nodes": nodes,
            "behaviours": [{"image": "app:2", "exits": {"code": 1, "after": "2s"}}],
            "changes": [{"at": "10m", "apply": deployment("app-0", "app:2")}],
            "nodeLoss": [{"share": "30%", "from": "20m", "until": "40m"}],
        },
    })];
    documents.extend((0..deployments).map(|index| deployment(&format!("app-{index}"), "app:1")));
    documents
}

fn measure(name: &str, documents: Vec<Value>) -> Outcome {
    let scenario = Scenario::from_documents(documents).unwrap();
    let begin = Instant::now();
    let outcome = scenario.play(1, &Policy::AsWritten).unwrap();
    let took = begin.elapsed();
    println!(
        "{name}: {} ms; {} restarts, {} writes ({:.1} us each), {}/{} pods ready",
        took.as_millis(),
        outcome.restarts,
        outcome.figures.writes,
        took.as_micros() as f64 / outcome.figures.writes.max(1) as f64,
        outcome.ready,
        outcome.pods,
    );
    outcome
}

fn main() {
    let asked: Vec<String> =
        std::env::args().skip(1).filter(|arg| !arg.starts_with("--")).collect();
    let is_asked = |name: &str| asked.is_empty() || asked.iter().any(|asked| name.contains(asked));
    if is_asked("crash loop") {
        measure("crash loop, 1 pod, 20 days", documents(CRASH_LOOP));
    }
    if is_asked("small") {
        measure("small, 100 nodes, 1000 pods, 1 hour", large(100, 10, 100));
    }
    if is_asked("large") {
        measure("large, 1000 nodes, 30000 pods, 1 hour", large(1_000, 30, 1_000));
    }
}
