//! Ladders that select the same pods: who writes one, or such pods, is told which of them decides.
//! What is said of words that a ladder does not have. What becomes of a restart's status.

use serde_json::{Value, json};

use crate::harness::{Bench, PODS, deployment, pod};

const LADDERS: &str = "/apis/rekindle.dev/v1alpha1/namespaces/default/restartladders";

fn ladder(name: &str, labels: Value) -> String {
    let spec = json!({"selector": {"matchLabels": labels}, "rungs": [{"rung": "Pod"}]});
    json!({"apiVersion": "rekindle.dev/v1alpha1", "kind": "RestartLadder", "metadata": {"name": name}, "spec": spec})
        .to_string()
}

/// Posts an object; answers the warnings.
#[track_caller]
fn made(bench: &mut Bench, target: &str, body: &str) -> Vec<String> {
    let reply = bench.call("POST", target, body);
    assert_eq!(reply.code(), 201, "{}", reply.text());
    bench.pass(1);
    reply.0.warnings.clone()
}

fn labelled(mut object: Value, labels: Value) -> String {
    object["metadata"]["labels"] = labels;
    object.to_string()
}

#[test]
fn a_ladder_that_selects_pods_of_an_older_one_is_pointed_out() {
    for (selector, says) in [
        (json!({"app": "web"}), Some("selects all that this one selects")),
        (json!({"app": "web", "tier": "front"}), Some("selects all that this one selects")),
        (json!({"tier": "front"}), Some("selects pod \"web-0\" and 1 more, too")),
        (json!({"app": "api"}), None),
        (json!({"tier": "back"}), None),
    ] {
        let mut bench = Bench::new();
        for name in ["web-0", "web-1"] {
            let pod = labelled(pod(name), json!({"app": "web", "tier": "front"}));
            assert!(made(&mut bench, PODS, &pod).is_empty());
        }
        let alone = made(&mut bench, LADDERS, &ladder("first", json!({"app": "web"})));
        assert_eq!(alone, Vec::<String>::new());
        let warnings = made(&mut bench, LADDERS, &ladder("second", selector.clone()));
        let expected = says.map(|says| {
            format!("RestartLadder \"first\" is older and {says}: it decides for what both select, and this one does not")
        });
        assert_eq!(warnings, Vec::from_iter(expected), "{selector}");
        // in another namespace nothing is shared
        let elsewhere = LADDERS.replace("default", "kube-system");
        assert!(made(&mut bench, &elsewhere, &ladder("third", selector)).is_empty());
    }
}

/// As upstream answers where the schema of a custom resource has an `enum`: the object, the field,
/// the word, and those that there are.
#[test]
fn a_word_that_a_ladder_does_not_have_is_refused_with_the_name_of_the_ladder() {
    let mut bench = Bench::new();
    made(&mut bench, LADDERS, &ladder("first", json!({"app": "web"})));
    let rungs = |rung: &str| json!([{"rung": "Container"}, {"rung": rung}]);
    let expected = |name: &str| {
        format!(
            "RestartLadder.rekindle.dev {name:?} is invalid: spec.rungs[1].rung: Unsupported value: \"Pood\": supported values: \
             \"Container\", \"Containers\", \"Pod\", \"Recreate\", \"Reschedule\", \"Rollback\""
        )
    };

    let mut second: Value = serde_json::from_str(&ladder("second", json!({"app": "web"}))).unwrap();
    second["spec"]["rungs"] = rungs("Pood");
    second["spec"]["window"] = Value::Null;
    let created = bench.call("POST", LADDERS, &second.to_string());
    let patch = json!({"spec": {"rungs": rungs("Pood")}}).to_string();
    let patched = bench.call("PATCH", &format!("{LADDERS}/first"), &patch);
    for (reply, name) in [(created, "second"), (patched, "first")] {
        assert_eq!(reply.code(), 422, "{}", reply.text());
        let status = reply.json();
        assert_eq!(status["message"], expected(name));
        assert_eq!(status["reason"], "Invalid");
        let cause = &status["details"]["causes"][0];
        assert_eq!(cause["reason"], "FieldValueNotSupported");
        assert_eq!(cause["field"], "spec.rungs[1].rung");
    }
}

