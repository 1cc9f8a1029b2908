//! Resource quotas: what they refuse, what counts in them, and that it counts in the same write.

use std::sync::Mutex;

use k8s_openapi::api::core::v1::{Pod, ResourceQuota};
use proptest::prelude::*;
use rekindle_api::{RequestOutcome, WriteInFlight};
use rekindle_controllers::{
    ClusterView, ControllerKey, NamespacedName, ResourceKind, ViewObject, reconcile,
};
use rekindle_store::memory::DiskFault;
use rekindle_types::{Quantity, TickDuration};
use serde_json::{Value, json};

use crate::harness::{Bench, Reply};

const NAMESPACE: &str = "/api/v1/namespaces/default";

fn of(plural: &str) -> String {
    format!("{NAMESPACE}/{plural}")
}

fn quota_body(name: &str, spec: Value) -> Value {
    json!({"apiVersion": "v1", "kind": "ResourceQuota", "metadata": {"name": name}, "spec": spec})
}

fn make_quota(bench: &mut Bench, name: &str, hard: Value) -> Value {
    bench.create(&of("resourcequotas"), quota_body(name, json!({ "hard": hard })))
}

fn used(bench: &mut Bench, quota: &str) -> Value {
    bench.get(&format!("{}/{quota}", of("resourcequotas")))["status"]["used"].clone()
}

fn pod(name: &str, resources: Value) -> Value {
    json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name}, "spec": {
        "containers": [{"name": "c1", "image": "app:1", "resources": resources}],
    }})
}

fn post_pod(bench: &mut Bench, name: &str, resources: Value) -> Reply {
    bench.call("POST", &of("pods"), &pod(name, resources).to_string())
}

fn set_phase(bench: &mut Bench, name: &str, phase: &str) {
    let status = json!({"status": {"phase": phase}}).to_string();
    bench.call("PATCH", &format!("{}/{name}/status", of("pods")), &status).ok();
}

fn delete(bench: &mut Bench, plural: &str, name: &str) {
    bench.call("DELETE", &format!("{}/{name}?gracePeriodSeconds=0", of(plural)), "").ok();
}

/// Queues writes that wait for the disk.
fn queued(
    bench: &Bench,
    requests: &[(&str, String, String)],
) -> Vec<Result<WriteInFlight, String>> {
    let outcomes = requests.iter().map(|(method, target, body)| {
        match bench.api.handle(&bench.request(method, target, body)) {
            RequestOutcome::Write(write) => Ok(write),
            RequestOutcome::Answer(answer) => Err(Reply(answer).text()),
            RequestOutcome::List(_)
            | RequestOutcome::Watch(_)
            | RequestOutcome::Log(_)
            | RequestOutcome::Stream(_)
            | RequestOutcome::Proxy(_)
            | RequestOutcome::Aggregated(_)
            | RequestOutcome::Node(_)
            | RequestOutcome::ResourceMetrics(_)
            | RequestOutcome::Metrics
            | RequestOutcome::Webhooks(_)
            | RequestOutcome::Backup => panic!("neither a write nor an answer: {target}"),
        }
    });
    outcomes.collect()
}

#[test]
fn a_quota_is_in_force_with_its_creation_and_counts_what_is_there() {
    let mut bench = Bench::new();
    post_pod(&mut bench, "old", json!({"requests": {"cpu": "250m"}})).ok();
    post_pod(&mut bench, "over", json!({"requests": {"cpu": "7"}})).ok();
    set_phase(&mut bench, "over", "Succeeded");
    let hard = json!({"pods": "2", "requests.cpu": "1", "count/pods": "9", "resourcequotas": "1"});
    let made = make_quota(&mut bench, "budget", hard.clone());
    assert_eq!(made["status"]["hard"], hard);
    let expected =
        json!({"pods": "1", "requests.cpu": "250m", "count/pods": "2", "resourcequotas": "1"});
    assert_eq!(made["status"]["used"], expected);
    let refused = post_pod(&mut bench, "new", json!({"requests": {"cpu": "751m"}})).text();
    assert_eq!(
        refused,
        "403 Forbidden: pods \"new\" is forbidden: exceeded quota: budget, requested: requests.cpu=751m, \
         used: requests.cpu=250m, limited: requests.cpu=1"
    );
    post_pod(&mut bench, "new", json!({"requests": {"cpu": "750m"}})).ok();
    let second = quota_body("second", json!({"hard": {"pods": "9"}})).to_string();
    assert_eq!(bench.call("POST", &of("resourcequotas"), &second).code(), 403);
}

