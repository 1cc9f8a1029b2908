//! Connections through a Service's address beside those to the pod's own, and what a rollout loses.

use std::time::{Duration, Instant};

use anyhow::Context;
use futures::TryStreamExt;
use k8s_openapi::api::apps::v1::Deployment;
use k8s_openapi::api::core::v1::{Pod, Service};
use kube::Api;
use kube::api::{DeleteParams, ListParams, Patch, PatchParams, PostParams};
use kube::core::ObjectMeta;
use kube::runtime::wait::await_condition;
use kube::runtime::{WatchStreamExt, watcher};
use rekindle_testkit::load::{Load, LoadResult};
use rekindle_types::v1alpha1::{PodRestart, PodRestartPhase, PodRestartSpec, Rung};
use serde_json::{Value, json};

use crate::engine::Engine;
use crate::peers::{self, PublishedPort};
use crate::rates::{ANSWER_BYTES, beside, connections_per_second, megabytes_per_second};
use crate::sample::{Amount, Report};
use crate::slice_writes;

pub const NAME: &str = "web";
const REPLICAS: i32 = 4;
const ROLLOUTS: usize = 5;
/// Of the only replica.
const RESTARTS: usize = 10;
/// A status of which nothing changes for so long will not be what is waited for.
pub const NEXT_IS_DUE: Duration = Duration::from_secs(60);

pub async fn measure(report: &mut Report) -> anyhow::Result<()> {
    let engine = Engine::start().await?;
    let deployments = Api::<Deployment>::namespaced(engine.client.clone(), "default");
    let services = Api::<Service>::namespaced(engine.client.clone(), "default");
    let pods = Api::<Pod>::namespaced(engine.client.clone(), "default");
    deployments.create(&PostParams::default(), &object(deployment(2, server()))?).await?;
    let address = create(&services, NAME, json!({ "app": NAME })).await?;
    rolled_out(&deployments, 2).await?;
    // A pod for each way: what one client has with a pod both ways shares the pod's side of
    // connections that have ended, and half of all new ones would wait for a second.
    let mut two = pods.list(&ListParams::default()).await?.items;
    let (behind, direct) = (two.pop().context("a pod")?, two.pop().context("another pod")?);
    let direct = direct.status.and_then(|status| status.pod_ip).context("the pod's address")?;
    let label = json!({ "metadata": { "labels": { "is": "behind" } } });
    let name = behind.metadata.name.context("its name")?;
    let behind = behind.status.and_then(|status| status.pod_ip).context("its address")?;
    pods.patch(&name, &PatchParams::default(), &Patch::Merge(label)).await?;
    let alone = create(&services, "alone", json!({ "is": "behind" })).await?;
    let rates = beside(connections_per_second, (&direct, 8080), (&alone, 80)).await?;
    report.amount(
        "new connections through a Service's address, beside the pod's own",
        "≥ 90 %",
        Amount::rate(rates.share()),
        rates.in_words("/s"),
    );

    measure_throughput(report, &pods, &services).await?;
    measure_podman(report, &engine).await;
    slice_writes::measure(report, &engine, [&direct, &behind], 8080).await?;

    scale(&deployments, json!({ "replicas": REPLICAS })).await?;
    rolled_out(&deployments, REPLICAS).await?;
    let load = Load::start_at_full_speed(&address, 80);
    for round in 0..ROLLOUTS {
        let annotations = json!({ "round": round.to_string() });
        let template = json!({ "template": { "metadata": { "annotations": annotations } } });
        scale(&deployments, template).await?;
        rolled_out(&deployments, REPLICAS).await?;
    }
    let result = tokio::task::spawn_blocking(|| load.stop()).await?;
    report.amount(
        &format!("connections lost in {ROLLOUTS} rollouts of {REPLICAS} pods without preStop"),
        "0",
        Amount::cost(result.lost.len() as f64),
        lost(&result),
    );

    scale(&deployments, json!({ "replicas": 1 })).await?;
    rolled_out(&deployments, 1).await?;
    let restarts = Api::<PodRestart>::namespaced(engine.client.clone(), "default");
    let load = Load::start(&address, 80);
    let mut taken = Vec::new();
    for round in 0..RESTARTS {
        taken.push(restart_only_pod(&pods, &restarts, round).await?);
    }
    let result = tokio::task::spawn_blocking(|| load.stop()).await?;
    report.amount(
        &format!("connections lost in {RESTARTS} whole-pod restarts of the only pod"),
        "0",
        Amount::cost(result.lost.len() as f64),
        lost(&result),
    );
    report.durations("… from the request of a restart to the pod being ready", "–", taken);
    report.durations("… the slowest of all connections", "restart + 5 ms", vec![result.slowest]);
    Ok(())
}

