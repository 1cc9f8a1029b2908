//! What a container may do, and that it may do the same at every start: promise P4. On real
//! namespaces.

use std::fs;
use std::path::Path;

use rekindle_runtime::*;

use crate::world::{self, World};

/// All that makes up a process' privileges, as the process sees it.
const SHOW_PRIVILEGES: &str = "grep -E '^(Uid|Gid|Groups|Cap...|NoNewPrivs|Seccomp|Seccomp_filters):' /proc/self/status; \
    cut -d' ' -f4- /proc/self/mountinfo | sed -E 's/[0-9a-f]{24}|web-[0-9]+|size=[0-9]+k|shared:[0-9]+//g'; \
    cat /proc/self/limits /proc/self/oom_score_adj /proc/self/cgroup; readlink /proc/self/fd/* | sed 's/[0-9]*//g'; ls /dev; umask";

fn status_line(output: &str, name: &str) -> String {
    let line = output.lines().find_map(|line| line.strip_prefix(name)).unwrap_or_else(|| {
        panic!("no {name} in {output}");
    });
    line.split_whitespace().collect::<Vec<_>>().join(" ")
}

#[test]
fn privileges_are_the_same_at_every_attempt() {
    let own = SandboxUsers::Own(UserRange { first: 1 << 30, length: 65_536 });
    for users in [SandboxUsers::Host, own] {
        privileges_stay(users);
    }
}

fn privileges_stay(users: SandboxUsers) {
    let world = World::new();
    let mut sandbox = world::sandbox_spec(world.sandbox());
    sandbox.namespaces.users = users;
    world.block(world.rt().run_sandbox(&sandbox)).unwrap();
    let snapshot = |attempt| {
        let mut spec = world.shell("web", attempt, SHOW_PRIVILEGES);
        spec.security.run_as_user = Some(1234);
        spec.security.run_as_group = Some(1235);
        spec.security.supplemental_groups = vec![77, 1236];
        spec.security.allow_privilege_escalation = false;
        spec.security.drop_capabilities = vec!["NET_RAW".to_owned()];
        spec.resources.memory_limit_bytes = Some(64 * 1024 * 1024);
        spec.resources.pids_limit = Some(50);
        world.output(&spec)
    };
    let first = snapshot(0);
    for (name, value) in [
        ("Uid:", "1234 1234 1234 1234"),
        ("Gid:", "1235 1235 1235 1235"),
        ("Groups:", "77 1235 1236"),
        ("CapEff:", "0000000000000000"),
        ("CapPrm:", "0000000000000000"),
        ("CapInh:", "0000000000000000"),
        ("CapAmb:", "0000000000000000"),
        ("CapBnd:", "00000000a80405fb"),
        ("NoNewPrivs:", "1"),
        ("Seccomp:", "2"),
    ] {
        assert_eq!(status_line(&first, name), value, "{name}");
    }
    for attempt in 1..=3 {
        assert_eq!(snapshot(attempt), first, "attempt {attempt}");
    }
}

/// Below the agent's score only with CAP_SYS_RESOURCE, which not every machine gives its root.
#[test]
fn who_the_kernel_ends_first_is_said_by_the_spec_and_not_by_the_container() {
    let status = fs::read_to_string("/proc/self/status").unwrap();
    let capabilities = status_line(&status, "CapEff:");
    let may_lower = u64::from_str_radix(&capabilities, 16).unwrap() & 1 << 24 != 0;
    let score_of = |process: &str| -> i32 {
        let text = fs::read_to_string(format!("/proc/{process}/oom_score_adj")).unwrap();
        text.trim().parse().unwrap()
    };
    let agents = score_of("self");
    let expected = |score: i32| if may_lower { score } else { score.max(agents) };
    for users in
        [SandboxUsers::Host, SandboxUsers::Own(UserRange { first: 1 << 30, length: 65_536 })]
    {
        let world = World::new();
        let mut sandbox = world::sandbox_spec(world.sandbox());
        sandbox.namespaces.users = users;
        let shim = world.block(world.rt().run_sandbox(&sandbox)).unwrap().pid;
        assert_eq!(score_of(&shim.to_string()), expected(-998), "what is in it goes with it");
        for (attempt, score) in (0..).zip([1000, 500, 0, -997]) {
            let mut spec = world.shell("web", attempt, "exec sleep 1000");
            spec.oom_score_adj = score;
            let own = score_of(&world.start(&spec).pid.to_string());
            assert_eq!(own, expected(score), "{users:?}");
            let lower = if may_lower { own } else { agents } - 1;
            let script = format!(
                "cat /proc/self/oom_score_adj; echo {lower} > /proc/self/oom_score_adj || echo refused"
            );
            let (_, said) = world.exec(&spec.key, &script);
            let begins = said.starts_with(&format!("{own}\n"));
            assert!(begins && said.ends_with("refused\n"), "{users:?}: {said}");
            world.block(world.rt().signal_container(&spec.key, StopSignal::Kill)).unwrap();
            world.next_exit();
        }
    }
}

