//! delete, of one and of many, and what goes by itself: what it does and what it says when it
//! refuses. Wording: apimachinery `api/errors`, apiserver `registry/rest` and `endpoints/handlers`.

use expect_test::expect;
use serde_json::json;

use crate::harness::{Bench, CONFIG_MAPS, DEPLOYMENTS, PODS, config_map, deployment, pod, texts};

#[test]
fn deletes_obey_preconditions() {
    let mut bench = Bench::new();
    bench.create(CONFIG_MAPS, config_map("a"));
    let target = format!("{CONFIG_MAPS}/a");
    let replies = vec![
        bench.call("DELETE", &target, r#"{"preconditions":{"uid":"x"}}"#),
        bench.call("DELETE", &target, r#"{"preconditions":{"resourceVersion":"1"}}"#),
        bench.call("DELETE", &target, r#"{"propagationPolicy":"Sideways"}"#),
        bench.call("DELETE", &target, r#"{"dryRun":["Some"]}"#),
        bench.call("DELETE", &format!("{CONFIG_MAPS}/b"), ""),
        bench.call("DELETE", "/api/v1/namespaces/default", ""),
    ];
    expect![[r#"
        409 Conflict: Operation cannot be fulfilled on ConfigMap "a": the UID in the precondition (x) does not match the UID in record (fa0b40cc-17be-462c-8a1b-1859a04761f1). The object might have been deleted and then recreated
        409 Conflict: Operation cannot be fulfilled on ConfigMap "a": the ResourceVersion in the precondition (1) does not match the ResourceVersion in record (74). The object might have been modified
        422 Invalid: DeleteOptions.meta.k8s.io "" is invalid: propagationPolicy: Unsupported value: "Sideways": supported values: "Foreground", "Background", "Orphan", "nil"
        422 Invalid: DeleteOptions.meta.k8s.io "" is invalid: dryRun: Unsupported value: ["Some"]: supported values: "All"
        404 NotFound: configmaps "b" not found
        403 Forbidden: namespaces "default" is forbidden: this namespace may not be deleted"#]].assert_eq(&texts(replies));
    let gone = bench.call("DELETE", &target, "").ok();
    assert_eq!(
        (&gone["kind"], &gone["status"], &gone["details"]["name"]),
        (&json!("Status"), &json!("Success"), &json!("a"))
    );
    assert_eq!(bench.call("GET", &target, "").code(), 404);
}

#[test]
fn a_pod_on_a_node_gets_its_grace_and_a_second_delete_only_shortens_it() {
    let mut bench = Bench::new();
    let mut on_node = pod("p");
    on_node["spec"]["nodeName"] = "n1".into();
    bench.create(PODS, on_node);
    bench.create(PODS, pod("unscheduled"));
    let target = format!("{PODS}/p");
    let times = |value: &serde_json::Value| {
        (
            value["metadata"]["deletionTimestamp"].as_str().unwrap().to_owned(),
            value["metadata"]["deletionGracePeriodSeconds"].as_i64().unwrap(),
        )
    };
    let first = bench.call("DELETE", &target, "").ok();
    assert_eq!(times(&first), ("2026-11-18T11:07:10Z".to_owned(), 30));
    bench.pass(5);
    assert_eq!(
        times(&bench.call("DELETE", &target, "").ok()),
        times(&first),
        "again: nothing changes"
    );
    let longer = bench.call("DELETE", &target, r#"{"gracePeriodSeconds":60}"#).ok();
    assert_eq!(times(&longer), times(&first), "longer: nothing changes");
    let shorter = bench.call("DELETE", &format!("{target}?gracePeriodSeconds=10"), "").ok();
    assert_eq!(
        times(&shorter),
        ("2026-11-18T11:06:50Z".to_owned(), 10),
        "counted from the first delete"
    );
    // nobody can take the deletion back
    let kept = bench.patch(
        "merge-patch+json",
        &target,
        r#"{"metadata":{"deletionTimestamp":null,"deletionGracePeriodSeconds":null}}"#,
    );
    assert_eq!(times(&kept.ok()), times(&shorter));
    bench.call("DELETE", &target, r#"{"gracePeriodSeconds":0}"#).ok();
    assert_eq!(bench.call("GET", &target, "").code(), 404);
    bench.call("DELETE", &format!("{PODS}/unscheduled"), r#"{"gracePeriodSeconds":30}"#).ok();
    assert_eq!(
        bench.call("GET", &format!("{PODS}/unscheduled"), "").code(),
        404,
        "a pod without a node goes at once"
    );
}

#[test]
fn a_pod_that_was_made_failed_goes_when_nothing_of_it_runs_any_more() {
    let mut bench = Bench::new();
    let mut on_node = pod("p");
    on_node["spec"]["nodeName"] = "n1".into();
    let target = format!("{PODS}/p");
    let is = |state: &str| {
        format!(
            r#"{{"status":{{"phase":"Failed","containerStatuses":[{{"name":"c","image":"i","imageID":"","ready":false,
                "restartCount":0,"state":{state}}}]}}}}"#
        )
    };
    let (runs, ended) = (
        is(r#"{"running":{"startedAt":"2026-11-18T11:00:00Z"}}"#),
        is(r#"{"terminated":{"exitCode":143},"running":null}"#),
    );
    // (its status, whether a deletion leaves it to its node)
    for (status, is_left) in [(&runs, true), (&ended, false)] {
        bench.create(PODS, on_node.clone());
        bench.patch("merge-patch+json", &format!("{target}/status"), status).ok();
        let answer = bench.call("DELETE", &target, "").ok();
        let grace = answer["metadata"]["deletionGracePeriodSeconds"].as_i64();
        assert_eq!(bench.call("GET", &target, "").code() == 200, is_left, "{status}");
        assert_eq!(grace, Some(if is_left { 30 } else { 0 }), "{status}");
        bench.call("DELETE", &target, r#"{"gracePeriodSeconds":0}"#);
    }
}

#[test]
fn finalizers_hold_an_object_until_the_last_is_gone() {
    let mut bench = Bench::new();
    let mut held = config_map("a");
    held["metadata"]["finalizers"] = json!(["example.com/one"]);
    bench.create(CONFIG_MAPS, held);
    let target = format!("{CONFIG_MAPS}/a");
    let marked = bench.call("DELETE", &target, "").ok();
    assert_eq!(
        (
            &marked["metadata"]["deletionGracePeriodSeconds"],
            &marked["metadata"]["deletionTimestamp"]
        ),
        (&json!(0), &json!("2026-11-18T11:06:40Z"))
    );
    let more = bench.patch(
        "merge-patch+json",
        &target,
        r#"{"metadata":{"finalizers":["example.com/one","example.com/two"]}}"#,
    );
    expect![[r#"422 Invalid: ConfigMap "a" is invalid: metadata.finalizers: Forbidden: no new finalizers can be added if the object is being deleted, found new finalizers []string{"example.com/two"}"#]].assert_eq(&more.text());
    bench.patch("merge-patch+json", &target, r#"{"metadata":{"finalizers":null}}"#).ok();
    assert_eq!(bench.call("GET", &target, "").code(), 404);
}

#[test]
fn propagation_leaves_its_finalizer_for_the_garbage_collector() {
    let mut bench = Bench::new();
    for (policy, finalizers) in
        [("Orphan", json!(["orphan"])), ("Foreground", json!(["foregroundDeletion"]))]
    {
        let name = policy.to_lowercase();
        bench.create(DEPLOYMENTS, deployment(&name));
        let body = json!({"propagationPolicy": policy}).to_string();
        let marked = bench.call("DELETE", &format!("{DEPLOYMENTS}/{name}"), &body).ok();
        assert_eq!(marked["metadata"]["finalizers"], finalizers);
        assert_eq!(marked["metadata"]["generation"], 2, "a deletion is a change");
    }
    bench.create(DEPLOYMENTS, deployment("background"));
    bench
        .call("DELETE", &format!("{DEPLOYMENTS}/background?propagationPolicy=Background"), "")
        .ok();
    assert_eq!(bench.call("GET", &format!("{DEPLOYMENTS}/background"), "").code(), 404);
}

/// Source: upstream, `rcStrategy.DefaultGarbageCollectionPolicy` and `shouldOrphanDependents`.
#[test]
fn the_pods_of_a_replication_controller_stay_unless_something_else_is_said() {
    let mut bench = Bench::new();
    let controllers = "/api/v1/namespaces/default/replicationcontrollers";
    let pods = json!({"metadata": {"labels": {"app": "web"}},
        "spec": {"containers": [{"name": "web", "image": "web"}]}});
    let cases = [
        (json!([]), json!({}), Some(json!(["orphan"]))),
        (json!(["example.com/a"]), json!({}), Some(json!(["example.com/a", "orphan"]))),
        (json!(["foregroundDeletion"]), json!({}), Some(json!(["foregroundDeletion"]))),
        (json!([]), json!({"propagationPolicy": "Background"}), None),
        (json!([]), json!({"orphanDependents": false}), None),
    ];
    for (number, (before, options, after)) in cases.into_iter().enumerate() {
        let name = format!("web-{number}");
        bench.create(
            controllers,
            json!({"metadata": {"name": name, "finalizers": before}, "spec": {"template": pods}}),
        );
        let target = format!("{controllers}/{name}");
        bench.call("DELETE", &target, &options.to_string()).ok();
        match after {
            Some(after) => assert_eq!(bench.get(&target)["metadata"]["finalizers"], after),
            None => assert_eq!(bench.call("GET", &target, "").code(), 404, "{options}"),
        }
    }
}

/// Source: upstream's garbage collector leaves Events out, and their storage gives them no
/// finalizer for it.
#[test]
fn an_event_waits_for_nobody_however_it_is_deleted() {
    let mut bench = Bench::new();
    let events = "/api/v1/namespaces/default/events";
    for policy in ["Orphan", "Foreground"] {
        let about = json!({"kind": "Pod", "namespace": "default", "name": "a"});
        bench.create(events, json!({"metadata": {"name": "e"}, "involvedObject": about}));
        let body = json!({"propagationPolicy": policy}).to_string();
        bench.call("DELETE", &format!("{events}/e"), &body).ok();
        assert_eq!(bench.call("GET", &format!("{events}/e"), "").code(), 404, "{policy}");
    }
}

#[test]
fn a_collection_is_deleted_by_selector() {
    let mut bench = Bench::new();
    for (name, tier) in [("a", "x"), ("b", "x"), ("c", "y")] {
        let mut map = config_map(name);
        map["metadata"]["labels"] = json!({"tier": tier});
        bench.create(CONFIG_MAPS, map);
    }
    let deleted = bench.call("DELETE", &format!("{CONFIG_MAPS}?labelSelector=tier%3Dx"), "").ok();
    assert_eq!(deleted["items"].as_array().unwrap().len(), 2);
    let left = bench.get(&format!("{CONFIG_MAPS}?labelSelector=tier"));
    assert_eq!(left["items"][0]["metadata"]["name"], "c");
}

#[test]
fn a_namespace_comes_furnished_and_goes_when_it_is_finalized() {
    let mut bench = Bench::new();
    let made = bench.create("/api/v1/namespaces", json!({"metadata": {"name": "shop"}}));
    assert_eq!(made["metadata"]["labels"]["kubernetes.io/metadata.name"], "shop");
    assert_eq!(
        (&made["spec"]["finalizers"], &made["status"]["phase"]),
        (&json!(["kubernetes"]), &json!("Active"))
    );
    bench.get("/api/v1/namespaces/shop/serviceaccounts/default");
    let bundle = "/api/v1/namespaces/shop/configmaps/kube-root-ca.crt";
    assert_eq!(bench.get(bundle)["data"]["ca.crt"], "CA\n");
    bench.call("DELETE", bundle, "").ok();
    assert_eq!(bench.get(bundle)["data"]["ca.crt"], "CA\n", "it is made again");

    let going = bench.call("DELETE", "/api/v1/namespaces/shop", "").ok();
    assert_eq!(going["status"]["phase"], "Terminating");
    let refused =
        bench.call("POST", "/api/v1/namespaces/shop/configmaps", &config_map("a").to_string());
    expect![[r#"403 Forbidden: configmaps "a" is forbidden: unable to create new content in namespace shop because it is being terminated"#]].assert_eq(&refused.text());
    assert_eq!(refused.json()["details"]["causes"][0]["reason"], "NamespaceTerminating");
    bench.call("DELETE", bundle, "").ok();
    assert_eq!(
        bench.call("GET", bundle, "").code(),
        404,
        "not made again in a namespace that goes"
    );
    let mut finalized = going.clone();
    finalized["spec"]["finalizers"] = json!([]);
    bench.call("PUT", "/api/v1/namespaces/shop/finalize", &finalized.to_string()).ok();
    assert_eq!(bench.call("GET", "/api/v1/namespaces/shop", "").code(), 404);
}

#[test]
fn events_go_an_hour_after_their_last_write() {
    let mut bench = Bench::new();
    assert_eq!(bench.api.next_expiry(), None);
    let event = json!({
        "metadata": {"name": "e"}, "reason": "Started", "message": "m", "type": "Normal",
        "involvedObject": {"kind": "Pod", "name": "p", "namespace": "default"},
    });
    let target = "/api/v1/namespaces/default/events";
    bench.create(target, event);
    bench.pass(1800);
    bench.patch("merge-patch+json", &format!("{target}/e"), r#"{"count":2}"#).ok();
    let due = bench.api.next_expiry().unwrap();
    assert_eq!(due, bench.now + rekindle_types::TickDuration::from_secs(3600));
    assert!(bench.api.prune(due - rekindle_types::TickDuration::from_secs(1)).unwrap().is_none());
    bench.committer.commit_pending().unwrap();
    bench.get(&format!("{target}/e"));
    assert!(bench.api.prune(due).unwrap().is_some());
    bench.committer.commit_pending().unwrap();
    assert_eq!(bench.call("GET", &format!("{target}/e"), "").code(), 404);
    assert_eq!(bench.api.next_expiry(), None);
}

/// What many pods wrote in one moment is due in one moment, and must leave the others room in the
/// store's queue.
#[test]
fn events_that_expire_together_go_in_parts() {
    const EVENTS: usize = 600;
    let mut bench = Bench::new();
    for number in 0..EVENTS {
        let event = json!({
            "metadata": {"name": format!("e-{number}")}, "reason": "Started", "message": "m", "type": "Normal",
            "involvedObject": {"kind": "Pod", "name": "p", "namespace": "default"},
        });
        bench.create("/api/v1/namespaces/default/events", event);
    }
    let due = bench.now + rekindle_types::TickDuration::from_secs(3600);
    let mut left = vec![EVENTS];
    while bench.api.next_expiry().is_some() {
        let last = bench.api.prune(due).unwrap().unwrap();
        bench.committer.commit_pending().unwrap();
        assert!(last.try_get().unwrap().is_ok());
        let list = bench.get("/api/v1/namespaces/default/events");
        left.push(list["items"].as_array().unwrap().len());
    }
    assert_eq!(left, [600, 344, 88, 0]);
}

/// On a full disk they stay, and go when there is room.
#[test]
fn events_whose_removal_failed_are_due_again() {
    let mut bench = Bench::new();
    let event = json!({
        "metadata": {"name": "e"}, "reason": "Started", "message": "m", "type": "Normal",
        "involvedObject": {"kind": "Pod", "name": "p", "namespace": "default"},
    });
    bench.create("/api/v1/namespaces/default/events", event);
    let due = bench.api.next_expiry().unwrap();
    bench.disk.set_capacity_bytes(Some(0));
    let last = bench.api.prune(due).unwrap().unwrap();
    assert!(bench.committer.commit_pending().is_err());
    assert!(last.try_get().unwrap().is_err());
    assert_eq!(bench.api.next_expiry(), None, "its removal was accepted");
    bench.api.reread_expiry();
    assert_eq!(bench.api.next_expiry(), Some(due));
    bench.disk.set_capacity_bytes(None);
    let last = bench.api.prune(due).unwrap().unwrap();
    bench.committer.commit_pending().unwrap();
    assert!(last.try_get().unwrap().is_ok());
}
