//! A Deployment that burns CPU gets more pods, by what the node measures of real containers.

use rekindle_testkit::{Engine, TIMEOUT};
use serde_json::Value;

/// Each pod burns up to 100m, twice what it asks for; an autoscaler wants half.
const BURNER: &str = "
apiVersion: apps/v1
kind: Deployment
metadata: {name: burner}
spec:
  replicas: 1
  selector: {matchLabels: {app: burner}}
  template:
    metadata: {labels: {app: burner}}
    spec:
      terminationGracePeriodSeconds: 0
      containers:
      - name: burner
        image: localhost/host
        command: [sh, -c, 'while :; do :; done']
        resources: {requests: {cpu: 50m}, limits: {cpu: 100m}}
";

const AUTOSCALER: &str = "
apiVersion: autoscaling/v2
kind: HorizontalPodAutoscaler
metadata: {name: burner}
spec:
  scaleTargetRef: {apiVersion: apps/v1, kind: Deployment, name: burner}
  minReplicas: 1
  maxReplicas: 2
  metrics:
  - type: Resource
    resource: {name: cpu, target: {type: Utilization, averageUtilization: 50}}
";

#[test]
fn a_deployment_that_burns_cpu_is_scaled_up() {
    let engine = Engine::start();
    engine.apply(BURNER);
    engine.kubectl(&["rollout", "status", "deployment/burner", TIMEOUT]);
    engine.apply(AUTOSCALER);
    engine.wait_for("hpa/burner", ".status.desiredReplicas", "2");
    engine.wait_for("deployment/burner", ".status.readyReplicas", "2");

    let shown = engine.kubectl(&["get", "hpa", "burner", "-o", "json"]);
    let shown: Value = serde_json::from_str(&shown).unwrap();
    let current = &shown["status"]["currentMetrics"][0]["resource"];
    assert_eq!(current["name"], "cpu", "{shown:#}");
    let percent = current["current"]["averageUtilization"].as_i64().unwrap();
    // more than the tolerance lets pass, and at most its limit with as much again for the clock
    assert!((56..=400).contains(&percent), "{shown:#}");
    assert!(shown["status"]["lastScaleTime"].is_string(), "{shown:#}");

    let table = engine.kubectl(&["get", "hpa", "burner", "--no-headers"]);
    let cells: Vec<&str> = table.split_whitespace().collect();
    assert_eq!(cells[..3], ["burner", "Deployment/burner", "cpu:"], "{table}");
    assert!(cells[3].ends_with("%/50%"), "{table}");
    assert_eq!(cells[4..6], ["1", "2"], "{table}");

    let described = engine.kubectl(&["describe", "hpa", "burner"]);
    for text in [
        "SuccessfulRescale",
        "New size: 2; reason: cpu resource utilization (percentage of request) above target",
    ] {
        assert!(described.contains(text), "{described}");
    }
}
