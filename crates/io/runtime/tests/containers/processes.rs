//! Pods whose containers see each other's processes, or the host's: what ends with what, who reaps,
//! and that nobody gets at the shim.

use std::fs;
use std::os::fd::OwnedFd;
use std::time::Instant;

use rekindle_runtime::*;
use rekindle_types::ExitStatus;
use rustix::event::{PollFd, PollFlags};
use rustix::process::{Pid, PidfdFlags, Signal, pidfd_open, pidfd_send_signal};

use crate::world::{PATIENCE, World, sandbox_spec};

fn sandbox(processes: ProcessVisibility) -> World {
    let world = World::new();
    run(&world, processes);
    world
}

fn run(world: &World, processes: ProcessVisibility) -> SandboxInfo {
    let namespaces = Namespaces { processes, ..Namespaces::default() };
    let spec = SandboxSpec { namespaces, shm_bytes: 64 << 20, ..sandbox_spec(world.sandbox()) };
    world.block(world.rt().run_sandbox(&spec)).unwrap()
}

/// The process on this machine whose command line this is.
fn find(command: &str) -> Option<Pid> {
    let wanted = format!("{}\0", command.replace(' ', "\0"));
    let pids = fs::read_dir("/proc").unwrap().filter_map(|entry| {
        entry.unwrap().file_name().to_str().and_then(|name| name.parse::<i32>().ok())
    });
    { pids }
        .find(|pid| fs::read(format!("/proc/{pid}/cmdline")).is_ok_and(|l| l == wanted.as_bytes()))
        .and_then(Pid::from_raw)
}

fn wait_for_end(pidfd: &OwnedFd) {
    let limit = rustix::event::Timespec { tv_sec: PATIENCE.as_secs() as i64, tv_nsec: 0 };
    let ended = rustix::event::poll(&mut [PollFd::new(pidfd, PollFlags::IN)], Some(&limit));
    assert_eq!(ended.unwrap(), 1, "it ends");
}

fn lives(pidfd: &OwnedFd) -> bool {
    let now = rustix::event::Timespec { tv_sec: 0, tv_nsec: 0 };
    rustix::event::poll(&mut [PollFd::new(pidfd, PollFlags::IN)], Some(&now)).unwrap() == 0
}

fn exec(world: &World, key: &ContainerKey, script: &str) -> String {
    let (exit, output) = world.exec(key, script);
    assert_eq!(exit, ExecExit::Code(0), "{output}");
    output
}

/// A command line that no other process of the machine has.
fn unique(number: u32) -> String {
    format!("sleep {}{number:05}", std::process::id())
}

#[test]
fn containers_of_one_pod_see_each_other() {
    let world = sandbox(ProcessVisibility::Pod);
    let app = world.shell("app", 0, "echo from-app > /tmp/rekindle-mark; exec sleep 1001");
    world.start(&app);
    let side = world.shell("side", 0, "exec sleep 1002");
    world.start(&side);
    let script = "until grep -qs from-app /proc/[0-9]*/root/tmp/rekindle-mark; do sleep 0.01; done; \
                  cat /proc/1/comm; readlink /proc/1/exe /proc/1/root /proc/1/cwd || echo hidden";
    let output = exec(&world, &side.key, script);
    assert_eq!(output, "pause\nhidden\n");
    let namespace = "readlink /proc/self/ns/pid";
    let ours = fs::read_link("/proc/self/ns/pid").unwrap();
    assert_eq!(exec(&world, &app.key, namespace), exec(&world, &side.key, namespace));
    assert_ne!(exec(&world, &app.key, namespace).trim_end(), ours.as_os_str());
}

/// Whoever looks at the machine's processes finds out what it is, by `ps -A` or `top` too.
#[test]
fn a_shim_has_its_name() {
    let world = World::new();
    let shim = world.run_sandbox().pid;
    assert_eq!(fs::read_to_string(format!("/proc/{shim}/comm")).unwrap(), "rekindle-shim\n");
    let command = fs::read_to_string(format!("/proc/{shim}/cmdline")).unwrap();
    assert_eq!(command.trim_end_matches('\0'), "rekindle-shim");
}

