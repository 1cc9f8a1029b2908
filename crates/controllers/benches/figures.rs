//! Figures of the controllers, without API and disk: what the scheduler decides in a second, what one change among many pods
//! costs, and what the view of them weighs. `cargo bench -p rekindle-controllers` prints them, and only those whose name contains an
//! argument, where there is one; docs/figures.md says what is asked for. Everything runs on one thread, and times are those of its processor, so that what else runs on the machine counts little.
#![allow(
    clippy::disallowed_methods,
    clippy::unwrap_used,
    missing_docs,
    reason = "it measures time and memory"
)]

use std::time::Duration;

use k8s_openapi::api::apps::v1::ReplicaSet;
use k8s_openapi::api::core::v1::{Node, Pod};
use rekindle_controllers::{
    Change, Key, NamespacedName, Object, ObjectId, Outcome, Step, View, Write, affected, reconcile,
};
use rekindle_types::Tick;
use serde_json::{Value, json};

const NODES: usize = 1000;
const PODS: usize = 10_000;
/// Pods of one ReplicaSet.
const REPLICAS: usize = 100;
/// Rounds of the measurement of one change.
const CHANGES: usize = 1000;
const NOW: Tick = Tick::from_secs(1_800_000_000);

fn main() {
    // `cargo test --benches` only builds it and sees that it starts.
    if !std::env::args().any(|argument| argument == "--bench") {
        return;
    }
    let spread = json!({"topologySpreadConstraints": [{"maxSkew": 5, "topologyKey": "zone",
        "whenUnsatisfiable": "DoNotSchedule", "labelSelector": {"matchLabels": {"app": "web-0"}}}]});
    let shy = json!({"affinity": {"podAntiAffinity": {
        "preferredDuringSchedulingIgnoredDuringExecution": [{"weight": 100, "podAffinityTerm": {
            "topologyKey": "kubernetes.io/hostname",
            "labelSelector": {"matchLabels": {"app": "web-0"}}}}]}}});
    println!("scheduler, {NODES} nodes, pods per second:");
    for (what, more, pods) in [
        ("plain pods", json!({}), PODS),
        ("spread over zones", spread, PODS / 10),
        ("away from each other, preferred", shy, PODS / 10),
    ] {
        if is_wanted(what) {
            schedule(what, &more, pods);
        }
    }
    if is_wanted("one change") {
        one_change();
    }
}

/// True when no argument names what is to be measured, or one names this.
fn is_wanted(what: &str) -> bool {
    let mut named =
        std::env::args().skip(1).filter(|argument| !argument.starts_with('-')).peekable();
    named.peek().is_none() || named.any(|name| what.contains(&name))
}

/// From a pod that waits to its binding, seen by the watch: decision, own write, its answer, the watch's event, and what each of
/// them touches.
fn schedule(what: &str, more: &Value, pods: usize) {
    let mut view = View::new();
    (0..NODES).for_each(|number| drop(view.apply(node(number).into())));
    let waiting: Vec<ObjectId> = (0..pods)
        .map(|number| {
            let mut value = pod(number, None);
            for (key, more) in more.as_object().unwrap() {
                value["spec"][key] = more.clone();
            }
            let object = Object::from(serde_json::from_value::<Pod>(value).unwrap());
            let id = object.id();
            view.apply(object);
            id
        })
        .collect();
    let begun = on_processor();
    for id in &waiting {
        bind(&mut view, &Key::Schedule(id.name.clone()));
    }
    let seconds = (on_processor() - begun).as_secs_f64();
    assert_eq!(view.unscheduled().count(), 0, "all of them have a node");
    #[expect(clippy::cast_precision_loss, reason = "a count of pods")]
    let rate = pods as f64 / seconds;
    println!("  {what}: {rate:.0} ({pods} pods)");
}

fn bind(view: &mut View, key: &Key) {
    let plan = reconcile(view, key, NOW);
    let step: &Step = &plan.batches[0][0];
    let Write::Bind { pod: id, node, .. } = &step.write else { panic!("{key}: {plan:?}") };
    let mut changes: Vec<Change> = view.begin(step);
    changes.extend(view.settle(&key.object(), step, Outcome::Done).changes);
    let Some(Object::Pod(pod)) = view.get(id) else { panic!("{id} is there") };
    let mut bound = pod.as_ref().clone();
    bound.metadata.resource_version = Some("2".to_owned());
    bound.spec.as_mut().unwrap().node_name = Some(node.clone());
    changes.extend(view.apply(bound.into()));
    for change in &changes {
        std::hint::black_box(affected(view, change));
    }
}

/// One pod of many changes: everything that its controllers decide about it.
fn one_change() {
    let before = resident_kib();
    let mut view = View::new();
    (0..NODES).for_each(|number| drop(view.apply(node(number).into())));
    (0..PODS / REPLICAS).for_each(|number| drop(view.apply(replica_set(number).into())));
    for number in 0..PODS {
        let value = pod(number, Some(number % NODES));
        view.apply(Object::from(serde_json::from_value::<Pod>(value).unwrap()));
    }
    println!("view of {PODS} pods and {NODES} nodes: {} MiB", (resident_kib() - before) / 1024);
    let total: Duration = (0..CHANGES).map(|round| change_one(&mut view, round)).sum();
    let each = total.as_micros() / u128::try_from(CHANGES).unwrap();
    println!("one change among {PODS} pods: {each} µs (mean of {CHANGES})");
}