#[test]
fn what_goes_and_what_is_over_makes_room_at_once() {
    let mut bench = Bench::new();
    make_quota(&mut bench, "budget", json!({"pods": "1", "count/pods": "2", "secrets": "1"}));
    post_pod(&mut bench, "a", json!({})).ok();
    assert_eq!(post_pod(&mut bench, "b", json!({})).code(), 403);
    set_phase(&mut bench, "a", "Failed");
    assert_eq!(used(&mut bench, "budget"), json!({"pods": "0", "count/pods": "1", "secrets": "0"}));
    post_pod(&mut bench, "b", json!({})).ok();
    assert_eq!(
        post_pod(&mut bench, "c", json!({})).text(),
        "403 Forbidden: pods \"c\" is forbidden: exceeded quota: budget, requested: count/pods=1,pods=1, \
         used: count/pods=2,pods=1, limited: count/pods=2,pods=1"
    );
    delete(&mut bench, "pods", "a");
    delete(&mut bench, "pods", "b");
    assert_eq!(used(&mut bench, "budget"), json!({"pods": "0", "count/pods": "0", "secrets": "0"}));
    let secret =
        |name: &str| json!({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": name}});
    bench.create(&of("secrets"), secret("one"));
    let all = bench.call("DELETE", &of("secrets"), "");
    assert_eq!(all.code(), 200, "{}", all.text());
    bench.create(&of("secrets"), secret("two"));
    assert_eq!(used(&mut bench, "budget")["secrets"], "1");
}

#[test]
fn writes_that_wait_for_the_disk_count_and_a_failed_commit_gives_back() {
    let mut bench = Bench::new();
    make_quota(&mut bench, "budget", json!({"pods": "1"}));
    let post = |name: &str| ("POST", of("pods"), pod(name, json!({})).to_string());
    let mut outcomes = queued(&bench, &[post("a"), post("b")]);
    assert!(outcomes.pop().unwrap().err().unwrap().starts_with("403 Forbidden: pods \"b\""));
    bench.disk.inject(DiskFault::Refused);
    bench.committer.commit_pending().unwrap_err();
    assert_eq!(outcomes.pop().unwrap().unwrap().try_answer().unwrap().code.as_u16(), 500);
    assert_eq!(used(&mut bench, "budget"), json!({"pods": "0"}));
    post_pod(&mut bench, "b", json!({})).ok();
    // the removal of a quota that never becomes durable
    bench.disk.inject(DiskFault::Refused);
    let removal = ("DELETE", format!("{}/budget", of("resourcequotas")), String::new());
    let outcomes = queued(&bench, &[removal, post("c")]);
    bench.committer.commit_pending().unwrap_err();
    assert!(outcomes.into_iter().all(|outcome| outcome.is_ok()));
    assert_eq!(used(&mut bench, "budget"), json!({"pods": "1"}));
    assert_eq!(post_pod(&mut bench, "c", json!({})).code(), 403);
}

#[test]
fn writers_at_the_same_time_never_exceed_a_quota_together() {
    let mut bench = Bench::new();
    make_quota(&mut bench, "budget", json!({"requests.cpu": "1"}));
    make_quota(&mut bench, "other", json!({"pods": "1000"}));
    let accepted = Mutex::new(Vec::new());
    std::thread::scope(|threads| {
        for writer in 0..8 {
            let (bench, accepted) = (&bench, &accepted);
            threads.spawn(move || {
                for turn in 0..10 {
                    let body =
                        pod(&format!("p-{writer}-{turn}"), json!({"requests": {"cpu": "70m"}}));
                    let outcomes = queued(bench, &[("POST", of("pods"), body.to_string())]);
                    for outcome in outcomes {
                        match outcome {
                            Ok(write) => accepted.lock().unwrap().push(write),
                            Err(text) => assert!(text.contains("exceeded quota: budget"), "{text}"),
                        }
                    }
                }
            });
        }
    });
    bench.committer.commit_pending().unwrap();
    let accepted = accepted.into_inner().unwrap();
    assert_eq!(accepted.len(), 14, "70m fit into one CPU so often");
    for mut write in accepted {
        assert_eq!(write.try_answer().unwrap().code.as_u16(), 201);
    }
    assert_eq!(used(&mut bench, "budget"), json!({"requests.cpu": "980m"}));
    assert_eq!(used(&mut bench, "other"), json!({"pods": "14"}));
}

/// A request may wait for its turn while a later one finds that a pod is over.
#[test]
fn what_a_later_request_gave_back_an_older_one_does_not_give_back_again() {
    let mut bench = Bench::new();
    make_quota(&mut bench, "budget", json!({"pods": "3"}));
    let mut late = pod("late", json!({}));
    late["spec"]["nodeName"] = json!("node-1");
    bench.create(&of("pods"), late);
    post_pod(&mut bench, "other", json!({})).ok();
    bench.call("DELETE", &format!("{}/late?gracePeriodSeconds=10", of("pods")), "").ok();
    let began = bench.now;
    bench.pass(3_600);
    let target = format!("{}/budget/status", of("resourcequotas"));
    let recount = json!({"status": {"used": {"pods": "2"}}}).to_string();
    bench.call("PATCH", &target, &recount).ok();
    assert_eq!(used(&mut bench, "budget"), json!({"pods": "1"}), "its time is over");
    bench.now = began;
    delete(&mut bench, "pods", "late");
    assert_eq!(used(&mut bench, "budget"), json!({"pods": "1"}));
}

#[test]
fn a_dry_run_is_refused_and_charges_nothing() {
    let mut bench = Bench::new();
    make_quota(&mut bench, "budget", json!({"pods": "1"}));
    let target = format!("{}?dryRun=All", of("pods"));
    let body = pod("a", json!({})).to_string();
    bench.call("POST", &target, &body).ok();
    bench.call("POST", &target, &body).ok();
    assert_eq!(used(&mut bench, "budget"), json!({"pods": "0"}));
    post_pod(&mut bench, "b", json!({})).ok();
    assert_eq!(bench.call("POST", &target, &body).code(), 403);
}

#[test]
fn a_quota_that_bounds_something_else_is_counted_anew() {
    let mut bench = Bench::new();
    make_quota(&mut bench, "budget", json!({"pods": "5"}));
    post_pod(&mut bench, "a", json!({"requests": {"memory": "1Gi"}, "limits": {"memory": "2Gi"}}))
        .ok();
    bench.create(
        &of("configmaps"),
        json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "m"}}),
    );
    let target = format!("{}/budget", of("resourcequotas"));
    let spec =
        json!({"spec": {"hard": {"pods": null, "limits.memory": "2Gi", "count/configmaps": "2"}}});
    let changed = bench.call("PATCH", &target, &spec.to_string()).ok();
    // the CA bundle of the namespace is a ConfigMap, too
    let expected = json!({"limits.memory": "2Gi", "count/configmaps": "2"});
    assert_eq!(changed["status"], json!({"hard": expected, "used": expected}));
    // labels are not what it bounds
    let labels = json!({"metadata": {"labels": {"a": "b"}}}).to_string();
    assert_eq!(bench.call("PATCH", &target, &labels).ok()["status"], changed["status"]);
    let scopes = json!({"spec": {"scopes": ["BestEffort"]}}).to_string();
    assert_eq!(
        bench.call("PATCH", &target, &scopes).text(),
        "422 Invalid: ResourceQuota \"budget\" is invalid: [spec.scopes: Invalid value: [\"BestEffort\"]: unsupported \
         scope applied to resource, spec.scopes: Invalid value: [\"BestEffort\"]: field is immutable]"
    );
}

