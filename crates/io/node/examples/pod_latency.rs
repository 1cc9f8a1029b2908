//! How long the node takes, with the real API (in memory), runtime and network: medians [min–max]
//! in milliseconds, as seen by a client that watches the pod. As root:
//! `cargo run --release -p rekindle-node --example pod_latency [ROUNDS]`.
#![allow(missing_docs, clippy::disallowed_methods, reason = "it measures by the clock")]
#![allow(clippy::unwrap_used, reason = "a failure ends the program")]

#[path = "../tests/engine/mod.rs"]
mod engine;

use std::time::Instant;

use kube::api::{Api, DeleteParams, PostParams};
use rekindle_types::v1alpha1::PodRestart;
use serde_json::json;

use engine::{Engine, all_run, shell};

const ROUNDS_DEFAULT: usize = 30;

fn main() {
    let rounds = std::env::args().nth(1).and_then(|n| n.parse().ok()).unwrap_or(ROUNDS_DEFAULT);
    let runtime =
        tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build();
    runtime.unwrap().block_on(measure(rounds));
}

async fn measure(rounds: usize) {
    let engine = Engine::start().await;
    created(&engine, rounds).await;
    killed(&engine, rounds).await;
    restarted(&engine, rounds).await;
    engine.end().await;
}

fn sleeper() -> serde_json::Value {
    json!({ "containers": [shell("app", "exec sleep 10000")], "terminationGracePeriodSeconds": 0 })
}

async fn created(engine: &Engine, rounds: usize) {
    let mut samples = Vec::new();
    for round in 0..rounds {
        let name = format!("pod-{round}");
        let begin = Instant::now();
        engine.create(&name, sleeper()).await;
        engine.until(&name, "running", |pod| all_run(pod, 0)).await;
        samples.push(begin.elapsed());
        engine.pods().delete(&name, &DeleteParams::default().grace_period(0)).await.unwrap();
    }
    print("create pod → Running in the API", samples);
}

/// The host's number of the container's process: the one whose command is its own.
fn pid_of(pattern: &str) -> Vec<i32> {
    let mut pids = Vec::new();
    for entry in std::fs::read_dir("/proc").unwrap().flatten() {
        let Ok(pid) = entry.file_name().to_string_lossy().parse::<i32>() else { continue };
        let command = std::fs::read(entry.path().join("cmdline")).unwrap_or_default();
        if command == pattern.as_bytes() {
            pids.push(pid);
        }
    }
    pids
}

async fn killed(engine: &Engine, rounds: usize) {
    let mut seen = Vec::new();
    for round in 0..rounds {
        // a new pod for each: the second crash in a row would be held back
        let name = format!("victim-{round}");
        let duration = format!("{}", 20_000 + round);
        let spec = json!({ "containers": [shell("app", &format!("exec sleep {duration}"))], "terminationGracePeriodSeconds": 0 });
        engine.create(&name, spec).await;
        engine.until(&name, "running", |pod| all_run(pod, 0)).await;
        let command = format!("sleep\0{duration}\0");
        let old = loop {
            // the shell may not have become `sleep` yet
            match pid_of(&command).as_slice() {
                [pid] => break *pid,
                [] => tokio::task::yield_now().await,
                several => panic!("several processes run {command:?}: {several:?}"),
            }
        };
        let watching = engine.until(&name, "restarted", |pod| all_run(pod, 1));
        let begin = Instant::now();
        let pid = rustix::process::Pid::from_raw(old).unwrap();
        rustix::process::kill_process(pid, rustix::process::Signal::KILL).unwrap();
        watching.await;
        seen.push(begin.elapsed());
        engine.pods().delete(&name, &DeleteParams::default().grace_period(0)).await.unwrap();
    }
    print("container killed → restart visible in the API", seen);
}

async fn restarted(engine: &Engine, rounds: usize) {
    let restarts: Api<PodRestart> = Api::default_namespaced(engine.client.clone());
    let mut samples = Vec::new();
    let spec = json!({ "containers": [shell("app", "exec sleep 10000"), shell("side", "exec sleep 10000")],
        "terminationGracePeriodSeconds": 0, "volumes": [{ "name": "d", "emptyDir": {} }] });
    engine.create("pair", spec).await;
    engine.until("pair", "running", |pod| all_run(pod, 0)).await;
    for round in 0..rounds {
        let restart = json!({ "metadata": { "name": format!("again-{round}") }, "spec": { "podName": "pair", "rung": "Pod", "gracePeriodSeconds": 0 } });
        let restart: PodRestart = serde_json::from_value(restart).unwrap();
        let begin = Instant::now();
        restarts.create(&PostParams::default(), &restart).await.unwrap();
        let count = i32::try_from(round).unwrap() + 1;
        engine.until("pair", "restarted", |pod| all_run(pod, count)).await;
        samples.push(begin.elapsed());
    }
    print("PodRestart → 2 containers run again, in the API", samples);
}

fn print(what: &str, samples: Vec<std::time::Duration>) {
    let mut millis: Vec<f64> = samples.iter().map(|sample| sample.as_secs_f64() * 1e3).collect();
    millis.sort_by(f64::total_cmp);
    let (low, middle, high) = (millis[0], millis[millis.len() / 2], millis[millis.len() - 1]);
    println!("{what:48} {middle:7.2} [{low:.2}–{high:.2}]");
}