fn change_one(view: &mut View, round: usize) -> Duration {
    let name = NamespacedName::new("shop", format!("web-{}-{}", round % 100, round / 100));
    let mut changed = view.pod(&name).unwrap().as_ref().clone();
    changed.metadata.resource_version = Some((round + 10).to_string());
    let conditions = changed.status.as_mut().unwrap().conditions.as_mut().unwrap();
    conditions[0].status = "False".to_owned();
    let object = Object::from(changed);
    let begun = on_processor();
    let change = view.apply(object).unwrap();
    let keys = affected(view, &change);
    for key in &keys {
        std::hint::black_box(reconcile(view, key, NOW));
    }
    let time = on_processor() - begun;
    assert!(
        keys.contains(&Key::ReplicaSet(NamespacedName::new(
            "shop",
            format!("web-{}", round % 100)
        )))
    );
    time
}

fn node(number: usize) -> Node {
    let room = json!({"cpu": "64", "memory": "256Gi", "pods": "110", "ephemeral-storage": "500Gi"});
    serde_json::from_value(json!({
        "metadata": {"name": format!("node-{number:04}"), "uid": format!("node-{number}"),
            "resourceVersion": "1", "labels": {"kubernetes.io/hostname": format!("node-{number:04}"),
            "kubernetes.io/os": "linux", "zone": format!("zone-{}", number % 3)}},
        "status": {"allocatable": room, "capacity": room,
            "conditions": [{"type": "Ready", "status": "True"}],
            "images": [{"names": ["example.com/shop/web:1.2.3"], "sizeBytes": 104_857_600}]},
    }))
    .unwrap()
}

fn replica_set(number: usize) -> ReplicaSet {
    let app = format!("web-{number}");
    serde_json::from_value(json!({
        "metadata": {"name": app, "namespace": "shop", "uid": app, "resourceVersion": "1", "generation": 1},
        "spec": {"replicas": REPLICAS, "selector": {"matchLabels": {"app": app}},
            "template": {"metadata": {"labels": {"app": app}},
                "spec": {"containers": [{"name": "web", "image": "example.com/shop/web:1.2.3"}]}}},
    }))
    .unwrap()
}

/// A pod as a Deployment's usually is: two containers, a probe, environment, a token, a status.
fn pod(number: usize, node: Option<usize>) -> Value {
    let app = format!("web-{}", number % (PODS / REPLICAS));
    let resources =
        json!({"requests": {"cpu": "100m", "memory": "128Mi"}, "limits": {"memory": "256Mi"}});
    let container = |name: &str| {
        json!({"name": name, "image": "example.com/shop/web:1.2.3", "imagePullPolicy": "IfNotPresent",
            "resources": resources, "ports": [{"containerPort": 8080, "protocol": "TCP"}],
            "env": [{"name": "LEVEL", "value": "info"}, {"name": "REGION", "value": "eu-west"}],
            "readinessProbe": {"httpGet": {"path": "/ready", "port": 8080}, "periodSeconds": 10},
            "terminationMessagePath": "/dev/termination-log", "terminationMessagePolicy": "File",
            "volumeMounts": [{"name": "token", "readOnly": true,
                "mountPath": "/var/run/secrets/kubernetes.io/serviceaccount"}]})
    };
    let status = |name: &str| {
        json!({"name": name, "ready": true, "started": true, "restartCount": 0,
            "image": "example.com/shop/web:1.2.3", "imageID": "example.com/shop/web@sha256:0123",
            "containerID": format!("rekindle://{number}-{name}"),
            "state": {"running": {"startedAt": "2026-11-21T12:00:00Z"}}})
    };
    let condition = |type_: &str| json!({"type": type_, "status": "True", "lastTransitionTime": "2026-11-21T12:00:00Z"});
    let mut value = json!({
        "metadata": {"name": format!("{app}-{}", number / (PODS / REPLICAS)), "namespace": "shop",
            "uid": format!("pod-{number}"), "resourceVersion": "1",
            "creationTimestamp": "2026-11-21T12:00:00Z",
            "labels": {"app": app, "pod-template-hash": "5d4f8c7b9"},
            "ownerReferences": [{"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": app,
                "uid": app, "controller": true, "blockOwnerDeletion": true}]},
        "spec": {"containers": [container("web"), container("proxy")], "restartPolicy": "Always",
            "serviceAccountName": "default", "schedulerName": "default-scheduler", "priority": 0,
            "terminationGracePeriodSeconds": 30, "dnsPolicy": "ClusterFirst",
            "volumes": [{"name": "token", "emptyDir": {}}],
            "tolerations": [
                {"key": "node.kubernetes.io/not-ready", "operator": "Exists", "effect": "NoExecute",
                    "tolerationSeconds": 300},
                {"key": "node.kubernetes.io/unreachable", "operator": "Exists", "effect": "NoExecute",
                    "tolerationSeconds": 300}]},
        "status": {"phase": "Pending"},
    });
    if let Some(node) = node {
        value["spec"]["nodeName"] = json!(format!("node-{node:04}"));
        value["status"] = json!({"phase": "Running", "podIP": "10.0.0.1", "qosClass": "Burstable",
            "conditions": [condition("Ready"), condition("ContainersReady"),
                condition("Initialized"), condition("PodScheduled")],
            "containerStatuses": [status("web"), status("proxy")]});
    }
    value
}

/// How long this thread has run on a processor; the kernel brings it up to date at its ticks, so that only sums say something.
fn on_processor() -> Duration {
    let text = std::fs::read_to_string("/proc/thread-self/schedstat").unwrap();
    Duration::from_nanos(text.split_whitespace().next().unwrap().parse().unwrap())
}

/// The resident memory of this process, in KiB.
fn resident_kib() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find(|line| line.starts_with("VmRSS:")).unwrap();
    line.split_whitespace().nth(1).unwrap().parse().unwrap()
}