#[test]
fn root_in_a_container_has_the_default_set_and_no_more() {
    let world = World::new();
    world.run_sandbox();
    let status = world.output(&world.shell("web", 0, "cat /proc/self/status"));
    for name in ["CapBnd:", "CapPrm:", "CapEff:"] {
        assert_eq!(status_line(&status, name), "00000000a80425fb", "{name}");
    }
    assert_eq!(status_line(&status, "CapInh:"), "0000000000000000");
    assert_eq!(status_line(&status, "NoNewPrivs:"), "0");
    assert_eq!(status_line(&status, "Seccomp:"), "2");
    let mut spec = world.shell("web", 1, "cat /proc/self/status");
    spec.security.drop_capabilities = vec!["ALL".to_owned()];
    spec.security.add_capabilities = vec!["NET_BIND_SERVICE".to_owned()];
    assert_eq!(status_line(&world.output(&spec), "CapEff:"), "0000000000000400");
}

#[test]
fn run_as_non_root_refuses_a_root_image_at_every_attempt() {
    let world = World::new();
    world.run_sandbox();
    for attempt in 0..2 {
        let mut spec = world.shell("web", attempt, "true");
        spec.security.run_as_non_root = true;
        match world.block(world.rt().create_container(&spec)).unwrap_err() {
            RuntimeError::Config { problem, .. } => {
                assert_eq!(problem, "container has runAsNonRoot and image will run as root");
            }
            error => panic!("{}", error.chain()),
        }
        assert_eq!(world.state_of(&spec.key), None);
    }
    let mut spec = world.shell("web", 2, "id -u");
    spec.security.run_as_non_root = true;
    spec.security.run_as_user = Some(65534);
    assert_eq!(world.output(&spec), "65534\n");
}

#[test]
fn what_leads_out_of_a_container_fails() {
    let world = World::new();
    world.run_sandbox();
    let attempts = [
        "mount -t tmpfs x /mnt",
        "unshare -m true",
        "unshare -U true",
        "mknod /tmp/rekindle-disk b 1 0 && head -c 1 /tmp/rekindle-disk",
        "mknod /dev/ram-x b 1 0 && head -c 1 /dev/ram-x",
        "echo 1 > /proc/sys/kernel/panic",
        "echo b > /proc/sysrq-trigger",
        "echo core > /proc/sys/kernel/core_pattern",
        "test -n \"$(cat /proc/kcore | head -c 1)\"",
        "test -n \"$(cat /proc/timer_list /proc/keys)\"",
        "ls /sys/firmware | grep .",
        "mkdir /sys/fs/cgroup/x",
        "echo 1 > /sys/kernel/mm/ksm/run",
        "hostname changed",
        "chroot /proc/1/root/../../../.. test -e /sys/fs/cgroup/memory",
        "cat /etc/shadow | grep .",
        "dmesg",
        "kill -9 $(($$ + 100000))",
    ];
    for (attempt, script) in attempts.iter().enumerate() {
        let spec = world.shell("web", u32::try_from(attempt).unwrap(), script);
        let exit = world.run(&spec);
        assert_ne!(exit.status.code(), 0, "{script}: {}", world::read_log(&spec.log_path));
    }
}

#[test]
fn who_may_mount_still_opens_no_device_of_the_host() {
    let world = World::new();
    world.run_sandbox();
    // the kernel's own file systems have the host's device nodes
    let with = |attempt: u32, script: &str| {
        let mut spec = world.shell("web", attempt, script);
        spec.security.add_capabilities = vec!["SYS_ADMIN".to_owned(), "MKNOD".to_owned()];
        spec
    };
    let works = "mount -t tmpfs x /mnt && mknod /mnt/zero c 1 5 && head -c 4 /mnt/zero | wc -c && \
                 head -c 4 /dev/urandom | wc -c && echo x > /dev/null && mknod /mnt/disk b 1 0";
    assert_eq!(world.output(&with(0, works)), "4\n4\n");
    // none that a driver refuses by itself for want of another capability
    let opened = [
        ("mount -t tmpfs x /mnt && mknod /mnt/disk b 1 0", "head -c 1 /mnt/disk"),
        ("mount -t tmpfs x /mnt && mknod /mnt/autofs c 10 235", "head -c 1 /mnt/autofs"),
        ("mount -t devtmpfs x /mnt && disk=$(find /mnt -type b | head -n 1)", "head -c 1 $disk"),
    ];
    for (attempt, (mount, open)) in (1..).zip(opened) {
        let spec = with(attempt, &format!("{mount} && echo mounted && {open}"));
        ends_when_mounted(&world, &spec, "not permitted");
    }
}

