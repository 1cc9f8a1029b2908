use serde_json::{Value, json};

use super::*;

const NOW: Tick = Tick::from_secs(1_795_262_400);

fn pod(extra: Value) -> HeldPod {
    let mut pod = json!({
        "metadata": {"name": "web", "namespace": "shop", "uid": "u"},
        "spec": {"nodeName": "node-1", "containers": []}, "status": {"phase": "Running"}
    });
    merge(&mut pod, extra);
    serde_json::from_value(pod).unwrap()
}

fn merge(into: &mut Value, extra: Value) {
    match (into, extra) {
        (Value::Object(into), Value::Object(extra)) => {
            for (key, value) in extra {
                merge(into.entry(key).or_insert(Value::Null), value);
            }
        }
        (into, extra) => *into = extra,
    }
}

fn request(name: &str, spec: Value) -> PodRestart {
    let mut spec = spec;
    spec["podName"] = json!("web");
    serde_json::from_value(json!({"metadata": {"name": name, "namespace": "shop"}, "spec": spec}))
        .unwrap()
}

fn node(ready: &str) -> ViewObject {
    let node: k8s_openapi::api::core::v1::Node = serde_json::from_value(json!({
        "metadata": {"name": "node-1"},
        "status": {"conditions": [{"type": "Ready", "status": ready}]}
    }))
    .unwrap();
    node.into()
}

/// What would become of a request of this spec, with these objects there.
fn ahead(objects: Vec<ViewObject>, spec: Value) -> RestartPreview {
    let mut view = ClusterView::new();
    view.set_time(NOW);
    for object in objects {
        view.apply(object);
    }
    preview(&view, &Arc::new(request("asked", spec)), NOW)
}

#[track_caller]
fn refused(objects: Vec<ViewObject>, spec: Value, why: &str) {
    match ahead(objects, spec) {
        RestartPreview::Refused(message) => assert!(message.contains(why), "{message}"),
        other => panic!("{other:?}"),
    }
}

#[test]
fn a_pod_that_runs_on_a_node_that_answers_is_restarted() {
    for rung in ["Container", "Containers", "Pod", "Recreate"] {
        let objects = vec![pod(json!({})).into(), node("True")];
        assert_eq!(ahead(objects, json!({"rung": rung})), RestartPreview::Goes, "{rung}");
    }
}

