//! What is told as one, and what differs in more than its counts.

use rekindle_why::{
    Account, PodEvidence, WorkloadEvidence, WorkloadObjects, explain_pod, explain_workload,
};
use serde_json::{Value, json};

use crate::support::{NOW, crashed, event, evidence, ledger, pod};

fn of_deployment(pods: Vec<PodEvidence>) -> Account {
    let deployment = json!({"metadata": {"name": "web", "namespace": "shop"},
        "spec": {"replicas": pods.len(), "selector": {}, "template": {}}});
    let deployment = serde_json::from_value(deployment).unwrap();
    let workload = WorkloadObjects::Deployment(Box::new(deployment), Vec::new());
    explain_workload(&WorkloadEvidence { workload, events: vec![], pods, gone: vec![] }, NOW)
}

fn told(account: &Account, part: &str) -> Vec<(String, u32)> {
    let entries = account.history.iter().filter(|entry| entry.what.contains(part));
    entries.map(|entry| (entry.what.clone(), entry.count)).collect()
}

/// A pod of two containers whose names differ in a digit, each of which ended five times.
fn two_workers() -> Value {
    let mut pod = crashed(4, json!({}));
    for list in ["/spec/containers", "/status/containerStatuses"] {
        let list = pod.pointer_mut(list).and_then(Value::as_array_mut).unwrap();
        list[0]["name"] = json!("worker1");
        let mut second = list[0].clone();
        second["name"] = json!("worker2");
        list.push(second);
    }
    pod
}

#[test]
fn containers_whose_names_differ_in_a_digit_are_told_each_for_itself() {
    let of = |name| event("Odd", Some(name), "out of 7 things", 1);
    let mut evidence = evidence(two_workers(), vec![of("worker1"), of("worker2")]);
    let decision = |name| {
        json!({"at": "2026-11-21T11:55:00Z", "rung": "Pod", "count": 1,
            "reason": format!("container \"{name}\" exited with 1 3 times: restarting the whole pod")})
    };
    evidence.ledger = Some(ledger(
        json!({"failuresTotal": 2, "decisions": [decision("worker1"), decision("worker2")]}),
    ));
    let account = explain_pod(&evidence, NOW);
    for (part, count) in [(" ended; last it", 5), ("Odd", 1), ("the whole pod", 1)] {
        let told = told(&account, part);
        let counts: Vec<u32> = told.iter().map(|(_, count)| *count).collect();
        assert_eq!(counts, [count, count], "{part}: {told:#?}");
    }
}

#[test]
fn pods_that_exit_with_different_codes_are_two_groups() {
    let pods =
        [("web-1", 1, 3), ("web-2", 78, 3), ("web-3", 1, 9)].map(|(name, code, restarts)| {
            let mut pod = crashed(restarts, json!({"exitCode": code}));
            pod["metadata"]["name"] = json!(name);
            evidence(pod, vec![])
        });
    let account = of_deployment(pods.into());
    let names: Vec<_> = account.pods.iter().map(|group| group.names.join(" ")).collect();
    assert_eq!(names, ["web-1 web-3", "web-2"]);
    let ends = told(&account, "ended; last it");
    assert_eq!(ends.iter().map(|(_, count)| *count).collect::<Vec<_>>(), [14, 4], "{ends:?}");
}

#[test]
fn pods_on_different_dead_nodes_are_two_groups() {
    let pods =
        [("web-a", "node-2"), ("web-b", "node-3"), ("web-c", "node-2")].map(|(name, node)| {
            let running =
                json!({"ready": true, "state": {"running": {"startedAt": "2026-11-01T12:00:00Z"}}});
            let mut pod = pod(running);
            pod["metadata"]["name"] = json!(name);
            pod["spec"]["nodeName"] = json!(node);
            pod["status"]["conditions"][1]["status"] = json!("False");
            evidence(pod, vec![])
        });
    let account = of_deployment(pods.into());
    let names: Vec<_> = account.pods.iter().map(|group| group.names.join(" ")).collect();
    assert_eq!(names, ["web-a web-c", "web-b"]);
    for node in ["node-2", "node-3"] {
        let advice = format!("rekindle why node/{node} tells how its node does");
        assert!(account.advice.contains(&advice), "{:?}", account.advice);
    }
}
