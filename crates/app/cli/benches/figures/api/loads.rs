//! What clients ask of an API server.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use anyhow::{Context, anyhow, ensure};
use bytes::Bytes;
use http::Method;
use http_body_util::BodyExt;
use hyper::body::Incoming;
use serde_json::{Value, json};
use tokio::sync::mpsc;
use tokio::task::JoinSet;

use super::connection::{APPLY, Connection, JSON, Server};

/// Clients at the same time.
const CLIENTS: usize = 64;
pub const CONFIG_MAPS: usize = 20_000;
pub const PODS: usize = 10_000;
/// One of so many has the label that lists ask for.
const LABELS: usize = 100;
const GETS_FOR: Duration = Duration::from_secs(3);
const LISTS: usize = 10;
pub const WATCHERS: usize = 1_000;
/// As many as servers let one have.
const WATCHERS_OF_CONNECTION: usize = 50;
/// Writes that all watchers see.
const SEEN_WRITES: usize = 20;
const APPLIES: usize = 200;
pub const DEFINITIONS: usize = 1_000;
/// Definitions of which it is measured when their kind is served.
const DEFINITIONS_TIMED: usize = 20;
/// Memory that a server may yet give back, it has given back after so long.
const REST: Duration = Duration::from_secs(15);
/// What takes longer stands still.
const TIME_MAX: Duration = Duration::from_secs(120);

const CONFIG_MAP_PATH: &str = "/api/v1/namespaces/default/configmaps";
const POD_PATH: &str = "/api/v1/namespaces/default/pods";
const DEFINITION_PATH: &str = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";

/// Sends what `request` makes of each number below `count`, from all clients. Answers the rate.
pub async fn in_parallel<F>(server: &Server, count: usize, request: F) -> anyhow::Result<f64>
where
    F: Fn(usize) -> (Method, String, Value) + Send + Sync + 'static,
{
    let (next, request) = (Arc::new(AtomicUsize::new(0)), Arc::new(request));
    let mut connections = Vec::new();
    for _ in 0..CLIENTS {
        connections.push(server.connect().await?);
    }
    let begun = Instant::now();
    let mut clients = JoinSet::new();
    for mut connection in connections {
        let (next, request) = (Arc::clone(&next), Arc::clone(&request));
        clients.spawn(async move {
            loop {
                let number = next.fetch_add(1, Ordering::Relaxed);
                if number >= count {
                    return anyhow::Ok(());
                }
                let (method, path, body) = request(number);
                connection.write(method, &path, JSON, body.to_string().into()).await?;
            }
        });
    }
    while let Some(client) = clients.join_next().await {
        client??;
    }
    Ok(count as f64 / begun.elapsed().as_secs_f64())
}

fn config_map(number: usize, value: &str) -> Value {
    json!({
        "apiVersion": "v1", "kind": "ConfigMap",
        "metadata": { "name": format!("load-{number}"), "namespace": "default" },
        "data": { "key": value },
    })
}

pub async fn create_config_maps(server: &Server) -> anyhow::Result<f64> {
    let create = |number| (Method::POST, CONFIG_MAP_PATH.to_owned(), config_map(number, "first"));
    in_parallel(server, CONFIG_MAPS, create).await
}

/// Changes each once.
pub async fn replace_config_maps(server: &Server) -> anyhow::Result<f64> {
    let replace = |number| {
        let path = format!("{CONFIG_MAP_PATH}/load-{number}");
        (Method::PUT, path, config_map(number, "second"))
    };
    in_parallel(server, CONFIG_MAPS, replace).await
}

/// Of pods that no scheduler looks after.
pub async fn create_pods(server: &Server) -> anyhow::Result<f64> {
    let create = |number: usize| {
        let pod = json!({
            "apiVersion": "v1", "kind": "Pod",
            "metadata": {
                "name": format!("load-{number}"),
                "labels": { "app": "load", "group": (number % LABELS).to_string() },
            },
            "spec": {
                "schedulerName": "none",
                "containers": [{
                    "name": "app", "image": "localhost/demo", "args": ["server", "--port", "8080"],
                    "ports": [{ "containerPort": 8080 }],
                    "env": [{ "name": "KEY", "value": "value" }],
                    "resources": { "requests": { "cpu": "1m", "memory": "1Mi" } },
                    "readinessProbe": { "httpGet": { "path": "/", "port": 8080 } },
                }],
            },
        });
        (Method::POST, POD_PATH.to_owned(), pod)
    };
    in_parallel(server, PODS, create).await
}