#[test]
fn a_status_says_what_the_server_finds() {
    let mut bench = Bench::new();
    make_quota(&mut bench, "budget", json!({"pods": "3"}));
    post_pod(&mut bench, "a", json!({})).ok();
    let target = format!("{}/budget/status", of("resourcequotas"));
    let lie = json!({"status": {"hard": {"pods": "3"}, "used": {"pods": "0"}}}).to_string();
    let answer = bench.call("PATCH", &target, &lie).ok();
    assert_eq!(answer["status"]["used"], json!({"pods": "1"}));
    // other bounds than those of the spec do not count, and what is missing is counted
    let other = json!({"status": {"hard": {"pods": "9"}, "used": {"pods": null}}}).to_string();
    bench.call("PATCH", &target, &other).ok();
    post_pod(&mut bench, "b", json!({})).ok();
    post_pod(&mut bench, "c", json!({})).ok();
    assert!(post_pod(&mut bench, "d", json!({})).text().ends_with("used: pods=3, limited: pods=3"));
    let status = bench.get(&target)["status"].clone();
    assert_eq!(status, json!({"hard": {"pods": "3"}, "used": {"pods": "3"}}));
    let negative = json!({"status": {"used": {"pods": "-1", "odd": "1"}}}).to_string();
    assert_eq!(
        bench.call("PATCH", &target, &negative).text(),
        "422 Invalid: ResourceQuota \"budget\" is invalid: [status.used[odd]: Invalid value: \"odd\": must be a \
         standard resource type or fully qualified, status.used[odd]: Invalid value: \"odd\": must be a standard \
         resource for quota, status.used[pods]: Invalid value: \"-1\": must be greater than or equal to 0]"
    );
}

#[test]
fn a_pod_must_say_what_its_quota_bounds() {
    let mut bench = Bench::new();
    let hard = json!({"limits.cpu": "2", "limits.memory": "1Gi", "requests.cpu": "2", "requests.ephemeral-storage": "1Gi"});
    make_quota(&mut bench, "compute", hard);
    let mut two = pod("two", json!({"limits": {"cpu": "1"}}));
    two["spec"]["initContainers"] = json!([{"name": "i", "image": "app:1"}]);
    assert_eq!(
        bench.call("POST", &of("pods"), &two.to_string()).text(),
        "403 Forbidden: pods \"two\" is forbidden: failed quota: compute: must specify limits.cpu for: i; \
         limits.memory for: c1,i; requests.cpu for: i"
    );
    // a pod that says it as a whole need not say it for each container
    let mut whole = pod("whole", json!({}));
    whole["spec"]["resources"] = json!({"limits": {"cpu": "1", "memory": "1Gi"}});
    bench.create(&of("pods"), whole);
    let expected = json!({"limits.cpu": "1", "limits.memory": "1Gi", "requests.cpu": "1", "requests.ephemeral-storage": "0"});
    assert_eq!(used(&mut bench, "compute"), expected);
    // LimitRanger comes first
    delete(&mut bench, "pods", "whole");
    bench.create(
        &of("limitranges"),
        json!({"apiVersion": "v1", "kind": "LimitRange", "metadata": {"name": "d"}, "spec": {"limits": [
            {"type": "Container", "default": {"cpu": "500m", "memory": "100Mi"}}]}}),
    );
    bench.call("POST", &of("pods"), &two.to_string()).ok();
    assert_eq!(used(&mut bench, "compute")["limits.cpu"], "1");
}

