//! The scenario of examples/ladder that needs several nodes: what is wrong with one node is left
//! behind by moving to another.
use std::path::Path;

use rekindle_testkit::{Engine, TIMEOUT, is};
use serde_json::Value;

const EXAMPLE: &str =
    concat!(env!("CARGO_MANIFEST_DIR"), "/../../../examples/ladder/node-local-fault.yaml");

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

    engine.until(&["podrestarts"], |restarts| {
        restarts.values().any(|restart| restart["status"]["phase"] == "Succeeded")
    });
    assert_eq!(only(&engine, "podrestarts")["spec"]["rung"], "Reschedule");

    let bad = std::fs::read_to_string(Path::new(&disks.0).join("accident")).unwrap();
    engine.until(&["pods"], |pods| {
        pods.values().any(|pod| is(pod, "Ready") && pod["spec"]["nodeName"] != bad.trim())
    });
    let moved = engine.get("pods");
    let moved = moved["items"].as_array().unwrap().iter();
    let moved: Vec<&Value> =
        moved.filter(|pod| pod["metadata"]["deletionTimestamp"].is_null()).collect();
    assert_eq!(moved.len(), 1, "{moved:#?}");
    let node = moved[0]["spec"]["nodeName"].as_str().unwrap();
    assert_ne!(node, bad.trim());
    let name = moved[0]["metadata"]["name"].as_str().unwrap();
    assert_eq!(engine.first_lines(&[name], 1), [format!("the disk of {node} is fine")]);
    let ledger = only(&engine, "restartledgers");
    assert_eq!(ledger["status"]["rung"], "Reschedule", "{:#}", ledger["status"]);
    assert_eq!(ledger["status"]["failuresTotal"], 2);
}
