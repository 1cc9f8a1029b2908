//! `pods/eviction`: which pods go, what budgets say, and that they hold however many ask at once.
//! The behaviour is that of "API-initiated Eviction" and "Specifying a Disruption Budget" of the
//! Kubernetes documentation.

use serde_json::{Value, json};

use crate::harness::{self, Bench, PODS, Reply, pod};

const BUDGETS: &str = "/apis/policy/v1/namespaces/default/poddisruptionbudgets";

/// A pod of app web on a node, in this state.
fn run(bench: &mut Bench, name: &str, phase: &str, ready: &str) {
    let mut pod = pod(name);
    pod["metadata"]["labels"] = json!({"app": "web"});
    pod["spec"]["nodeName"] = "n1".into();
    pod["spec"]["terminationGracePeriodSeconds"] = 20.into();
    bench.create(PODS, pod);
    show(bench, name, phase, ready);
}

fn show(bench: &mut Bench, name: &str, phase: &str, ready: &str) {
    let status =
        json!({"status": {"phase": phase, "conditions": [{"type": "Ready", "status": ready}]}});
    bench.call("PATCH", &format!("{PODS}/{name}/status"), &status.to_string()).ok();
}

/// A budget over app web with this status, as its controller would have written it.
fn budget(bench: &mut Bench, name: &str, spec: Value, status: Value) {
    let mut spec = spec;
    spec["selector"] = json!({"matchLabels": {"app": "web"}});
    bench.create(BUDGETS, json!({"metadata": {"name": name}, "spec": spec}));
    let mut status = status;
    if status.get("observedGeneration").is_none() {
        status["observedGeneration"] = 1.into();
    }
    let status = json!({"status": status});
    bench.call("PATCH", &format!("{BUDGETS}/{name}/status"), &status.to_string()).ok();
}

fn evict_with(bench: &mut Bench, name: &str, options: Value) -> Reply {
    let eviction = json!({
        "apiVersion": "policy/v1", "kind": "Eviction", "metadata": {"name": name}, "deleteOptions": options,
    });
    bench.call("POST", &format!("{PODS}/{name}/eviction"), &eviction.to_string())
}

fn evict(bench: &mut Bench, name: &str) -> Reply {
    evict_with(bench, name, json!({}))
}

fn disruption_target(pod: &Value) -> Value {
    let conditions = pod["status"]["conditions"].as_array().unwrap();
    conditions.iter().find(|c| c["type"] == "DisruptionTarget").cloned().unwrap_or_default()
}

#[test]
fn an_evicted_pod_gets_its_grace_and_says_why_it_goes() {
    let mut bench = Bench::new();
    run(&mut bench, "web-0", "Running", "True");
    let reply = evict(&mut bench, "web-0");
    assert_eq!(reply.code(), 201);
    assert_eq!(reply.json()["status"], "Success");
    let pod = bench.get(&format!("{PODS}/web-0"));
    assert_eq!(pod["metadata"]["deletionGracePeriodSeconds"], 20);
    let condition = disruption_target(&pod);
    assert_eq!(condition["status"], "True");
    assert_eq!(condition["reason"], "EvictionByEvictionAPI");
    assert_eq!(condition["message"], "Eviction API: evicting");
    // a second eviction can only shorten the grace
    evict_with(&mut bench, "web-0", json!({"gracePeriodSeconds": 5})).ok();
    let pod = bench.get(&format!("{PODS}/web-0"));
    assert_eq!(pod["metadata"]["deletionGracePeriodSeconds"], 5);
    assert_eq!(disruption_target(&pod), condition, "its time stays");
}

