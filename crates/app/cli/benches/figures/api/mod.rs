//! The API under load, and kube-apiserver with etcd under the same, where both are installed.

pub mod connection;
mod kube_apiserver;
mod loads;

use std::time::Duration;

use connection::{JSON, Server};
use kube_apiserver::KubeApiServer;

use crate::engine::Engine;
use crate::peers::installed;
use crate::sample::{Amount, Report, in_words};

/// One line of the table.
struct Row {
    what: String,
    goal: &'static str,
    value: Figure,
}

enum Figure {
    PerSecond(f64),
    Times(Vec<Duration>),
    Memory(f64),
}

/// Measures an engine, then the peer.
pub async fn measure(report: &mut Report) -> anyhow::Result<()> {
    let engine = Engine::start().await?;
    for Row { what, goal, value } in measure_server(&engine.server().await?).await? {
        let shown = value.shown();
        match value {
            Figure::PerSecond(rate) => report.amount(&what, goal, Amount::rate(rate), shown),
            Figure::Times(samples) => report.durations(&what, goal, samples),
            Figure::Memory(bytes) => report.amount(&what, goal, Amount::cost(bytes), shown),
        }
    }
    drop(engine);
    if !["kube-apiserver", "etcd"].into_iter().all(installed) {
        report.peer("kube-apiserver", "not installed, or etcd is not".to_owned());
        return Ok(());
    }
    let rows = async { measure_server(&KubeApiServer::start().await?.server).await };
    match rows.await {
        Ok(rows) => rows.iter().for_each(|row| {
            report.peer(&format!("kube-apiserver: {}", row.what), row.value.shown());
        }),
        Err(error) => report.peer("kube-apiserver", format!("does not work here: {error:#}")),
    }
    Ok(())
}

async fn measure_server(server: &Server) -> anyhow::Result<Vec<Row>> {
    let mut rows = Vec::new();
    let mut add = |what: &str, goal: &'static str, value: Figure| {
        eprintln!("  {what}: {}", value.shown());
        rows.push(Row { what: what.to_owned(), goal, value });
    };
    let rate = loads::create_config_maps(server).await?;
    add("durable creates of ConfigMaps, 64 clients", "16,000 /s", Figure::PerSecond(rate));
    let rate = loads::create_pods(server).await?;
    add("durable creates of Pods", "8,000 /s", Figure::PerSecond(rate));
    let rate = loads::get_config_maps(server).await?;
    add("GETs of ConfigMaps", "45,000 /s", Figure::PerSecond(rate));
    let times = loads::list_pods(server, JSON).await?;
    add("list of 10,000 Pods", "≤ 20 ms", Figure::Times(times));
    let times = loads::list_pods_as_protobuf(server).await?;
    add("… in protobuf", "half of JSON's", Figure::Times(times));
    let times = loads::list_labelled_pods(server).await?;
    add("… the 1 % with a label", "≤ 1 ms", Figure::Times(times));
    let bytes = loads::memory_at_rest(server).await? as f64;
    let what = "memory with 20,000 ConfigMaps and 10,000 Pods";
    add(what, "≤ 90 MiB", Figure::Memory(bytes));
    let rate = loads::replace_config_maps(server).await?;
    add("durable updates of ConfigMaps", "–", Figure::PerSecond(rate));
    let bytes = loads::memory_at_rest(server).await? as f64;
    add("memory after each ConfigMap was updated", "≤ 90 MiB", Figure::Memory(bytes));
    let times = loads::write_to_watchers(server).await?;
    add("one write, to each of 1,000 watchers", "p99 ≤ 5 ms", Figure::Times(times));
    let times = loads::apply_deployment(server).await?;
    add("server-side apply of a Deployment", "≤ 1 ms", Figure::Times(times));
    let costs = loads::create_definitions(server).await?;
    let what = "CustomResourceDefinition created → its kind is served";
    add(what, "≤ 20 ms", Figure::Times(costs.served_after));
    add("memory of each of 1,000 definitions", "≤ 60 KiB", Figure::Memory(costs.bytes));
    Ok(rows)
}

impl Figure {
    fn shown(&self) -> String {
        match self {
            Self::PerSecond(rate) => format!("{rate:.0} /s"),
            Self::Times(samples) => in_words(samples),
            Self::Memory(bytes) if *bytes < f64::from(1 << 20) => {
                format!("{:.0} KiB", bytes / 1024.0)
            }
            Self::Memory(bytes) => format!("{:.0} MiB", bytes / f64::from(1 << 20)),
        }
    }
}
