//! Pods that none of the nodes that are there can ever take, and pods that run while their probes
//! cannot be run.

use std::sync::Arc;

use expect_test::expect;
use rekindle_why::{AccountState, Cause, PodEvidence, explain_pod, render};
use serde_json::{Value, json};

use crate::support::{NOW, event, evidence, pod};

/// A pod that waits for a node, which the scheduler explains so, and the nodes there are.
fn waiting(message: &str, requests: Value, nodes: &[Value]) -> PodEvidence {
    let mut pod = pod(json!({}));
    pod["spec"]["nodeName"] = Value::Null;
    pod["spec"]["containers"][0]["resources"] = json!({"requests": requests});
    pod["status"] = json!({"phase": "Pending", "conditions": [{"type": "PodScheduled", "status": "False",
        "reason": "Unschedulable", "message": format!("0/2 nodes are available: {message}.")}]});
    let nodes = nodes.iter().map(|node| serde_json::from_value(node.clone()).unwrap()).collect();
    PodEvidence { nodes: Arc::new(nodes), ..evidence(pod, vec![]) }
}

fn node(name: &str, cpu: &str) -> Value {
    json!({"metadata": {"name": name, "labels": {"kubernetes.io/hostname": name}},
        "status": {"allocatable": {"cpu": cpu, "memory": "4Gi"}}})
}

#[test]
fn a_pod_that_no_node_is_large_enough_for_is_told_so() {
    let nodes = [node("n-1", "1"), node("n-2", "2")];
    let evidence = waiting("2 Insufficient cpu", json!({"cpu": "100", "memory": "1Gi"}), &nodes);
    expect![[r#"
        pod shop/web: blocked
          no node takes it: 0/2 nodes are available: 2 Insufficient cpu.; no node is large enough: it asks for 100 cpu, the largest node "n-2" has 2

        What would help
          - lower its requests of cpu to at most 2, or add a node that has as much; to make room does not help
    "#]].assert_eq(&render(&explain_pod(&evidence, NOW), NOW));
    let evidence = waiting("2 Insufficient cpu", json!({"cpu": "2"}), &nodes);
    assert!(explain_pod(&evidence, NOW).advice[0].starts_with("make room"));
    let evidence = waiting("2 Insufficient cpu", json!({"cpu": "100"}), &[]);
    assert!(explain_pod(&evidence, NOW).advice[0].starts_with("make room"), "no node can be read");
}

#[test]
fn a_pod_whose_volume_lies_on_a_node_that_is_gone_is_told_which() {
    let nodes = [node("n-1", "2")];
    let of_volume = |on: &str| {
        let message = "1 node(s) didn't match PersistentVolume's node affinity";
        let volume = json!({"metadata": {"name": "pvc-1"}, "spec": {
            "claimRef": {"name": "data", "namespace": "shop"},
            "nodeAffinity": {"required": {"nodeSelectorTerms": [{"matchExpressions": [
                {"key": "kubernetes.io/hostname", "operator": "In", "values": [on]}]}]}}}});
        PodEvidence {
            volumes: vec![serde_json::from_value(volume).unwrap()],
            ..waiting(message, json!({"cpu": "1"}), &nodes)
        }
    };
    expect![[r#"
        pod shop/web: blocked
          no node takes it: 0/2 nodes are available: 1 node(s) didn't match PersistentVolume's node affinity.; its volume "pvc-1" of claim "data" lies on node "n-2", which is gone

        What would help
          - bring that node back under its name with its disk; or, if the data may be lost, delete the claim "data" and the pod, so that a new volume is made
    "#]].assert_eq(&render(&explain_pod(&of_volume("n-2"), NOW), NOW));
    let there = explain_pod(&of_volume("n-1"), NOW);
    assert_eq!(there.advice, ["look at its PersistentVolumeClaims"]);
}

#[test]
fn a_pod_whose_probe_could_not_be_run_for_minutes_is_not_called_healthy() {
    let of = |ready: bool, probe: &str, count: u32, started: &str| {
        let pod = pod(json!({"ready": ready, "state": {"running": {"startedAt": started}}}));
        let words = format!(
            "{probe} probe errored and resulted in unknown state: exec: \"/bin/check\": no such file"
        );
        explain_pod(&evidence(pod, vec![event("Unhealthy", Some("app"), &words, count)]), NOW)
    };
    let account = of(true, "Liveness", 40, "2026-11-01T12:00:00Z");
    expect![[r#"
        pod shop/web: unchecked
          container "app" runs, and its liveness probe could not be run 40 times in 57m59s: Liveness probe errored and resulted in unknown state: exec: "/bin/check": no such file

        Container "app" runs, and its liveness probe could not be run 40 times in 57m59s
          Liveness probe errored and resulted in unknown state: exec: "/bin/check": no such file

        What happened
          2026-11-01 12:00:00Z  placed on node-1
          2026-11-21 11:00:00Z  container "app": Unhealthy: Liveness probe errored and resulted in unknown state: exec: "/bin/check": no such file (40 times until 2026-11-21 11:57:59Z, every 1m29s)

        What would help
          - mend what keeps the probe from being run; until then neither a restart nor a change of readiness follows from it
    "#]].assert_eq(&render(&account, NOW));
    let unready = of(false, "Readiness", 40, "2026-11-01T12:00:00Z");
    assert_eq!(
        (unready.state, unready.containers[0].cause),
        (AccountState::NotReady, Cause::ProbeErrored)
    );
    // once is an accident, and what an earlier run had says nothing of this one
    assert_eq!(of(true, "Liveness", 2, "2026-11-01T12:00:00Z").state, AccountState::Healthy);
    assert_eq!(of(true, "Liveness", 40, "2026-11-21T11:59:00Z").state, AccountState::Healthy);
}
