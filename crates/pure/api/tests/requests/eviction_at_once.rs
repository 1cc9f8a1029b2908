//! However many evict at once, and however far behind the budget's controller is: no more pods are
//! disrupted than the budget allows.

use std::sync::atomic::{AtomicUsize, Ordering};

use k8s_openapi::api::core::v1::Pod;
use k8s_openapi::api::policy::v1::PodDisruptionBudget;
use proptest::prelude::*;
use rekindle_api::{EventStream, RequestOutcome};
use rekindle_controllers::{
    ClusterView, ControllerKey, NamespacedName, ResourceKind, ViewObject, WriteOperation,
    WriteRefusal, WriteResult, reconcile,
};
use serde_json::{Value, json};

use crate::harness::{Bench, PODS, START, pod};

const BUDGET: &str = "/apis/policy/v1/namespaces/default/poddisruptionbudgets";
const SETS: &str = "/apis/apps/v1/namespaces/default/replicasets";
const REPLICAS: usize = 5;

fn eviction(name: &str) -> String {
    json!({"apiVersion": "policy/v1", "kind": "Eviction", "metadata": {"name": name}}).to_string()
}

/// The API, and a disruption controller that sees it late.
struct Cluster {
    bench: Bench,
    view: ClusterView,
    pods: EventStream,
    budgets: EventStream,
    owner: Value,
    made: usize,
}

impl Cluster {
    fn new(spec: Value) -> Self {
        let mut bench = Bench::new();
        let set = bench.create(
            SETS,
            json!({"metadata": {"name": "web"}, "spec": {
                "replicas": REPLICAS, "selector": {"matchLabels": {"app": "web"}},
                "template": {"metadata": {"labels": {"app": "web"}},
                    "spec": {"containers": [{"name": "c", "image": "localhost/demo"}]}}}}),
        );
        let owner = json!([{"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "web",
            "uid": set["metadata"]["uid"], "controller": true}]);
        let mut spec = spec;
        spec["selector"] = json!({"matchLabels": {"app": "web"}});
        bench.create(BUDGET, json!({"metadata": {"name": "web"}, "spec": spec}));
        let pods = bench.watch(&format!("{PODS}?watch=1"));
        let budgets = bench.watch(&format!("{BUDGET}?watch=1"));
        let mut view = ClusterView::new();
        let set: k8s_openapi::api::apps::v1::ReplicaSet = serde_json::from_value(set).unwrap();
        view.apply(set.into());
        let mut cluster = Self { bench, view, pods, budgets, owner, made: 0 };
        for _ in 0..REPLICAS {
            cluster.replace();
            cluster.become_ready(cluster.made - 1);
        }
        cluster.catch_up();
        cluster
    }

    /// The workload makes a pod; it is on a node and runs, and is not Ready yet.
    fn replace(&mut self) {
        let name = format!("web-{}", self.made);
        self.made += 1;
        let mut pod = pod(&name);
        pod["metadata"]["labels"] = json!({"app": "web"});
        pod["metadata"]["ownerReferences"] = self.owner.clone();
        pod["spec"]["nodeName"] = "n1".into();
        self.bench.create(PODS, pod);
        self.show(&name, "False");
    }

    fn show(&mut self, name: &str, ready: &str) {
        let status = json!({"status": {"phase": "Running", "conditions": [{"type": "Ready", "status": ready}]}});
        let target = format!("{PODS}/{name}/status");
        let reply = self.bench.call("PATCH", &target, &status.to_string());
        assert!(matches!(reply.code(), 200 | 404), "{}", reply.text());
    }

    fn become_ready(&mut self, number: usize) {
        self.show(&format!("web-{number}"), "True");
    }

