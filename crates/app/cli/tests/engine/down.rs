//! `rekindle down`: pods end gracefully, whoever ends them, and nothing is left on the machine.
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::Instant;

use rekindle_testkit::{Engine, PATIENCE, rekindle, text};
use rustix::process::{Pid, Signal, kill_process};

/// Two pods that write down how they are asked to end, on the host, and are not Ready before they
/// listen; one has a volume that is a mount.
fn pods(diary: &Path) -> String {
    let diary = diary.display();
    format!(
        "
apiVersion: v1
kind: Pod
metadata: {{name: tidy}}
spec:
  terminationGracePeriodSeconds: 20
  containers:
  - name: one
    image: localhost/host
    command: [sh, -c, 'trap \"echo tidy says goodbye >> /diary/entries; exit 0\" TERM; echo up > /memory/file; while :; do sleep 0.05; done']
    lifecycle: {{postStart: {{exec: {{command: [sh, -c, 'until test -e /memory/file; do sleep 0.05; done']}}}}}}
    volumeMounts: [{{name: diary, mountPath: /diary}}, {{name: memory, mountPath: /memory}}]
  volumes:
  - {{name: diary, hostPath: {{path: {diary}, type: Directory}}}}
  - {{name: memory, emptyDir: {{medium: Memory}}}}
---
apiVersion: v1
kind: Pod
metadata: {{name: stubborn}}
spec:
  terminationGracePeriodSeconds: 1
  containers:
  - name: one
    image: localhost/host
    command: [sh, -c, 'trap \"echo stubborn was asked >> /diary/entries\" TERM; touch /up; while :; do sleep 0.05; done']
    lifecycle: {{postStart: {{exec: {{command: [sh, -c, 'until test -e /up; do sleep 0.05; done']}}}}}}
    volumeMounts: [{{name: diary, mountPath: /diary}}]
  volumes:
  - {{name: diary, hostPath: {{path: {diary}, type: Directory}}}}
"
    )
}

/// What an engine may leave on the machine, as far as it can be told to be this engine's.
#[derive(Debug, PartialEq, Eq)]
struct Traces {
    interfaces: BTreeSet<String>,
    cgroups: BTreeSet<PathBuf>,
    mounts: Vec<String>,
    processes: BTreeSet<String>,
    run_dir: bool,
    shims: BTreeSet<Process>,
}

impl Traces {
    /// Other tests' engines run at the same time: only what bears this one's bridge, id or data
    /// directory counts.
    fn of(engine: &Engine, shims: &BTreeSet<Process>) -> Self {
        let id = std::fs::read_to_string(engine.data_dir().join("engine-id")).unwrap();
        let data_dir = engine.data_dir().display().to_string();
        let mounts = std::fs::read_to_string("/proc/self/mountinfo").unwrap();
        Self {
            interfaces: interfaces_of(engine.bridge()),
            cgroups: cgroups_of(&id),
            mounts: mounts
                .lines()
                .filter(|line| line.contains(&data_dir))
                .map(str::to_owned)
                .collect(),
            processes: processes_in(&id, &data_dir),
            run_dir: Path::new("/run/rekindle").join(&id).exists(),
            shims: shims.iter().filter(|shim| shim.is_alive()).cloned().collect(),
        }
    }

    fn none() -> Self {
        Self {
            interfaces: BTreeSet::new(),
            cgroups: BTreeSet::new(),
            mounts: Vec::new(),
            processes: BTreeSet::new(),
            run_dir: false,
            shims: BTreeSet::new(),
        }
    }
}

/// The bridge and what is plugged into it.
fn interfaces_of(bridge: &str) -> BTreeSet<String> {
    let master = |name: &str| {
        std::fs::read_link(format!("/sys/class/net/{name}/master"))
            .is_ok_and(|link| link.ends_with(bridge))
    };
    let names = std::fs::read_dir("/sys/class/net").unwrap();
    let names = names.map(|entry| entry.unwrap().file_name().into_string().unwrap());
    names.filter(|name| name == bridge || master(name)).collect()
}

fn cgroups_of(id: &str) -> BTreeSet<PathBuf> {
    let roots = std::fs::read_dir("/sys/fs/cgroup").unwrap().flatten().map(|entry| entry.path());
    let roots = roots.chain([PathBuf::from("/sys/fs/cgroup")]);
    roots.map(|root| root.join("rekindle").join(id)).filter(|path| path.exists()).collect()
}

fn pids() -> impl Iterator<Item = String> {
    let entries = std::fs::read_dir("/proc").unwrap().flatten();
    let names = entries.filter_map(|entry| entry.file_name().into_string().ok());
    names.filter(|name| name.bytes().all(|byte| byte.is_ascii_digit()))
}

