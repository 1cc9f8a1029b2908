//! The API under load, and kube-apiserver with etcd under the same, where both are installed.

pub mod connection;
mod kube_apiserver;
pub mod loads;

use std::time::Duration;

use connection::{JSON, PROTOBUF, Server};
use kube_apiserver::KubeApiServer;

use crate::engine::Engine;
use crate::peers::installed;
use crate::sample::{Amount, Report, in_words};

enum Figure {
    PerSecond(f64),
    Times(Vec<Duration>),
    Memory(f64),
}

/// Measures an engine, then the peer.
pub async fn measure(report: &mut Report) -> anyhow::Result<()> {
    let engine = Engine::start().await?;
    let ours = |what: &str, goal: &str, figure: Figure| {
        let shown = figure.shown();
        match figure {
            Figure::PerSecond(rate) => report.amount(what, goal, Amount::rate(rate), shown),
            Figure::Times(samples) => report.durations(what, goal, samples),
            Figure::Memory(bytes) => report.amount(what, goal, Amount::cost(bytes), shown),
        }
    };
    measure_server(&engine.server().await?, ours).await?;
    drop(engine);
    if !["kube-apiserver", "etcd"].into_iter().all(installed) {
        report.peer("kube-apiserver", "not installed, or etcd is not".to_owned());
        return Ok(());
    }
    let measured = async {
        let peer = KubeApiServer::start().await?;
        let theirs = |what: &str, _: &str, figure: Figure| {
            report.peer(&format!("kube-apiserver: {what}"), figure.shown());
        };
        measure_server(&peer.server, theirs).await
    };
    if let Err(error) = measured.await {
        report.peer("kube-apiserver", format!("does not work here: {error:#}"));
    }
    Ok(())
}

/// Says each figure as soon as it is measured, with its goal.
async fn measure_server(
    server: &Server,
    mut say: impl FnMut(&str, &str, Figure),
) -> anyhow::Result<()> {
    use Figure::{Memory, PerSecond, Times};
    let rate = loads::create_config_maps(server).await?;
    say("durable creates of ConfigMaps, 64 clients", "16,000 /s", PerSecond(rate));
    let rate = loads::create_pods(server).await?;
    say("durable creates of Pods", "8,000 /s", PerSecond(rate));
    let rate = loads::get_config_maps(server).await?;
    say("GETs of ConfigMaps", "45,000 /s", PerSecond(rate));
    let times = loads::list_pods(server, JSON).await?;
    say("list of 10,000 Pods", "≤ 20 ms", Times(times));
    let times = loads::list_pods(server, PROTOBUF).await?;
    say("… in protobuf", "half of JSON's", Times(times));
    let times = loads::list_labelled_pods(server).await?;
    say("… the 1 % with a label", "≤ 1 ms", Times(times));
    let bytes = loads::memory_at_rest(server).await? as f64;
    say("memory with 20,000 ConfigMaps and 10,000 Pods", "≤ 90 MiB", Memory(bytes));
    let rate = loads::replace_config_maps(server).await?;
    say("durable updates of ConfigMaps", "–", PerSecond(rate));
    let bytes = loads::memory_at_rest(server).await? as f64;
    say("memory after each ConfigMap was updated", "≤ 90 MiB", Memory(bytes));
    let times = loads::write_to_watchers(server).await?;
    say("one write, to each of 1,000 watchers", "p99 ≤ 5 ms", Times(times));
    let times = loads::apply_deployment(server).await?;
    say("server-side apply of a Deployment", "≤ 1 ms", Times(times));
    let costs = loads::create_definitions(server).await?;
    let what = "CustomResourceDefinition created → its kind is served";
    say(what, "≤ 20 ms", Times(costs.served_after));
    say("memory of each of 1,000 definitions", "≤ 60 KiB", Memory(costs.bytes));
    Ok(())
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