    /// The node ends a pod that is being deleted; how many there are then is made up for.
    fn end(&mut self, number: usize) {
        let target = format!("{PODS}/web-{number}");
        let pod = self.bench.call("GET", &target, "").json();
        if pod["metadata"].get("deletionTimestamp").is_some() {
            self.bench.call("DELETE", &target, r#"{"gracePeriodSeconds": 0}"#).ok();
            self.replace();
        }
    }

    fn see_pod(&mut self) -> bool {
        let Some(line) = self.pods.try_next(START) else { return false };
        see::<Pod>(&mut self.view, &line);
        true
    }

    fn see_budget(&mut self) -> bool {
        let Some(line) = self.budgets.try_next(START) else { return false };
        see::<PodDisruptionBudget>(&mut self.view, &line);
        true
    }

    /// The controller looks at the budget with what it has seen.
    fn reconcile(&mut self) {
        let name = NamespacedName::new("default", "web");
        let plan = reconcile(&self.view, &ControllerKey::Disruption(name), self.bench.now);
        for step in plan.batches.into_iter().flatten() {
            let WriteOperation::UpdateStatus(ViewObject::PodDisruptionBudget(budget)) = &step.write
            else {
                panic!("{:?}", step.write)
            };
            let id = ViewObject::from(budget.clone()).id();
            let body = serde_json::to_string(budget.as_ref()).unwrap();
            let reply = self.bench.call("PUT", &format!("{BUDGET}/web/status"), &body);
            let outcome = match reply.code() {
                200 => {
                    let stored: PodDisruptionBudget = serde_json::from_value(reply.json()).unwrap();
                    WriteResult::Stored(stored.into())
                }
                409 => {
                    WriteResult::Refused { refusal: WriteRefusal::Conflict, message: reply.text() }
                }
                _ => panic!("{}", reply.text()),
            };
            self.view.settle(&id, &step, outcome);
        }
    }

    fn catch_up(&mut self) {
        while self.see_pod() || self.see_budget() {}
        self.reconcile();
        while self.see_budget() {}
    }

    fn evict(&mut self, number: usize) -> u16 {
        let name = format!("web-{number}");
        self.bench.call("POST", &format!("{PODS}/{name}/eviction"), &eviction(&name)).code()
    }

    /// Pods that are Ready and stay.
    fn healthy(&mut self) -> usize {
        let pods = self.bench.get(PODS);
        let pods = pods["items"].as_array().unwrap().iter();
        pods.filter(|pod| {
            let conditions = pod["status"]["conditions"].as_array();
            pod["metadata"].get("deletionTimestamp").is_none()
                && conditions.is_some_and(|all| {
                    all.iter().any(|c| c["type"] == "Ready" && c["status"] == "True")
                })
        })
        .count()
    }

    fn allowed(&mut self) -> u64 {
        let budget = self.bench.get(&format!("{BUDGET}/web"));
        budget["status"]["disruptionsAllowed"].as_u64().unwrap()
    }
}

fn see<K: serde::de::DeserializeOwned>(view: &mut ClusterView, line: &[u8])
where
    ViewObject: From<K>,
{
    let event: Value = serde_json::from_slice(line).unwrap();
    let object: K = serde_json::from_value(event["object"].clone()).unwrap();
    let object = ViewObject::from(object);
    match event["type"].as_str().unwrap() {
        "DELETED" => view.delete(&object.id(), object.uid()),
        _ => view.apply(object),
    };
}

/// What happens next, to which pod.
#[derive(Clone, Copy, Debug)]
enum Step {
    Evict(usize),
    End(usize),
    Ready(usize),
    SeePod,
    SeeBudget,
    Reconcile,
}

fn step() -> impl Strategy<Value = Step> {
    let pod = 0..12_usize;
    prop_oneof![
        4 => pod.clone().prop_map(Step::Evict),
        2 => pod.clone().prop_map(Step::End),
        2 => pod.prop_map(Step::Ready),
        3 => Just(Step::SeePod),
        3 => Just(Step::SeeBudget),
        3 => Just(Step::Reconcile),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 128, ..ProptestConfig::default() })]

    #[test]
    fn no_more_pods_are_disrupted_than_the_budget_allows_whatever_its_controller_has_seen(
        spec in prop_oneof![
            (0..=5_usize).prop_map(|min| (json!({"minAvailable": min}), min)),
            (0..=5_usize).prop_map(|max| (json!({"maxUnavailable": max}), 5 - max)),
            Just((json!({"minAvailable": "50%"}), 3)),
        ],
        steps in prop::collection::vec(step(), 0..80),
    ) {
        let (spec, wanted) = spec;
        let mut cluster = Cluster::new(spec);
        prop_assert_eq!(cluster.allowed(), (REPLICAS - wanted) as u64);
        for step in steps {
            match step {
                Step::Evict(n) => {
                    let code = cluster.evict(n);
                    prop_assert!(matches!(code, 201 | 404 | 429), "{code}");
                    let healthy = cluster.healthy();
                    prop_assert!(healthy >= wanted, "{healthy} of {wanted} after {step:?}");
                }
                Step::End(n) => cluster.end(n),
                Step::Ready(n) => cluster.become_ready(n),
                Step::SeePod => drop(cluster.see_pod()),
                Step::SeeBudget => drop(cluster.see_budget()),
                Step::Reconcile => cluster.reconcile(),
            }
        }
        // Once the controller has seen everything, what is left over is what may be disrupted.
        cluster.catch_up();
        let left = cluster.healthy() - wanted;
        let allowed = cluster.allowed();
        prop_assert_eq!(allowed, left as u64);
        let id = rekindle_controllers::ObjectId::new(
            ResourceKind::PodDisruptionBudget,
            NamespacedName::new("default", "web"),
        );
        let Some(ViewObject::PodDisruptionBudget(budget)) = cluster.view.get(&id) else { panic!() };
        let status = budget.status.clone().unwrap();
        prop_assert_eq!(status.disrupted_pods, None);
    }
}

