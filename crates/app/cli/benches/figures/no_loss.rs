//! What is lost of the requests to a Service while its pods are replaced and restarted, on new
//! connections and on kept ones. No pod has a preStop hook.

use std::time::Duration;

use anyhow::Context;
use k8s_openapi::api::apps::v1::Deployment;
use k8s_openapi::api::core::v1::{Node, Pod, Service};
use k8s_openapi::api::policy::v1::PodDisruptionBudget;
use kube::Api;
use kube::api::{DeleteParams, EvictParams, ListParams, PostParams};
use kube::runtime::wait::await_condition;
use rekindle_testkit::load::{Load, LoadResult};
use rekindle_testkit::ports::post;
use rekindle_types::v1alpha1::PodRestart;
use serde_json::{Value, json};

use crate::engine::Engine;
use crate::sample::{Amount, Report};
use crate::services::{
    NAME, NEXT_IS_DUE, create, deployment, is_ready, object, restart_pod, rolled_out, scale,
};

const REPLICAS: i32 = 4;
/// One fails, the other serves.
const REPLICAS_WITH_LIVENESS: i32 = 2;
const ROLLOUTS: usize = 20;
const ROUNDS: usize = 3;
/// A container that is restarted a third time waits for 20 s.
const LIVENESS_ROUNDS: usize = 2;
const NEW_PER_SECOND: u32 = 2_000;
const KEPT: usize = 200;
/// Between two attempts to evict a pod that a budget protects.
const BUDGET_PAUSE: Duration = Duration::from_millis(50);

pub async fn measure(report: &mut Report) -> anyhow::Result<()> {
    let engine = Engine::start_with(&["--nodes", "2"]).await?;
    let app = LoadedApp::create(&engine).await?;

    let load = app.load();
    for round in 0..ROLLOUTS {
        app.roll_out(round).await?;
    }
    let what = format!("{ROLLOUTS} rolling restarts of {REPLICAS} pods");
    load.report(report, &what).await?;

    let load = app.load();
    for round in 0..ROUNDS {
        app.restart_each(round).await?;
    }
    load.report(report, &format!("{ROUNDS} whole-pod restarts of each of {REPLICAS}")).await?;

    let load = app.load();
    for _ in 0..ROUNDS {
        for pod in app.pod_names().await? {
            app.evict(&pod).await?;
            rolled_out(&app.deployments, REPLICAS).await?;
        }
    }
    load.report(report, &format!("{ROUNDS} evictions of each of {REPLICAS} pods")).await?;

    let nodes = app.nodes.list(&ListParams::default()).await?.items;
    anyhow::ensure!(nodes.len() == 2, "{} nodes instead of two", nodes.len());
    let load = app.load();
    for _ in 0..ROUNDS {
        for node in &nodes {
            app.drain(node.metadata.name.as_deref().context("its name")?).await?;
        }
    }
    load.report(report, &format!("{ROUNDS} drains of each of two nodes")).await?;

    scale(&app.deployments, json!({ "replicas": REPLICAS_WITH_LIVENESS })).await?;
    rolled_out(&app.deployments, REPLICAS_WITH_LIVENESS).await?;
    let load = app.load();
    for _ in 0..LIVENESS_ROUNDS {
        for pod in app.pod_names().await? {
            app.fail_liveness(&pod).await?;
        }
    }
    let what = format!("{LIVENESS_ROUNDS} liveness kills of each of {REPLICAS_WITH_LIVENESS} pods");
    load.report(report, &what).await?;

    app.become_the_decks().await?;
    let load = Load::start(&app.address, 80);
    tokio::task::block_in_place(|| load.until_answered(100));
    app.roll_out(ROLLOUTS).await?;
    tokio::time::sleep(2 * LISTEN_DELAY).await;
    let result = tokio::task::spawn_blocking(|| load.stop()).await?;
    report.amount(
        "requests lost in a rolling restart of the deck's only pod, no probe, no sleep",
        "some: it can fail",
        Amount::cost(result.lost.len() as f64),
        counts(&result),
    );
    Ok(())
}

/// Of the deck's server.
const LISTEN_DELAY: Duration = Duration::from_secs(2);

fn counts(result: &LoadResult) -> String {
    let (lost, total) = (result.lost.len(), result.lost.len() as u64 + result.answered);
    let first = result.lost.first().map(|first| format!(" ({first})")).unwrap_or_default();
    format!("{lost} of {total}{first}, slowest {:.0} ms", result.slowest.as_secs_f64() * 1e3)
}

/// Clients of both kinds.
struct MixedLoad {
    new: Load,
    kept: Load,
}

impl MixedLoad {
    async fn report(self, report: &mut Report, during: &str) -> anyhow::Result<()> {
        let ends = || (self.new.stop(), self.kept.stop());
        let (new, kept) = tokio::task::spawn_blocking(ends).await?;
        for (kind, result) in [("new", new), ("kept", kept)] {
            report.amount(
                &format!("requests lost on {kind} connections in {during}"),
                "0",
                Amount::cost(result.lost.len() as f64),
                counts(&result),
            );
        }
        Ok(())
    }
}

/// A Deployment, its Service and its disruption budget.
struct LoadedApp {
    deployments: Api<Deployment>,
    pods: Api<Pod>,
    restarts: Api<PodRestart>,
    nodes: Api<Node>,
    address: String,
}

