//! The manifests of examples/deck, before and after their correction: what is lost is lost, and
//! what is saved is saved.
#![allow(
    clippy::disallowed_methods,
    clippy::unwrap_used,
    unreachable_pub,
    reason = "a black-box test drives processes and files"
)]

mod endings;
mod leaders;
mod traffic;

use std::path::Path;

use rekindle_testkit::{Engine, text};

/// Applies `examples/deck/NAME.yaml`.
pub fn apply(engine: &Engine, name: &str) {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../examples/deck");
    let manifest = folder.join(format!("{name}.yaml"));
    engine.kubectl(&["apply", "-f", manifest.to_str().unwrap()]);
}

/// Restarts a pod in place and waits until it is ready.
pub fn restart(engine: &Engine, pod: &str, rung: &str) {
    let output = engine.rekindle(&["restart", &format!("pod/{pod}"), "--rung", rung, "--wait"]);
    assert!(output.status.success(), "{}{}", text(&output.stdout), text(&output.stderr));
    engine.wait_ready(pod);
}

/// The names of the pods with this label that are not being ended.
pub fn pods_of(engine: &Engine, app: &str) -> Vec<String> {
    let listed = engine.kubectl(&["get", "pods", "-l", &format!("app={app}"), "-o", "json"]);
    let listed: serde_json::Value = serde_json::from_str(&listed).unwrap();
    let pods = listed["items"].as_array().unwrap().iter().map(|pod| &pod["metadata"]);
    let stay = pods.filter(|meta| meta["deletionTimestamp"].is_null());
    stay.map(|meta| meta["name"].as_str().unwrap().to_owned()).collect()
}
