//! Sandboxes made ahead of need: what a pod gets is the same as one made for it (promise P4), and
//! none outlives its use (P1).

use std::os::fd::OwnedFd;

use rekindle_runtime::*;
use rustix::event::{PollFd, PollFlags};
use rustix::process::{Pid, PidfdFlags, Signal, pidfd_open, pidfd_send_signal};

use crate::world::{World, sandbox_spec};

fn prepare(world: &World) -> Option<SandboxInfo> {
    world.block(world.rt().prepare_sandbox()).unwrap()
}

/// The usual sandbox, with the size of /dev/shm that those made ahead have.
fn usual(world: &World, attempt: u32) -> SandboxSpec {
    let mut spec = sandbox_spec(world.sandbox_attempt(attempt));
    spec.shm_bytes = 64 << 20;
    spec
}

fn pidfd(pid: u32) -> OwnedFd {
    pidfd_open(Pid::from_raw(pid.cast_signed()).unwrap(), PidfdFlags::empty()).unwrap()
}

fn wait_for_end(pidfd: &OwnedFd) {
    rustix::event::poll(&mut [PollFd::new(pidfd, PollFlags::IN)], None).unwrap();
}

#[test]
fn a_pod_takes_a_sandbox_that_was_made_ahead() {
    let world = World::new();
    let spare = prepare(&world).unwrap();
    let other = prepare(&world).unwrap();
    assert_eq!(prepare(&world), None, "two are enough");
    assert!(world.block(world.rt().snapshot()).unwrap().is_empty(), "they are no pod's");
    let first = world.block(world.rt().run_sandbox(&usual(&world, 0))).unwrap();
    let second = world.block(world.rt().run_sandbox(&usual(&world, 1))).unwrap();
    let third = world.block(world.rt().run_sandbox(&usual(&world, 2))).unwrap();
    let mut made = [&spare, &other];
    made.sort_by_key(|info| info.pid);
    let mut taken = [&first, &second];
    taken.sort_by_key(|info| info.pid);
    assert_eq!(made, taken);
    assert!(third != first && third != second, "none was left for the third");
    assert_eq!(world.rt().sandbox_id(&world.sandbox()), Some(first.id.clone()));
    assert_eq!(world.block(world.rt().run_sandbox(&usual(&world, 0))).unwrap(), first);
    assert!(prepare(&world).is_some(), "there is room again");
}

#[test]
fn a_pod_cannot_tell_how_its_sandbox_was_made() {
    let world = World::new();
    let show = "grep -E '^(Uid|Gid|Groups|Cap|NoNewPrivs|Seccomp)' /proc/self/status; hostname; \
                cat /proc/sys/net/ipv4/ip_unprivileged_port_start /proc/sys/net/core/somaxconn \
                /proc/sys/net/ipv4/ping_group_range; cut -d' ' -f4- /proc/self/mountinfo | \
                sed 's/[^ ]*rekindle-test[^ ]*//g; s/shared:[0-9]* //g'; ls -l /proc/self/fd | wc -l; \
                df /dev/shm | tail -n 1; sed 's/.*://' /proc/self/cgroup; ls /sys/class/net";
    let mut shown = Vec::new();
    for attempt in [0, 1] {
        if attempt == 1 {
            prepare(&world).unwrap();
        }
        let mut spec = usual(&world, attempt);
        spec.sysctls = [("net.core.somaxconn".to_owned(), "777".to_owned())].into();
        world.block(world.rt().run_sandbox(&spec)).unwrap();
        let mut container = world.shell("web", 0, show);
        container.key.sandbox = spec.key;
        container.log_path = world.path("logs").join(format!("{attempt}.log"));
        shown.push(world.output(&container));
    }
    assert!(shown[0].contains("web-0\n0\n777\n"), "{}", shown[0]);
    assert_eq!(shown[0], shown[1]);
}

#[test]
fn another_agent_ends_what_was_made_ahead_and_keeps_what_a_pod_took() {
    let mut world = World::new();
    prepare(&world).unwrap();
    let taken = world.block(world.rt().run_sandbox(&usual(&world, 0))).unwrap();
    let started = world.start(&world.shell("web", 0, "sleep 100"));
    let spare = pidfd(prepare(&world).unwrap().pid);
    let before = world.snapshot();
    world.reopen();
    wait_for_end(&spare);
    assert_eq!(world.snapshot(), before);
    assert_eq!(before.info, Some(taken));
    let again = world.block(world.rt().start_container(&before.containers[0].key)).unwrap();
    assert_eq!(again, started);
    world.block(world.rt().remove_sandbox(&world.sandbox())).unwrap();
    world.block(world.rt().settled());
    assert_eq!(std::fs::read_dir(world.path("data/sandboxes")).unwrap().count(), 0);
    assert_eq!(std::fs::read_dir(world.path("run")).unwrap().count(), 0);
}

#[test]
fn a_dead_one_is_passed_over() {
    let world = World::new();
    let spare = prepare(&world).unwrap();
    let shim = pidfd(spare.pid);
    pidfd_send_signal(&shim, Signal::KILL).unwrap();
    wait_for_end(&shim);
    let info = world.block(world.rt().run_sandbox(&usual(&world, 0))).unwrap();
    assert_ne!(info.pid, spare.pid);
    assert_eq!(world.run(&world.shell("web", 0, "exit 4")).status.code(), 4);
}

#[test]
fn a_pod_that_needs_another_size_of_shared_memory_gets_one_of_its_own() {
    let world = World::new();
    let spare = prepare(&world).unwrap();
    let info = world.run_sandbox();
    assert_ne!(info.pid, spare.pid);
    let output = world.output(&world.shell("web", 0, "df -k /dev/shm | tail -n 1"));
    assert!(output.contains(" 16384 "), "{output}");
}

#[test]
fn an_agent_that_ends_for_good_leaves_none() {
    let world = World::new();
    let shim = pidfd(prepare(&world).unwrap().pid);
    world.block(world.rt().end_prepared());
    wait_for_end(&shim);
    // a call that was under way at that time
    assert_eq!(world.block(world.rt().prepare_sandbox()).unwrap(), None);
    assert_eq!(std::fs::read_dir(world.path("data/sandboxes")).unwrap().count(), 0);
    assert_eq!(std::fs::read_dir(world.path("run")).unwrap().count(), 0);
}
