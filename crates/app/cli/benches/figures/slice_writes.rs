//! From a write of an EndpointSlice to connections that go where it says.

use std::io::ErrorKind;
use std::net::{IpAddr, SocketAddr, TcpStream};
use std::time::{Duration, Instant};

use anyhow::{Context, bail};
use k8s_openapi::api::core::v1::Service;
use k8s_openapi::api::discovery::v1::EndpointSlice;
use kube::Api;
use kube::api::{Patch, PatchParams, PostParams};
use rekindle_testkit::load::Load;
use serde_json::json;

use crate::engine::Engine;
use crate::sample::{Amount, Report};
use crate::services::{lost, object};

const NAME: &str = "by-hand";
const SAMPLES: usize = 200;
/// The rules do not change any more.
const TIME_MAX: Duration = Duration::from_secs(10);
/// Between two tries of a client. One that does not pause keeps the engine from a core for
/// milliseconds.
const PAUSE: Duration = Duration::from_micros(50);
/// For so long an endpoint comes and goes.
const FLAPS_FOR: Duration = Duration::from_secs(5);

/// A Service without a selector: a client writes its EndpointSlice, which gains and loses the first
/// of two servers. What the node itself learns of its pods is in the rules before it is in their
/// status.
pub async fn measure(
    report: &mut Report,
    engine: &Engine,
    servers: [&str; 2],
    port: u16,
) -> anyhow::Result<()> {
    let services = Api::<Service>::namespaced(engine.client.clone(), "default");
    let slices = Api::<EndpointSlice>::namespaced(engine.client.clone(), "default");
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
    measure_delays(report, &slices, frontend, servers[0]).await?;
    measure_flaps(report, &slices, frontend, servers).await
}

async fn measure_delays(
    report: &mut Report,
    slices: &Api<EndpointSlice>,
    frontend: SocketAddr,
    server: &str,
) -> anyhow::Result<()> {
    let (mut comes, mut goes) = (Vec::new(), Vec::new());
    for _ in 0..SAMPLES {
        write_endpoints(slices, &[server]).await?;
        comes.push(time_until(frontend, Connects::Yes)?);
        write_endpoints(slices, &[]).await?;
        goes.push(time_until(frontend, Connects::No)?);
    }
    let what = "a write adds an endpoint to a slice: from its answer until a client connects";
    report.durations(what, "≤ 1 ms, p99 ≤ 3 ms", comes);
    let what = "… takes it out: until the next client is refused";
    report.durations(what, "≤ 1 ms, p99 ≤ 3 ms", goes);
    Ok(())
}

/// One endpoint comes and goes as fast as it can be written. The other one stays, and clients
/// connect all the time.
async fn measure_flaps(
    report: &mut Report,
    slices: &Api<EndpointSlice>,
    frontend: SocketAddr,
    servers: [&str; 2],
) -> anyhow::Result<()> {
    write_endpoints(slices, &servers).await?;
    time_until(frontend, Connects::Yes)?;
    let load = Load::start(&frontend.ip().to_string(), frontend.port());
    let (begun, mut writes) = (Instant::now(), 0_u32);
    while begun.elapsed() < FLAPS_FOR {
        write_endpoints(slices, &servers[1..]).await?;
        write_endpoints(slices, &servers).await?;
        writes += 2;
    }
    let per_second = f64::from(writes) / begun.elapsed().as_secs_f64();
    let result = tokio::task::spawn_blocking(|| load.stop()).await?;
    report.amount(
        "connections lost while one of two endpoints comes and goes",
        "0",
        Amount::cost(result.lost.len() as f64),
        format!("{}, at {per_second:.0} writes a second", lost(&result)),
    );
    Ok(())
}

async fn write_endpoints(slices: &Api<EndpointSlice>, servers: &[&str]) -> anyhow::Result<()> {
    let endpoint =
        |server: &&str| json!({ "addresses": [server], "conditions": { "ready": true } });
    let endpoints: Vec<_> = servers.iter().map(endpoint).collect();
    let patch = Patch::Merge(json!({ "endpoints": endpoints }));
    slices.patch(NAME, &PatchParams::default(), &patch).await?;
    Ok(())
}

#[derive(Clone, Copy, PartialEq)]
enum Connects {
    Yes,
    No,
}

/// A Service without an endpoint refuses at once.
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
        std::thread::sleep(PAUSE);
    }
    bail!("the rules have not followed the slice for {} s", TIME_MAX.as_secs())
}