#[test]
fn a_pod_without_a_node_or_at_its_end_goes_at_once_and_its_last_event_says_why() {
    let mut bench = Bench::new();
    bench.create(PODS, pod("waiting"));
    run(&mut bench, "done", "Succeeded", "False");
    for name in ["waiting", "done"] {
        let mut watch = bench.watch(&format!("{PODS}?watch=1&fieldSelector=metadata.name={name}"));
        harness::events(&mut watch);
        evict(&mut bench, name).ok();
        assert_eq!(bench.call("GET", &format!("{PODS}/{name}"), "").code(), 404);
        let last = harness::events(&mut watch).pop().unwrap();
        assert_eq!(last["type"], "DELETED");
        assert_eq!(disruption_target(&last["object"])["reason"], "EvictionByEvictionAPI");
    }
}

#[test]
fn a_budget_is_counted_down_by_each_eviction_and_refuses_at_its_end() {
    let mut bench = Bench::new();
    for number in 0..3 {
        run(&mut bench, &format!("web-{number}"), "Running", "True");
    }
    let status = json!({"disruptionsAllowed": 2, "currentHealthy": 3, "desiredHealthy": 1, "expectedPods": 3});
    budget(&mut bench, "web", json!({"minAvailable": 1}), status);
    evict(&mut bench, "web-0").ok();
    evict(&mut bench, "web-1").ok();
    let status = bench.get(&format!("{BUDGETS}/web"))["status"].clone();
    assert_eq!(status["disruptionsAllowed"], 0);
    assert_eq!(
        status["disruptedPods"],
        json!({"web-0": "2026-11-18T11:06:40Z", "web-1": "2026-11-18T11:06:40Z"})
    );
    assert_eq!(status["conditions"][0]["reason"], "InsufficientPods");

    let refused = evict(&mut bench, "web-2");
    assert_eq!(
        refused.text(),
        "429 TooManyRequests: Cannot evict pod as it would violate the pod's disruption budget. The disruption budget web does not \
         allow evicting pods currently",
        "kubectl shows this alone, so that it names the budget"
    );
    // upstream gives no time here: kubectl drain waits five seconds of its own
    assert!(refused.0.headers.is_empty(), "{:?}", refused.0.headers);
    assert_eq!(
        refused.json()["details"],
        json!({"causes": [{"reason": "DisruptionBudget",
            "message": "The disruption budget web does not allow evicting pods currently"}]})
    );
    let pod = bench.get(&format!("{PODS}/web-2"));
    assert_eq!(pod["metadata"].get("deletionTimestamp"), None);
    assert_eq!(disruption_target(&pod), Value::Null);
}

#[test]
fn a_budget_that_its_controller_has_not_looked_at_yet_lets_nothing_through() {
    let mut bench = Bench::new();
    run(&mut bench, "web-0", "Running", "True");
    let status = json!({"disruptionsAllowed": 1, "observedGeneration": 0});
    budget(&mut bench, "web", json!({"minAvailable": 0}), status);
    let refused = evict(&mut bench, "web-0");
    assert_eq!(
        refused.text(),
        "429 TooManyRequests: Cannot evict pod as it would violate the pod's disruption budget. The disruption budget web is still \
         being processed by the server."
    );
    assert_eq!(
        refused.json()["details"],
        json!({"retryAfterSeconds": 10, "causes": [{"reason": "DisruptionBudget",
            "message": "The disruption budget web is still being processed by the server."}]})
    );
    assert_eq!(refused.0.headers, [(http::header::RETRY_AFTER, "10".to_owned())]);
}

#[test]
fn pods_that_serve_nobody_go_whatever_the_budget_and_cost_it_nothing() {
    let mut bench = Bench::new();
    let none_left = json!({"disruptionsAllowed": 0, "currentHealthy": 0, "desiredHealthy": 1, "expectedPods": 1});
    budget(&mut bench, "web", json!({"minAvailable": 1}), none_left);
    for (name, phase) in [("a", "Pending"), ("b", "Succeeded"), ("c", "Failed")] {
        run(&mut bench, name, phase, "False");
        evict(&mut bench, name).ok();
    }
    run(&mut bench, "d", "Running", "True");
    bench.call("DELETE", &format!("{PODS}/d"), "").ok();
    evict(&mut bench, "d").ok();
    let status = bench.get(&format!("{BUDGETS}/web"))["status"].clone();
    assert_eq!(status.get("disruptedPods"), None);
}

