//! Roots that are made ahead of a container's next start, on real namespaces: who gets them, and
//! that nothing is different in them (promise P4).

use std::collections::BTreeSet;
use std::fs;
use std::os::fd::AsRawFd;
use std::time::Instant;

use rekindle_runtime::*;

use crate::world::machine::{CLOSED, Machine, SECRET, attempts};
use crate::world::{self, World};

/// What a container sees of its own, and then it waits.
const SHOW: &str = "grep -E '^(Uid|Gid|Groups|Cap...|NoNewPrivs|Seccomp|Seccomp_filters):' /proc/self/status; \
    cut -d' ' -f4- /proc/self/mountinfo | sed -E 's/[0-9a-f]{24}|web-[0-9]+|size=[0-9]+k|shared:[0-9]+//g' | sort; \
    cat /proc/self/limits /proc/self/oom_score_adj /proc/self/cgroup; ls /dev; umask; touch /once && echo done; sleep 100000";

fn spec(world: &World, attempt: u32) -> ContainerSpec {
    let mut spec = world.shell("web", attempt, SHOW);
    spec.security.run_as_user = Some(0);
    spec.security.drop_capabilities = vec!["NET_RAW".to_owned()];
    spec.resources.memory_limit_bytes = Some(64 * 1024 * 1024);
    spec.renewal = ExpectedRestart::Expected;
    spec
}

/// Starts it and answers its number and what it has seen.
fn start(world: &World, spec: &ContainerSpec) -> (u32, String) {
    let pid = world.start(spec).pid;
    let seen =
        until(|| Some(world::read_log(&spec.log_path)).filter(|log| log.ends_with("done\n")));
    (pid, seen)
}

fn end(world: &World, spec: &ContainerSpec) {
    world.block(world.rt().signal_container(&spec.key, StopSignal::Kill)).unwrap();
    assert_eq!(world.next_exit().0, spec.key);
}

/// The mount namespaces that a shim holds open.
fn held(shim: u32) -> BTreeSet<String> {
    let files = fs::read_dir(format!("/proc/{shim}/fd")).unwrap();
    let names = files.filter_map(|file| fs::read_link(file.unwrap().path()).ok());
    names
        .map(|name| name.to_string_lossy().into_owned())
        .filter(|n| n.starts_with("mnt:"))
        .collect()
}

/// A mount namespace. It is kept, as its number would be given to another one when it is gone.
struct Mounts {
    name: String,
    _kept: fs::File,
}

fn mounts_of(process: u32) -> Mounts {
    let kept = fs::File::open(format!("/proc/{process}/ns/mnt")).unwrap();
    let name = fs::read_link(format!("/proc/self/fd/{}", kept.as_raw_fd())).unwrap();
    Mounts { name: name.to_string_lossy().into_owned(), _kept: kept }
}

fn until<T>(mut look: impl FnMut() -> Option<T>) -> T {
    let begun = Instant::now();
    loop {
        if let Some(seen) = look() {
            return seen;
        }
        assert!(begun.elapsed() < world::PATIENCE, "it is not seen");
        std::thread::yield_now();
    }
}

/// Waits for a root that is made ahead: the shim holds a mount namespace that is not one of these.
/// Those of containers that have ended are held a moment longer.
fn root_ahead(shim: u32, known: &[Mounts]) -> String {
    let is_new = |name: &String| known.iter().all(|known| known.name != *name);
    until(|| held(shim).into_iter().find(is_new))
}

fn those_of(processes: &[u32]) -> Vec<Mounts> {
    processes.iter().copied().chain([std::process::id()]).map(mounts_of).collect()
}

#[test]
fn the_next_start_is_in_the_root_that_was_made_for_it_and_sees_the_same() {
    let world = World::new();
    let sandbox = world::sandbox_spec(world.sandbox());
    let shim = world.block(world.rt().run_sandbox(&sandbox)).unwrap().pid;
    let (process, in_its_own) = start(&world, &spec(&world, 0));
    let mut known = those_of(&[process]);
    end(&world, &spec(&world, 0));
    known.push(mounts_of(start(&world, &spec(&world, 1)).0));
    for attempt in 2..=3 {
        let ready = root_ahead(shim, &known);
        end(&world, &spec(&world, attempt - 1));
        let (process, seen) = start(&world, &spec(&world, attempt));
        let mounts = mounts_of(process);
        assert_eq!(mounts.name, ready, "attempt {attempt}");
        assert_eq!(seen, in_its_own, "attempt {attempt}");
        known.push(mounts);
    }
}

#[test]
fn another_spec_gets_a_root_of_its_own() {
    let world = World::new();
    let sandbox = world::sandbox_spec(world.sandbox());
    let shim = world.block(world.rt().run_sandbox(&sandbox)).unwrap().pid;
    let (process, _) = start(&world, &spec(&world, 1));
    let ready = root_ahead(shim, &those_of(&[process]));
    end(&world, &spec(&world, 1));
    let mut changed = spec(&world, 2);
    changed.security.read_only_root = true;
    changed.command = vec![
        "/bin/sh".to_owned(),
        "-c".to_owned(),
        "touch /once || echo done; sleep 100000".to_owned(),
    ];
    let (process, seen) = start(&world, &changed);
    assert_ne!(mounts_of(process).name, ready);
    assert!(seen.contains("Read-only file system"), "{seen}");
}

#[test]
fn a_container_that_runs_once_gets_none() {
    let world = World::new();
    let sandbox = world::sandbox_spec(world.sandbox());
    let shim = world.block(world.rt().run_sandbox(&sandbox)).unwrap().pid;
    let mut once = world.shell("once", 1, "sleep 100000");
    once.renewal = ExpectedRestart::NotExpected;
    let once = world.start(&once).pid;
    // made at the same time as the other's would be
    let (process, _) = start(&world, &spec(&world, 1));
    root_ahead(shim, &those_of(&[once, process]));
    let held = held(shim);
    assert_eq!(held.len(), 4, "the host's, two containers', and one that is ready: {held:?}");
}

#[test]
fn a_root_made_ahead_shows_no_more_of_the_machine_than_another_one() {
    let world = World::new();
    let sandbox = world::sandbox_spec(world.sandbox());
    let shim = world.block(world.rt().run_sandbox(&sandbox)).unwrap().pid;
    let (process, _) = start(&world, &spec(&world, 0));
    let ready = root_ahead(shim, &those_of(&[process]));
    end(&world, &spec(&world, 0));
    let again = spec(&world, 1);
    assert_eq!(mounts_of(start(&world, &again).0).name, ready);
    for name in CLOSED {
        let machine = Machine::new();
        let (_, said) = world.exec(&again.key, &attempts(&machine.path(name)));
        assert!(!said.contains(SECRET), "{name}: {said}");
    }
}