impl LoadedApp {
    async fn create(engine: &Engine) -> anyhow::Result<Self> {
        let client = &engine.client;
        let deployments = Api::<Deployment>::namespaced(client.clone(), "default");
        let services = Api::<Service>::namespaced(client.clone(), "default");
        let budgets = Api::<PodDisruptionBudget>::namespaced(client.clone(), "default");
        let selector = json!({ "matchLabels": { "app": NAME } });
        let budget = json!({ "metadata": { "name": NAME }, "spec": { "maxUnavailable": 1, "selector": selector } });
        budgets.create(&PostParams::default(), &object(budget)?).await?;
        deployments
            .create(&PostParams::default(), &object(deployment(REPLICAS, server()))?)
            .await?;
        let address = create(&services, NAME, json!({ "app": NAME })).await?;
        rolled_out(&deployments, REPLICAS).await?;
        Ok(Self {
            deployments,
            pods: Api::namespaced(client.clone(), "default"),
            restarts: Api::namespaced(client.clone(), "default"),
            nodes: Api::all(client.clone()),
            address,
        })
    }

    fn load(&self) -> MixedLoad {
        let new = Load::start_at(&self.address, 80, NEW_PER_SECOND);
        let kept = Load::start_kept(&self.address, 80, KEPT);
        tokio::task::block_in_place(|| {
            new.until_answered(100);
            kept.until_answered(KEPT as u64);
        });
        MixedLoad { new, kept }
    }

    /// Of the pods that are not being ended.
    async fn pod_names(&self) -> anyhow::Result<Vec<String>> {
        let listed = self.pods.list(&ListParams::default()).await?.items.into_iter();
        let stay = listed.filter(|pod| pod.metadata.deletion_timestamp.is_none());
        Ok(stay.filter_map(|pod| pod.metadata.name).collect())
    }

    async fn roll_out(&self, round: usize) -> anyhow::Result<()> {
        let annotations = json!({ "round": round.to_string() });
        let template = json!({ "template": { "metadata": { "annotations": annotations } } });
        scale(&self.deployments, template).await?;
        let spec = self.deployments.get(NAME).await?.spec;
        rolled_out(&self.deployments, spec.replicas.context("its replicas")?).await
    }

    async fn restart_each(&self, round: usize) -> anyhow::Result<()> {
        for pod in self.pod_names().await? {
            restart_pod(&self.pods, &self.restarts, &pod, format!("{pod}-{round}")).await?;
        }
        Ok(())
    }

    /// As soon as its budget allows it.
    async fn evict(&self, pod: &str) -> anyhow::Result<()> {
        let evicted = async {
            loop {
                match self.pods.evict(pod, &EvictParams::default()).await {
                    Err(kube::Error::Api(status)) if status.code == 429 => {
                        tokio::time::sleep(BUDGET_PAUSE).await;
                    }
                    other => return other.map(drop),
                }
            }
        };
        tokio::time::timeout(NEXT_IS_DUE, evicted).await.context("the budget forbids it")??;
        Ok(())
    }

    /// As `kubectl drain`, and open to pods again.
    async fn drain(&self, node: &str) -> anyhow::Result<()> {
        self.nodes.cordon(node).await?;
        let on_node = ListParams::default().fields(&format!("spec.nodeName={node}"));
        for pod in self.pods.list(&on_node).await?.items {
            if pod.metadata.deletion_timestamp.is_none() {
                self.evict(&pod.metadata.name.context("its name")?).await?;
            }
        }
        rolled_out(&self.deployments, REPLICAS).await?;
        self.nodes.uncordon(node).await?;
        Ok(())
    }

    /// Until its container was restarted and is ready.
    async fn fail_liveness(&self, pod: &str) -> anyhow::Result<()> {
        let before = self.pods.get(pod).await?;
        let restarts = restart_count(&before);
        let address = before.status.and_then(|status| status.pod_ip).context("its address")?;
        tokio::task::spawn_blocking(move || post(&address, 8080, "/unhealthy")).await??;
        let is_back = |pod: Option<&Pod>| {
            is_ready(pod) && pod.is_some_and(|pod| restart_count(pod) > restarts)
        };
        let back = await_condition(self.pods.clone(), pod, is_back);
        tokio::time::timeout(NEXT_IS_DUE, back).await.context("it is not restarted")??;
        Ok(())
    }

    /// One replica without probes, whose server listens some time after its start.
    async fn become_the_decks(&self) -> anyhow::Result<()> {
        self.deployments.delete(NAME, &DeleteParams::background()).await?;
        let gone =
            await_condition(self.deployments.clone(), NAME, |found: Option<&_>| found.is_none());
        tokio::time::timeout(NEXT_IS_DUE, gone).await.context("it does not go")??;
        let deck = deployment(
            1,
            json!({
                "name": "server",
                "image": "localhost/demo",
                "args": ["server", "--listen-delay", humantime::format_duration(LISTEN_DELAY).to_string()],
            }),
        );
        self.deployments.create(&PostParams::default(), &object(deck)?).await?;
        rolled_out(&self.deployments, 1).await?;
        tokio::time::sleep(2 * LISTEN_DELAY).await;
        Ok(())
    }
}

fn restart_count(pod: &Pod) -> i32 {
    let status = pod.status.as_ref().and_then(|status| status.container_statuses.as_ref());
    status.into_iter().flatten().map(|container| container.restart_count).sum()
}

fn server() -> Value {
    json!({
        "name": "server",
        "image": "localhost/demo",
        // long enough for each kept connection to get an answer that ends it
        "args": ["server", "--drain", "500ms"],
        "readinessProbe": { "httpGet": { "path": "/readyz", "port": 8080 }, "periodSeconds": 1 },
        "livenessProbe": {
            "httpGet": { "path": "/healthz", "port": 8080 }, "periodSeconds": 1,
            "failureThreshold": 2,
        },
    })
}