#[test]
fn a_pod_that_is_not_ready_goes_by_the_policy_and_is_not_counted() {
    let mut bench = Bench::new();
    let disrupted = json!({"disruptionsAllowed": 0, "currentHealthy": 1, "desiredHealthy": 2, "expectedPods": 3});
    budget(&mut bench, "web", json!({"minAvailable": 2}), disrupted);
    run(&mut bench, "sick", "Running", "False");
    assert_eq!(evict(&mut bench, "sick").code(), 429);
    let policy = json!({"spec": {"unhealthyPodEvictionPolicy": "AlwaysAllow"}});
    bench.call("PATCH", &format!("{BUDGETS}/web"), &policy.to_string()).ok();
    evict(&mut bench, "sick").ok();
    assert_eq!(bench.get(&format!("{BUDGETS}/web"))["status"].get("disruptedPods"), None);
}

#[test]
fn two_budgets_over_one_pod_are_an_error_in_upstreams_words() {
    let mut bench = Bench::new();
    run(&mut bench, "web-0", "Running", "True");
    for name in ["a", "b"] {
        budget(&mut bench, name, json!({"minAvailable": 0}), json!({"disruptionsAllowed": 1}));
    }
    assert_eq!(
        evict(&mut bench, "web-0").text(),
        "500 : This pod has more than one PodDisruptionBudget, which the eviction subresource does not support."
    );
}

#[test]
fn a_dry_run_asks_the_budget_and_changes_nothing() {
    let mut bench = Bench::new();
    run(&mut bench, "web-0", "Running", "True");
    budget(&mut bench, "web", json!({"minAvailable": 0}), json!({"disruptionsAllowed": 1}));
    let before = (bench.get(&format!("{PODS}/web-0")), bench.get(&format!("{BUDGETS}/web")));
    evict_with(&mut bench, "web-0", json!({"dryRun": ["All"]})).ok();
    let body = json!({"metadata": {"name": "web-0"}}).to_string();
    bench.call("POST", &format!("{PODS}/web-0/eviction?dryRun=All"), &body).ok();
    let after = (bench.get(&format!("{PODS}/web-0")), bench.get(&format!("{BUDGETS}/web")));
    assert_eq!(before, after);
    let none = json!({"status": {"disruptionsAllowed": 0}}).to_string();
    bench.call("PATCH", &format!("{BUDGETS}/web/status"), &none).ok();
    assert_eq!(evict_with(&mut bench, "web-0", json!({"dryRun": ["All"]})).code(), 429);
}

#[test]
fn preconditions_hold_and_a_failed_one_costs_the_budget_nothing() {
    let mut bench = Bench::new();
    run(&mut bench, "web-0", "Running", "True");
    budget(&mut bench, "web", json!({"minAvailable": 0}), json!({"disruptionsAllowed": 1}));
    for preconditions in [json!({"uid": "other"}), json!({"resourceVersion": "1"})] {
        let refused = evict_with(&mut bench, "web-0", json!({"preconditions": preconditions}));
        assert_eq!(refused.code(), 409, "{}", refused.text());
    }
    let status = bench.get(&format!("{BUDGETS}/web"))["status"].clone();
    assert_eq!(status["disruptionsAllowed"], 1);
    let pod = bench.get(&format!("{PODS}/web-0"));
    let (uid, version) = (&pod["metadata"]["uid"], &pod["metadata"]["resourceVersion"]);
    let preconditions = json!({"uid": uid, "resourceVersion": version});
    evict_with(&mut bench, "web-0", json!({"preconditions": preconditions})).ok();
}

