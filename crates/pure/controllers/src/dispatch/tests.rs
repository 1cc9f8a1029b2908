//! Which changes of a pod its workload looks at: a pod is written several times before it is ready,
//! and none of a thousand such writes may make somebody count them all for nothing.

use rekindle_types::held::HeldPod;
use serde_json::{Value, json};

use super::*;
use crate::{NamespacedName, ResourceKind, ViewObject};

fn workload(kind: ResourceKind) -> (ViewObject, ControllerKey) {
    let set = json!({"metadata": {"name": "web", "namespace": "shop", "uid": "w1"},
        "spec": {"selector": {}, "serviceName": "web", "template": {"metadata": {}, "spec": {"containers": []}}}});
    let name = NamespacedName::new("shop", "web");
    macro_rules! read {
        ($($kind:ident),*) => {
            match kind {
                $(ResourceKind::$kind => (ViewObject::$kind(serde_json::from_value(set).map(std::sync::Arc::new).unwrap()), ControllerKey::$kind(name)),)*
                other => panic!("{other}"),
            }
        };
    }
    read!(ReplicaSet, DaemonSet, StatefulSet)
}

/// Whether the workload looks when its pod is changed by this patch.
fn wakes(kind: ResourceKind, patch: &Value) -> bool {
    let pod = json!({
        "metadata": {"name": "web-1", "namespace": "shop", "uid": "p1", "labels": {"app": "web"},
            "ownerReferences": [{"apiVersion": "apps/v1", "kind": kind.info().kind, "name": "web", "uid": "w1",
                "controller": true}]},
        "spec": {"containers": []},
        "status": {"phase": "Running", "conditions": [{"type": "Ready", "status": "True",
            "lastTransitionTime": "2026-11-21T12:00:00Z"}]},
    });
    let mut changed = pod.clone();
    merge(&mut changed, patch);
    let read = |pod: Value| ViewObject::from(serde_json::from_value::<HeldPod>(pod).unwrap());
    let (set, key) = workload(kind);
    let mut view = ClusterView::new();
    view.apply(set);
    view.apply(read(pod));
    let change = view.apply(read(changed)).unwrap();
    affected(&view, &change).contains(&key)
}

fn merge(value: &mut Value, patch: &Value) {
    match (value, patch) {
        (Value::Object(value), Value::Object(patch)) => {
            for (key, patch) in patch {
                merge(value.entry(key).or_insert(Value::Null), patch);
            }
        }
        (value, patch) => *value = patch.clone(),
    }
}

#[test]
fn a_workload_looks_at_its_pods_when_something_changed_that_it_counts() {
    let to_node = json!({"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [
        {"matchFields": [{"key": "metadata.name", "operator": "In", "values": ["n1"]}]}]}}});
    // (what changes, whether it wakes a ReplicaSet, a DaemonSet, a StatefulSet)
    for (patch, expected) in [
        (json!({"metadata": {"labels": {"app": "db"}}}), [true, true, true]),
        (json!({"metadata": {"ownerReferences": []}}), [true, true, true]),
        (json!({"metadata": {"deletionTimestamp": "2026-11-21T12:01:00Z"}}), [true, true, true]),
        (json!({"metadata": {"uid": "p2"}}), [true, true, true]),
        (json!({"status": {"phase": "Failed"}}), [true, true, true]),
        (json!({"status": {"phase": "Succeeded"}}), [true, true, true]),
        (json!({"status": {"conditions": []}}), [true, true, true]),
        (
            json!({"status": {"conditions": [{"type": "Ready", "status": "False"}]}}),
            [true, true, true],
        ),
        (
            json!({"status": {"conditions": [{"type": "Ready", "status": "True",
            "lastTransitionTime": "2026-11-21T12:00:07Z"}]}}),
            [true, true, true],
        ),
        (json!({"spec": {"nodeName": "n1"}}), [false, true, false]),
        (json!({"spec": {"affinity": to_node}}), [false, true, false]),
        (json!({"status": {"phase": "Pending"}}), [false, false, true]),
        (json!({"status": {"podIP": "10.0.0.7"}}), [false, false, false]),
        (json!({"status": {"startTime": "2026-11-21T11:59:00Z"}}), [false, false, false]),
        (
            json!({"metadata": {"annotations": {"a": "b"}, "resourceVersion": "9"}}),
            [false, false, false],
        ),
    ] {
        let kinds = [ResourceKind::ReplicaSet, ResourceKind::DaemonSet, ResourceKind::StatefulSet];
        assert_eq!(kinds.map(|kind| wakes(kind, &patch)), expected, "{patch}");
    }
}

#[test]
fn how_a_pod_ended_matters_to_who_replaces_it() {
    let change = |kind: ResourceKind| {
        let owner = json!([{"apiVersion": "apps/v1", "kind": kind.info().kind, "name": "web", "uid": "w1",
            "controller": true}]);
        let pod = |phase: &str| {
            let pod = json!({"metadata": {"name": "web-1", "namespace": "shop", "uid": "p1", "ownerReferences": owner},
                "spec": {"containers": []}, "status": {"phase": phase}});
            ViewObject::from(serde_json::from_value::<HeldPod>(pod).unwrap())
        };
        let (set, key) = workload(kind);
        let mut view = ClusterView::new();
        view.apply(set);
        view.apply(pod("Succeeded"));
        let change = view.apply(pod("Failed")).unwrap();
        affected(&view, &change).contains(&key)
    };
    let kinds = [ResourceKind::ReplicaSet, ResourceKind::DaemonSet, ResourceKind::StatefulSet];
    assert_eq!(kinds.map(change), [false, true, true]);
}