#[test]
fn the_end_of_a_container_ends_what_it_started_and_nothing_else() {
    for (number, processes) in [(1, ProcessVisibility::Pod), (2, ProcessVisibility::Host)] {
        let world = sandbox(processes);
        let other = unique(number * 10);
        let other = (world.shell("other", 0, &format!("exec {other}")), other);
        world.start(&other.0);
        let left = unique(number * 10 + 1);
        let script = format!(
            "setsid {left} & mkfifo /tmp/rekindle-go; read line < /tmp/rekindle-go; exit 7"
        );
        let ends = world.shell("ends", 0, &script);
        let started = world.start(&ends);
        assert!(started.pid > 0);
        let go = "until test -p /tmp/rekindle-go; do sleep 0.01; done; echo > /tmp/rekindle-go";
        let begun = pidfd_of(&left);
        // It ends with the container that it lets go, maybe before it has ended by itself.
        let go = ["/bin/sh", "-c", go].map(str::to_owned);
        let _ = world.block(world.rt().exec_sync(&ends.key, &go, PATIENCE));
        let (key, exit) = world.next_exit();
        assert_eq!((key, exit.status), (ends.key.clone(), ExitStatus::Code { code: 7 }));
        wait_for_end(&begun);
        assert!(lives(&pidfd_of(&other.1)), "the other container goes on");
        assert!(matches!(
            world.state_of(&other.0.key),
            Some(RuntimeContainerState::Running { .. })
        ));
        // And again, in the same namespace.
        let again = world.shell("ends", 1, "exit 3");
        assert_eq!(world.run(&again).status.code(), 3);
        let last = pidfd_of(&other.1);
        world.block(world.rt().remove_sandbox(&world.sandbox())).unwrap();
        wait_for_end(&last);
    }
}

/// Of what a shell is about to become.
fn pidfd_of(command: &str) -> OwnedFd {
    let begun = Instant::now();
    loop {
        if let Some(pid) = find(command) {
            return pidfd_open(pid, PidfdFlags::empty()).unwrap();
        }
        assert!(begun.elapsed() < PATIENCE, "{command} runs");
        std::thread::yield_now();
    }
}

#[test]
fn whoever_loses_its_parent_is_reaped() {
    for processes in [ProcessVisibility::Pod, ProcessVisibility::Host] {
        let world = sandbox(processes);
        // Each inner shell leaves its child behind, which ends a moment later with nobody of its
        // own to wait for it.
        let script = "i=0; while test $i -lt 50; do (sh -c 'exit 0' & exec true); i=$((i+1)); done; \
                      echo > /tmp/rekindle-done; exec sleep 1003";
        let app = world.shell("app", 0, script);
        let pid = world.start(&app).pid;
        exec(&world, &app.key, "until test -e /tmp/rekindle-done; do sleep 0.01; done");
        if processes == ProcessVisibility::Pod {
            let none =
                "while grep -qE '^State:.Z' /proc/[0-9]*/status 2>/dev/null; do sleep 0.01; done";
            exec(&world, &app.key, none);
        }
        // Neither the machine nor the shim keeps a zombie of that container.
        let shim = world.snapshot().info.unwrap().pid;
        let children = format!("/proc/{shim}/task/{shim}/children");
        let begun = Instant::now();
        loop {
            let children = fs::read_to_string(&children).unwrap();
            let others = children.split_whitespace().filter(|child| {
                **child != pid.to_string()
                    && fs::read_to_string(format!("/proc/{child}/stat"))
                        .is_ok_and(|stat| stat.contains(") Z "))
            });
            if others.count() == 0 {
                break;
            }
            assert!(begun.elapsed() < PATIENCE, "the shim keeps zombies: {children}");
        }
    }
}

#[test]
fn a_command_is_in_the_namespaces_of_its_container() {
    for processes in [ProcessVisibility::Pod, ProcessVisibility::Host] {
        let world = sandbox(processes);
        let app = world.shell("app", 0, "exec sleep 1004");
        let pid = world.start(&app).pid;
        let namespace = fs::read_link(format!("/proc/{pid}/ns/pid")).unwrap();
        let output = exec(&world, &app.key, "readlink /proc/self/ns/pid; exit 0");
        assert_eq!(output.trim_end(), namespace.as_os_str());
    }
}

#[test]
fn a_container_of_the_hosts_processes_gets_nothing_of_the_shim() {
    let world = sandbox(ProcessVisibility::Host);
    let shim = world.snapshot().info.unwrap().pid;
    let script = format!(
        "test -d /proc/{shim} && cd /proc/{shim} && \
         for f in root cwd exe fd/*; do readlink $f && echo open; done; echo < fd/3 && echo open; \
         head -c 1 mem && echo open; cat environ && echo open; cat /proc/kcore | head -c 1; \
         cat maps && echo open; echo looked"
    );
    let output = world.output(&world.shell("look", 0, &format!("({script}) 2>/dev/null")));
    assert_eq!(output, "looked\n", "masked paths stay, and the shim is closed");
}

