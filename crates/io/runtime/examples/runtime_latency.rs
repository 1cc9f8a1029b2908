//! Measures the embedded runtime on this machine, as root: medians [min–max] in milliseconds, and
//! the memory of the shims.
//!
//! `cargo run --release -p rekindle-runtime --example runtime_latency [ROUNDS]`
#![allow(clippy::disallowed_methods, reason = "it measures real processes by the clock")]
#![allow(clippy::result_large_err, reason = "errors end the program")]

#[path = "../tests/containers/world/mod.rs"]
mod world;

use std::time::{Duration, Instant};

use rekindle_runtime::*;
use rekindle_types::{PodUid, SandboxAttempt};
use world::{World, sandbox_spec};

const ROUNDS_DEFAULT: usize = 100;
const IDLE_PODS: usize = 20;

fn main() {
    let rounds = std::env::args().nth(1).and_then(|n| n.parse().ok()).unwrap_or(ROUNDS_DEFAULT);
    let world = World::new();
    sandboxes(&world, rounds);
    containers(&world, rounds);
    commands(&world, rounds);
    memory(&world);
}

fn sandboxes(world: &World, rounds: usize) {
    let (mut made, mut removed) = (Samples::default(), Samples::default());
    for round in 0..rounds {
        let mut key = world.sandbox();
        key.attempt = SandboxAttempt(1000 + u32::try_from(round).unwrap_or(0));
        let spec = sandbox_spec(key);
        made.time(|| world.block(world.rt().run_sandbox(&spec)).map(drop));
        removed.time(|| world.block(world.rt().remove_sandbox(&spec.key)));
    }
    made.print("run_sandbox");
    removed.print("remove_sandbox (nothing in it)");
}

fn containers(world: &World, rounds: usize) {
    world.run_sandbox();
    let [mut create, mut start, mut both, mut seen, mut again] =
        [(); 5].map(|()| Samples::default());
    let mut spec = sleeper(world, 0);
    world.start(&spec);
    for round in 0..rounds {
        let killed = Instant::now();
        world.block(world.rt().signal_container(&spec.key, StopSignal::Kill)).expect("kill");
        let (key, _) = world.next_exit();
        seen.add(killed);
        assert_eq!(key, spec.key);
        let old = spec.key.clone();
        spec = sleeper(world, u32::try_from(round).unwrap_or(0) + 1);
        let begun = Instant::now();
        create.time(|| world.block(world.rt().create_container(&spec)).map(drop));
        start.time(|| world.block(world.rt().start_container(&spec.key)).map(drop));
        both.add(begun);
        again.add(killed);
        world.block(world.rt().remove_container(&old)).expect("remove");
    }
    create.print("create_container");
    start.print("start_container");
    both.print("create + start → running");
    seen.print("kill -9 → exit event at the agent");
    again.print("kill -9 → running again");
}

fn commands(world: &World, rounds: usize) {
    let mut exec = Samples::default();
    let mut spec = sleeper(world, 0);
    spec.key.name.0 = "exec".to_owned();
    world.start(&spec);
    let command = ["/bin/true".to_owned()];
    for _ in 0..rounds {
        exec.time(|| {
            let call = world.rt().exec_sync(&spec.key, &command, Duration::from_secs(10));
            world.block(call).map(drop)
        });
    }
    exec.print("exec_sync true");
}

fn memory(world: &World) {
    let pids: Vec<u32> = (0..IDLE_PODS)
        .map(|n| {
            let mut key = world.sandbox();
            key.pod.uid = PodUid(format!("00000000-0000-0000-0000-{n:012}"));
            let info = world.block(world.rt().run_sandbox(&sandbox_spec(key.clone())));
            let mut spec = sleeper(world, 0);
            spec.key.sandbox = key;
            world.start(&spec);
            info.expect("run a sandbox").pid
        })
        .collect();
    let sum = |field: &str| -> u64 { pids.iter().map(|pid| rollup_kb(*pid, field)).sum() };
    let mean = |field: &str| sum(field) / IDLE_PODS as u64;
    let private = mean("Private_Clean:") + mean("Private_Dirty:");
    println!(
        "shim, mean of {IDLE_PODS}, kB: RSS {}, PSS {}, private {private}",
        mean("Rss:"),
        mean("Pss:")
    );
}

fn rollup_kb(pid: u32, field: &str) -> u64 {
    let rollup = std::fs::read_to_string(format!("/proc/{pid}/smaps_rollup")).unwrap_or_default();
    let line = rollup.lines().find_map(|line| line.strip_prefix(field));
    line.and_then(|line| line.split_whitespace().next()?.parse().ok()).unwrap_or(0)
}

fn sleeper(world: &World, attempt: u32) -> ContainerSpec {
    let mut spec = world.spec("web", attempt);
    spec.command = ["/bin/sleep", "100000"].map(str::to_owned).to_vec();
    spec
}

#[derive(Default)]
struct Samples {
    ms: Vec<f64>,
}

impl Samples {
    fn add(&mut self, since: Instant) {
        self.ms.push(since.elapsed().as_secs_f64() * 1000.0);
    }

    fn time(&mut self, work: impl FnOnce() -> Result<(), RuntimeError>) {
        let begun = Instant::now();
        if let Err(error) = work() {
            panic!("{}", error.chain());
        }
        self.add(begun);
    }

    fn print(&mut self, name: &str) {
        self.ms.sort_by(f64::total_cmp);
        let (Some(min), Some(max)) = (self.ms.first(), self.ms.last()) else { return };
        let median = self.ms[self.ms.len() / 2];
        println!("{name:<36} {median:6.2} [{min:.2}–{max:.2}]");
    }
}
