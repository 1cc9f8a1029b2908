//! Pods that run and are not ready, and what is not to blame for it: ends that are long past.

use expect_test::expect;
use rekindle_why::{AccountState, Cause, NodeEvidence, explain_node, explain_pod, render};
use serde_json::{Value, json};

use crate::support::{NOW, event, evidence, pod};

/// It was killed for lack of memory before it `started`, runs since, and is not ready `since` then.
fn not_ready(started: &str, since: &str) -> Value {
    let mut pod = pod(json!({
        "restartCount": 1, "state": {"running": {"startedAt": started}},
        "lastState": {"terminated": {"exitCode": 137, "reason": "OOMKilled",
            "startedAt": "2026-11-10T08:00:00Z", "finishedAt": "2026-11-11T12:00:00Z"}}
    }));
    pod["status"]["conditions"][1]["lastTransitionTime"] = json!(since);
    pod["status"]["conditions"][1]["message"] = json!("containers with unready status: [app]");
    pod
}

#[test]
fn an_end_of_ten_days_ago_is_not_blamed_for_a_readiness_probe_that_fails_now() {
    let pod = not_ready("2026-11-11T12:00:10Z", "2026-11-21T11:50:00Z");
    let unhealthy = event("Unhealthy", Some("app"), "Readiness probe failed: 503", 60);
    let evidence = evidence(pod, vec![unhealthy]);
    expect![[r#"
        pod shop/web: not ready
          container "app" runs and is not ready: its readiness probe fails: Readiness probe failed: 503

        Container "app" runs and is not ready: its readiness probe fails
          Readiness probe failed: 503

        What happened
          2026-11-01 12:00:00Z  placed on node-1
          2026-11-11 12:00:00Z  container "app" was killed for lack of memory (OOMKilled): its limit is 64Mi
          2026-11-21 11:00:00Z  container "app": Unhealthy: Readiness probe failed: 503 (60 times until 2026-11-21 11:57:59Z, every 58s)

        What would help
          - look at what the probe asks for; no restart follows from a failed readiness probe
    "#]].assert_eq(&render(&explain_pod(&evidence, NOW), NOW));
}

#[test]
fn an_end_is_past_once_the_container_was_ready_again_or_ran_for_ten_minutes() {
    // (started, not ready since, whether its end is past)
    for (started, since, is_past) in [
        ("2026-11-21T11:58:00Z", "2026-11-21T11:59:00Z", true),
        ("2026-11-21T11:58:00Z", "2026-11-21T11:57:50Z", false),
        // the crash itself, in a status that was written a moment after the new start
        ("2026-11-21T11:58:00Z", "2026-11-21T11:58:01Z", false),
        ("2026-11-21T11:49:59Z", "2026-11-21T11:49:59Z", true),
        ("2026-11-21T11:50:00Z", "2026-11-21T11:50:00Z", false),
    ] {
        let unhealthy = event("Unhealthy", Some("app"), "Readiness probe failed: 503", 60);
        let account = explain_pod(&evidence(not_ready(started, since), vec![unhealthy]), NOW);
        let (state, cause) = match is_past {
            true => (AccountState::NotReady, Cause::ReadinessFailed),
            false => (AccountState::Failing, Cause::OutOfMemory),
        };
        assert_eq!((account.state, account.containers[0].cause), (state, cause), "{started}");
    }
    let silent = evidence(not_ready("2026-11-11T12:00:10Z", "2026-11-21T11:50:00Z"), vec![]);
    let account = explain_pod(&silent, NOW);
    assert_eq!(account.state, AccountState::NotReady);
    assert_eq!(account.summary, "it is not ready: containers with unready status: [app]");
    assert!(account.advice.is_empty(), "no memory is short now: {:?}", account.advice);
}

/// As its dead node left it: its containers are ready by what that said last, and the pod is not.
fn on_a_dead_node(name: &str, node: &str) -> Value {
    let running =
        json!({"ready": true, "state": {"running": {"startedAt": "2026-11-01T12:00:00Z"}}});
    let mut pod = pod(running);
    pod["metadata"]["name"] = json!(name);
    pod["spec"]["nodeName"] = json!(node);
    pod["status"]["conditions"][1]["status"] = json!("False");
    pod
}

#[test]
fn a_pod_on_a_dead_node_leads_to_its_node() {
    let events = vec![event("NodeNotReady", None, "Node is not ready", 1)];
    let account = explain_pod(&evidence(on_a_dead_node("web", "node-1"), events), NOW);
    assert_eq!(account.state, AccountState::NotReady);
    assert_eq!(account.summary, "it is not ready: its node \"node-1\" is not heard of");
    assert_eq!(account.advice, ["rekindle why node/node-1 tells how its node does"]);

    // one of its containers is not ready: that is no word of the node's
    let mut gone = on_a_dead_node("web", "node-1");
    gone["status"]["containerStatuses"][0]["ready"] = json!(false);
    assert!(!explain_pod(&evidence(gone, vec![]), NOW).summary.contains("node-1"));
}

#[test]
fn a_node_names_its_pods_with_their_namespaces() {
    let node = json!({"metadata": {"name": "node-1"}, "status": {"conditions": [{"type": "Ready", "status": "True"}]}});
    let pods = ["shop", "bank"].map(|namespace| {
        let mut pod = not_ready("2026-11-21T11:58:00Z", "2026-11-21T11:57:50Z");
        pod["metadata"]["namespace"] = json!(namespace);
        evidence(pod, vec![])
    });
    let account = explain_node(
        &NodeEvidence {
            node: serde_json::from_value(node).unwrap(),
            pods: pods.into(),
            ..NodeEvidence::default()
        },
        NOW,
    );
    let [group] = account.pods.as_slice() else { panic!("{:#?}", account.pods) };
    assert_eq!(group.names, ["bank/web", "shop/web"]);
    assert_eq!(group.example.as_ref().map(|example| example.name.as_str()), Some("bank/web"));
}
