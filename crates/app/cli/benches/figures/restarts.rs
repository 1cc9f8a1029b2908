//! Creating pods, killing containers, restarting whole pods: each seen through a client's watch.

use std::collections::BTreeSet;
use std::time::{Duration, Instant};

use anyhow::Context;
use futures::TryStreamExt;
use k8s_openapi::api::core::v1::Pod;
use kube::api::{DeleteParams, PostParams};
use kube::runtime::wait::await_condition;
use kube::runtime::watcher;
use kube::{Api, ResourceExt};
use rekindle_types::Tick;
use rekindle_types::v1alpha1::{PodRestart, PodRestartPhase, PodRestartSpec, Rung};
use rustix::process::{Pid, Signal, kill_process};
use serde_json::json;

use crate::app;
use crate::engine::Engine;
use crate::sample::{CREATE, KILL, Report};

const SAMPLES: usize = 20;
const DEADLINE: Duration = Duration::from_secs(30);
/// How often the app is run by hand between two restarts: until the removal of what the first left
/// is over. It keeps the cores awake, too, which in a virtual machine take milliseconds to wake up.
const BETWEEN: usize = 20;
/// How long a container has run before it is killed: until the node has got ready for its next
/// start, ten seconds after its first.
const SETTLED: Duration = Duration::from_secs(12);
/// How exactly the start of a process is seen.
const OBSERVE_EVERY: Duration = Duration::from_micros(100);

pub async fn measure(engine: &Engine, report: &mut Report) -> anyhow::Result<()> {
    let pods = Api::<Pod>::namespaced(engine.client.clone(), "default");
    // The first pod of an image prepares the image; that is not what is measured.
    create(&pods, &pod("warm-up")?).await?;

    let mut created = Vec::new();
    for number in 0..SAMPLES {
        created.push(create(&pods, &pod(&format!("created-{number}"))?).await?);
    }
    report.durations(CREATE, "≤ 20 ms", created);
    for number in 0..SAMPLES {
        create(&pods, &guarded_pod(&format!("guarded-{number}"))?).await?;
    }

    let mut at_once = Vec::new();
    for number in 0..SAMPLES {
        let pod = pod(&format!("short-{number}"))?;
        create(&pods, &pod).await?;
        at_once.push(kill(&pods, &pod.name_any()).await?.0);
    }
    report.durations("container killed as soon as it runs → new process runs", "–", at_once);
    tokio::time::sleep(SETTLED).await;
    let (mut running, mut visible) = (Vec::new(), Vec::new());
    for number in 0..SAMPLES {
        let (process, api) = kill(&pods, &format!("created-{number}")).await?;
        running.push(process);
        visible.push(api);
    }
    report.durations(KILL, "≤ 4 ms", running);
    report.durations("container killed → restart visible in the API", "≤ 10 ms", visible);
    let mut guarded = Vec::new();
    for number in 0..SAMPLES {
        guarded.push(kill(&pods, &format!("guarded-{number}")).await?.0);
    }
    report.durations(
        "the same with a liveness probe, a postStart and a preStop hook",
        "≤ 4 ms",
        guarded,
    );

    let restarts = Api::<PodRestart>::namespaced(engine.client.clone(), "default");
    let mut whole = Vec::new();
    for number in 0..SAMPLES {
        whole.push(restart(&pods, &restarts, &format!("created-{number}")).await?.0);
    }
    report.durations("whole-pod restart, 2 containers, all running again, in a row", "–", whole);
    let (mut starts, mut stops) = (Vec::new(), Vec::new());
    let (mut alone, mut taken) = (Vec::new(), Vec::new());
    let app = engine.demo_app()?;
    for number in 0..SAMPLES {
        for _ in 0..BETWEEN {
            let (start, stop) = app::start_and_stop(&app, 2)?;
            starts.push(start);
            stops.push(stop);
        }
        let (seen, request) = restart(&pods, &restarts, &format!("created-{number}")).await?;
        alone.push(seen);
        taken.push(by_its_steps(&restarts, &request).await?);
    }
    report.durations("… one by one, the app run by hand between them", "≤ 10 ms and app", alone);
    report.durations("… by its own steps: taken up → all running", "–", taken);
    report.durations("2 of its app run by hand: from their start to their first line", "–", starts);
    report.durations("… from SIGTERM to their end", "–", stops);

    for pod in pods.list(&Default::default()).await? {
        pods.delete(&pod.name_any(), &DeleteParams::default().grace_period(0)).await?;
    }
    let gone = watcher(pods.clone(), watcher::Config::default());
    let mut gone = Box::pin(gone);
    let mut left: BTreeSet<String> =
        pods.list(&Default::default()).await?.iter().map(ResourceExt::name_any).collect();
    while !left.is_empty() {
        if let Some(watcher::Event::Delete(pod)) = gone.try_next().await? {
            left.remove(&pod.name_any());
        }
        left = pods.list(&Default::default()).await?.iter().map(ResourceExt::name_any).collect();
    }
    Ok(())
}