#[test]
fn what_nobody_could_carry_out_is_refused_with_the_reason() {
    refused(vec![], json!({}), "there is no pod shop/web");
    refused(vec![pod(json!({})).into()], json!({"podUID": "v"}), "it was re-created");
    let unscheduled = pod(json!({"spec": {"nodeName": null}}));
    refused(vec![unscheduled.into()], json!({}), "is not on a node yet");
    for rung in ["Pod", "Recreate"] {
        let going = pod(json!({"metadata": {"deletionTimestamp": "2026-11-21T12:00:00Z"}}));
        refused(vec![going.into()], json!({"rung": rung}), "pod shop/web is terminating");
    }
    let ended = pod(json!({"status": {"phase": "Failed"}}));
    refused(vec![ended.into()], json!({}), "has finished (phase Failed)");
    let init = json!([{"name": "migrate"}, {"name": "proxy", "restartPolicy": "Always"}]);
    let named = || pod(json!({"spec": {"containers": [{"name": "app"}], "initContainers": init}}));
    for (name, why) in [
        ("ap", "pod shop/web has no container ap: it has app, proxy"),
        ("migrate", "is an init container"),
    ] {
        let spec = json!({"rung": "Container", "containerName": name});
        refused(vec![named().into()], spec, why);
    }
    for name in ["app", "proxy"] {
        let spec = json!({"rung": "Container", "containerName": name});
        assert_eq!(ahead(vec![named().into(), node("True")], spec), RestartPreview::Goes, "{name}");
    }
    let of_a_set = pod(json!({
        "metadata": {"ownerReferences": [{"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "web", "uid": "set", "controller": true}]},
        "spec": {"ephemeralContainers": [{"name": "debugger"}]},
    }));
    let spec = json!({"rung": "Container", "containerName": "debugger"});
    refused(vec![of_a_set.into()], spec, "debugger of pod shop/web is an ephemeral container");
    let mirror = pod(json!({"metadata": {"annotations": {"kubernetes.io/config.mirror": "x"}}}));
    refused(vec![mirror.into()], json!({"rung": "Recreate"}), "its node alone can replace it");
    refused(vec![pod(json!({})).into()], json!({"rung": "Rollback"}), "not of a Deployment");
}

/// A node starts what has run to its end again on the higher rungs only.
#[test]
fn a_container_that_has_run_to_its_end_is_not_restarted_by_itself() {
    let ahead_of = |container: Value, ended: Value, rung: Value| {
        let ended = pod(json!({
            "spec": {"containers": [container], "restartPolicy": "OnFailure"},
            "status": {"containerStatuses": [{
                "name": "app", "image": "", "imageID": "", "ready": false, "restartCount": 0, "state": ended,
            }]},
        }));
        ahead(vec![ended.into(), node("True")], rung)
    };
    let exited = |code: i32| json!({"terminated": {"exitCode": code}});
    let rule = |code: i32| json!([{"action": "Restart", "exitCodes": {"operator": "In", "values": [code]}}]);
    let app = || json!({"name": "app"});
    let with = |policy: &str, rules: Value| json!({"name": "app", "restartPolicy": policy, "restartPolicyRules": rules});
    let one = || json!({"rung": "Container", "containerName": "app"});
    for (container, ended, rung, is_refused) in [
        (app(), exited(0), one(), true),
        (app(), exited(1), one(), false),
        (app(), json!({"running": {}}), one(), false),
        (app(), exited(0), json!({"rung": "Container"}), false),
        (app(), exited(0), json!({"rung": "Pod"}), false),
        (with("Never", json!([])), exited(1), one(), true),
        (with("Never", rule(1)), exited(1), one(), false),
        (with("Always", json!([])), exited(0), one(), false),
    ] {
        let case = format!("{container} {ended} {rung}");
        let known = match ahead_of(container, ended, rung) {
            RestartPreview::Refused(why) => {
                why.contains("container app of pod shop/web has run to its end")
            }
            RestartPreview::Goes | RestartPreview::Waits(_) => false,
        };
        assert_eq!(known, is_refused, "{case}");
    }
}

#[test]
fn what_would_wait_says_for_what() {
    let waits = |objects, spec| match ahead(objects, spec) {
        RestartPreview::Waits(message) => message,
        other => panic!("{other:?}"),
    };
    let silent = waits(vec![pod(json!({})).into(), node("Unknown")], json!({}));
    assert!(silent.contains("node node-1 is not ready"), "{silent}");

    for (kind, waits) in
        [("", true), ("StatefulSet", true), ("DaemonSet", true), ("ReplicaSet", false)]
    {
        let owners = json!([{"apiVersion": "apps/v1", "kind": kind, "name": "web", "uid": "o", "controller": true}]);
        let owners = if kind.is_empty() { Value::Null } else { owners };
        let pod = pod(json!({"metadata": {"ownerReferences": owners}}));
        let told = ahead(vec![pod.into(), node("Unknown")], json!({"rung": "Recreate"}));
        let is_told = matches!(&told, RestartPreview::Waits(m) if m.contains("node node-1 is not ready: the pod does not end"));
        assert_eq!(is_told, waits, "{kind}: {told:?}");
    }

    let mut other = request("earlier", json!({}));
    other.status = Some(PodRestartStatus {
        phase: Some(PodRestartPhase::Running),
        ..PodRestartStatus::default()
    });
    let other = waits(vec![pod(json!({})).into(), other.into()], json!({}));
    assert!(other.contains("restart earlier of pod shop/web is in progress"), "{other}");

    let nowhere = waits(vec![pod(json!({})).into(), node("True")], json!({"rung": "Reschedule"}));
    assert!(nowhere.contains("no node but node-1 can take the pod"), "{nowhere}");
}