/// That a script comes as far as to say that it has mounted something, and no further.
fn ends_when_mounted(world: &World, spec: &ContainerSpec, why: &str) {
    let exit = world.run(spec);
    let said = world::read_log(&spec.log_path);
    let script = spec.command.join(" ");
    assert_ne!(exit.status.code(), 0, "{script}: {said}");
    // two pipes: a shim that wakes late cannot tell which was written to first
    assert!(said.contains("mounted\n"), "{script}: {said}");
    assert!(said.to_lowercase().contains(why), "{script}: {said}");
}

#[test]
fn who_may_mount_among_users_of_its_own_makes_no_device() {
    let world = World::new();
    let mut sandbox = world::sandbox_spec(world.sandbox());
    sandbox.namespaces.users = SandboxUsers::Own(UserRange { first: 1 << 30, length: 65_536 });
    world.block(world.rt().run_sandbox(&sandbox)).unwrap();
    let made = [
        ("mount -t tmpfs x /mnt && echo mounted && mknod /mnt/disk b 1 0", "not permitted"),
        ("mount -t tmpfs x /mnt && echo mounted && mount -t devtmpfs x /mnt", "permission denied"),
    ];
    for (attempt, (script, why)) in (0..).zip(made) {
        let mut spec = world.shell("web", attempt, script);
        spec.security.add_capabilities = vec!["SYS_ADMIN".to_owned(), "MKNOD".to_owned()];
        ends_when_mounted(&world, &spec, why);
    }
}

#[test]
fn devices_work_where_they_should() {
    let world = World::new();
    world.run_sandbox();
    let script = "echo x > /dev/null && head -c 4 /dev/zero | wc -c && head -c 4 /dev/urandom | wc -c && \
                  test -c /dev/tty && test -d /dev/pts && test -d /dev/mqueue && chmod 600 /dev/null && \
                  echo to stderr > /dev/stderr && touch /dev/made && ls /dev | tr '\\n' ' '";
    let output = world.output(&world.shell("web", 0, script));
    // two pipes: a shim that wakes late cannot tell which was written to first
    assert!(output.contains("to stderr\n"), "{output}");
    assert_eq!(
        output.replace("to stderr\n", ""),
        "4\n4\nfd full made mqueue null ptmx pts random shm stderr stdin stdout tty urandom zero "
    );
    use std::os::unix::fs::PermissionsExt;
    let host = fs::metadata("/dev/null").unwrap().permissions().mode();
    assert_eq!(host & 0o777, 0o666, "the host's device is another one");
    // Not only root may open its output again.
    let mut spec = world.shell("web", 1, "echo out > /dev/stdout && echo err > /dev/stderr");
    spec.security.run_as_user = Some(1234);
    assert_eq!(world.output(&spec), "out\nerr\n");
}

#[test]
fn a_container_is_in_all_its_cgroups_and_sees_each_as_a_root() {
    let world = World::new();
    world.run_sandbox();
    let spec = world.shell("web", 0, "exec sleep 100");
    let pid = world.start(&spec).pid;
    let outside = fs::read_to_string(format!("/proc/{pid}/cgroup")).unwrap();
    let own = format!("/rekindle/{}/", world.engine_id);
    let (in_own, others): (Vec<&str>, Vec<&str>) =
        outside.lines().partition(|line| line.contains(&own));
    assert!(!in_own.is_empty(), "{outside}");
    for line in others {
        let mut controllers = line.split(':').nth(1).unwrap().split(',');
        let limits = |controller| ["cpu", "cpuacct", "memory", "pids"].contains(&controller);
        assert!(!controllers.any(limits), "{line}");
    }
    let inside = world.run(&world.shell("other", 0, "! grep -v ':/$' /proc/self/cgroup"));
    assert_eq!(inside.status.code(), 0, "a line does not end with its root");
}