/// Reads of single objects a second.
pub async fn get_config_maps(server: &Server) -> anyhow::Result<f64> {
    let mut connections = Vec::new();
    for _ in 0..CLIENTS {
        connections.push(server.connect().await?);
    }
    let begun = Instant::now();
    let mut clients = JoinSet::new();
    for (client, mut connection) in connections.into_iter().enumerate() {
        clients.spawn(async move {
            let mut count = 0_usize;
            while begun.elapsed() < GETS_FOR {
                let number = (client * 7919 + count) % CONFIG_MAPS;
                connection.get(&format!("{CONFIG_MAP_PATH}/load-{number}"), JSON).await?;
                count += 1;
            }
            anyhow::Ok(count)
        });
    }
    let mut count = 0;
    while let Some(client) = clients.join_next().await {
        count += client??;
    }
    Ok(count as f64 / begun.elapsed().as_secs_f64())
}

/// Lists all pods, in JSON or in protobuf.
pub async fn list_pods(server: &Server, accept: &str) -> anyhow::Result<Vec<Duration>> {
    list(server, POD_PATH, accept).await
}

/// Those with one label.
pub async fn list_labelled_pods(server: &Server) -> anyhow::Result<Vec<Duration>> {
    list(server, &format!("{POD_PATH}?labelSelector=group%3D7"), JSON).await
}

async fn list(server: &Server, path: &str, accept: &str) -> anyhow::Result<Vec<Duration>> {
    let mut connection = server.connect().await?;
    let mut samples = Vec::new();
    for _ in 0..LISTS {
        let begun = Instant::now();
        let answer = connection.get(path, accept).await?;
        samples.push(begun.elapsed());
        ensure!(answer.len() > PODS / LABELS, "{path} answers {} bytes", answer.len());
    }
    Ok(samples)
}

/// From each write until each of many watchers has it.
pub async fn write_to_watchers(server: &Server) -> anyhow::Result<Vec<Duration>> {
    const NAME: &str = "seen";
    let mut writer = server.connect().await?;
    let path = format!("{CONFIG_MAP_PATH}/{NAME}");
    let object = |value: &str| {
        let mut object = config_map(0, value);
        object["metadata"]["name"] = NAME.into();
        Bytes::from(object.to_string())
    };
    writer.write(Method::POST, CONFIG_MAP_PATH, JSON, object("first")).await?;
    let (seen, mut arrivals) = mpsc::unbounded_channel();
    let mut watchers = JoinSet::new();
    let selected = format!("{CONFIG_MAP_PATH}?watch=true&fieldSelector=metadata.name%3D{NAME}");
    let mut connections = Vec::new();
    for _ in 0..WATCHERS / WATCHERS_OF_CONNECTION {
        connections.push(Arc::new(server.connect_to_share().await?));
    }
    for number in 0..WATCHERS {
        let connection = Arc::clone(&connections[number % connections.len()]);
        let (selected, seen) = (selected.clone(), seen.clone());
        watchers.spawn(async move {
            let ended = match connection.watch(&selected).await {
                Ok(body) => report_lines(body, &seen).await,
                Err(error) => Err(error),
            };
            // this fails when the measurement is over
            let _ = seen.send(Err(ended.err().unwrap_or_else(|| anyhow!("a watch ended"))));
        });
    }
    let first = collect(&mut arrivals).await?;
    ensure!(first.len() == WATCHERS, "each begins with the object as it is");
    let mut samples = Vec::new();
    for number in 0..SEEN_WRITES {
        let begun = Instant::now();
        writer.write(Method::PUT, &path, JSON, object(&number.to_string())).await?;
        let arrived = collect(&mut arrivals).await?;
        samples.extend(arrived.into_iter().map(|at| at.duration_since(begun)));
    }
    watchers.abort_all();
    Ok(samples)
}

/// When a line of a watch came, or why no more will come.
type Arrival = anyhow::Result<Instant>;

/// Says when each line of a watch has come.
async fn report_lines(
    mut body: Incoming,
    seen: &mpsc::UnboundedSender<Arrival>,
) -> anyhow::Result<()> {
    while let Some(frame) = body.frame().await {
        let frame = frame?;
        let bytes = frame.data_ref().map(Bytes::as_ref).unwrap_or_default();
        for _ in bytes.iter().filter(|byte| **byte == b'\n') {
            seen.send(Ok(Instant::now()))?;
        }
    }
    Ok(())
}