/// The controller sees the budget, and the pods late: one is evicted before it sees that this pod
/// was made, and later it sees that the pod was ready.
#[test]
fn an_eviction_of_a_pod_that_the_controller_does_not_see_yet_is_not_forgotten() {
    let mut cluster = Cluster::new(json!({"minAvailable": 2}));
    assert_eq!((cluster.evict(1), cluster.evict(3)), (201, 201));
    cluster.end(1);
    cluster.become_ready(5);
    assert_eq!(cluster.evict(5), 201);
    while cluster.see_budget() {}
    cluster.reconcile();
    assert_eq!((cluster.allowed(), cluster.evict(4)), (1, 201), "web-0, web-2 and web-4 were left");
    // web-1 and web-3 go, web-1 has gone, web-5 was made, runs, and is ready
    for _ in 0..6 {
        assert!(cluster.see_pod());
    }
    while cluster.see_budget() {}
    cluster.reconcile();
    assert_eq!((cluster.allowed(), cluster.evict(2)), (0, 429));
    assert_eq!(cluster.healthy(), 2);
}

#[test]
fn evictions_in_the_same_moment_share_what_the_budget_has_left() {
    const PODS_AT_ONCE: usize = 24;
    const LEFT: usize = 5;
    let mut bench = Bench::new();
    for number in 0..PODS_AT_ONCE {
        let name = format!("web-{number}");
        let mut pod = pod(&name);
        pod["metadata"]["labels"] = json!({"app": "web"});
        pod["spec"]["nodeName"] = "n1".into();
        bench.create(PODS, pod);
        let status = json!({"status": {"phase": "Running", "conditions": [{"type": "Ready", "status": "True"}]}});
        bench.call("PATCH", &format!("{PODS}/{name}/status"), &status.to_string()).ok();
    }
    bench.create(
        BUDGET,
        json!({"metadata": {"name": "web"},
            "spec": {"minAvailable": 19, "selector": {"matchLabels": {"app": "web"}}}}),
    );
    let status = json!({"status": {"observedGeneration": 1, "disruptionsAllowed": LEFT,
        "currentHealthy": PODS_AT_ONCE, "desiredHealthy": 19, "expectedPods": PODS_AT_ONCE}});
    bench.call("PATCH", &format!("{BUDGET}/web/status"), &status.to_string()).ok();

    let requests: Vec<_> = (0..PODS_AT_ONCE)
        .map(|number| {
            let name = format!("web-{number}");
            bench.request("POST", &format!("{PODS}/{name}/eviction"), &eviction(&name))
        })
        .collect();
    // No commit happens meanwhile: every eviction is decided on writes that are still on their way
    // to the disk.
    let (granted, refused) = (AtomicUsize::new(0), AtomicUsize::new(0));
    let api = &bench.api;
    std::thread::scope(|scope| {
        for request in &requests {
            scope.spawn(|| match api.handle(request) {
                RequestOutcome::Write(_) => drop(granted.fetch_add(1, Ordering::SeqCst)),
                RequestOutcome::Answer(answer) => {
                    assert_eq!(answer.code.as_u16(), 429);
                    refused.fetch_add(1, Ordering::SeqCst);
                }
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
                | RequestOutcome::Backup => panic!("no eviction"),
            });
        }
    });
    bench.committer.commit_pending().unwrap();
    assert_eq!(granted.into_inner(), LEFT);
    assert_eq!(refused.into_inner(), PODS_AT_ONCE - LEFT);
    let going = bench.get(PODS);
    let going = going["items"].as_array().unwrap().iter();
    assert_eq!(
        going.filter(|pod| pod["metadata"].get("deletionTimestamp").is_some()).count(),
        LEFT
    );
    let budget = bench.get(&format!("{BUDGET}/web"));
    assert_eq!(budget["status"]["disruptionsAllowed"], 0);
    assert_eq!(budget["status"]["disruptedPods"].as_object().unwrap().len(), LEFT);
}
