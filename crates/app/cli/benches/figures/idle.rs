//! What an engine costs that has nothing to do.

use std::collections::BTreeSet;
use std::time::Duration;

use anyhow::Context;
use futures::TryStreamExt;
use k8s_openapi::api::core::v1::Pod;
use kube::Api;
use kube::api::PostParams;
use kube::runtime::{WatchStreamExt, watcher};

use crate::engine::{Engine, cpu_percent};
use crate::restarts::pod;
use crate::sample::{Amount, Report};

const PODS: usize = 50;
const OBSERVED: Duration = Duration::from_secs(30);
/// How long after their start pods have nothing to do any more.
const SETTLED: Duration = Duration::from_secs(2);

pub async fn measure(_warm: &Engine, report: &mut Report) -> anyhow::Result<()> {
    let engine = Engine::start().await?;
    engine.quiet(Duration::from_secs(1)).await?;
    // What its own life needs, heartbeats above all, is mapped again after it has given back what
    // its start needed.
    tokio::time::sleep(OBSERVED).await;
    let empty_kb = rollup(engine.pid(), "Rss")?;
    let empty_mib = empty_kb as f64 / 1024.0;
    report.amount(
        "idle engine with node, no pods: RSS",
        "≤ 40 MiB",
        Amount::cost(empty_mib),
        format!("{empty_mib:.1} MiB"),
    );

    let pods = Api::<Pod>::namespaced(engine.client.clone(), "default");
    let create = async |number| {
        pods.create(&PostParams::default(), &pod(&format!("idle-{number}"))?).await?;
        anyhow::Ok(())
    };
    // The code that pods need is not any one pod's.
    create(0).await?;
    wait_running(&pods, 1).await?;
    tokio::time::sleep(SETTLED).await;
    let one_pod_pss_kb = rollup(engine.pid(), "Pss")?;
    for number in 1..PODS {
        create(number).await?;
    }
    wait_running(&pods, PODS).await?;
    tokio::time::sleep(SETTLED).await;

    let shims = shims(&engine.id()?)?;
    let mut shim_pss_kb = 0;
    for shim in &shims {
        shim_pss_kb += rollup(*shim, "Pss")?;
    }
    let growth_kb = rollup(engine.pid(), "Pss")?.saturating_sub(one_pod_pss_kb);
    let engine_growth_kb = growth_kb * PODS as u64 / (PODS as u64 - 1);
    let per_pod = |kb: u64| kb as f64 / PODS as f64;
    report.amount(
        "per idle pod: PSS added (shim + engine)",
        "≤ 300 KiB",
        Amount::cost(per_pod(shim_pss_kb + engine_growth_kb)),
        format!(
            "{:.0} KiB ({:.0} + {:.0}), {} shims",
            per_pod(shim_pss_kb + engine_growth_kb),
            per_pod(shim_pss_kb),
            per_pod(engine_growth_kb),
            shims.len()
        ),
    );

    let percent = idle_percent(&engine).await?;
    report.amount(
        &format!("CPU while {PODS} pods idle (engine and shims)"),
        "≤ 0.2 % of a core",
        Amount::cost(percent),
        format!("{percent:.2} %"),
    );
    Ok(())
}

/// What engine and shims use of a core, in percent, over [`OBSERVED`].
pub async fn idle_percent(engine: &Engine) -> anyhow::Result<f64> {
    let shims = shims(&engine.id()?)?;
    let processes: Vec<u32> = shims.into_iter().chain([engine.pid()]).collect();
    Ok(cpu_percent(&processes, OBSERVED).await?.iter().sum())
}

/// Pods of which none changes for so long will not run.
const NEXT_IS_DUE: Duration = Duration::from_secs(60);

/// Waits until a watch has shown so many pods running.
pub async fn wait_running(pods: &Api<Pod>, count: usize) -> anyhow::Result<()> {
    let mut running = BTreeSet::new();
    let mut seen = Box::pin(watcher(pods.clone(), watcher::Config::default()).applied_objects());
    while running.len() < count {
        let next = tokio::time::timeout(NEXT_IS_DUE, seen.try_next()).await;
        let next = next.with_context(|| format!("{} of {count} pods run", running.len()))?;
        let pod = next?.context("the watch of pods ended")?;
        if pod.status.as_ref().and_then(|status| status.phase.as_deref()) == Some("Running") {
            running.insert(pod.metadata.name.unwrap_or_default());
        }
    }
    Ok(())
}

/// One line of smaps_rollup, in kB.
pub fn rollup(pid: u32, field: &str) -> anyhow::Result<u64> {
    let text = std::fs::read_to_string(format!("/proc/{pid}/smaps_rollup"))?;
    let line = text
        .lines()
        .find_map(|line| line.strip_prefix(field)?.strip_prefix(':'))
        .with_context(|| format!("{field} of process {pid}"))?;
    Ok(line.trim().trim_end_matches(" kB").parse()?)
}

/// The shims of this engine: the parents of its containers' first processes, which are found by
/// their cgroup.
fn shims(engine_id: &str) -> anyhow::Result<BTreeSet<u32>> {
    let mut shims = BTreeSet::new();
    for entry in std::fs::read_dir("/proc")? {
        let Ok(pid) = entry?.file_name().to_string_lossy().parse::<u32>() else { continue };
        let cgroup = std::fs::read(format!("/proc/{pid}/cgroup")).unwrap_or_default();
        if String::from_utf8_lossy(&cgroup).contains(engine_id) {
            let status = std::fs::read_to_string(format!("/proc/{pid}/status"))?;
            let parent = status.lines().find_map(|line| line.strip_prefix("PPid:"));
            shims.insert(parent.context("a parent")?.trim().parse()?);
        }
    }
    Ok(shims)
}
