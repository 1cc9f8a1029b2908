//! `emptyDirs: Clear` beside a kubelet, and what is kept of a pod before it is restarted.

use std::fs::File;
use std::path::Path;

use rekindle_testkit::prometheus::{Metrics, ask_endpoint};
use rustix::fs::{FileType, Mode};
use serde_json::{Value, json};

use crate::cluster_node::{ClusterNode, containers};
use crate::kubelet_double::empty_dir;

/// Says what it finds, leaves something behind, and ends by SIGTERM at once.
const SCRIPT: &str = "echo \"found $(ls /scratch /fast | grep -c poison)\" >> /out/starts; \
     mkdir -p /scratch/d; touch /scratch/poison /fast/poison; ln -sfn /out /scratch/d/link; \
     echo 'the wine is sour'; trap 'exit 3' TERM; while :; do sleep 1000 & wait; done";

fn spec(out: &Path) -> Value {
    let mounts = json!([{"name": "scratch", "mountPath": "/scratch"},
        {"name": "fast", "mountPath": "/fast"}, {"name": "out", "mountPath": "/out"}]);
    json!({
        "containers": [{"name": "app", "image": "localhost/busybox:test",
            "command": ["/bin/sh", "-c", SCRIPT], "volumeMounts": mounts}],
        "volumes": [{"name": "scratch", "emptyDir": {}},
            {"name": "fast", "emptyDir": {"medium": "Memory"}},
            {"name": "out", "hostPath": {"path": out.display().to_string()}}],
    })
}

/// What the latest start found, when there were more than so many.
fn found(out: &Path) -> String {
    let starts = std::fs::read_to_string(out.join("starts")).unwrap();
    starts.lines().next_back().unwrap_or_default().to_owned()
}

/// The pod runs, and has left something in both volumes.
fn poisoned(node: &ClusterNode, out: &Path) -> String {
    let pod = node.pod("web", spec(out));
    let uid = pod["metadata"]["uid"].as_str().unwrap().to_owned();
    for name in ["scratch", "fast"] {
        let poison = empty_dir(node.root.path(), &uid, name).join("poison");
        node.engine.until_one("pod/web", |_| poison.exists());
    }
    uid
}

#[test]
fn a_pod_starts_on_empty_volumes_and_its_cgroup_is_thawed() {
    let mut node = ClusterNode::new();
    let out = tempfile::tempdir().unwrap();
    let uid = poisoned(&node, out.path());
    node.start_seeing_agent();
    node.ask("clear", json!({"podName": "web", "rung": "Pod"}));
    let status = node.until_phase("clear", "Succeeded");
    assert_eq!(found(out.path()), "found 0", "{status:#}");
    assert!(out.path().join("starts").exists(), "no link was followed");
    assert_eq!(std::fs::read_to_string(node.freezer(&uid)).unwrap(), "0\n");
    let runtime = &status["runtime"];
    assert_eq!(runtime["freeze"]["step"], "Released", "{status:#}");
    let steps = status["steps"].as_array().unwrap();
    assert!(steps.iter().any(|step| step["message"] == "the emptyDir volumes are empty"));
    node.engine.wait_for_event("web", "PodRestarted", "(PodRestart clear)");
    let endpoint = &node.agent.as_ref().unwrap().endpoint;
    assert_eq!(ask_endpoint(endpoint, "GET", "/readyz"), ("200".to_owned(), "ok".to_owned()));
    let metrics = Metrics::read(&ask_endpoint(endpoint, "GET", "/metrics").1);
    let labels = [("rung", "Pod"), ("phase", "Succeeded")];
    assert_eq!(metrics.value("rekindle_agent_restarts_total", &labels), 1.0);
    // what the kubelet removes with the sandbox is kept
    let log = runtime["containers"][0]["lastLog"].as_str().unwrap();
    assert_eq!(log, "the wine is sour\n", "{status:#}");

    node.ask("keep", json!({"podName": "web", "rung": "Pod", "emptyDirs": "Keep"}));
    let status = node.until_phase("keep", "Succeeded");
    assert_eq!(found(out.path()), "found 2");
    assert_eq!(status["runtime"]["freeze"], Value::Null);
}

#[test]
fn an_agent_goes_on_with_a_pod_that_was_frozen_when_the_one_before_was_killed() {
    let mut node = ClusterNode::new();
    let out = tempfile::tempdir().unwrap();
    let mut hooked = spec(out.path());
    let line = out.path().join("line");
    rustix::fs::mknodat(rustix::fs::CWD, &line, FileType::Fifo, Mode::RUSR, 0).unwrap();
    hooked["containers"][0]["lifecycle"] =
        json!({"preStop": {"exec": {"command": ["/bin/sh", "-c", "cat /out/line"]}}});
    hooked["terminationGracePeriodSeconds"] = 300.into();
    let before = node.pod("web", hooked);
    let uid = before["metadata"]["uid"].as_str().unwrap().to_owned();
    node.start_seeing_agent();
    node.ask("clear", json!({"podName": "web", "rung": "Pod"}));
    let asked = node.engine.until_one("podrestart/clear", |restart| {
        restart["status"]["runtime"]["freeze"]["step"] == "Held"
    });
    // the hook reads: a process that is only starting would hold up its runtime once it is frozen
    let _line = File::options().write(true).open(line).unwrap();
    node.agent = None; // kill -9 while the hook runs; what follows is what it would have done
    std::fs::write(node.freezer(&uid), "1").unwrap();
    let old = asked["status"]["runtime"]["sandboxID"].as_str().unwrap().to_owned();
    node.runtime(async |calls| calls.stop_sandbox(&old).await).unwrap();
    node.start_seeing_agent();
    node.until_phase("clear", "Succeeded");
    assert_eq!(found(out.path()), "found 0");
    assert_eq!(std::fs::read_to_string(node.freezer(&uid)).unwrap(), "0\n");
    let seen = node.runtime(async |calls| calls.look(&uid).await).unwrap();
    assert_eq!(seen.sandboxes.len(), 1);
}

#[test]
fn a_restart_that_fails_leaves_the_volumes_and_thaws_the_pod() {
    let mut node = ClusterNode::new();
    let out = tempfile::tempdir().unwrap();
    let uid = poisoned(&node, out.path());
    let before = containers(&node.engine.get("pod/web"));
    node.start_seeing_agent();
    node.containerd.set_network_is_stubborn(true);
    node.ask("stubborn", json!({"podName": "web", "rung": "Pod"}));
    let status = node.until_phase("stubborn", "Failed");
    assert_eq!(status["runtime"]["freeze"]["step"], "Released", "{status:#}");
    assert_eq!(std::fs::read_to_string(node.freezer(&uid)).unwrap(), "0\n");
    assert!(empty_dir(node.root.path(), &uid, "scratch").join("poison").exists());
    node.containerd.set_network_is_stubborn(false);
    // the kubelet starts them again, at any time after their end
    node.engine.until_one("pod/web", |pod| containers(pod) != before);
}