#[test]
fn a_request_that_makes_no_sense_gets_kubernetes_own_kind_of_answer() {
    let mut bench = Bench::new();
    run(&mut bench, "web-0", "Running", "True");
    let target = format!("{PODS}/web-0/eviction");
    let named = |body: Value| {
        let mut body = body;
        body["metadata"] = json!({"name": "web-0"});
        body
    };
    let mut said = String::new();
    for (target, body) in [
        (&target, json!({"metadata": {"name": "web-1"}})),
        (&target, json!({})),
        (&target, json!({"metadata": {"name": "web-0", "namespace": "other"}})),
        (&target, named(json!({"apiVersion": "policy/v1beta1", "kind": "Eviction"}))),
        (&target, named(json!({"apiVersion": "v1", "kind": "Pod"}))),
        (&target, named(json!({"deleteOptions": {"gracePeriodSeconds": "soon"}}))),
        (&target, named(json!({"deleteOptions": {"dryRun": ["Some"]}}))),
        (
            &target,
            named(
                json!({"deleteOptions": {"ignoreStoreReadErrorWithClusterBreakingPotential": true}}),
            ),
        ),
        (&format!("{target}?fieldValidation=Strict"), named(json!({"delete_options": null}))),
        (&format!("{PODS}/ghost/eviction"), json!({"metadata": {"name": "ghost"}})),
    ] {
        said.push_str(&bench.call("POST", target, &body.to_string()).text());
        said.push('\n');
    }
    said.push_str(&bench.call("GET", &target, "").text());
    expect_test::expect![[r#"
        400 BadRequest: name in URL does not match name in Eviction object
        400 BadRequest: name in URL does not match name in Eviction object
        400 BadRequest: the namespace of the provided object does not match the namespace sent on the request
        400 BadRequest: Eviction in version "v1" cannot be handled as a Eviction: no kind "Eviction" is registered for version "policy/v1beta1": send Eviction of policy/v1
        400 BadRequest: Pod in version "v1" cannot be handled as a Eviction: no kind "Pod" is registered for version "v1": send Eviction of policy/v1
        400 BadRequest: Eviction in version "v1" cannot be handled as a Eviction: json: cannot unmarshal string into field deleteOptions.gracePeriodSeconds of type int64
        422 Invalid: DeleteOptions.meta.k8s.io "" is invalid: dryRun: Unsupported value: ["Some"]: supported values: "All"
        422 Invalid: Eviction.policy "web-0" is invalid: deleteOptions.ignoreStoreReadErrorWithClusterBreakingPotential: Invalid value: true: can not be set for pod eviction, try after removing the option
        400 BadRequest: Eviction in version "v1" cannot be handled as a Eviction: strict decoding error: unknown field "delete_options"
        404 NotFound: pods "ghost" not found
        405 MethodNotAllowed: the server does not allow this method on the requested resource"#]].assert_eq(&said);
    assert_eq!(bench.get(&format!("{PODS}/web-0"))["metadata"].get("deletionTimestamp"), None);
    // what kube-rs sends: no kind, and a field of a name that nobody knows
    let reply = bench.call("POST", &target, &named(json!({"delete_options": null})).to_string());
    assert_eq!(reply.0.warnings, ["unknown field \"delete_options\""]);
    reply.ok();
}

#[test]
fn a_budget_that_blocks_for_ever_is_pointed_out_by_name() {
    let mut bench = Bench::new();
    for number in 0..2 {
        run(&mut bench, &format!("web-{number}"), "Running", "True");
    }
    let made = bench.call(
        "POST",
        BUDGETS,
        &json!({"metadata": {"name": "tight"},
            "spec": {"minAvailable": 2, "selector": {"matchLabels": {"app": "web"}}}})
        .to_string(),
    );
    let warning = "disruption budget \"tight\" lets no pod be evicted, so that the drain of a node waits for ever: \
                   it wants 2 healthy pods, and covers 2";
    assert_eq!(made.0.warnings, [warning]);
    let status = json!({"status": {"observedGeneration": 1, "disruptionsAllowed": 0, "currentHealthy": 2,
        "desiredHealthy": 2, "expectedPods": 2}});
    bench.call("PATCH", &format!("{BUDGETS}/tight/status"), &status.to_string()).ok();
    let refused = evict(&mut bench, "web-0");
    assert_eq!(refused.code(), 429);
    assert_eq!(refused.0.warnings, [warning]);
    let causes = refused.json()["details"]["causes"].clone();
    assert_eq!(
        causes[0]["message"],
        "The disruption budget tight needs 2 healthy pods and has 2 currently"
    );
    assert_eq!(causes[1], json!({"reason": "DeadlockedBudget", "message": warning}));
}

/// A pod of app web that says that this controller manages it.
fn run_of(bench: &mut Bench, name: &str, controller: Value) {
    let mut pod = pod(name);
    let mut controller = controller;
    controller["controller"] = true.into();
    pod["metadata"]["labels"] = json!({"app": "web"});
    pod["metadata"]["ownerReferences"] = json!([controller]);
    pod["spec"]["nodeName"] = "n1".into();
    bench.create(PODS, pod);
    show(bench, name, "Running", "True");
}

/// Makes a workload that wants so many pods of app web; answers the reference to it.
fn workload(bench: &mut Bench, kind: &str, replicas: i32, owner: Option<&Value>) -> Value {
    let (plural, more) = match kind {
        "Deployment" => ("deployments", json!({})),
        "ReplicaSet" => ("replicasets", json!({})),
        _ => ("statefulsets", json!({"serviceName": "web"})),
    };
    let mut spec = json!({
        "replicas": replicas, "selector": {"matchLabels": {"app": "web"}},
        "template": {"metadata": {"labels": {"app": "web"}}, "spec": {"containers": [{"name": "a", "image": "a"}]}},
    });
    spec.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
    let target = format!("/apis/apps/v1/namespaces/default/{plural}");
    let owners: Vec<&Value> = owner.into_iter().collect();
    bench.create(
        &target,
        json!({"metadata": {"name": "web", "ownerReferences": owners}, "spec": spec}),
    );
    let made = bench.get(&format!("{target}/web"));
    json!({"apiVersion": "apps/v1", "kind": kind, "name": "web", "uid": made["metadata"]["uid"], "controller": true})
}

/// Posts a budget over app web; answers its warnings.
fn warnings_about(bench: &mut Bench, spec: Value) -> Vec<String> {
    let mut spec = spec;
    spec["selector"] = json!({"matchLabels": {"app": "web"}});
    let budget = json!({"metadata": {"name": "web"}, "spec": spec});
    let made = bench.call("POST", BUDGETS, &budget.to_string());
    assert_eq!(made.code(), 201, "{}", made.text());
    made.0.warnings.clone()
}

#[test]
fn a_budget_whose_sync_fails_is_pointed_out_by_name_when_it_is_made_and_when_it_refuses() {
    for (controller, why) in [
        (
            json!({"apiVersion": "batch/v1", "kind": "Job", "name": "j", "uid": "u"}),
            "jobs.batch does not implement the scale subresource",
        ),
        (
            json!({"apiVersion": "example.com/v1", "kind": "Cat", "name": "c", "uid": "u"}),
            "no matches for kind \"Cat\" in version \"example.com/v1\"",
        ),
    ] {
        let mut bench = Bench::new();
        run_of(&mut bench, "web-0", controller);
        let warning = format!(
            "disruption budget \"web\" lets no pod be evicted, so that the drain of a node waits for ever: it failed sync: {why}; only \
             an integer spec.minAvailable counts such pods"
        );
        let made = warnings_about(&mut bench, json!({"maxUnavailable": 1}));
        assert_eq!(made, [warning.as_str()]);
        // as its controller writes it: it has observed no generation
        let failed = json!({"status": {"disruptionsAllowed": 0, "conditions": [{"type": "DisruptionAllowed",
            "status": "False", "reason": "SyncFailed", "message": why, "lastTransitionTime": "2026-01-01T00:00:00Z"}]}});
        bench.call("PATCH", &format!("{BUDGETS}/web/status"), &failed.to_string()).ok();
        let refused = evict(&mut bench, "web-0");
        let cause = format!(
            "The disruption budget web does not allow evicting pods currently because it failed sync: {why}"
        );
        let text = "Cannot evict pod as it would violate the pod's disruption budget.";
        assert_eq!(refused.json()["message"], format!("{text} {cause}"));
        assert_eq!(refused.0.warnings, [warning.as_str()]);
        let causes = refused.json()["details"]["causes"].clone();
        assert_eq!(
            (&causes[0]["message"], &causes[1]["message"]),
            (&json!(cause), &json!(warning))
        );
        // mended: what it counts now its controller can say
        let mended = json!({"spec": {"maxUnavailable": null, "minAvailable": 0}});
        let mended = bench.call("PATCH", &format!("{BUDGETS}/web"), &mended.to_string());
        assert_eq!(mended.0.warnings, Vec::<String>::new());
        let refused = evict(&mut bench, "web-0");
        assert!(refused.text().ends_with("web is still being processed by the server."));
        assert_eq!(refused.0.warnings, Vec::<String>::new());
    }
}

#[test]
fn a_budget_is_compared_with_the_pods_that_will_be_there_and_not_with_those_that_are() {
    let status = json!({"observedGeneration": 1, "disruptionsAllowed": 0, "currentHealthy": 1, "desiredHealthy": 2, "expectedPods": 1});
    // (kind, replicas, limit, how many the budget is told to want and to cover)
    for (kind, replicas, spec, blocks) in [
        ("StatefulSet", 3, json!({"minAvailable": 2}), None),
        ("StatefulSet", 2, json!({"minAvailable": 2}), Some((2, 2))),
        ("Deployment", 3, json!({"minAvailable": 2}), None),
        ("Deployment", 3, json!({"minAvailable": "50%"}), None),
        ("Deployment", 1, json!({"minAvailable": "50%"}), Some((1, 1))),
        ("Deployment", 3, json!({"minAvailable": 4}), Some((4, 3))),
    ] {
        let text = format!("{kind} {replicas} {spec}");
        let mut bench = Bench::new();
        let above = workload(&mut bench, kind, replicas, None);
        let owner = match kind {
            // which has begun with less than it is to have
            "Deployment" => workload(&mut bench, "ReplicaSet", 1, Some(&above)),
            _ => above,
        };
        run_of(&mut bench, "web-0", owner);
        let warning = blocks.map(|(wants, covers)| {
            format!(
                "disruption budget \"web\" lets no pod be evicted, so that the drain of a node waits for ever: it wants {wants} \
                 healthy pods, and covers {covers}"
            )
        });
        let warning: Vec<String> = warning.into_iter().collect();
        assert_eq!(warnings_about(&mut bench, spec.clone()), warning, "{text}");
        if spec["minAvailable"].is_string() {
            continue; // its controller counts what there will be
        }
        let status = json!({"status": status}).to_string();
        bench.call("PATCH", &format!("{BUDGETS}/web/status"), &status).ok();
        let refused = evict(&mut bench, "web-0");
        assert_eq!(refused.code(), 429, "{text}");
        assert_eq!(refused.0.warnings, warning, "{text}");
    }
}

#[test]
fn discovery_shows_kubectl_that_pods_can_be_evicted() {
    // kubectl drain looks for the group, and for "pods/eviction" of kind Eviction among the core
    // resources
    let mut bench = Bench::new();
    let groups = bench.get("/apis");
    let groups = groups["groups"].as_array().unwrap();
    assert!(groups.iter().any(|group| group["preferredVersion"]["groupVersion"] == "policy/v1"));
    let resources = bench.get("/api/v1");
    let resources = resources["resources"].as_array().unwrap();
    let eviction = resources.iter().find(|resource| resource["name"] == "pods/eviction").unwrap();
    assert_eq!(
        eviction,
        &json!({"name": "pods/eviction", "singularName": "", "namespaced": true, "kind": "Eviction",
            "group": "policy", "version": "v1", "verbs": ["create"]})
    );
}
