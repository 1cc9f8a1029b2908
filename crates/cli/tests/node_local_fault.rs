//! The scenario of examples/ladder that needs several nodes: what is wrong with one node is left behind by moving to another.
#![allow(
    clippy::disallowed_methods,
    clippy::unwrap_used,
    unreachable_pub,
    reason = "a black-box test drives processes and files"
)]

mod support;

use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::Stdio;

use serde_json::Value;
use support::{Engine, TIMEOUT};

const EXAMPLE: &str =
    concat!(env!("CARGO_MANIFEST_DIR"), "/../../examples/ladder/node-local-fault.yaml");

/// Where the example keeps the nodes' disks.
const DISKS: &str = "/run/rekindle-example-node-local-fault";

/// The disks, taken away also when the test fails.
struct Disks(String);

impl Drop for Disks {
    fn drop(&mut self) {
        // absent when the example did not come so far
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

/// The name of the first object of a kind, which is waited for.
fn first(engine: &Engine, kind: &str) -> String {
    let mut watch = engine
        .kubectl_command(&["get", kind, "--watch", "-o", "name", "--request-timeout=60s"])
        .stdout(Stdio::piped())
        .spawn()
        .expect("start kubectl");
    let line = BufReader::new(watch.stdout.take().unwrap()).lines().next();
    watch.kill().unwrap();
    watch.wait().unwrap();
    line.expect("one comes within a minute").unwrap()
}

fn only(engine: &Engine, kind: &str) -> Value {
    let list = engine.get(kind);
    let items = list["items"].as_array().unwrap();
    assert_eq!(items.len(), 1, "{kind}: {items:#?}");
    items[0].clone()
}

#[test]
fn what_is_wrong_with_a_node_is_left_behind_by_moving_to_another() {
    let mut engine = Engine::prepare();
    engine.launch(&["--nodes", "2"]);
    engine.kubectl(&["wait", "--for=create", "node/node-1-2", TIMEOUT]);
    engine.kubectl(&["wait", "--for=condition=Ready", "node/node-1-2", TIMEOUT]);
    // disks of this test's own
    let disks = Disks(format!("{DISKS}-{}", std::process::id()));
    let example = std::fs::read_to_string(EXAMPLE).unwrap().replace(DISKS, &disks.0);
    engine.apply(&example);

    let restart = first(&engine, "podrestarts");
    engine.wait_for(&restart, ".status.phase", "Succeeded");
    assert_eq!(only(&engine, "podrestarts")["spec"]["rung"], "Reschedule");
    engine.kubectl(&["wait", "--for=condition=Available", "deployment/node-local-fault", TIMEOUT]);

    let bad = std::fs::read_to_string(Path::new(&disks.0).join("accident")).unwrap();
    let moved = engine.get("pods");
    let moved = moved["items"].as_array().unwrap().iter();
    let moved: Vec<&Value> =
        moved.filter(|pod| pod["metadata"]["deletionTimestamp"].is_null()).collect();
    assert_eq!(moved.len(), 1, "{moved:#?}");
    let node = moved[0]["spec"]["nodeName"].as_str().unwrap();
    assert_ne!(node, bad.trim());
    let name = moved[0]["metadata"]["name"].as_str().unwrap();
    let log = engine.kubectl(&["logs", name]);
    assert_eq!(log, format!("the disk of {node} is fine\n"));
    let ledger = only(&engine, "restartledgers");
    assert_eq!(ledger["status"]["rung"], "Reschedule", "{:#}", ledger["status"]);
    assert_eq!(ledger["status"]["failuresTotal"], 2);
}