/// One line of each watcher.
async fn collect(arrivals: &mut mpsc::UnboundedReceiver<Arrival>) -> anyhow::Result<Vec<Instant>> {
    let mut arrived = Vec::with_capacity(WATCHERS);
    while arrived.len() < WATCHERS {
        let next = tokio::time::timeout(TIME_MAX, arrivals.recv()).await;
        arrived.push(next.context("a watcher sees nothing")?.context("the watchers ended")??);
    }
    Ok(arrived)
}

/// Server-side applies of one Deployment that each change it.
pub async fn apply_deployment(server: &Server) -> anyhow::Result<Vec<Duration>> {
    let mut connection = server.connect().await?;
    let path = "/apis/apps/v1/namespaces/default/deployments/load?fieldManager=bench";
    let mut samples = Vec::new();
    for number in 0..APPLIES {
        let deployment = json!({
            "apiVersion": "apps/v1", "kind": "Deployment",
            "metadata": { "name": "load", "annotations": { "number": number.to_string() } },
            "spec": {
                "replicas": 0,
                "selector": { "matchLabels": { "app": "applied" } },
                "template": {
                    "metadata": { "labels": { "app": "applied" } },
                    "spec": { "containers": [{
                        "name": "app", "image": "localhost/demo",
                        "ports": [{ "containerPort": 8080, "name": "http" }],
                        "env": [{ "name": "KEY", "value": "value" }],
                    }] },
                },
            },
        });
        let begun = Instant::now();
        connection.write(Method::PATCH, path, APPLY, deployment.to_string().into()).await?;
        samples.push(begun.elapsed());
    }
    Ok(samples)
}

/// Memory when the server has had a rest.
pub async fn memory_at_rest(server: &Server) -> anyhow::Result<u64> {
    tokio::time::sleep(REST).await;
    server.resident_bytes()
}

/// What definitions of custom resources take.
pub struct DefinitionCosts {
    /// From the answer to the create of one until its kind is served.
    pub served_after: Vec<Duration>,
    /// The memory of each.
    pub bytes: f64,
}

pub async fn create_definitions(server: &Server) -> anyhow::Result<DefinitionCosts> {
    let before = memory_at_rest(server).await?;
    let mut connection = server.connect().await?;
    let mut served_after = Vec::new();
    for number in 0..DEFINITIONS_TIMED {
        let body = definition(number).to_string().into();
        connection.write(Method::POST, DEFINITION_PATH, JSON, body).await?;
        served_after.push(until_served(&mut connection, number).await?);
    }
    let rest = DEFINITIONS - DEFINITIONS_TIMED;
    let create =
        |number| (Method::POST, DEFINITION_PATH.to_owned(), definition(DEFINITIONS_TIMED + number));
    in_parallel(server, rest, create).await?;
    for number in 0..DEFINITIONS {
        until_served(&mut connection, number).await?;
    }
    let added = memory_at_rest(server).await?.saturating_sub(before);
    Ok(DefinitionCosts { served_after, bytes: added as f64 / DEFINITIONS as f64 })
}

async fn until_served(connection: &mut Connection, number: usize) -> anyhow::Result<Duration> {
    let path = format!("/apis/bench.example.com/v1/namespaces/default/thing{number}s");
    let begun = Instant::now();
    while !connection.is_served(&path).await? {
        ensure!(begun.elapsed() < TIME_MAX, "{path} is not served");
        tokio::task::yield_now().await;
    }
    Ok(begun.elapsed())
}

fn definition(number: usize) -> Value {
    let plural = format!("thing{number}s");
    json!({
        "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
        "metadata": { "name": format!("{plural}.bench.example.com") },
        "spec": {
            "group": "bench.example.com",
            "scope": "Namespaced",
            "names": { "plural": plural, "kind": format!("Thing{number}") },
            "versions": [{
                "name": "v1", "served": true, "storage": true,
                "subresources": { "status": {} },
                "schema": { "openAPIV3Schema": { "type": "object", "properties": {
                    "spec": { "type": "object", "required": ["size"], "properties": {
                        "size": { "type": "integer", "minimum": 1 },
                        "name": { "type": "string", "maxLength": 64 },
                        "tags": { "type": "array", "items": { "type": "string" } },
                    } },
                    "status": { "type": "object", "properties": {
                        "ready": { "type": "boolean" },
                        "message": { "type": "string" },
                    } },
                } } },
            }],
        },
    })
}