/// Processes in the engine's cgroups, and those with its data directory among their arguments. A
/// shim has neither, but a network namespace.
fn processes_in(id: &str, data_dir: &str) -> BTreeSet<String> {
    let holds = |pid: &str, file: &str, what: &str| {
        let bytes = std::fs::read(format!("/proc/{pid}/{file}")).unwrap_or_default();
        String::from_utf8_lossy(&bytes).contains(what)
    };
    pids().filter(|pid| holds(pid, "cgroup", id) || holds(pid, "cmdline", data_dir)).collect()
}

/// A process by what is never given again: the kernel reuses the numbers of processes and of
/// namespaces.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Process {
    pid: String,
    /// Field 22 of `stat`, in clock ticks since the machine started.
    started: String,
}

impl Process {
    fn of(pid: String) -> Option<Self> {
        let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
        let (_, after_name) = stat.rsplit_once(')')?;
        let mut fields = after_name.split_whitespace();
        // one that has ended waits for whoever is pid 1 here to notice
        let ended = matches!(fields.next()?, "Z" | "X");
        let started = fields.nth(18)?.to_owned();
        (!ended).then_some(Self { pid, started })
    }

    fn is_alive(&self) -> bool {
        Self::of(self.pid.clone()).as_ref() == Some(self)
    }
}

fn network_namespace(pid: &str) -> Option<PathBuf> {
    std::fs::read_link(format!("/proc/{pid}/ns/net")).ok()
}

/// The processes beside an engine's containers: in the network of one, and in none of the engine's
/// cgroups.
fn shims(id: &str, containers: &BTreeSet<String>) -> BTreeSet<Process> {
    let own = network_namespace("self");
    let networks: BTreeSet<_> = containers.iter().map(|pid| network_namespace(pid)).collect();
    let beside = |pid: &String| {
        let network = network_namespace(pid);
        let cgroups = std::fs::read_to_string(format!("/proc/{pid}/cgroup"));
        network.is_some()
            && network != own
            && networks.contains(&network)
            && cgroups.is_ok_and(|cgroups| !cgroups.contains(id))
    };
    pids().filter(beside).filter_map(Process::of).collect()
}

struct Started {
    engine: Engine,
    diary: tempfile::TempDir,
    shims: BTreeSet<Process>,
}

fn start() -> Started {
    let engine = Engine::start();
    let diary = tempfile::tempdir().unwrap();
    engine.apply(&pods(diary.path()));
    engine.wait_ready("tidy");
    engine.wait_ready("stubborn");
    let id = std::fs::read_to_string(engine.data_dir().join("engine-id")).unwrap();
    let data_dir = engine.data_dir().display().to_string();
    let shims = shims(&id, &processes_in(&id, &data_dir));
    let traces = Traces::of(&engine, &shims);
    // Else the comparison at the end would find nothing because it looks in the wrong places.
    assert!(traces.interfaces.len() >= 3, "a bridge, two pods, and those made ahead: {traces:?}");
    assert!(!traces.cgroups.is_empty() && traces.run_dir, "{traces:?}");
    assert!(!traces.mounts.is_empty(), "the volume in memory: {traces:?}");
    assert!(traces.processes.len() >= 3, "the engine and two containers: {traces:?}");
    assert_eq!(traces.shims.len(), 2, "one of each pod: {traces:?}");
    Started { engine, diary, shims }
}

impl Started {
    #[track_caller]
    fn assert_ended_gracefully_and_left_nothing(&self) {
        let diary = std::fs::read_to_string(self.diary.path().join("entries")).unwrap();
        assert!(diary.contains("tidy says goodbye"), "{diary:?}");
        assert!(diary.contains("stubborn was asked"), "{diary:?}");
        assert_eq!(Traces::of(&self.engine, &self.shims), Traces::none());
    }
}

#[test]
fn down_ends_the_pods_gracefully_and_leaves_nothing() {
    let mut started = start();
    let down = started.engine.rekindle(&["down"]);
    assert!(down.status.success(), "{}{}", text(&down.stdout), text(&down.stderr));
    started.engine.wait();
    started.assert_ended_gracefully_and_left_nothing();
}

