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
    let warning = "spec.template.spec.runtimeClassName: pods run only where the RuntimeClass \"gvisor\" has the handler \"rekindle\", the embedded runtime";
    assert!(reply.0.warnings.iter().any(|found| found == warning), "{:?}", reply.0.warnings);
}

/// There is one runtime. A pod that asks for another must not run with less isolation.
#[test]
fn a_pod_of_another_runtime_is_not_bound() {
    let mut bench = Bench::new();
    for (name, handler) in [("box", "gvisor"), ("plain", "rekindle")] {
        let class = json!({"metadata": {"name": name}, "handler": handler});
        bench.create("/apis/node.k8s.io/v1/runtimeclasses", class);
        let mut pod = pod(name);
        pod["spec"]["runtimeClassName"] = name.into();
        bench.create(PODS, pod);
    }
    let mut bind = |name: &str| {
        let body = json!({"metadata": {"name": name}, "target": {"name": "n1"}}).to_string();
        bench.call("POST", &format!("{PODS}/{name}/binding"), &body).text()
    };
    assert_eq!(
        bind("box"),
        "403 Forbidden: pods \"box\" is forbidden: no node has the handler \"gvisor\" of the RuntimeClass \"box\""
    );
    assert_eq!(bind("plain"), "201 : ");
}

#[test]
fn the_tolerations_of_a_pod_and_its_class_are_counted_before_they_are_compared() {
    let mut bench = Bench::new();
    let class = json!({
        "apiVersion": "node.k8s.io/v1", "kind": "RuntimeClass",
        "metadata": { "name": "own" }, "handler": "rekindle",
        "scheduling": { "tolerations": [{ "key": "own", "operator": "Exists" }] },
    });
    bench.create("/apis/node.k8s.io/v1/runtimeclasses", class);
    let tolerating = |count: usize| {
        let all: Vec<Value> = (0..count).map(|at| json!({ "key": format!("k{at}") })).collect();
        pod_of(json!({ "runtimeClassName": "own", "tolerations": all }))
    };
    let refused = bench.call("POST", PODS, &tolerating(1_000));
    assert_eq!(refused.code(), 403);
    let why = "it has 1003 tolerations with those of its RuntimeClass, and may have 1000";
    assert!(refused.json()["message"].as_str().unwrap().contains(why));
    let made = bench.call("POST", PODS, &tolerating(900)).ok();
    // with the two that every pod gets
    assert_eq!(made["spec"]["tolerations"].as_array().unwrap().len(), 903);
}