/// A pod of two containers that wait and end at once when asked.
pub fn pod(name: &str) -> anyhow::Result<Pod> {
    Ok(serde_json::from_value(json!({
        "metadata": {"name": name},
        "spec": {
            "terminationGracePeriodSeconds": 1,
            "containers": [
                {"name": "one", "image": "localhost/demo", "args": ["signal"]},
                {"name": "two", "image": "localhost/demo", "args": ["signal"]},
            ],
        },
    }))?)
}

/// The same, with a probe and hooks that the first container has to be started and ended by.
fn guarded_pod(name: &str) -> anyhow::Result<Pod> {
    let mut pod = pod(name)?;
    let containers = pod.spec.as_mut().map(|spec| &mut spec.containers);
    let one = containers.and_then(|all| all.first_mut()).context("a container")?;
    one.liveness_probe = Some(serde_json::from_value(json!({
        "exec": {"command": ["/demo", "--version"]}, "periodSeconds": 10,
    }))?);
    let nothing = json!({"sleep": {"seconds": 0}});
    one.lifecycle =
        Some(serde_json::from_value(json!({"postStart": nothing, "preStop": nothing}))?);
    Ok(pod)
}

/// Creates the pod and waits until a watch shows both containers running.
async fn create(pods: &Api<Pod>, pod: &Pod) -> anyhow::Result<Duration> {
    let name = pod.name_any();
    let config = watcher::Config::default().fields(&format!("metadata.name={name}"));
    let mut seen = Box::pin(watcher(pods.clone(), config));
    // the watch stands before the pod is created
    while !matches!(seen.try_next().await?, Some(watcher::Event::InitDone)) {}
    let start = Instant::now();
    pods.create(&PostParams::default(), pod).await?;
    tokio::time::timeout(DEADLINE, async {
        loop {
            if let Some(watcher::Event::Apply(pod)) = seen.try_next().await?
                && restart_counts(&pod).is_some()
            {
                return anyhow::Ok(start.elapsed());
            }
        }
    })
    .await
    .with_context(|| format!("pod {name} was not running in time"))?
}

/// The restart counts of a pod whose containers all run.
fn restart_counts(pod: &Pod) -> Option<Vec<i32>> {
    let statuses = pod.status.as_ref()?.container_statuses.as_ref()?;
    let running = statuses
        .iter()
        .all(|status| status.state.as_ref().is_some_and(|state| state.running.is_some()));
    (running && statuses.len() == 2).then(|| statuses.iter().map(|s| s.restart_count).collect())
}

/// Kills the first container; answers when its new process ran its command, and when a watch showed
/// the restart.
async fn kill(pods: &Api<Pod>, name: &str) -> anyhow::Result<(Duration, Duration)> {
    let pod = pods.get(name).await?;
    let uid = pod.metadata.uid.as_deref().context("the pod has a UID")?;
    let process = container_process(uid, "one-0")?;
    let shim = parent(process)?;
    let before = children(shim)?;
    let config = watcher::Config::default().fields(&format!("metadata.name={name}"));
    let mut seen = Box::pin(watcher(pods.clone(), config));
    while !matches!(seen.try_next().await?, Some(watcher::Event::InitDone)) {}

    let start = Instant::now();
    kill_process(Pid::from_raw(process).context("a pid")?, Signal::KILL)?;
    // The observer, unlike the engine, may poll; but rarely enough to leave the cores to what it
    // measures.
    let observer = tokio::task::spawn_blocking(move || -> anyhow::Result<Duration> {
        while start.elapsed() < DEADLINE {
            if children(shim)?.iter().any(|child| !before.contains(child) && runs_demo(*child)) {
                return Ok(start.elapsed());
            }
            std::thread::sleep(OBSERVE_EVERY);
        }
        anyhow::bail!("no new process")
    });
    let visible = tokio::time::timeout(DEADLINE, async {
        loop {
            if let Some(watcher::Event::Apply(pod)) = seen.try_next().await?
                && restart_counts(&pod).is_some_and(|counts| counts.contains(&1))
            {
                return anyhow::Ok(start.elapsed());
            }
        }
    })
    .await
    .context("the restart was not visible in time")??;
    Ok((observer.await??, visible))
}

