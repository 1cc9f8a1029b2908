//! Pods that ask for another runtime than the one there is.

use serde_json::{Value, json};

use crate::harness::{Bench, PODS, pod};

fn pod_of(more: Value) -> String {
    let mut pod = pod("web");
    for (key, value) in more.as_object().unwrap() {
        pod["spec"][key] = value.clone();
    }
    pod.to_string()
}

/// Source: admission plugin RuntimeClass.
#[test]
fn a_pod_with_a_runtime_class_or_its_overhead_is_refused_as_upstream() {
    let overhead = "Pod Overhead set without corresponding RuntimeClass defined Overhead";
    let mut bench = Bench::new();
    for (given, why) in [
        (json!({"runtimeClassName": "gvisor"}), "RuntimeClass \"gvisor\" not found"),
        (
            json!({"runtimeClassName": "gvisor", "overhead": {"cpu": "1"}}),
            "RuntimeClass \"gvisor\" not found",
        ),
        (json!({"overhead": {"memory": "120Mi"}}), overhead),
    ] {
        let reply = bench.call("POST", PODS, &pod_of(given.clone()));
        assert_eq!(reply.code(), 403, "{given}");
        let status = reply.json();
        let message = format!("pods \"web\" is forbidden: pod rejected: {why}");
        assert_eq!(status["message"], json!(message), "{given}");
    }
    bench.call("POST", PODS, &pod_of(json!({"overhead": {}}))).ok();
}

#[test]
fn a_template_with_a_runtime_class_is_taken_with_a_warning() {
    let mut bench = Bench::new();
    let deployment = json!({
        "apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "web"},
        "spec": {"selector": {"matchLabels": {"app": "web"}}, "template": {
            "metadata": {"labels": {"app": "web"}},
            "spec": {"runtimeClassName": "gvisor", "containers": [{"name": "app", "image": "app:1"}]},
        }},
    });
    let path = "/apis/apps/v1/namespaces/default/deployments";
    let reply = bench.call("POST", path, &deployment.to_string());
    assert_eq!(reply.code(), 201);
    let warning =
        "spec.template.spec.runtimeClassName: pods are refused: RuntimeClass \"gvisor\" not found";
    assert!(reply.0.warnings.iter().any(|found| found == warning), "{:?}", reply.0.warnings);
}
