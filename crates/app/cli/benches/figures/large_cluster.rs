//! What the operator costs on a large cluster: 5,000 nodes and 150,000 pods, and containers that
//! crash. An API server of ours has the objects; no kubelet stands behind them.

use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::Context;
use futures::{Stream, StreamExt, TryStreamExt};
use http::Method;
use kube::Api;
use kube::runtime::{WatchStreamExt, watcher};
use rekindle_testkit::guarded_child::GuardedChild;
use rekindle_types::v1alpha1::RestartLedger;
use serde_json::{Value, json};

use crate::api::connection::{JSON, Server};
use crate::api::loads::in_parallel;
use crate::engine::{Engine, cpu_percent};
use crate::idle::rollup;
use crate::sample::{Amount, Report};

const NODES: usize = 5_000;
const PODS: usize = 150_000;
const PODS_OF_A_SET: usize = 10;
const SETS: usize = PODS / PODS_OF_A_SET;
const NAMESPACES: usize = 100;
/// Pods that crash already when the operator starts.
const SICK: usize = 50;
const CRASHES_PER_SECOND: u32 = 50;
const OBSERVED: Duration = Duration::from_secs(60);
/// What comes later never comes.
const DEADLINE: Duration = Duration::from_secs(120);

pub async fn measure(report: &mut Report) -> anyhow::Result<()> {
    let engine = Engine::start_with(&["--no-controllers"]).await?;
    let server = engine.server().await?;
    fill(&server).await?;
    let begun = Instant::now();
    let operator = Operator::start(&engine)?;
    let mut ledgers = Box::pin(ledger_writes(&engine));
    wait_for_writes(&mut ledgers, 1).await?;
    let first = begun.elapsed();
    wait_for_writes(&mut ledgers, SICK - 1).await?;
    report.durations(
        &format!("operator started, {NODES} nodes, {PODS} pods → its first decision"),
        "≤ 60 s",
        vec![first],
    );
    report_memory(report, &operator, "after its start")?;

    let noted = tokio::spawn(async move {
        let mut count = 0_usize;
        while tokio::time::timeout(Duration::from_secs(10), ledgers.next()).await.is_ok() {
            count += 1;
        }
        count
    });
    let crashes = crash(&server);
    let process = [operator.0.0.id()];
    let (shares, crashes) = tokio::join!(cpu_percent(&process, OBSERVED), crashes);
    let (share, crashes) = (shares?[0], crashes?);
    report.amount(
        &format!("operator's CPU at {CRASHES_PER_SECOND} crashes a second"),
        "≤ 1 core",
        Amount::cost(share),
        format!("{share:.1} % of a core"),
    );
    let writes = noted.await? as f64 / crashes as f64;
    report.amount(
        "ledgers written for each crash",
        "≤ 2",
        Amount::cost(writes),
        format!("{writes:.2}, {crashes} crashes"),
    );
    report_memory(report, &operator, "after the crashes")
}

fn report_memory(report: &mut Report, operator: &Operator, when: &str) -> anyhow::Result<()> {
    let mib = rollup(operator.0.0.id(), "Rss")? as f64 / 1024.0;
    report.amount(
        &format!("operator's memory, {PODS} pods, {when}"),
        "≤ 1.5 GiB",
        Amount::cost(mib),
        format!("{mib:.0} MiB"),
    );
    Ok(())
}

/// The operator's process; killed when it is dropped.
struct Operator(GuardedChild);

impl Operator {
    fn start(engine: &Engine) -> anyhow::Result<Self> {
        let child = Command::new(env!("CARGO_BIN_EXE_rekindle"))
            .args(["operator", "--on-engine", "--mode", "act", "--kubeconfig"])
            .arg(engine.kubeconfig())
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .context("start the operator")?;
        Ok(Self(GuardedChild(child)))
    }
}

/// Each write of a ledger.
fn ledger_writes(engine: &Engine) -> impl Stream<Item = watcher::Result<RestartLedger>> + use<> {
    let ledgers = Api::<RestartLedger>::all(engine.client.clone());
    watcher(ledgers, watcher::Config::default()).applied_objects()
}

async fn wait_for_writes(
    writes: &mut (impl Stream<Item = watcher::Result<RestartLedger>> + Unpin),
    count: usize,
) -> anyhow::Result<()> {
    let seen = writes.take(count).try_for_each(async |_| Ok(()));
    Ok(tokio::time::timeout(DEADLINE, seen).await.context("too few ledgers were written")??)
}

/// Containers crash at a steady rate, each of another pod. Answers how many.
async fn crash(server: &Server) -> anyhow::Result<usize> {
    let mut connection = server.connect().await?;
    let mut due = tokio::time::interval(Duration::from_secs(1) / CRASHES_PER_SECOND);
    let begun = Instant::now();
    let mut count = 0;
    while begun.elapsed() < OBSERVED {
        due.tick().await;
        // 37 has no divisor in common with the number of pods
        let (method, path, body) = pod_status((SICK + count * 37) % PODS, 1);
        connection.write(method, &path, JSON, body.to_string().into()).await?;
        count += 1;
    }
    Ok(count)
}

/// Creates all objects, as controllers and kubelets have them.
async fn fill(server: &Server) -> anyhow::Result<()> {
    in_parallel(server, NAMESPACES, namespace_object).await?;
    in_parallel(server, 1, |_| ladder_namespace()).await?;
    in_parallel(server, NAMESPACES, ladder).await?;
    in_parallel(server, NODES, node).await?;
    in_parallel(server, SETS, replica_set).await?;
    in_parallel(server, PODS, pod).await?;
    in_parallel(server, PODS, |number| pod_status(number, if number < SICK { 5 } else { 0 }))
        .await?;
    Ok(())
}