/// Bytes through a Service's address beside those from the pod's own, on kept connections.
async fn measure_throughput(
    report: &mut Report,
    pods: &Api<Pod>,
    services: &Api<Service>,
) -> anyhow::Result<()> {
    let pod = json!({
        "metadata": { "name": "bulk", "labels": { "is": "bulk" } },
        "spec": { "terminationGracePeriodSeconds": 1, "containers": [{
            "name": "server",
            "image": "localhost/demo",
            "args": ["server", "--port", "8080", "--text", "x".repeat(ANSWER_BYTES)],
            "readinessProbe": { "httpGet": { "port": 8080 }, "periodSeconds": 1 },
        }] },
    });
    pods.create(&PostParams::default(), &object(pod)?).await?;
    let service = create(services, "bulk", json!({ "is": "bulk" })).await?;
    let ready = await_condition(pods.clone(), "bulk", is_ready);
    let ready = tokio::time::timeout(NEXT_IS_DUE, ready).await.context("it is not ready")??;
    let status = ready.and_then(|pod| pod.status);
    let direct = status.and_then(|status| status.pod_ip).context("the pod's address")?;
    let rates = beside(megabytes_per_second, (&direct, 8080), (&service, 80)).await?;
    pods.delete("bulk", &DeleteParams::default()).await?;
    report.amount(
        "throughput through a Service's address, beside the pod's own",
        "≥ 95 %",
        Amount::rate(rates.share()),
        rates.in_words(" MB/s"),
    );
    Ok(())
}

/// The same two figures of a port that podman publishes. Theirs leads to one container alone.
async fn measure_podman(report: &mut Report, engine: &Engine) {
    let what = "podman: new connections through a published port, beside the container's own";
    if !peers::installed("podman") {
        return report.peer(what, "not installed".to_owned());
    }
    let measured = async {
        let app = engine.demo_app()?;
        let port = PublishedPort::open(&app, "ok")?;
        let connections = beside(connections_per_second, port.direct(), port.published()).await?;
        drop(port);
        let port = PublishedPort::open(&app, &"x".repeat(ANSWER_BYTES))?;
        let throughput = beside(megabytes_per_second, port.direct(), port.published()).await?;
        anyhow::Ok((connections, throughput))
    };
    match measured.await {
        Ok((connections, throughput)) => {
            report.peer(what, connections.in_words("/s"));
            report.peer("podman: throughput, the same", throughput.in_words(" MB/s"));
        }
        Err(error) => report.peer(what, format!("does not work here: {error:#}")),
    }
}

pub fn lost(result: &LoadResult) -> String {
    let first = result.lost.first().map(|first| format!(": {first}"));
    format!("{} of {}{}", result.lost.len(), result.answered, first.unwrap_or_default())
}

/// Restarts the only pod as a whole, and waits until it is ready again.
async fn restart_only_pod(
    pods: &Api<Pod>,
    restarts: &Api<PodRestart>,
    round: usize,
) -> anyhow::Result<Duration> {
    let mut listed = pods.list(&ListParams::default()).await?.items.into_iter();
    let pod = listed.find(|pod| pod.metadata.deletion_timestamp.is_none()).context("a pod")?;
    let pod = pod.metadata.name.context("its name")?;
    restart_pod(pods, restarts, &pod, format!("round-{round}")).await
}

