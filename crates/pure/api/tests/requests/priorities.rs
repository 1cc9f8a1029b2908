//! What a new pod takes over from its PriorityClass, and which classes there may be.

use serde_json::{Value, json};

use crate::harness::{Bench, PODS, pod};

const CLASSES: &str = "/apis/scheduling.k8s.io/v1/priorityclasses";

fn class(name: &str, value: i32, policy: &str) -> Value {
    json!({ "apiVersion": "scheduling.k8s.io/v1", "kind": "PriorityClass", "metadata": { "name": name },
            "value": value, "preemptionPolicy": policy })
}

fn pod_of(name: &str, more: Value) -> String {
    let mut pod = pod(name);
    for (key, value) in more.as_object().unwrap() {
        pod["spec"][key] = value.clone();
    }
    pod.to_string()
}

#[test]
fn every_cluster_has_the_two_system_classes_and_they_stay() {
    let mut bench = Bench::new();
    let list = bench.get(CLASSES);
    let classes: Vec<(&str, i64)> = list["items"]
        .as_array()
        .unwrap()
        .iter()
        .map(|class| {
            (class["metadata"]["name"].as_str().unwrap(), class["value"].as_i64().unwrap())
        })
        .collect();
    assert_eq!(
        classes,
        [("system-cluster-critical", 2_000_000_000), ("system-node-critical", 2_000_001_000)]
    );
    let reply = bench.call("DELETE", &format!("{CLASSES}/system-node-critical"), "");
    assert_eq!(reply.code(), 403);
    assert!(reply.text().contains("this is a system priority class and cannot be deleted"));
    bench.create(CLASSES, class("mine", 1, "Never"));
    assert_eq!(bench.call("DELETE", &format!("{CLASSES}/mine"), "").code(), 200);
}

#[test]
fn a_new_pod_gets_the_priority_and_the_preemption_policy_of_its_class() {
    let mut bench = Bench::new();
    bench.create(CLASSES, class("patient", 7, "Never"));
    // (what the pod says, its class, priority and policy in the end)
    let cases = [
        (json!({}), Value::Null, 0, "PreemptLowerPriority"),
        (json!({"priorityClassName": ""}), Value::Null, 0, "PreemptLowerPriority"),
        (json!({"priority": 0}), Value::Null, 0, "PreemptLowerPriority"),
        (json!({"priorityClassName": "patient"}), json!("patient"), 7, "Never"),
        (json!({"priorityClassName": "patient", "priority": 7}), json!("patient"), 7, "Never"),
        (
            json!({"priorityClassName": "system-node-critical"}),
            json!("system-node-critical"),
            2_000_001_000,
            "PreemptLowerPriority",
        ),
    ];
    for (number, (given, name, priority, policy)) in cases.into_iter().enumerate() {
        let created = bench.call("POST", PODS, &pod_of(&format!("p{number}"), given)).ok();
        let spec = &created["spec"];
        assert_eq!(spec["priorityClassName"], name, "case {number}");
        assert_eq!(spec["priority"], priority, "case {number}");
        assert_eq!(spec["preemptionPolicy"], policy, "case {number}");
    }
}

#[test]
fn a_pod_that_contradicts_its_class_or_names_none_that_exists_is_refused() {
    let mut bench = Bench::new();
    bench.create(CLASSES, class("patient", 7, "Never"));
    for (given, message) in [
        (json!({"priorityClassName": "absent"}), "no PriorityClass with name absent was found"),
        (
            json!({"priorityClassName": "patient", "priority": 8}),
            "the integer value of priority (8) must not be provided in pod spec; priority admission controller computed 7 \
             from the given PriorityClass name",
        ),
        (
            json!({"priorityClassName": "patient", "preemptionPolicy": "PreemptLowerPriority"}),
            "the string value of PreemptionPolicy (PreemptLowerPriority) must not be provided in pod spec; priority \
             admission controller computed Never from the given PriorityClass name",
        ),
        (json!({"priority": 5}), "computed 0 from the given PriorityClass name"),
    ] {
        let reply = bench.call("POST", PODS, &pod_of("p", given));
        assert_eq!(reply.code(), 403, "{}", reply.text());
        assert!(reply.text().contains(message), "{}", reply.text());
        assert!(reply.text().contains("pods \"p\" is forbidden"), "{}", reply.text());
    }
}

#[test]
fn one_class_at_most_is_the_default_and_pods_without_a_class_get_it() {
    let mut bench = Bench::new();
    let mut first = class("first", 10, "Never");
    first["globalDefault"] = json!(true);
    bench.create(CLASSES, first.clone());
    let created = bench.call("POST", PODS, &pod_of("p", json!({}))).ok();
    assert_eq!(created["spec"]["priorityClassName"], "first");
    assert_eq!(created["spec"]["priority"], 10);

    let mut second = class("second", 20, "Never");
    bench.create(CLASSES, second.clone());
    let told = "PriorityClass first is already marked as default. Only one default can exist";
    second["globalDefault"] = json!(true);
    let patch = r#"{"globalDefault":true}"#;
    let replies = [
        bench.patch("merge-patch+json", &format!("{CLASSES}/second"), patch),
        bench.call("PUT", &format!("{CLASSES}/second"), &second.to_string()),
    ];
    for reply in replies {
        assert_eq!(reply.code(), 403, "{}", reply.text());
        assert!(reply.text().contains(told), "{}", reply.text());
    }
    second["metadata"]["name"] = json!("third");
    assert_eq!(bench.call("POST", CLASSES, &second.to_string()).code(), 403);
    bench
        .patch("merge-patch+json", &format!("{CLASSES}/first"), r#"{"description":"changed"}"#)
        .ok();
    bench.patch("merge-patch+json", &format!("{CLASSES}/first"), r#"{"globalDefault":false}"#).ok();
    bench.patch("merge-patch+json", &format!("{CLASSES}/second"), patch).ok();
}

#[test]
fn a_manifest_sent_again_keeps_the_priority_that_the_pod_was_given() {
    let mut bench = Bench::new();
    bench.create(CLASSES, class("patient", 7, "Never"));
    let mut sent = pod("p");
    sent["spec"]["priorityClassName"] = json!("patient");
    let created = bench.create(PODS, sent);
    let mut again = created.clone();
    for field in ["priority", "preemptionPolicy"] {
        again["spec"].as_object_mut().unwrap().remove(field);
    }
    again["metadata"]["labels"] = json!({"new": "label"});
    let updated = bench.call("PUT", &format!("{PODS}/p"), &again.to_string()).ok();
    assert_eq!(updated["spec"]["priority"], 7);
    assert_eq!(updated["spec"]["preemptionPolicy"], "Never");
    bench.call("DELETE", &format!("{CLASSES}/patient"), "").ok();
    let patched = bench.patch(
        "merge-patch+json",
        &format!("{PODS}/p"),
        r#"{"metadata":{"labels":{"a":"b"}}}"#,
    );
    assert_eq!(patched.ok()["spec"]["priority"], 7, "a class that is gone takes nothing with it");
}