#[test]
fn a_container_joins_the_processes_of_another() {
    let world = sandbox(ProcessVisibility::Container);
    let mut app = world.spec("app", 0);
    app.command = ["sleep", "1005"].map(str::to_owned).to_vec();
    world.start(&app);
    let look = "tr '\\0' ' ' < /proc/1/cmdline";
    let mut debug = world.shell("debug", 0, look);
    debug.target = Some(app.key.clone());
    assert_eq!(world.output(&debug), "sleep 1005 ");
    // Its end is its own.
    assert!(matches!(world.state_of(&app.key), Some(RuntimeContainerState::Running { .. })));
    // The end of the other is its end, too.
    let mut again = world.shell("again", 0, "exec sleep 1007");
    again.target = Some(app.key.clone());
    world.start(&again);
    assert_eq!(exec(&world, &again.key, look), "sleep 1005 ");
    world.block(world.rt().signal_container(&app.key, StopSignal::Kill)).unwrap();
    let mut ended = [world.next_exit(), world.next_exit()];
    ended.sort_by(|(a, _), (b, _)| a.cmp(b));
    assert_eq!(ended.each_ref().map(|(key, _)| key), [&again.key, &app.key]);
    assert_eq!(
        ended.each_ref().map(|(_, exit)| exit.status),
        [ExitStatus::Signal { signal: 9 }; 2]
    );
}

#[test]
fn a_target_that_does_not_run_is_refused() {
    let world = sandbox(ProcessVisibility::Container);
    let app = world.shell("app", 0, "exit 0");
    let mut debug = world.shell("debug", 0, "exec sleep 1008");
    debug.target = Some(app.key.clone());
    let refused = |world: &World| {
        let error = world.block(world.rt().create_container(&debug)).unwrap_err();
        assert!(matches!(error, RuntimeError::Container { .. }), "{error:?}");
        assert!(error.chain().ends_with("is not running"), "{}", error.chain());
    };
    refused(&world);
    world.run(&app);
    refused(&world);
    let containers = world.snapshot().containers;
    assert_eq!(containers.len(), 1, "nothing is left of it: {containers:?}");
}

#[test]
fn a_pod_whose_first_process_is_killed_is_over() {
    let world = sandbox(ProcessVisibility::Pod);
    let app = world.shell("app", 0, "exec sleep 1009");
    let started = world.start(&app);
    let info = world.snapshot().info.unwrap();
    let children = fs::read_to_string(format!("/proc/{0}/task/{0}/children", info.pid)).unwrap();
    let mut children = children.split_whitespace().filter_map(|pid| pid.parse::<i32>().ok());
    let init = { &mut children }.find(|pid| pid.cast_unsigned() != started.pid).unwrap();
    let pidfd = pidfd_open(Pid::from_raw(init).unwrap(), PidfdFlags::empty()).unwrap();
    pidfd_send_signal(&pidfd, Signal::KILL).unwrap();
    assert_eq!(world.next_exit().0, app.key);
    match world.block(world.rt().next_event()) {
        RuntimeEvent::SandboxDied { key } => assert_eq!(key, world.sandbox()),
        event
        @ (RuntimeEvent::ContainerExited { .. } | RuntimeEvent::ProcessesOomKilled { .. }) => {
            panic!("{event:?}")
        }
    }
}

#[test]
fn a_sandbox_that_was_made_ahead_serves_these_pods_too() {
    for processes in [ProcessVisibility::Pod, ProcessVisibility::Host] {
        let world = World::new();
        let spare = world.block(world.rt().prepare_sandbox()).unwrap().unwrap();
        assert_eq!(run(&world, processes).id, spare.id);
        let app = world.shell("app", 0, "exec sleep 1010");
        world.start(&app);
        let first = exec(&world, &app.key, "cat /proc/1/comm");
        let own = fs::read_to_string("/proc/1/comm").unwrap();
        assert_eq!(
            first,
            if processes == ProcessVisibility::Pod { "pause\n".to_owned() } else { own }
        );
    }
}

#[test]
fn another_agent_goes_on_in_the_same_namespace() {
    for processes in [ProcessVisibility::Pod, ProcessVisibility::Host] {
        let mut world = sandbox(processes);
        let app = world.shell("app", 0, "exec sleep 1011");
        world.start(&app);
        let before = world.snapshot();
        world.reopen();
        assert_eq!(world.snapshot(), before);
        let later = world.shell("later", 0, "readlink /proc/self/ns/pid");
        let theirs = exec(&world, &app.key, "readlink /proc/self/ns/pid");
        assert_eq!(world.output(&later), theirs);
    }
}