#[test]
fn a_ladder_that_is_edited_hears_whether_it_decides() {
    let mut bench = Bench::new();
    made(&mut bench, LADDERS, &ladder("first", json!({"app": "web"})));
    made(&mut bench, LADDERS, &ladder("second", json!({"app": "api"})));
    let wider = json!({"spec": {"selector": {"matchLabels": {"app": null, "team": "shop"}}}});
    let change = |bench: &mut Bench, name: &str, patch: &Value| {
        let reply = bench.call("PATCH", &format!("{LADDERS}/{name}"), &patch.to_string());
        assert_eq!(reply.code(), 200, "{}", reply.text());
        reply.0.warnings.clone()
    };
    assert_eq!(change(&mut bench, "first", &wider), Vec::<String>::new());
    let narrower = json!({"spec": {"selector": {"matchLabels": {"team": "shop"}}}});
    let expected = "RestartLadder \"first\" is older and selects all that this one selects: \
                    it decides for what both select, and this one does not";
    assert_eq!(change(&mut bench, "second", &narrower), [expected]);
    let expected = "RestartLadder \"second\" is younger and all that it selects is selected by this one: \
                    this one decides for what both select, and that one does not";
    assert_eq!(change(&mut bench, "first", &narrower), [expected]);
    // what is deleted decides nothing
    bench.call("DELETE", &format!("{LADDERS}/first"), "").ok();
    assert_eq!(change(&mut bench, "second", &narrower), Vec::<String>::new());
}

#[test]
fn pods_that_two_ladders_select_are_pointed_out_when_they_come_later() {
    let mut bench = Bench::new();
    made(&mut bench, LADDERS, &ladder("zulu", json!({"app": "web"})));
    assert!(made(&mut bench, LADDERS, &ladder("alpha", json!({"tier": "front"}))).is_empty());
    let both = json!({"app": "web", "tier": "front"});
    let says = |pods: &str| {
        format!(
            "RestartLadders \"zulu\", \"alpha\" select {pods}: \"zulu\" decides, which is the oldest, and the others do not"
        )
    };
    assert_eq!(made(&mut bench, PODS, &labelled(pod("web"), both.clone())), [says("it")]);
    assert!(made(&mut bench, PODS, &labelled(pod("one"), json!({"app": "web"}))).is_empty());
    let mut workload = deployment("web");
    workload["spec"]["selector"]["matchLabels"] = both.clone();
    workload["spec"]["template"]["metadata"]["labels"] = both.clone();
    let deployments = "/apis/apps/v1/namespaces/default/deployments";
    assert_eq!(made(&mut bench, deployments, &workload.to_string()), [says("its pods")]);
    // whose template said so already
    let owner = json!({"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "web", "uid": "u", "controller": true});
    let mut owned = pod("owned");
    owned["metadata"]["ownerReferences"] = json!([owner]);
    assert!(made(&mut bench, PODS, &labelled(owned, both)).is_empty());
}

#[test]
fn the_status_of_a_request_that_is_over_or_taken_up_is_kept_whoever_writes_it() {
    const RESTARTS: &str = "/apis/rekindle.dev/v1alpha1/namespaces/default/podrestarts";
    let mut bench = Bench::new();
    let body = json!({"apiVersion": "rekindle.dev/v1alpha1", "kind": "PodRestart", "metadata": {"name": "again"},
        "spec": {"podName": "web-0"}});
    made(&mut bench, RESTARTS, &body.to_string());
    let target = format!("{RESTARTS}/again/status");
    let mut write = |status: Value| {
        let reply =
            bench.patch("merge-patch+json", &target, &json!({"status": status}).to_string());
        (reply.code(), reply.text())
    };
    for (status, code, says) in [
        (json!({"phase": "Running", "podUID": "a"}), 200, ""),
        (
            json!({"podUID": "b"}),
            422,
            "status.podUID: Forbidden: the request was taken up for another pod",
        ),
        (json!({"podUID": null}), 422, "status.podUID: Forbidden"),
        (json!({"message": "é".repeat(2049)}), 422, "status.message: Too long"),
        (json!({"phase": "Failed", "message": "its deadline passed"}), 200, ""),
        (
            json!({"phase": "Running"}),
            422,
            "status.phase: Forbidden: the request is over: it stays Failed",
        ),
        (json!({"message": "more words"}), 200, ""),
    ] {
        let (answered, text) = write(status.clone());
        assert_eq!(answered, code, "{status}: {text}");
        assert!(text.contains(says), "{status}: {text}");
    }
}