#[test]
fn a_resize_is_charged_with_what_it_adds() {
    let mut bench = Bench::new();
    make_quota(&mut bench, "budget", json!({"requests.cpu": "1"}));
    post_pod(&mut bench, "a", json!({"requests": {"cpu": "400m"}})).ok();
    let target = format!("{}/a/resize", of("pods"));
    let to = |cpu: &str| {
        json!({"spec": {"containers": [{"name": "c1", "resources": {"requests": {"cpu": cpu}}}]}})
            .to_string()
    };
    let strategic = "strategic-merge-patch+json";
    assert_eq!(
        bench.patch(strategic, &target, &to("1100m")).text(),
        "403 Forbidden: pods \"a\" is forbidden: exceeded quota: budget, requested: requests.cpu=700m, \
         used: requests.cpu=400m, limited: requests.cpu=1"
    );
    bench.patch(strategic, &target, &to("1")).ok();
    assert_eq!(used(&mut bench, "budget"), json!({"requests.cpu": "1"}));
    bench.patch(strategic, &target, &to("300m")).ok();
    assert_eq!(used(&mut bench, "budget"), json!({"requests.cpu": "300m"}));
}

#[test]
fn services_and_claims_are_charged() {
    let mut bench = Bench::new();
    let hard = json!({"services.nodeports": "2", "services.loadbalancers": "0", "requests.storage": "10Gi",
        "gold.storageclass.storage.k8s.io/requests.storage": "5Gi", "gold.storageclass.storage.k8s.io/persistentvolumeclaims": "1"});
    make_quota(&mut bench, "budget", hard);
    let service = |ports: Value| json!({"apiVersion": "v1", "kind": "Service", "metadata": {"name": "web"}, "spec": {"ports": ports}});
    bench.create(
        &of("services"),
        service(json!([{"name": "a", "port": 80}, {"name": "b", "port": 81}])),
    );
    let web = format!("{}/web", of("services"));
    let to = |kind: &str| json!({"spec": {"type": kind}}).to_string();
    assert_eq!(
        bench.call("PATCH", &web, &to("LoadBalancer")).text(),
        "403 Forbidden: services \"web\" is forbidden: exceeded quota: budget, requested: services.loadbalancers=1, \
         used: services.loadbalancers=0, limited: services.loadbalancers=0"
    );
    bench.call("PATCH", &web, &to("NodePort")).ok();
    assert_eq!(used(&mut bench, "budget")["services.nodeports"], "2");
    bench.call("DELETE", &web, "").ok();
    assert_eq!(used(&mut bench, "budget")["services.nodeports"], "0");

    let class = json!({"apiVersion": "storage.k8s.io/v1", "kind": "StorageClass", "metadata": {"name": "gold"},
        "provisioner": "example.com/gold", "allowVolumeExpansion": true});
    bench.create("/apis/storage.k8s.io/v1/storageclasses", class);
    let claim = |name: &str| {
        json!({"apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": {"name": name},
        "spec": {"storageClassName": "gold", "accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "3Gi"}}}})
    };
    bench.create(&of("persistentvolumeclaims"), claim("a"));
    let second = bench.call("POST", &of("persistentvolumeclaims"), &claim("b").to_string()).text();
    assert!(second.contains(
        "requested: gold.storageclass.storage.k8s.io/persistentvolumeclaims=1,gold.storageclass.storage.k8s.io/requests.storage=3Gi"
    ), "{second}");
    assert_eq!(used(&mut bench, "budget")["requests.storage"], "3Gi");
}

#[test]
fn objects_of_every_served_kind_are_counted_by_their_number() {
    let mut bench = Bench::new();
    let hard = json!({"count/deployments.apps": "0", "count/leases.coordination.k8s.io": "1", "count/widgets.example.com": "1"});
    let made = make_quota(&mut bench, "counts", hard);
    let expected = json!({"count/deployments.apps": "0", "count/leases.coordination.k8s.io": "0"});
    assert_eq!(made["status"]["used"], expected, "what is not served has no number");
    let deployment = json!({"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "web"}, "spec": {
        "selector": {"matchLabels": {"a": "b"}}, "template": {"metadata": {"labels": {"a": "b"}},
        "spec": {"containers": [{"name": "c", "image": "app:1"}]}}}});
    assert_eq!(
        bench
            .call("POST", "/apis/apps/v1/namespaces/default/deployments", &deployment.to_string())
            .text(),
        "403 Forbidden: deployments.apps \"web\" is forbidden: exceeded quota: counts, requested: \
         count/deployments.apps=1, used: count/deployments.apps=0, limited: count/deployments.apps=0"
    );
    // an update that creates
    let leases = "/apis/coordination.k8s.io/v1/namespaces/default/leases";
    let lease = |name: &str| {
        json!({"apiVersion": "coordination.k8s.io/v1", "kind": "Lease", "metadata": {"name": name}})
            .to_string()
    };
    bench.call("PUT", &format!("{leases}/a"), &lease("a")).ok();
    assert_eq!(bench.call("PUT", &format!("{leases}/b"), &lease("b")).code(), 403);
    let mut apply = bench.request("PATCH", &format!("{leases}/b?fieldManager=m"), &lease("b"));
    apply.content_type = "application/apply-patch+yaml".to_owned();
    assert_eq!(bench.answer(&apply).code.as_u16(), 403);
    // objects of other namespaces and of none do not count
    bench.create(
        "/apis/coordination.k8s.io/v1/namespaces/kube-system/leases",
        serde_json::from_str(&lease("a")).unwrap(),
    );
    assert_eq!(used(&mut bench, "counts")["count/leases.coordination.k8s.io"], "1");
}

#[test]
fn a_scope_covers_the_pods_that_it_names() {
    let class = json!({"scopeName": "PriorityClass", "operator": "In", "values": ["high"]});
    let with = |change: fn(&mut Value)| {
        let mut pod = pod("p", json!({}));
        change(&mut pod);
        pod
    };
    let plain = with(|_| {});
    let bounded =
        with(|pod| pod["spec"]["containers"][0]["resources"] = json!({"limits": {"cpu": "1"}}));
    let dying = with(|pod| pod["spec"]["activeDeadlineSeconds"] = json!(60));
    let high = with(|pod| pod["spec"]["priorityClassName"] = json!("high"));
    let near = with(|pod| {
        pod["spec"]["affinity"] = json!({"podAntiAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": [
            {"weight": 1, "podAffinityTerm": {"topologyKey": "zone", "namespaces": ["shop"], "labelSelector": {}}}]}});
    });
    let pods = [plain, bounded, dying, high, near];
    let selector =
        |requirement: Value| json!({"scopeSelector": {"matchExpressions": [requirement]}});
    let exists = |operator: &str| json!({"scopeName": "PriorityClass", "operator": operator});
    // which of the pods each covers
    for (spec, covered) in [
        (json!({"scopes": ["Terminating"]}), [false, false, true, false, false]),
        (json!({"scopes": ["NotTerminating"]}), [true, true, false, true, true]),
        (json!({"scopes": ["BestEffort"]}), [true, false, true, true, true]),
        (json!({"scopes": ["NotBestEffort"]}), [false, true, false, false, false]),
        (json!({"scopes": ["BestEffort", "Terminating"]}), [false, false, true, false, false]),
        (json!({"scopes": ["PriorityClass"]}), [false, false, false, true, false]),
        (json!({"scopes": ["CrossNamespacePodAffinity"]}), [false, false, false, false, true]),
        (selector(class.clone()), [false, false, false, true, false]),
        (
            selector(
                json!({"scopeName": "PriorityClass", "operator": "NotIn", "values": ["high"]}),
            ),
            [true, true, true, false, true],
        ),
        (selector(exists("Exists")), [false, false, false, true, false]),
        (selector(exists("DoesNotExist")), [true, true, true, false, true]),
        (
            selector(json!({"scopeName": "Terminating", "operator": "Exists"})),
            [false, false, true, false, false],
        ),
    ] {
        let mut bench = Bench::new();
        bench.create(
            "/apis/scheduling.k8s.io/v1/priorityclasses",
            json!({"apiVersion": "scheduling.k8s.io/v1", "kind": "PriorityClass", "metadata": {"name": "high"}, "value": 7}),
        );
        let mut spec = spec;
        spec["hard"] = json!({"pods": "0"});
        bench.create(&of("resourcequotas"), quota_body("scoped", spec.clone()));
        let refused = pods.each_ref().map(|pod| {
            let target = format!("{}?dryRun=All", of("pods"));
            bench.call("POST", &target, &pod.to_string()).code() == 403
        });
        assert_eq!(refused, covered, "{spec}");
    }
}

#[test]
fn a_pod_that_comes_into_a_scope_is_charged() {
    let mut bench = Bench::new();
    let spec = json!({"hard": {"pods": "1"}, "scopes": ["Terminating"]});
    bench.create(&of("resourcequotas"), quota_body("short", spec));
    post_pod(&mut bench, "a", json!({})).ok();
    post_pod(&mut bench, "b", json!({})).ok();
    let deadline = json!({"spec": {"activeDeadlineSeconds": 60}}).to_string();
    bench.call("PATCH", &format!("{}/a", of("pods")), &deadline).ok();
    assert_eq!(used(&mut bench, "short"), json!({"pods": "1"}));
    let second = bench.call("PATCH", &format!("{}/b", of("pods")), &deadline);
    assert!(
        second.text().contains("exceeded quota: short, requested: pods=1"),
        "{}",
        second.text()
    );
}

#[test]
fn wrong_selectors_are_refused_in_the_words_of_upstream() {
    let mut bench = Bench::new();
    let mut refused = |requirement: Value| {
        let spec =
            json!({"hard": {"pods": "1"}, "scopeSelector": {"matchExpressions": [requirement]}});
        bench.call("POST", &of("resourcequotas"), &quota_body("q", spec).to_string()).text()
    };
    let at = "422 Invalid: ResourceQuota \"q\" is invalid: spec.scopeSelector.matchExpressions";
    for (requirement, expected) in [
        (
            json!({"scopeName": "Odd", "operator": "Exists"}),
            ".scopeName: Invalid value: \"Odd\": unsupported scope",
        ),
        (
            json!({"scopeName": "PriorityClass", "operator": "In"}),
            ".values: Required value: must be at least one value when `operator` is 'In' or 'NotIn' for scope selector",
        ),
        (
            json!({"scopeName": "PriorityClass", "operator": "Exists", "values": ["a"]}),
            ".values: Invalid value: [\"a\"]: must be no value when `operator` is 'Exist' or 'DoesNotExist' for scope selector",
        ),
        (
            json!({"scopeName": "PriorityClass", "operator": "Is"}),
            ".operator: Invalid value: \"Is\": not a valid selector operator",
        ),
    ] {
        assert_eq!(refused(requirement), format!("{at}{expected}"));
    }
    let in_vain = refused(json!({"scopeName": "BestEffort", "operator": "In", "values": ["a"]}));
    assert!(
        in_vain.contains(".operator: Invalid value: \"In\": must be 'Exists' when scope is any of"),
        "{in_vain}"
    );
    let unfit = refused(json!({"scopeName": "VolumeAttributesClass", "operator": "Exists"}));
    assert!(unfit.ends_with("unsupported scope applied to resource"), "{unfit}");
}

/// Each entry of the scopes was compared with each amount, and each mistake showed all entries.
#[test]
fn long_lists_of_scopes_are_refused_at_once_and_shown_in_short() {
    let mut bench = Bench::new();
    let amounts = |count: usize| -> Value {
        let names = (0..count).map(|index| (format!("hugepages-{index}Ki"), json!("1")));
        Value::Object(names.collect())
    };
    let entries = |count: usize| vec!["BestEffort"; count];
    let requirement = json!({"scopeName": "PriorityClass", "operator": "In",
        "values": vec!["a-class-of-pods"; 10_000]});
    let post = |bench: &mut Bench, spec: Value| {
        let target = of("resourcequotas");
        bench.call("POST", &target, &quota_body("q", spec).to_string())
    };
    let many = post(&mut bench, json!({"hard": amounts(10_000), "scopes": entries(10_000)})).text();
    assert_eq!(
        many,
        "422 Invalid: ResourceQuota \"q\" is invalid: spec.scopes: Too many: 10000: must have at most 32 items"
    );
    let selector = json!({"matchExpressions": vec![json!({"scopeName": "BestEffort", "operator": "Exists"}); 33]});
    let many = post(&mut bench, json!({"hard": {"pods": "1"}, "scopeSelector": selector})).text();
    assert!(many.ends_with("matchExpressions: Too many: 33: must have at most 32 items"), "{many}");
    // a thousand mistakes in one selector of 200 kB
    let selector = json!({"matchExpressions": [requirement]});
    let unfit = post(&mut bench, json!({"hard": amounts(2_000), "scopeSelector": selector}));
    assert_eq!(unfit.code(), 422);
    assert!(unfit.0.body.len() < 2_000_000, "{}", unfit.0.body.len());
    let repeated = json!({"hard": {"pods": "1"}, "scopes": entries(32)});
    assert_eq!(post(&mut bench, repeated).code(), 201, "upstream takes an entry twice, too");
}

#[test]
fn a_table_shows_used_and_hard() {
    let mut bench = Bench::new();
    make_quota(&mut bench, "budget", json!({"pods": "4", "limits.cpu": "2", "requests.cpu": "1"}));
    let mut request = bench.request("GET", &of("resourcequotas"), "");
    request.accept = "application/json;as=Table;v=v1;g=meta.k8s.io".to_owned();
    let table = Reply(bench.answer(&request)).ok();
    let names: Vec<&Value> = table["columnDefinitions"]
        .as_array()
        .unwrap()
        .iter()
        .map(|column| &column["name"])
        .collect();
    assert_eq!(names, ["Name", "Request", "Limit", "Age"]);
    let cells = json!(["budget", "pods: 0/4, requests.cpu: 0/1", "limits.cpu: 0/2", "0s"]);
    assert_eq!(table["rows"][0]["cells"], cells);
}

/// What happens to a namespace with quotas.
#[derive(Clone, Copy, Debug)]
enum QuotaEvent {
    CreatePod {
        slot: u8,
        millis: u16,
        deadline: bool,
    },
    DeletePod {
        slot: u8,
    },
    EndPod {
        slot: u8,
    },
    ResizePod {
        slot: u8,
        millis: u16,
    },
    GiveDeadline {
        slot: u8,
    },
    CreateSecret {
        slot: u8,
    },
    DeleteSecret {
        slot: u8,
    },
    /// The bound on CPU changes; it may be less than what is used.
    Bound {
        millis: u16,
    },
    /// A client writes a status.
    Claim {
        millis: u16,
    },
    /// The writes that wait for the disk become durable, or do not.
    Commit {
        fails: bool,
    },
}

fn event() -> impl Strategy<Value = QuotaEvent> {
    let slot = || 0..6u8;
    prop_oneof![
        4 => (slot(), 0..800u16, any::<bool>())
            .prop_map(|(slot, millis, deadline)| QuotaEvent::CreatePod { slot, millis, deadline }),
        2 => slot().prop_map(|slot| QuotaEvent::DeletePod { slot }),
        1 => slot().prop_map(|slot| QuotaEvent::EndPod { slot }),
        2 => (slot(), 0..800u16).prop_map(|(slot, millis)| QuotaEvent::ResizePod { slot, millis }),
        1 => slot().prop_map(|slot| QuotaEvent::GiveDeadline { slot }),
        2 => slot().prop_map(|slot| QuotaEvent::CreateSecret { slot }),
        1 => slot().prop_map(|slot| QuotaEvent::DeleteSecret { slot }),
        1 => (0..2000u16).prop_map(|millis| QuotaEvent::Bound { millis }),
        1 => (0..2000u16).prop_map(|millis| QuotaEvent::Claim { millis }),
        3 => (0..4u8).prop_map(|number| QuotaEvent::Commit { fails: number == 0 }),
    ]
}

impl QuotaEvent {
    /// The request, with its content type.
    fn request(self) -> Option<(&'static str, String, Value, &'static str)> {
        let (merge, strategic) = ("merge-patch+json", "strategic-merge-patch+json");
        let requests = |millis: u16| json!({"requests": {"cpu": format!("{millis}m")}});
        let named = |plural: &str, prefix: &str, slot: u8| format!("{}/{prefix}{slot}", of(plural));
        Some(match self {
            Self::CreatePod { slot, millis, deadline } => {
                let mut pod = pod(&format!("p{slot}"), requests(millis));
                if deadline {
                    pod["spec"]["activeDeadlineSeconds"] = json!(60);
                }
                ("POST", of("pods"), pod, "json")
            }
            Self::DeletePod { slot } => {
                ("DELETE", named("pods", "p", slot) + "?gracePeriodSeconds=0", Value::Null, "json")
            }
            Self::EndPod { slot } => (
                "PATCH",
                named("pods", "p", slot) + "/status",
                json!({"status": {"phase": "Succeeded"}}),
                merge,
            ),
            Self::ResizePod { slot, millis } => (
                "PATCH",
                named("pods", "p", slot) + "/resize",
                json!({"spec": {"containers": [{"name": "c1", "resources": requests(millis)}]}}),
                strategic,
            ),
            Self::GiveDeadline { slot } => (
                "PATCH",
                named("pods", "p", slot),
                json!({"spec": {"activeDeadlineSeconds": 50}}),
                merge,
            ),
            Self::CreateSecret { slot } => {
                let meta = json!({"name": format!("s{slot}")});
                let secret = json!({"apiVersion": "v1", "kind": "Secret", "metadata": meta});
                ("POST", of("secrets"), secret, "json")
            }
            Self::DeleteSecret { slot } => {
                ("DELETE", named("secrets", "s", slot), Value::Null, "json")
            }
            Self::Bound { millis } => (
                "PATCH",
                of("resourcequotas") + "/all",
                json!({"spec": {"hard": {"requests.cpu": format!("{millis}m")}}}),
                merge,
            ),
            Self::Claim { millis } => (
                "PATCH",
                of("resourcequotas") + "/all/status",
                json!({"status": {"used": {"requests.cpu": format!("{millis}m"), "pods": "0"}}}),
                merge,
            ),
            Self::Commit { .. } => return None,
        })
    }

    /// Whether it may leave more used than is allowed.
    const fn may_exceed(self) -> bool {
        match self {
            Self::Bound { .. } => true,
            Self::CreatePod { .. }
            | Self::DeletePod { .. }
            | Self::EndPod { .. }
            | Self::ResizePod { .. }
            | Self::GiveDeadline { .. }
            | Self::CreateSecret { .. }
            | Self::DeleteSecret { .. }
            | Self::Claim { .. }
            | Self::Commit { .. } => false,
        }
    }
}

/// Commits what waits for the disk, unless the disk refuses it.
fn commit(bench: &mut Bench, fails: bool) {
    if fails {
        bench.disk.inject(DiskFault::Refused);
    }
    let _ = bench.committer.commit_pending();
    bench.disk.forget_faults();
}

/// What a controller sees that watches everything.
fn seen_by_controllers(bench: &mut Bench) -> ClusterView {
    let mut view = ClusterView::new();
    view.set_time(bench.now);
    for (kind, plural) in [
        (ResourceKind::Pod, "pods"),
        (ResourceKind::Secret, "secrets"),
        (ResourceKind::ResourceQuota, "resourcequotas"),
    ] {
        for item in bench.get(&of(plural))["items"].as_array().unwrap() {
            let object = match kind {
                ResourceKind::Pod => {
                    ViewObject::from(serde_json::from_value::<Pod>(item.clone()).unwrap())
                }
                ResourceKind::ResourceQuota => {
                    ViewObject::from(serde_json::from_value::<ResourceQuota>(item.clone()).unwrap())
                }
                other => {
                    let metadata = serde_json::from_value(item["metadata"].clone()).unwrap();
                    ViewObject::Metadata(other, std::sync::Arc::new(metadata))
                }
            };
            view.apply(object);
        }
    }
    view
}

/// Every quota says what is there, as the controller counts it.
fn check_counts(bench: &mut Bench) {
    let view = seen_by_controllers(bench);
    let quiet = bench.now + TickDuration::from_secs(60);
    for name in ["all", "deadlines"] {
        let key = ControllerKey::ResourceQuota(NamespacedName::new("default", name));
        let plan = reconcile(&view, &key, quiet);
        assert!(plan.is_empty(), "the controller finds something else: {plan:?}");
    }
}

/// What is used and allowed of the CPU of all pods, in thousandths.
fn cpu(bench: &mut Bench) -> (i64, i64) {
    let status = bench.get(&(of("resourcequotas") + "/all"))["status"].clone();
    let millis = |list: &str| {
        let amount: Quantity = status[list]["requests.cpu"].as_str().unwrap().parse().unwrap();
        amount.millis()
    };
    (millis("used"), millis("hard"))
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 48, ..ProptestConfig::default() })]

    /// Writes that wait for the disk, commits that fail, bounds that fall, statuses that lie: what
    /// is used is always what is there, and nothing but a lower bound leads beyond the bound.
    #[test]
    fn a_quota_is_exact_and_never_exceeded(events in proptest::collection::vec(event(), 1..40)) {
        let mut bench = Bench::new();
        let hard = json!({"pods": "4", "requests.cpu": "1", "count/pods": "5", "secrets": "3"});
        make_quota(&mut bench, "all", hard);
        let scoped = json!({"hard": {"pods": "2"}, "scopes": ["Terminating"]});
        bench.create(&of("resourcequotas"), quota_body("deadlines", scoped));
        let (mut may_exceed, mut used_before) = (false, 0);
        for event in events {
            if let Some((method, target, body, kind)) = event.request() {
                let body = if body.is_null() { String::new() } else { body.to_string() };
                let mut request = bench.request(method, &target, &body);
                request.content_type = format!("application/{kind}");
                let outcome = bench.api.handle(&request);
                may_exceed |= event.may_exceed() && matches!(outcome, RequestOutcome::Write(_));
            }
            let QuotaEvent::Commit { fails } = event else { continue };
            commit(&mut bench, fails);
            check_counts(&mut bench);
            let (used, hard) = cpu(&mut bench);
            prop_assert!(used <= hard.max(used_before) || may_exceed, "{used} of {hard}");
            (may_exceed, used_before) = (false, used);
        }
        commit(&mut bench, false);
        check_counts(&mut bench);
    }
}

