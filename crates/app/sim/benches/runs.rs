//! How long runs take: `cargo bench -p rekindle-sim`. Wall-clock time is what is wanted here. The
//! short runs are for tools that count instructions, and come only when they are asked for by name.
//! A trace's hash tells whether two versions did the same.
#![allow(clippy::disallowed_methods, reason = "a benchmark tells how long things take")]
#![allow(clippy::unwrap_used, reason = "a benchmark says by failing what it expected")]

use std::net::Ipv4Addr;
use std::sync::Arc;
use std::time::Instant;

use k8s_openapi::api::core::v1::Pod;
use rekindle_pod::{
    ActionOutcome, CoreAction, CoreEvent, CoreOutput, ImageSource, Made, PodConfig, PodCore,
    Snapshot,
};
use rekindle_sim::{Campaign, Scenario, ScenarioPolicy};
use rekindle_types::{Exit, ExitStatus, Tick, TickDuration};
use serde_json::{Value, json};

const CRASH_LOOP: &str = include_str!("../../../../examples/sim/crash-loop.yaml");

const DAY: TickDuration = TickDuration::from_secs(24 * 60 * 60);

/// 30,000 pods on 1,000 nodes: a bad revision of one of thirty Deployments after ten minutes, 30 %
/// of the nodes without a network from minute 20 to minute 40.
fn large(nodes: usize, deployments: usize, replicas: usize) -> Scenario {
    let deployment = |name: &str, image: &str| {
        json!({
            "apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": name},
            "spec": {
                "replicas": replicas,
                "selector": {"matchLabels": {"app": name}},
                "template": {
                    "metadata": {"labels": {"app": name}},
                    "spec": {"containers": [{"name": "app", "image": image}]},
                },
            },
        })
    };
    let mut documents = vec![json!({
        "apiVersion": "rekindle.dev/v1alpha1", "kind": "Scenario",
        "spec": {
            "for": "1h", "nodes": nodes,
            "behaviours": [{"image": "app:2", "exits": {"code": 1, "after": "2s"}}],
            "changes": [{"at": "10m", "apply": deployment("app-0", "app:2")}],
            "nodeLoss": [{"share": "30%", "from": "20m", "until": "40m"}],
        },
    })];
    documents.extend((0..deployments).map(|index| deployment(&format!("app-{index}"), "app:1")));
    Scenario::from_documents(documents).unwrap()
}

/// What was used so far: seconds on a processor, and the most memory, in MiB. Others may want the
/// processors, too.
fn used() -> (f64, u64) {
    let line = std::fs::read_to_string("/proc/self/schedstat").unwrap_or_default();
    let nanos: f64 = line.split(' ').next().and_then(|n| n.parse().ok()).unwrap_or(0.0);
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let peak = status.lines().find_map(|line| line.strip_prefix("VmHWM:"));
    let peak = peak.and_then(|peak| peak.trim().strip_suffix(" kB")).and_then(|kb| kb.parse().ok());
    (nanos / 1e9, peak.unwrap_or(0u64) / 1024)
}

fn measure(name: &str, scenario: &Scenario) {
    let (begin, (used_before, _)) = (Instant::now(), used());
    let outcome = scenario.play(1, &ScenarioPolicy::AsWritten).unwrap();
    let (took, (used_after, peak)) = (begin.elapsed(), used());
    let seconds = used_after - used_before;
    println!(
        "{name}: {} ms ({:.0} ms on a processor), {peak} MiB at most; {} restarts, {} writes ({:.1} us each), {}/{} pods ready, trace {:016x}",
        took.as_millis(),
        seconds * 1e3,
        outcome.restarts,
        outcome.figures.writes,
        seconds * 1e6 / outcome.figures.writes.max(1) as f64,
        outcome.ready,
        outcome.pods,
        outcome.trace_hash,
    );
}