/// The first process of a container attempt, by its cgroup.
fn container_process(pod_uid: &str, attempt: &str) -> anyhow::Result<i32> {
    for entry in std::fs::read_dir("/proc")? {
        let Ok(pid) = entry?.file_name().to_string_lossy().parse::<i32>() else { continue };
        let cgroups = std::fs::read(format!("/proc/{pid}/cgroup")).unwrap_or_default();
        let cgroups = String::from_utf8_lossy(&cgroups);
        if cgroups.contains(pod_uid) && cgroups.contains(&format!("/{attempt}")) {
            return Ok(pid);
        }
    }
    anyhow::bail!("no process of container attempt {attempt} of pod {pod_uid}")
}

fn parent(pid: i32) -> anyhow::Result<i32> {
    let status = std::fs::read_to_string(format!("/proc/{pid}/status"))?;
    let line = status.lines().find_map(|line| line.strip_prefix("PPid:")).context("a parent")?;
    Ok(line.trim().parse()?)
}

fn children(pid: i32) -> anyhow::Result<BTreeSet<i32>> {
    let text = std::fs::read_to_string(format!("/proc/{pid}/task/{pid}/children"))?;
    Ok(text.split_whitespace().filter_map(|child| child.parse().ok()).collect())
}

/// Whether this process has become the container's command; before its exec it is a copy of its
/// shim.
fn runs_demo(pid: i32) -> bool {
    std::fs::read(format!("/proc/{pid}/cmdline"))
        .is_ok_and(|cmdline| cmdline.ends_with(b"\0signal\0"))
}

/// Asks for a whole-pod restart and waits until a watch shows both containers running again.
/// Answers how long that took, and the request's name.
async fn restart(
    pods: &Api<Pod>,
    restarts: &Api<PodRestart>,
    name: &str,
) -> anyhow::Result<(Duration, String)> {
    let before = restart_counts(&pods.get(name).await?).context("both containers run")?;
    let config = watcher::Config::default().fields(&format!("metadata.name={name}"));
    let mut seen = Box::pin(watcher(pods.clone(), config));
    while !matches!(seen.try_next().await?, Some(watcher::Event::InitDone)) {}
    let request = PodRestart {
        metadata: kube::core::ObjectMeta {
            generate_name: Some(format!("{name}-")),
            ..Default::default()
        },
        spec: PodRestartSpec {
            pod_name: name.to_owned(),
            rung: Some(Rung::Pod),
            ..Default::default()
        },
        ..Default::default()
    };
    let start = Instant::now();
    let request = restarts.create(&PostParams::default(), &request).await?;
    let seen = tokio::time::timeout(DEADLINE, async {
        loop {
            if let Some(watcher::Event::Apply(pod)) = seen.try_next().await?
                && let Some(counts) = restart_counts(&pod)
                && counts.iter().zip(&before).all(|(after, before)| after > before)
            {
                return anyhow::Ok(start.elapsed());
            }
        }
    })
    .await
    .context("the pod was not running again in time")??;
    Ok((seen, request.name_any()))
}

/// From the first step of a request, the node's taking it up, to its last: without the client, and
/// without the request's own durable write.
async fn by_its_steps(restarts: &Api<PodRestart>, name: &str) -> anyhow::Result<Duration> {
    let phase = |restart: &PodRestart| restart.status.as_ref().and_then(|status| status.phase);
    let is_over = |restart: Option<&PodRestart>| {
        restart.and_then(phase).is_some_and(PodRestartPhase::is_final)
    };
    let over = await_condition(restarts.clone(), name, is_over);
    let over = tokio::time::timeout(DEADLINE, over).await.context("the request did not end")??;
    let steps = over.and_then(|restart| restart.status).map(|status| status.steps);
    let steps: Vec<Tick> = steps.iter().flatten().map(|step| Tick::from(&step.at)).collect();
    let (first, last) = steps.first().zip(steps.last()).context("the request has steps")?;
    Ok(Duration::from_micros(last.since(*first).as_micros()))
}
