//! A group of pods beside a kubelet: all stop before any starts.

use std::path::Path;

use rekindle_testkit::TIMEOUT;
use serde_json::{Value, json};

use crate::cluster_node::ClusterNode;

/// Says when it starts and when it is stopped.
fn script(name: &str) -> String {
    format!(
        "echo 'start {name}' >> /out/events; \
         trap 'echo \"stop {name}\" >> /out/events; exit 3' TERM; \
         while :; do sleep 1000 & wait; done"
    )
}

fn member(node: &ClusterNode, name: &str, out: &Path, lifecycle: Value) -> Value {
    let spec = json!({
        "terminationGracePeriodSeconds": 300,
        "containers": [{"name": "app", "image": "localhost/busybox:test", "lifecycle": lifecycle,
            "command": ["/bin/sh", "-c", script(name)],
            "volumeMounts": [{"name": "out", "mountPath": "/out"}]}],
        "volumes": [{"name": "out", "hostPath": {"path": out.display().to_string()}}],
    });
    node.labelled_pod(name, json!({"job": "train"}), spec)
}

/// Two members that run: one stops at once, the other when the test writes into `line`.
fn members(node: &ClusterNode, out: &Path) -> (Value, Value) {
    let fast = member(node, "fast", out, Value::Null);
    let hook = "[ -e /out/line ] || mkfifo /out/line; cat /out/line";
    let hook = json!({"preStop": {"exec": {"command": ["/bin/sh", "-c", hook]}}});
    let slow = member(node, "slow", out, hook);
    node.engine.until_one("pod/slow", |_| events(out).len() == 2);
    (fast, slow)
}

fn events(out: &Path) -> Vec<String> {
    let text = std::fs::read_to_string(out.join("events")).unwrap();
    text.lines().map(str::to_owned).collect()
}

/// The status of the request of a member when it has stopped.
fn stopped(node: &ClusterNode, pod: &str) -> Value {
    let requests = node.engine.until(&["podrestarts"], |all| {
        all.values().any(|request| {
            request["spec"]["podName"] == pod && request["status"]["stoppedAt"].is_string()
        })
    });
    let request = requests.into_values().find(|request| request["spec"]["podName"] == pod);
    request.unwrap()["status"].clone()
}

fn frozen(node: &ClusterNode, pod: &Value) -> String {
    let uid = pod["metadata"]["uid"].as_str().unwrap();
    std::fs::read_to_string(node.freezer(uid)).unwrap().trim().to_owned()
}

#[test]
fn a_pod_that_has_stopped_starts_when_all_of_its_group_have() {
    let mut node = ClusterNode::new();
    node.start_freezing_agent();
    let _operator = node.start_operator();
    let out = tempfile::tempdir().unwrap();
    let (fast, slow) = members(&node, out.path());
    node.ask("train", json!({"selector": {"matchLabels": {"job": "train"}}}));
    let waits = stopped(&node, "fast");
    assert_eq!(waits["runtime"]["freeze"]["step"], "Stopped", "{waits:#}");
    assert_eq!(frozen(&node, &fast), "1");
    let before = events(out.path());
    // the agent is killed: the next one lets the pod wait as well
    node.agent = None;
    node.start_freezing_agent();
    node.engine.until_one("pod/slow", |_| out.path().join("line").exists());
    assert_eq!(frozen(&node, &fast), "1", "the other one has not stopped");
    assert_eq!(events(out.path()), before);

    std::fs::write(out.path().join("line"), "go\n").unwrap();
    let group = node.until_phase("train", "Succeeded");
    assert_eq!(group["message"], "2 pods running again, after all had stopped", "{group:#}");
    let after = events(out.path());
    let since = after.strip_prefix(before.as_slice()).unwrap();
    let stop = since.iter().position(|event| event == "stop slow").unwrap();
    let start = since.iter().position(|event| event == "start fast").unwrap();
    assert!(stop < start, "{after:?}");
    for pod in [&fast, &slow] {
        assert_eq!(frozen(&node, pod), "0");
        let name = pod["metadata"]["name"].as_str().unwrap();
        let now = node.engine.get(&format!("pod/{name}"));
        assert_eq!(now["metadata"]["uid"], pod["metadata"]["uid"]);
        assert_ne!(now["status"]["podIP"], pod["status"]["podIP"], "a new sandbox");
    }
}

#[test]
fn a_pod_does_not_stay_frozen_when_its_group_is_deleted() {
    let mut node = ClusterNode::new();
    let _operator = node.start_operator();
    let out = tempfile::tempdir().unwrap();
    let (fast, _slow) = members(&node, out.path());
    for (name, is_agent_there) in [("first", true), ("second", false)] {
        node.start_freezing_agent();
        node.ask(name, json!({"selector": {"matchLabels": {"job": "train"}}}));
        stopped(&node, "fast");
        assert_eq!(frozen(&node, &fast), "1");
        let before = events(out.path());
        if !is_agent_there {
            node.agent = None;
        }
        node.engine.kubectl(&["delete", "podrestart", name]);
        let members = [0, 1].map(|number| format!("podrestart/{name}-{number}"));
        node.engine.kubectl(&["wait", "--for=delete", &members[0], &members[1], TIMEOUT]);
        if !is_agent_there {
            assert_eq!(frozen(&node, &fast), "1", "nothing runs that could thaw it");
            node.start_freezing_agent();
        }
        node.engine.until_one("pod/fast", |_| frozen(&node, &fast) == "0");
        node.engine.until_one("pod/fast", |_| events(out.path()).len() > before.len());
        node.agent = None;
    }
}

#[test]
fn pods_that_would_count_as_finished_are_killed_and_run_again() {
    let mut node = ClusterNode::new();
    node.start_freezing_agent();
    let out = tempfile::tempdir().unwrap();
    // it ends with 0 when it is asked to
    let script =
        "echo start >> /out/events; trap 'exit 0' TERM; while :; do sleep 1000 & wait; done";
    let spec = json!({
        "restartPolicy": "OnFailure",
        "containers": [{"name": "app", "image": "localhost/busybox:test",
            "command": ["/bin/sh", "-c", script],
            "volumeMounts": [{"name": "out", "mountPath": "/out"}]}],
        "volumes": [{"name": "out", "hostPath": {"path": out.path().display().to_string()}}],
    });
    let before = node.pod("work", spec);
    node.engine.until_one("pod/work", |_| out.path().join("events").exists());
    let restart = json!({
        "apiVersion": "rekindle.dev/v1alpha1", "kind": "PodRestart",
        "metadata": {"name": "again", "annotations": {"rekindle.dev/restart-includes": "OnFailure"}},
        "spec": {"podName": "work", "emptyDirs": "Keep"},
    });
    node.engine.apply(&restart.to_string());
    let status = node.until_phase("again", "Succeeded");
    assert_eq!(events(out.path()), ["start", "start"], "{status:#}");
    let after = node.engine.get("pod/work");
    assert_ne!(after["status"]["podIP"], before["status"]["podIP"], "a new sandbox");
    assert_eq!(frozen(&node, &before), "0");
}
