//! Sandboxes that share the host's network or IPC namespace: nothing else is shared, and nothing of
//! the host's is set.

use std::collections::BTreeMap;
use std::fs;

use rekindle_runtime::*;

use crate::world::{World, sandbox_spec};

const NONE: Namespaces = Namespaces {
    network: NamespaceOwner::Own,
    ipc: NamespaceOwner::Own,
    processes: ProcessVisibility::Container,
    users: SandboxUsers::Host,
};
const NETWORK: Namespaces = Namespaces { network: NamespaceOwner::Host, ..NONE };
const IPC: Namespaces = Namespaces { ipc: NamespaceOwner::Host, ..NONE };
const PROCESSES: Namespaces = Namespaces { processes: ProcessVisibility::Host, ..NONE };
const KINDS: [&str; 5] = ["net", "ipc", "uts", "pid", "mnt"];

fn spec(world: &World, namespaces: Namespaces) -> SandboxSpec {
    // The usual size: only the namespaces keep a sandbox made ahead from being taken.
    SandboxSpec { namespaces, shm_bytes: 64 << 20, ..sandbox_spec(world.sandbox()) }
}

/// The kinds of namespace that a container in such a sandbox has in common with this process.
fn shared(world: &World, namespaces: Namespaces) -> Vec<&'static str> {
    world.block(world.rt().run_sandbox(&spec(world, namespaces))).unwrap();
    let script = KINDS.map(|kind| format!("readlink /proc/self/ns/{kind};")).concat();
    let output = world.output(&world.shell("look", 0, &script));
    let ours = KINDS.map(|kind| fs::read_link(format!("/proc/self/ns/{kind}")).unwrap());
    assert_eq!(output.lines().count(), KINDS.len(), "{output}");
    let pairs = KINDS.into_iter().zip(ours).zip(output.lines());
    pairs
        .filter(|((_, ours), theirs)| ours.as_os_str() == *theirs)
        .map(|((kind, _), _)| kind)
        .collect()
}

#[test]
fn only_what_is_asked_for_is_shared() {
    for (namespaces, expected) in [
        (NONE, &[][..]),
        (NETWORK, &["net"]),
        (IPC, &["ipc"]),
        (PROCESSES, &["pid"]),
        (Namespaces { processes: ProcessVisibility::Pod, ..NONE }, &[]),
        (
            Namespaces { network: NamespaceOwner::Host, ipc: NamespaceOwner::Host, ..PROCESSES },
            &["net", "ipc", "pid"],
        ),
    ] {
        assert_eq!(shared(&World::new(), namespaces), expected, "{namespaces:?}");
    }
}

#[test]
fn the_hosts_network_settings_are_seen_and_left_alone() {
    let settings = ["ip_unprivileged_port_start", "ping_group_range"];
    let paths = settings.map(|name| format!("/proc/sys/net/ipv4/{name}"));
    let read = || paths.each_ref().map(|path| fs::read_to_string(path).unwrap()).concat();
    let before = read();
    let world = World::new();
    world.block(world.rt().run_sandbox(&spec(&world, NETWORK))).unwrap();
    let output = world.output(&world.shell("look", 0, &format!("cat {}", paths.join(" "))));
    assert_eq!(output, before);
    assert_eq!(read(), before);
}

#[test]
fn the_name_inside_is_the_sandboxs_and_the_hosts_stays() {
    let before = rustix::system::uname().nodename().to_owned();
    let world = World::new();
    world.block(world.rt().run_sandbox(&spec(&world, NETWORK))).unwrap();
    assert_eq!(world.output(&world.shell("look", 0, "hostname")), "web-0\n");
    assert_eq!(rustix::system::uname().nodename(), before.as_c_str());
}

#[test]
fn a_setting_of_a_shared_namespace_is_refused() {
    for (namespaces, name) in [
        (NETWORK, "net.core.somaxconn"),
        (IPC, "kernel.shm_rmid_forced"),
        (IPC, "fs.mqueue.msg_max"),
        (NETWORK, "vm.swappiness"),
    ] {
        let world = World::new();
        let mut spec = spec(&world, namespaces);
        spec.sysctls = BTreeMap::from([(name.to_owned(), "1".to_owned())]);
        let error = world.block(world.rt().run_sandbox(&spec)).unwrap_err().chain();
        assert!(error.contains("is the whole machine's"), "{name}: {error}");
        assert!(world.block(world.rt().snapshot()).unwrap().is_empty(), "nothing is left of it");
    }
}

#[test]
fn a_setting_of_a_namespace_of_its_own_is_still_taken() {
    let world = World::new();
    let mut spec = spec(&world, IPC);
    spec.sysctls = BTreeMap::from([("net.core.somaxconn".to_owned(), "777".to_owned())]);
    world.block(world.rt().run_sandbox(&spec)).unwrap();
    let output = world.output(&world.shell(
        "look",
        0,
        "cat /proc/sys/net/core/somaxconn /proc/sys/net/ipv4/ip_unprivileged_port_start",
    ));
    assert_eq!(output, "777\n0\n");
}

#[test]
fn shared_memory_goes_with_the_ipc_namespace() {
    let file = tempfile::Builder::new().prefix("rekindle-").tempfile_in("/dev/shm").unwrap();
    fs::write(file.path(), "from the host\n").unwrap();
    let path = file.path().display();
    let script = format!(
        "cat {path} && echo 'from the pod' >> {path}; grep ' /dev/shm ' /proc/self/mountinfo | cut -d' ' -f6"
    );
    let world = World::new();
    world.block(world.rt().run_sandbox(&spec(&world, IPC))).unwrap();
    let output = world.output(&world.shell("look", 0, &script));
    assert!(output.starts_with("from the host\nrw,nosuid,nodev,noexec"), "{output}");
    assert_eq!(fs::read_to_string(file.path()).unwrap(), "from the host\nfrom the pod\n");
    world.block(world.rt().remove_sandbox(&world.sandbox())).unwrap();
    assert!(file.path().exists(), "the host's shared memory outlives the sandbox");

    let world = World::new();
    world.block(world.rt().run_sandbox(&spec(&world, NETWORK))).unwrap();
    let output = world.output(&world.shell("look", 0, &format!("ls {path} || echo none")));
    assert!(output.ends_with("none\n"), "{output}");
}

#[test]
fn a_sandbox_that_was_made_ahead_is_not_taken_for_it() {
    let world = World::new();
    let spare = world.block(world.rt().prepare_sandbox()).unwrap().unwrap();
    for (attempt, namespaces) in [(0, NETWORK), (1, IPC)] {
        let mut spec = spec(&world, namespaces);
        spec.key = world.sandbox_attempt(attempt);
        let info = world.block(world.rt().run_sandbox(&spec)).unwrap();
        assert_ne!(info.id, spare.id);
        assert_eq!(info.namespaces, namespaces);
    }
}

#[test]
fn another_agent_knows_what_is_shared() {
    let mut world = World::new();
    let info = world.block(world.rt().run_sandbox(&spec(&world, NETWORK))).unwrap();
    let running = world.shell("running", 0, "sleep 100");
    world.start(&running);
    let before = world.snapshot();
    world.reopen();
    assert_eq!(world.snapshot(), before);
    assert_eq!(before.info, Some(info.clone()));
    assert_eq!(info.namespaces, NETWORK);
}