#[test]
fn down_after_a_killed_engine_ends_its_pods_gracefully_and_leaves_nothing() {
    let mut started = start();
    started.engine.kill();
    let down = started.engine.rekindle(&["down"]);
    assert!(down.status.success(), "{}{}", text(&down.stdout), text(&down.stderr));
    for pod in ["default/tidy", "default/stubborn"] {
        assert!(text(&down.stdout).contains(pod), "{pod} is named: {}", text(&down.stdout));
    }
    started.assert_ended_gracefully_and_left_nothing();

    let again = started.engine.rekindle(&["down"]);
    assert!(again.status.success());
    assert!(!text(&again.stdout).contains("ended pod"), "{}", text(&again.stdout));
}

#[test]
fn down_ends_what_an_engine_left_that_was_killed_while_it_was_waited_for() {
    let mut started = start();
    let engine = started.engine.pid();
    kill_process(Pid::from_raw(engine.cast_signed()).unwrap(), Signal::STOP).unwrap();
    let mut down = rekindle();
    down.args(["down", "--data-dir"]).arg(started.engine.data_dir());
    let down = down.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let deadline = Instant::now() + PATIENCE;
    while !has_pending_sigterm(engine) {
        assert!(Instant::now() < deadline, "down asks no engine to end");
        std::thread::yield_now();
    }
    started.engine.kill();
    let down = down.wait_with_output().unwrap();
    assert!(down.status.success(), "{}{}", text(&down.stdout), text(&down.stderr));
    for line in [format!("engine {engine} ended"), "ended pod default/tidy".to_owned()] {
        assert!(text(&down.stdout).contains(&line), "{line}: {}", text(&down.stdout));
    }
    started.assert_ended_gracefully_and_left_nothing();
}

/// As under a supervisor that starts what has ended at once.
#[test]
fn down_leaves_a_new_engine_alone_that_has_taken_the_data_directory_and_says_so() {
    let mut engine = Engine::start();
    let signal = |pid: u32, signal| {
        kill_process(Pid::from_raw(pid.cast_signed()).unwrap(), signal).unwrap();
    };
    let old = engine.pid();
    signal(old, Signal::STOP);
    let mut down = rekindle();
    down.args(["down", "--data-dir"]).arg(engine.data_dir());
    let down = down.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let deadline = Instant::now() + PATIENCE;
    while !has_pending_sigterm(old) {
        assert!(Instant::now() < deadline, "down asks no engine to end");
        std::thread::yield_now();
    }
    signal(down.id(), Signal::STOP);
    signal(old, Signal::CONT);
    engine.wait();
    engine.launch(&[]);
    signal(down.id(), Signal::CONT);
    let down = down.wait_with_output().unwrap();
    let said = text(&down.stderr);
    assert!(!down.status.success(), "it is up: {}{said}", text(&down.stdout));
    let expected = format!("a new engine (pid {}) has taken data directory", engine.pid());
    assert!(said.contains(&expected) && said.contains("systemctl stop"), "{said}");
    assert!(!interfaces_of(engine.bridge()).is_empty(), "its bridge is there");
    engine.kubectl(&["get", "nodes"]);
}

/// Whether a stopped process is to take a SIGTERM when it goes on.
fn has_pending_sigterm(pid: u32) -> bool {
    let status = std::fs::read_to_string(format!("/proc/{pid}/status")).unwrap();
    let pending = status.lines().find_map(|line| line.strip_prefix("ShdPnd:")).unwrap();
    let pending = u64::from_str_radix(pending.trim(), 16).unwrap();
    pending & 1 << (Signal::TERM.as_raw() - 1) != 0
}

#[test]
fn pods_ended_by_down_come_back_with_the_next_engine() {
    let mut started = start();
    let uid = started.engine.get("pod/tidy")["metadata"]["uid"].clone();
    started.engine.kill();
    assert!(started.engine.rekindle(&["down"]).status.success());
    started.engine.launch(&[]);
    started.engine.wait_ready("tidy");
    assert_eq!(started.engine.get("pod/tidy")["metadata"]["uid"], uid);
}

#[test]
fn ctrl_c_right_after_a_start_ends_what_a_killed_engine_left_gracefully_too() {
    let mut started = start();
    started.engine.kill();
    started.engine.launch_and_interrupt();
    started.assert_ended_gracefully_and_left_nothing();
}

#[test]
fn leave_pods_leaves_them_to_a_later_down() {
    let mut started = start();
    assert!(started.engine.rekindle(&["down", "--leave-pods"]).status.success());
    started.engine.wait();
    assert!(!started.diary.path().join("entries").exists(), "nobody was asked to end");
    let traces = Traces::of(&started.engine, &started.shims);
    assert!(traces.processes.len() >= 2, "the pods run on: {traces:?}");
    assert!(started.engine.rekindle(&["down"]).status.success());
    started.assert_ended_gracefully_and_left_nothing();
}