#[test]
fn a_read_only_root_is_read_only_and_its_volumes_are_not() {
    let world = World::new();
    world.run_sandbox();
    fs::create_dir_all(world.path("vol")).unwrap();
    let mut spec = world.shell(
        "web",
        0,
        "touch /x; touch /etc/x; touch /vol/ok && touch /dev/shm/ok && echo done",
    );
    spec.security.read_only_root = true;
    spec.mounts.push(Mount {
        source: MountSource::Host(world.path("vol")),
        sub_path: None,
        destination: "/vol".into(),
        access: MountAccess::ReadWrite,
        options: MountOptions::default(),
    });
    let output = world.output(&spec);
    assert!(output.ends_with("done\n") && output.contains("Read-only file system"), "{output}");
    assert!(world.path("vol/ok").exists());
}

#[test]
fn a_read_only_volume_cannot_be_written() {
    let world = World::new();
    world.run_sandbox();
    fs::create_dir_all(world.path("vol")).unwrap();
    fs::write(world.path("vol/file"), "content").unwrap();
    let script = "exec 2>&1; cat /vol/file; echo; touch /vol/x && echo written; cat /one";
    let mut spec = world.shell("web", 0, script);
    let mount = |source: &str, destination: &str| Mount {
        source: MountSource::Host(world.path(source)),
        sub_path: None,
        destination: destination.into(),
        access: MountAccess::ReadOnly,
        options: MountOptions::default(),
    };
    spec.mounts = vec![mount("vol", "/vol"), mount("vol/file", "/one")];
    let output = world.output(&spec);
    assert!(output.starts_with("content\n") && output.ends_with("content"), "{output}");
    assert!(!output.contains("written") && !world.path("vol/x").exists(), "{output}");
}

#[test]
fn privileged_containers_may_do_what_others_may_not() {
    let world = World::new();
    world.run_sandbox();
    let script = "mount -t tmpfs x /mnt && grep -E '^(CapEff|Seccomp):' /proc/self/status";
    let mut spec = world.shell("web", 0, script);
    spec.security.privileged = true;
    let output = world.output(&spec);
    assert_eq!(status_line(&output, "Seccomp:"), "0");
    assert!(!Path::new("/mnt").read_dir().unwrap().any(|e| e.unwrap().file_name() == "x"));
}

#[test]
fn unknown_capabilities_are_told_by_name() {
    let world = World::new();
    world.run_sandbox();
    let mut spec = world.shell("web", 0, "true");
    spec.security.add_capabilities = vec!["SYS_MAGIC".to_owned()];
    let error = world.block(world.rt().create_container(&spec)).unwrap_err();
    assert!(
        matches!(&error, RuntimeError::Config { problem, .. } if problem.contains("SYS_MAGIC"))
    );
}

#[test]
fn the_shim_cannot_be_overwritten_by_anybody() {
    let world = World::new();
    let info = world.run_sandbox();
    let exe = fs::File::open(format!("/proc/{}/exe", info.pid)).unwrap();
    let seals = rustix::fs::fcntl_get_seals(&exe).unwrap();
    let needed = rustix::fs::SealFlags::WRITE
        | rustix::fs::SealFlags::GROW
        | rustix::fs::SealFlags::SHRINK
        | rustix::fs::SealFlags::SEAL;
    assert!(seals.contains(needed), "{seals:?}");
    // CVE-2019-5736: the command leads back to the program that is starting it.
    let mut spec = world.spec("web", 0);
    spec.command = vec!["/proc/self/exe".to_owned()];
    world.block(world.rt().create_container(&spec)).unwrap();
    if world.block(world.rt().start_container(&spec.key)).is_ok() {
        let exit = world.next_exit().1;
        assert_ne!(exit.status.code(), 0, "a shim without its files does nothing");
    }
    assert_eq!(world.run(&world.shell("web", 1, "exit 3")).status.code(), 3);
}

#[test]
fn no_descriptor_is_left_open_and_none_leads_out() {
    let world = World::new();
    world.run_sandbox();
    let output = world.output(&world.shell("web", 0, "exec ls -l /proc/self/fd"));
    let open: Vec<&str> = output.lines().filter(|line| line.contains(" -> ")).collect();
    assert_eq!(open.len(), 4, "null, two pipes, and the listing's own: {output}");
    for fd in 3..40 {
        let mut spec = world.shell("web", fd, "cat ../../../../../../etc/shadow");
        spec.working_dir = Some(format!("/proc/self/fd/{fd}"));
        world.block(world.rt().create_container(&spec)).unwrap();
        let error = world.block(world.rt().start_container(&spec.key)).unwrap_err();
        assert!(matches!(error, RuntimeError::Start { .. }), "{}", error.chain());
    }
}
