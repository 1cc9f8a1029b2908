//! Quotas with real containers and the real kubectl: what is refused, what is shown, and how a
//! workload goes on when there is room. An engine that is killed finds its quotas as they were.
use rekindle_testkit::{Engine, TIMEOUT};
use serde_json::{Value, json};

const WEB: &str = "
apiVersion: apps/v1
kind: Deployment
metadata: {name: web}
spec:
  replicas: 3
  selector: {matchLabels: {app: web}}
  template:
    metadata: {labels: {app: web}}
    spec:
      terminationGracePeriodSeconds: 0
      containers:
      - name: web
        image: localhost/host
        command: [sleep, '100000']
        resources: {requests: {cpu: 100m}}
";

fn used(engine: &Engine) -> Value {
    engine.get("resourcequota/budget")["status"]["used"].clone()
}

/// A pod that ends at once.
fn task(name: &str) -> String {
    json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name}, "spec": {
        "restartPolicy": "Never", "containers": [{"name": "c", "image": "localhost/host",
            "command": ["true"], "resources": {"requests": {"cpu": "100m"}}}]}})
    .to_string()
}

#[test]
fn a_quota_bounds_a_workload_and_lets_it_go_on() {
    let mut engine = Engine::start();
    let hard = "--hard=pods=2,requests.cpu=250m,count/deployments.apps=1";
    engine.kubectl(&["create", "quota", "budget", hard]);
    engine.apply(WEB);
    engine.wait_for("deployment/web", ".status.readyReplicas", "2");
    let full = json!({"pods": "2", "requests.cpu": "200m", "count/deployments.apps": "1"});
    assert_eq!(used(&engine), full);
    let events = engine.until(&["events"], |events| {
        events.values().any(|event| {
            let message = event["message"].as_str().unwrap_or_default();
            event["reason"] == "FailedCreate" && message.contains("exceeded quota: budget")
        })
    });
    assert!(!events.is_empty());

    let refused = engine.kubectl_fails(&["apply", "-f", "-"], &task("more"));
    let exceeded = "is forbidden: exceeded quota: budget, requested: pods=1,requests.cpu=100m, \
                    used: pods=2,requests.cpu=200m, limited: pods=2,requests.cpu=250m";
    assert!(refused.contains(exceeded), "{refused}");
    let second = &["create", "deployment", "second", "--image=localhost/host"];
    let refused = engine.kubectl_fails(second, "");
    assert!(
        refused.contains("exceeded quota: budget, requested: count/deployments.apps=1"),
        "{refused}"
    );
    let shown = engine.kubectl(&["describe", "quota", "budget"]);
    assert!(shown.contains("requests.cpu") && shown.contains("250m"), "{shown}");
    let table = engine.kubectl(&["get", "quota"]);
    assert!(table.contains("pods: 2/2, requests.cpu: 200m/250m"), "{table}");

    // what was counted is there after a crash
    engine.kill();
    engine.launch(&[]);
    assert_eq!(used(&engine), full);

    let wider = r#"{"spec": {"hard": {"pods": "4", "requests.cpu": "1"}}}"#;
    engine.kubectl(&["patch", "quota", "budget", "-p", wider]);
    engine.wait_for("deployment/web", ".status.readyReplicas", "3");
    engine.apply(&task("task"));
    engine.wait_for("pod/task", ".status.phase", "Succeeded");
    let without_task = json!({"pods": "3", "requests.cpu": "300m", "count/deployments.apps": "1"});
    assert_eq!(used(&engine), without_task, "a pod that is over takes no room");
    engine.kubectl(&["delete", "deployment", "web", "--cascade=foreground", TIMEOUT]);
    let none = json!({"pods": "0", "requests.cpu": "0", "count/deployments.apps": "0"});
    assert_eq!(used(&engine), none);
}
