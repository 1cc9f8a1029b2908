//! The class `local-path` of the engine, and one of the user's own with its name.

use serde_json::{Value, json};

use crate::harness::{Bench, START};

const CLASSES: &str = "/apis/storage.k8s.io/v1/storageclasses";
const CLASS: &str = "/apis/storage.k8s.io/v1/storageclasses/local-path";

/// What the manifest of rancher's local-path-provisioner has, as `kubectl apply` sends it for an
/// object that is there.
fn ranchers() -> Value {
    json!({
        "metadata": {"annotations": {"kubectl.kubernetes.io/last-applied-configuration": "{}"}},
        "provisioner": "rancher.io/local-path", "reclaimPolicy": "Delete", "volumeBindingMode": "WaitForFirstConsumer",
    })
}

/// Starts the API again on what is stored.
fn start_again(bench: &mut Bench) {
    let pending = bench.api.bootstrap(START).unwrap();
    if !pending.is_empty() {
        bench.committer.commit_pending().unwrap();
    }
}

#[test]
fn a_class_of_the_users_own_takes_the_place_of_the_built_in_one() {
    let mut bench = Bench::new();
    assert_eq!(bench.get(CLASS)["metadata"]["annotations"]["rekindle.dev/built-in"], "true");
    let applied = bench.call("PATCH", CLASS, &ranchers().to_string()).ok();
    assert_eq!(applied["provisioner"], "rancher.io/local-path");
    assert_eq!(applied["metadata"]["annotations"]["rekindle.dev/built-in"], Value::Null);
    start_again(&mut bench);
    let kept = bench.get(CLASS);
    assert_eq!(kept, applied);
    // it is an ordinary class by now
    let back = json!({"provisioner": "rekindle.dev/local-path"}).to_string();
    let answer = bench.call("PATCH", CLASS, &back).text();
    assert!(
        answer.contains("rekindle.dev/local-path") && answer.contains("field is immutable"),
        "{answer}"
    );
    // and the engine's comes back when it is deleted
    bench.call("DELETE", CLASS, "").ok();
    start_again(&mut bench);
    assert_eq!(bench.get(CLASS)["provisioner"], "rekindle.dev/local-path");
}

#[test]
fn a_changed_built_in_class_stays_as_its_users_made_it() {
    let mut bench = Bench::new();
    let retain = json!({"reclaimPolicy": "Retain", "metadata": {"annotations": {"storageclass.kubernetes.io/is-default-class": "false"}}});
    let changed = bench.call("PATCH", CLASS, &retain.to_string()).ok();
    start_again(&mut bench);
    assert_eq!(bench.get(CLASS), changed);
}

#[test]
fn a_class_that_an_older_engine_made_is_marked_and_others_are_not() {
    let mut bench = Bench::new();
    let unmark = json!({"metadata": {"annotations": {"rekindle.dev/built-in": null}}}).to_string();
    bench.call("PATCH", CLASS, &unmark).ok();
    start_again(&mut bench);
    assert_eq!(bench.get(CLASS)["metadata"]["annotations"]["rekindle.dev/built-in"], "true");
    let other = json!({"metadata": {"name": "fast", "annotations": {"rekindle.dev/built-in": "true"}}, "provisioner": "x.example/y"});
    bench.create(CLASSES, other);
    let answer =
        bench.call("PATCH", &format!("{CLASSES}/fast"), "{\"provisioner\": \"x.example/z\"}");
    assert_eq!(answer.code(), 422);
}