/// Restarts a pod as a whole by a request of this name, and waits until it is ready again.
pub async fn restart_pod(
    pods: &Api<Pod>,
    restarts: &Api<PodRestart>,
    pod: &str,
    name: String,
) -> anyhow::Result<Duration> {
    let spec =
        PodRestartSpec { pod_name: pod.to_owned(), rung: Some(Rung::Pod), ..Default::default() };
    let metadata = ObjectMeta { name: Some(name.clone()), ..Default::default() };
    let restart = PodRestart { metadata, spec, ..Default::default() };
    let begun = Instant::now();
    restarts.create(&PostParams::default(), &restart).await?;
    let is_done = |restart: Option<&PodRestart>| {
        let status = restart.and_then(|restart| restart.status.as_ref());
        status.and_then(|status| status.phase) == Some(PodRestartPhase::Succeeded)
    };
    let done = tokio::time::timeout(NEXT_IS_DUE, await_condition(restarts.clone(), &name, is_done));
    done.await.context("the restart stands still")??;
    let ready = await_condition(pods.clone(), pod, is_ready);
    tokio::time::timeout(NEXT_IS_DUE, ready).await.context("the pod is not ready again")??;
    Ok(begun.elapsed())
}

/// Whether the pod is there and ready.
pub fn is_ready(pod: Option<&Pod>) -> bool {
    let status = pod.and_then(|pod| pod.status.as_ref());
    let conditions = status.and_then(|status| status.conditions.as_ref());
    conditions
        .into_iter()
        .flatten()
        .any(|condition| (condition.type_.as_str(), condition.status.as_str()) == ("Ready", "True"))
}

pub async fn scale(deployments: &Api<Deployment>, spec: Value) -> anyhow::Result<()> {
    let patch = Patch::Merge(json!({ "spec": spec }));
    deployments.patch(NAME, &PatchParams::default(), &patch).await?;
    Ok(())
}

/// Until the newest revision has as many pods, all are available, and none is left of others.
pub async fn rolled_out(deployments: &Api<Deployment>, replicas: i32) -> anyhow::Result<()> {
    let config = watcher::Config::default().fields(&format!("metadata.name={NAME}"));
    let mut seen = Box::pin(watcher(deployments.clone(), config).applied_objects());
    loop {
        let next = tokio::time::timeout(NEXT_IS_DUE, seen.try_next()).await;
        let next = next.context("the rollout stands still")?;
        let next = next?.context("the watch of deployments ended")?;
        let status = next.status.unwrap_or_default();
        let is_observed = status.observed_generation == next.metadata.generation;
        let counts = [status.replicas, status.updated_replicas, status.available_replicas];
        if is_observed && counts == [Some(replicas); 3] {
            return Ok(());
        }
    }
}

pub fn object<T: serde::de::DeserializeOwned>(object: Value) -> anyhow::Result<T> {
    Ok(serde_json::from_value(object)?)
}

/// A Deployment of pods with this container, and the label that the Service selects.
pub fn deployment(replicas: i32, container: Value) -> Value {
    json!({
        "metadata": { "name": NAME },
        "spec": {
            "replicas": replicas,
            "selector": { "matchLabels": { "app": NAME } },
            "template": {
                "metadata": { "labels": { "app": NAME } },
                "spec": { "terminationGracePeriodSeconds": 10, "containers": [container] },
            },
        },
    })
}

fn server() -> Value {
    json!({
        "name": "server",
        "image": "localhost/demo",
        "args": ["server", "--port", "8080"],
        "readinessProbe": { "httpGet": { "port": 8080 }, "periodSeconds": 1 },
    })
}

/// A Service of the pods with these labels; answers its address.
pub async fn create(
    services: &Api<Service>,
    name: &str,
    selector: Value,
) -> anyhow::Result<String> {
    let ports = json!([{ "port": 80, "targetPort": 8080 }]);
    let spec = json!({ "selector": selector, "ports": ports });
    let service = object(json!({ "metadata": { "name": name }, "spec": spec }))?;
    let made = services.create(&PostParams::default(), &service).await?;
    made.spec.and_then(|spec| spec.cluster_ip).context("the Service's address")
}