type Write = (Method, String, Value);

fn namespace(number: usize) -> String {
    format!("team-{}", number % NAMESPACES)
}

fn created(path: String, object: Value) -> Write {
    (Method::POST, path, object)
}

fn namespace_object(number: usize) -> Write {
    let labels = json!({"rekindle.dev/ladder": "enabled"});
    created(
        "/api/v1/namespaces".to_owned(),
        json!({
            "apiVersion": "v1", "kind": "Namespace",
            "metadata": {"name": namespace(number), "labels": labels},
        }),
    )
}

fn ladder_namespace() -> Write {
    created(
        "/api/v1/namespaces".to_owned(),
        json!({
            "apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "rekindle-system"},
        }),
    )
}

fn ladder(number: usize) -> Write {
    let path =
        format!("/apis/rekindle.dev/v1alpha1/namespaces/{}/restartladders", namespace(number));
    created(
        path,
        json!({
            "apiVersion": "rekindle.dev/v1alpha1", "kind": "RestartLadder",
            "metadata": {"name": "web"},
            "spec": {
                "selector": {"matchLabels": {"tier": "web"}},
                "rungs": [{"rung": "Container", "attempts": 3}, {"rung": "Recreate"}],
            },
        }),
    )
}

fn node(number: usize) -> Write {
    created(
        "/api/v1/nodes".to_owned(),
        json!({
            "apiVersion": "v1", "kind": "Node",
            "metadata": {"name": format!("machine-{number}")},
            "status": {
                "allocatable": {"cpu": "64", "memory": "256Gi", "pods": "110"},
                "conditions": [{"type": "Ready", "status": "True", "reason": "KubeletReady"}],
            },
        }),
    )
}

fn replica_set(number: usize) -> Write {
    let path = format!("/apis/apps/v1/namespaces/{}/replicasets", namespace(number));
    let labels = labels(number);
    created(
        path,
        json!({
            "apiVersion": "apps/v1", "kind": "ReplicaSet",
            "metadata": {"name": format!("web-{number}"), "labels": labels},
            "spec": {
                "replicas": PODS_OF_A_SET,
                "selector": {"matchLabels": {"app": format!("web-{number}")}},
                "template": {"metadata": {"labels": labels}, "spec": {"containers": [container()]}},
            },
        }),
    )
}

fn labels(set: usize) -> Value {
    json!({"app": format!("web-{set}"), "tier": "web"})
}

fn container() -> Value {
    json!({
        "name": "app", "image": "registry.example/web:1.4.2", "args": ["serve", "--port", "8080"],
        "ports": [{"containerPort": 8080}],
        "env": [{"name": "MODE", "value": "production"}, {"name": "LEVEL", "value": "info"}],
        "resources": {"requests": {"cpu": "100m", "memory": "128Mi"}},
        "readinessProbe": {"httpGet": {"path": "/healthz", "port": 8080}},
    })
}

fn pod_path(number: usize) -> String {
    format!("/api/v1/namespaces/{}/pods", namespace(number / PODS_OF_A_SET))
}

fn pod_metadata(number: usize) -> Value {
    let set = number / PODS_OF_A_SET;
    json!({
        "name": format!("web-{set}-{number}"), "labels": labels(set),
        "ownerReferences": [{"apiVersion": "apps/v1", "kind": "ReplicaSet", "controller": true,
            "name": format!("web-{set}"), "uid": format!("set-{set}")}],
    })
}

fn pod(number: usize) -> Write {
    created(
        pod_path(number),
        json!({
            "apiVersion": "v1", "kind": "Pod", "metadata": pod_metadata(number),
            "spec": {"nodeName": format!("machine-{}", number % NODES), "containers": [container()]},
        }),
    )
}

/// As a kubelet writes it after so many crashes of the container.
fn pod_status(number: usize, crashes: usize) -> Write {
    let at = jiff::Timestamp::now().to_string();
    let ready = crashes == 0;
    let mut container = json!({
        "name": "app", "image": "registry.example/web:1.4.2", "ready": ready, "started": ready,
        "imageID": "registry.example/web@sha256:b5b2b2c507a0944348e0303114d8d93aaaa081732b86451d9bce1f432a537bc7",
        "containerID": format!("containerd://{number}-{crashes}"), "restartCount": crashes,
        "state": {"running": {"startedAt": at}},
    });
    if !ready {
        let back_off = "back-off 10s restarting failed container";
        container["state"] =
            json!({"waiting": {"reason": "CrashLoopBackOff", "message": back_off}});
        container["lastState"] = json!({"terminated": {"exitCode": 1, "reason": "Error",
            "startedAt": at, "finishedAt": at,
            "containerID": format!("containerd://{number}-{crashes}")}});
    }
    let status = if ready { "True" } else { "False" };
    let conditions = ["PodScheduled", "Initialized", "ContainersReady", "Ready"]
        .map(|type_| json!({"type": type_, "status": status, "lastTransitionTime": at}));
    let path = format!("{}/web-{}-{number}/status", pod_path(number), number / PODS_OF_A_SET);
    (
        Method::PUT,
        path,
        json!({
            "apiVersion": "v1", "kind": "Pod", "metadata": pod_metadata(number),
            "status": {"phase": "Running", "podIP": "10.0.0.1", "hostIP": "10.1.0.1",
                "startTime": at, "qosClass": "Burstable", "conditions": conditions,
                "containerStatuses": [container]},
        }),
    )
}
