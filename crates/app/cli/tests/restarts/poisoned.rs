//! The main promise: a pod whose shared context is broken heals itself. Runs
//! examples/poisoned.yaml.
use std::collections::BTreeMap;
use std::path::Path;

use rekindle_testkit::{Engine, TIMEOUT};
use serde_json::Value;

#[test]
fn three_pods_with_a_poisoned_empty_dir_heal_by_a_restart_of_the_whole_pod_in_place() {
    let engine = Engine::start();
    let example = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../examples/poisoned.yaml");
    engine.kubectl(&["apply", "-f", example.to_str().unwrap()]);
    engine.wait_for("deployment/poisoned", ".status.replicas", "3");
    let before = uids(&engine);

    // The rung Pod is reached, which Kubernetes does not have: each container crashes as long as
    // its emptyDir holds the file.
    for pod in before.keys() {
        let ledger = format!("restartledger/{pod}");
        engine.kubectl(&["wait", "--for=create", &ledger, TIMEOUT]);
        engine.wait_for(&ledger, ".status.rung", "Pod");
        engine.wait_for(&format!("pod/{pod}"), ".status.containerStatuses[0].restartCount", "3");
    }
    engine.kubectl(&["rollout", "status", "deployment/poisoned", TIMEOUT]);

    // what the example remembers outside the pods is ours to take away
    for pod in before.keys() {
        std::fs::remove_file(Path::new("/run/rekindle-example-seeded").join(pod))
            .expect("the seed's marker");
    }
    assert_eq!(uids(&engine), before, "the pods are the same pods: names and UIDs");
    let pods = engine.get("pods");
    for pod in pods["items"].as_array().unwrap() {
        let name = pod["metadata"]["name"].as_str().unwrap();
        let status = &pod["status"]["containerStatuses"][0];
        assert!(
            status["restartCount"].as_i64().unwrap() == 3,
            "{name}: two container restarts, then the pod: {status}"
        );
        assert_eq!(status["lastState"]["terminated"]["exitCode"], 1, "{name}");
        let log = engine.kubectl(&["logs", name, "-c", "app"]);
        assert!(log.contains("nothing to crash for"), "{name}: {log}");
        for reason in ["BackOff", "LadderStep", "PodRestarted"] {
            engine.wait_for_event(name, reason, "");
        }
    }

    let succeeded = "--for=jsonpath={.status.phase}=Succeeded";
    engine.kubectl(&["wait", succeeded, "podrestarts", "--all", TIMEOUT]);
    let restarts = engine.get("podrestarts");
    assert_eq!(restarts["items"].as_array().unwrap().len(), 3, "one whole-pod restart each");
    let metrics = engine.kubectl(&["get", "--raw", "/metrics"]);
    for sample in [
        "rekindle_ladder_failures_total 9",
        "rekindle_ladder_attempts_total{rung=\"Container\"} 6",
        "rekindle_ladder_attempts_total{rung=\"Pod\"} 3",
        "rekindle_ladder_recovery_seconds_count{rung=\"Pod\"} ",
        "rekindle_ladder_wait_seconds_count{reason=\"Trial\"} ",
        "rekindle_ladder_exhausted_total 0",
    ] {
        assert!(metrics.contains(sample), "no {sample} in\n{metrics}");
    }
    let ledgers = engine.get("restartledgers");
    assert_eq!(ledgers["items"].as_array().unwrap().len(), 3, "one history each");
}

fn uids(engine: &Engine) -> BTreeMap<String, Value> {
    let pods = engine.get("pods");
    pods["items"]
        .as_array()
        .unwrap()
        .iter()
        .map(|pod| {
            (pod["metadata"]["name"].as_str().unwrap().to_owned(), pod["metadata"]["uid"].clone())
        })
        .collect()
}