#[test]
fn objects_of_a_custom_kind_are_counted_from_its_definition_on() {
    let mut bench = Bench::new();
    make_quota(&mut bench, "widgets", json!({"count/widgets.example.com": "1"}));
    let definition = json!({"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
        "metadata": {"name": "widgets.example.com"}, "spec": {"group": "example.com", "scope": "Namespaced",
        "names": {"plural": "widgets", "singular": "widget", "kind": "Widget", "listKind": "WidgetList"},
        "versions": [{"name": "v1", "served": true, "storage": true,
            "schema": {"openAPIV3Schema": {"type": "object", "x-kubernetes-preserve-unknown-fields": true}}}]}});
    bench.create("/apis/apiextensions.k8s.io/v1/customresourcedefinitions", definition);
    let target = "/apis/example.com/v1/namespaces/default/widgets";
    let widget = |name: &str| {
        json!({"apiVersion": "example.com/v1", "kind": "Widget", "metadata": {"name": name}})
            .to_string()
    };
    bench.call("POST", target, &widget("a")).ok();
    assert_eq!(used(&mut bench, "widgets"), json!({"count/widgets.example.com": "1"}));
    assert_eq!(
        bench.call("POST", target, &widget("b")).text(),
        "403 Forbidden: widgets.example.com \"b\" is forbidden: exceeded quota: widgets, requested: \
         count/widgets.example.com=1, used: count/widgets.example.com=1, limited: count/widgets.example.com=1"
    );
    bench.call("DELETE", &format!("{target}/a"), "").ok();
    assert_eq!(used(&mut bench, "widgets"), json!({"count/widgets.example.com": "0"}));
    bench.call("POST", target, &widget("b")).ok();
}
