//! Many pods at once: how fast they are started, and how fast an engine that was killed finds them
//! again.

use std::time::{Duration, Instant};

use anyhow::{Context, bail};
use futures::{StreamExt, TryStreamExt};
use k8s_openapi::api::core::v1::Pod;
use kube::Api;
use kube::api::{LogParams, PostParams};
use serde_json::json;

use crate::engine::Engine;
use crate::idle::wait_running;
use crate::sample::{Amount, Report};

const ADOPTED: usize = 100;
const STARTED: usize = 200;
/// Requests under way.
const CLIENTS: usize = 16;
const DEADLINE: Duration = Duration::from_secs(60);
/// How exactly it is seen that a pod was found again.
const OBSERVE_EVERY: Duration = Duration::from_millis(1);

pub async fn measure(report: &mut Report) -> anyhow::Result<()> {
    let mut engine = Engine::start().await?;
    let pods = Api::<Pod>::namespaced(engine.client.clone(), "default");
    let begun = Instant::now();
    create(&pods, 0..STARTED).await?;
    wait_running(&pods, STARTED).await?;
    let each_second = STARTED as f64 / begun.elapsed().as_secs_f64();
    report.amount(
        &format!("{STARTED} pods created at once → all Running in the API"),
        "–",
        Amount::rate(each_second),
        format!("{each_second:.0} pods/s"),
    );
    drop(engine);

    engine = Engine::start().await?;
    let pods = Api::<Pod>::namespaced(engine.client.clone(), "default");
    create(&pods, 0..ADOPTED).await?;
    wait_running(&pods, ADOPTED).await?;
    engine.kill_and_start().await?;
    let pods = Api::<Pod>::namespaced(engine.client.clone(), "default");
    let adopted = futures::stream::iter(0..ADOPTED).map(|number| wait_adopted(&pods, number));
    adopted.buffer_unordered(CLIENTS).try_collect::<()>().await?;
    report.durations(
        &format!("engine killed and started → all of {ADOPTED} pods are looked after again"),
        "≤ 300 ms",
        vec![engine.started.elapsed()],
    );
    Ok(())
}

async fn create(pods: &Api<Pod>, numbers: std::ops::Range<usize>) -> anyhow::Result<()> {
    let requests = futures::stream::iter(numbers).map(|number| async move {
        let pod: Pod = serde_json::from_value(json!({
            "metadata": {"name": name(number)},
            "spec": {
                "terminationGracePeriodSeconds": 1,
                "containers": [{"name": "one", "image": "localhost/demo", "args": ["signal"]}],
            },
        }))?;
        pods.create(&PostParams::default(), &pod).await?;
        anyhow::Ok(())
    });
    requests.buffer_unordered(CLIENTS).try_collect().await
}

fn name(number: usize) -> String {
    format!("one-of-many-{number}")
}

/// Until the node answers for the pod: it knows the logs of those alone that it looks after.
async fn wait_adopted(pods: &Api<Pod>, number: usize) -> anyhow::Result<()> {
    let (begun, name) = (Instant::now(), name(number));
    loop {
        match pods.logs(&name, &LogParams::default()).await {
            Ok(_) => return Ok(()),
            Err(error) if begun.elapsed() > DEADLINE => {
                return Err(error).with_context(|| format!("the log of pod {name}"));
            }
            Err(kube::Error::Api(_)) => tokio::time::sleep(OBSERVE_EVERY).await,
            Err(error) => bail!("the log of pod {name}: {error}"),
        }
    }
}
