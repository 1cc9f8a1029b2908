//! Objects that are older than a rule: what stood there before stays, and what comes anew is
//! refused.

use bytes::Bytes;
use rekindle_store::{Mutation, WritePrecondition};
use serde_json::{Value, json};

use crate::harness::{Bench, PODS, pod};

/// Writes into the store what an earlier version had let through.
fn as_it_was_stored(bench: &mut Bench, name: &str, change: impl FnOnce(&mut Value)) {
    let mut object = bench.create(PODS, pod(name));
    object["metadata"]["finalizers"] = json!(["batch.kubernetes.io/job-tracking"]);
    change(&mut object);
    let key = format!("/pods/default/{name}");
    let value = Bytes::from(object.to_string());
    let mutation = Mutation::Put(&|_| value.clone());
    let pending = bench.api.store().write(&key, WritePrecondition::Present, mutation).unwrap();
    bench.committer.commit_pending().unwrap();
    pending.try_get().unwrap().unwrap();
}

#[test]
fn an_object_with_a_mistake_of_old_is_labelled_loses_its_finalizers_and_gets_no_new_mistake() {
    let mut bench = Bench::new();
    as_it_was_stored(&mut bench, "old", |pod| {
        pod["spec"]["resourceClaims"] = json!([{"name": "Upper", "resourceClaimName": "x"}]);
    });
    let target = format!("{PODS}/old");
    bench.call("PATCH", &target, r#"{"metadata":{"labels":{"a":"b"}}}"#).ok();
    let refused = bench.call("PATCH", &target, r#"{"spec":{"containers":null}}"#);
    assert_eq!(refused.code(), 422);
    assert!(refused.text().contains("spec.containers: Required value"), "{}", refused.text());
    assert!(!refused.text().contains("resourceClaims[0]"), "{}", refused.text());
    let pod = bench.call("PATCH", &target, r#"{"metadata":{"finalizers":null}}"#).ok();
    assert_eq!(pod["metadata"]["finalizers"], Value::Null);
}