/// The same crash loop for the pod's core alone: no API, no controllers, nothing is written. What
/// the whole takes more is theirs.
fn core_alone(length: TickDuration) {
    let pod = json!({
        "metadata": {"name": "crash", "namespace": "default", "uid": "1"},
        "spec": {"containers": [{"name": "app", "image": "app"}], "nodeName": "node-0"},
    });
    let pod: Pod = serde_json::from_value(pod).unwrap();
    let (begin, (used_before, _)) = (Instant::now(), used());
    let mut now = Tick::from_secs(1_767_225_600);
    let end = now + length;
    let mut core = PodCore::new(now, Arc::new(pod), PodConfig::default());
    core.handle(now, CoreEvent::RuntimeSnapshot(Snapshot::default()));
    let mut starts = 0;
    while now <= end {
        while let Some(output) = core.poll_output() {
            let CoreOutput::Act(id, action) = output else { continue };
            let outcome = match &action {
                CoreAction::SetUpSandbox { .. } => {
                    ActionOutcome::SandboxReady { ips: vec![Ipv4Addr::LOCALHOST.into()] }
                }
                CoreAction::FindImage { image, .. } => ActionOutcome::ImagePresent {
                    image_id: image.clone(),
                    source: ImageSource::AlreadyPresent,
                },
                CoreAction::StartContainer { .. } => {
                    ActionOutcome::ContainerMade { made: Made::default(), start: Ok(now) }
                }
                _ => ActionOutcome::Done,
            };
            core.handle(now, CoreEvent::ActionResult { id, result: Ok(outcome) });
            if let CoreAction::StartContainer { key, .. } = action {
                starts += 1;
                let status = ExitStatus::Code { code: 1 };
                let exit =
                    Exit { status, started_at: now, finished_at: now, message: String::new() };
                core.handle(now, CoreEvent::ContainerExited { key, made: Made::default(), exit });
            }
        }
        let Some(due) = core.poll_timeout() else { break };
        now = due;
        core.handle_timeout(now);
    }
    let (took, (used_after, _)) = (begin.elapsed(), used());
    println!(
        "… of which the pod's core alone: {} ms ({:.0} ms on a processor), {} restarts",
        took.as_millis(),
        (used_after - used_before) * 1e3,
        starts - 1,
    );
}

fn seeds(count: u64) {
    let (begin, (used_before, _)) = (Instant::now(), used());
    let mut traces = 0u64;
    for seed in 1..=count {
        let passed = Campaign::of_seed(seed).check().unwrap();
        traces = traces.rotate_left(1) ^ passed.trace_hash;
    }
    let (took, (used_after, _)) = (begin.elapsed(), used());
    let seconds = used_after - used_before;
    println!(
        "mixed workload: {count} seeds in {:.1} s ({seconds:.1} s on a processor), {:.0} a minute on each processor, traces {traces:016x}",
        took.as_secs_f64(),
        count as f64 / seconds * 60.0,
    );
}

/// The crash loop, for so many days.
fn crash_loop(days: u64) -> Scenario {
    let documents = rekindle_manifest::objects(CRASH_LOOP).unwrap();
    let mut scenario =
        Scenario::from_documents(documents.into_iter().map(Value::Object).collect()).unwrap();
    scenario.set_duration("the bench", TickDuration::from_micros(DAY.as_micros() * days)).unwrap();
    scenario
}

fn main() {
    let asked: Vec<String> =
        std::env::args().skip(1).filter(|arg| !arg.starts_with("--")).collect();
    let is_named = |name: &str| asked.iter().any(|asked| name.contains(asked));
    let is_asked = |name: &str| asked.is_empty() || is_named(name);
    if is_asked("crash loop") {
        let scenario = crash_loop(20);
        measure("crash loop, 1 pod, 20 days", &scenario);
        core_alone(scenario.duration());
    }
    if is_asked("seeds") {
        seeds(40);
    }
    if is_asked("small") {
        measure("small, 100 nodes, 1000 pods, 1 hour", &large(100, 10, 100));
    }
    if is_asked("large") {
        measure("large, 1000 nodes, 30000 pods, 1 hour", &large(1_000, 30, 1_000));
    }
    if is_named("one day") {
        measure("crash loop, 1 pod, 1 day", &crash_loop(1));
    }
    if is_named("tiny") {
        measure("tiny, 30 nodes, 900 pods, 1 hour", &large(30, 9, 100));
    }
    if is_named("few") {
        seeds(4);
    }
}
