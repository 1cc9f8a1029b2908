//! From a write of an EndpointSlice to connections that go where it says.

use std::io::ErrorKind;
use std::net::{IpAddr, SocketAddr, TcpStream};
use std::time::{Duration, Instant};

use anyhow::{Context, bail};
use k8s_openapi::api::core::v1::Service;
use k8s_openapi::api::discovery::v1::EndpointSlice;
use kube::Api;
use kube::api::{Patch, PatchParams, PostParams};
use serde_json::json;

use crate::engine::Engine;
use crate::sample::Report;
use crate::services::object;

const NAME: &str = "by-hand";
const SAMPLES: usize = 200;
/// The rules do not change any more.
const TIME_MAX: Duration = Duration::from_secs(10);

/// A Service without a selector: a client writes its EndpointSlice, which gains and loses this
/// server. What the node itself learns of its pods is in the rules before it is in their status.
pub async fn measure(
    report: &mut Report,
    engine: &Engine,
    server: (&str, u16),
) -> anyhow::Result<()> {
    let services = Api::<Service>::namespaced(engine.client.clone(), "default");
    let slices = Api::<EndpointSlice>::namespaced(engine.client.clone(), "default");
    let (address, port) = server;
    let service = json!({
        "metadata": { "name": NAME },
        "spec": { "ports": [{ "port": 80, "targetPort": port }] },
    });
    let service: Service = services.create(&PostParams::default(), &object(service)?).await?;
    let slice = json!({
        "metadata": { "name": NAME, "labels": { "kubernetes.io/service-name": NAME } },
        "addressType": "IPv4",
        "ports": [{ "port": port }],
        "endpoints": [],
    });
    slices.create(&PostParams::default(), &object(slice)?).await?;
    let cluster_ip = service.spec.and_then(|spec| spec.cluster_ip).context("its address")?;
    let frontend = SocketAddr::new(cluster_ip.parse::<IpAddr>()?, 80);

    let (mut comes, mut goes) = (Vec::new(), Vec::new());
    for _ in 0..SAMPLES {
        let there = json!([{ "addresses": [address], "conditions": { "ready": true } }]);
        write_endpoints(&slices, there).await?;
        comes.push(time_until(frontend, Connects::Yes)?);
        write_endpoints(&slices, json!([])).await?;
        goes.push(time_until(frontend, Connects::No)?);
    }
    let what = "a write adds an endpoint to a slice: from its answer until a client connects";
    report.durations(what, "≤ 1 ms, p99 ≤ 3 ms", comes);
    let what = "… takes it out: until the next client is refused";
    report.durations(what, "≤ 1 ms, p99 ≤ 3 ms", goes);
    Ok(())
}

async fn write_endpoints(
    slices: &Api<EndpointSlice>,
    endpoints: serde_json::Value,
) -> anyhow::Result<()> {
    let patch = Patch::Merge(json!({ "endpoints": endpoints }));
    slices.patch(NAME, &PatchParams::default(), &patch).await?;
    Ok(())
}

#[derive(Clone, Copy, PartialEq)]
enum Connects {
    Yes,
    No,
}

/// Tries again at once: a Service without an endpoint refuses at once.
fn time_until(frontend: SocketAddr, wanted: Connects) -> anyhow::Result<Duration> {
    let begun = Instant::now();
    while begun.elapsed() < TIME_MAX {
        let connects = match TcpStream::connect_timeout(&frontend, TIME_MAX) {
            Ok(_) => Connects::Yes,
            Err(error) if error.kind() == ErrorKind::ConnectionRefused => Connects::No,
            Err(error) => return Err(error).context("connect to the Service"),
        };
        if connects == wanted {
            return Ok(begun.elapsed());
        }
    }
    bail!("the rules have not followed the slice for {} s", TIME_MAX.as_secs())
}
