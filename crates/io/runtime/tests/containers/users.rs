//! Sandboxes with users of their own (`hostUsers: false`): what they can do inside, and cannot
//! outside. On real namespaces.

use std::fs;
use std::os::unix::fs::{MetadataExt, PermissionsExt, chown};
use std::path::Path;
use std::process::Command;

use rekindle_runtime::*;

use crate::world::{self, World, sandbox_spec};

const LENGTH: u32 = 65_536;
/// Ranges that nobody has, one for each sandbox of a test.
const FIRST: u32 = 1_500_000_000 / LENGTH * LENGTH;

fn range(number: u32) -> UserRange {
    UserRange { first: FIRST + number * LENGTH, length: LENGTH }
}

fn spec(world: &World, attempt: u32, range: UserRange) -> SandboxSpec {
    let mut spec = sandbox_spec(world.sandbox_attempt(attempt));
    spec.namespaces.users = SandboxUsers::Own(range);
    spec
}

fn set_up(world: &World) -> SandboxInfo {
    world.block(world.rt().run_sandbox(&spec(world, 0, range(0)))).unwrap()
}

fn world() -> World {
    let world = World::new();
    set_up(&world);
    world
}

fn volume(world: &World, name: &str, destination: &str) -> Mount {
    Mount {
        source: MountSource::Host(world.path(name)),
        sub_path: None,
        destination: destination.into(),
        access: MountAccess::ReadWrite,
        options: MountOptions::default(),
    }
}

/// The ids of a process of the host: real user and group.
fn ids_of(pid: u32) -> (u32, u32) {
    let meta = fs::read_to_string(format!("/proc/{pid}/status")).unwrap();
    let id = |name: &str| {
        let line = meta.lines().find_map(|line| line.strip_prefix(name)).unwrap();
        line.split_whitespace().next().unwrap().parse().unwrap()
    };
    (id("Uid:"), id("Gid:"))
}

#[test]
fn root_inside_is_the_ranges_first_id_outside_and_the_others_follow_it() {
    let world = world();
    let map = "cat /proc/self/uid_map /proc/self/gid_map | tr -s ' '; id -u; id -g; echo $$";
    let output = world.output(&world.shell("web", 0, map));
    let line = format!(" 0 {FIRST} {LENGTH}\n");
    assert_eq!(output, format!("{line}{line}0\n0\n1\n"));
    let root = world.start(&world.shell("root", 0, "exec sleep 1000")).pid;
    assert_eq!(ids_of(root), (FIRST, FIRST));
    let mut user = world.shell("user", 0, "exec sleep 1000");
    user.security.run_as_user = Some(1000);
    user.security.run_as_group = Some(1001);
    user.security.supplemental_groups = vec![77];
    assert_eq!(ids_of(world.start(&user).pid), (FIRST + 1000, FIRST + 1001));
    assert_eq!(world.exec(&user.key, "id -G").1, "1001 77\n", "and so is who joins it");
}

#[test]
fn ids_that_the_pod_does_not_have_are_refused_by_name() {
    let world = world();
    for (number, change) in [
        (
            0,
            Box::new(|s: &mut Security| s.run_as_user = Some(LENGTH)) as Box<dyn Fn(&mut Security)>,
        ),
        (1, Box::new(|s: &mut Security| s.run_as_group = Some(LENGTH))),
        (2, Box::new(|s: &mut Security| s.supplemental_groups = vec![LENGTH])),
    ] {
        let mut spec = world.shell("web", number, "true");
        change(&mut spec.security);
        match world.block(world.rt().create_container(&spec)).unwrap_err() {
            RuntimeError::Config { problem, .. } => assert!(problem.contains("65536"), "{problem}"),
            error => panic!("{}", error.chain()),
        }
        assert_eq!(world.state_of(&spec.key), None, "nothing is left of it");
    }
    let mut spec = world.shell("web", 9, "id -u");
    spec.security.run_as_user = Some(LENGTH - 1);
    assert_eq!(world.output(&spec), "65535\n");
}

/// What root of a namespace may do to it, with all capabilities: each shows whose the namespace is.
#[test]
fn every_namespace_belongs_to_the_users() {
    let world = world();
    for (number, script) in [
        "mount -t tmpfs x /mnt",
        "hostname changed && test $(hostname) = changed",
        "ip link set lo down",
        "echo 9001 > /proc/sys/kernel/msgmax",
        "mount -t proc x /mnt && test -e /mnt/1",
        "unshare --cgroup --mount --pid --fork true",
        "echo 5 > /proc/self/oom_score_adj",
        "setpriv --reuid 3000 --regid 3000 --clear-groups id -u | grep -x 3000",
    ]
    .into_iter()
    .enumerate()
    {
        let mut spec = world.shell("web", u32::try_from(number).unwrap(), script);
        spec.security.privileged = true;
        let exit = world.run(&spec);
        assert_eq!(exit.status.code(), 0, "{script}: {}", world::read_log(&spec.log_path));
    }
}

#[test]
fn all_capabilities_inside_reach_nothing_outside() {
    let world = world();
    let marker = tempfile::Builder::new().prefix("rekindle-").tempfile_in("/dev/shm").unwrap();
    let panic = fs::read_to_string("/proc/sys/kernel/panic").unwrap();
    let mut attempts = [
        // the disks and devices of the host
        "disk=$(ls /dev/vd[a-z] /dev/sd[a-z] /dev/nvme?n? /dev/loop0 2>/dev/null | head -1); \
         head -c 1 ${disk:-/dev/none} || mount ${disk:-/dev/none} /mnt",
        "mknod /tmp/rekindle-disk b 254 0 && head -c 1 /tmp/rekindle-disk",
        "head -c 1 /dev/kmsg",
        "test -n \"$(head -c 1 /dev/mem)\"",
        // its settings
        "echo 7 > /proc/sys/kernel/panic",
        "echo x > /proc/sys/kernel/core_pattern",
        "echo h > /proc/sysrq-trigger",
        "echo 1 > /sys/kernel/mm/ksm/run",
        "sysctl -w vm.swappiness=1",
        "date -s 10:00",
        "dmesg",
        // its namespaces
        "nsenter -t 1 -n -m true && test \"$(readlink /proc/1/ns/net)\" != \"$(readlink /proc/self/ns/net)\"",
        "kill -0 $(($$ + 1000000))",
        // what the host keeps to itself in the image
        "cat /etc/shadow | grep .",
        "umount /etc/shadow && grep . /etc/shadow",
        // more than it has
        "setpriv --reuid 70000 true",
        "echo '0 0 1' > /proc/self/uid_map",
        "test \"$(cat /proc/1/oom_score_adj)\" != 0",
        // its shared memory
        "ls /dev/shm/rekindle-*",
    ]
    .map(str::to_owned)
    .to_vec();
    attempts.push(format!("rm {}", marker.path().display()));
    for (number, script) in attempts.iter().enumerate() {
        let mut spec = world.shell("web", u32::try_from(number).unwrap(), script);
        spec.security.privileged = true;
        let exit = world.run(&spec);
        assert_ne!(exit.status.code(), 0, "{script}: {}", world::read_log(&spec.log_path));
    }
    assert!(marker.path().exists());
    assert_eq!(fs::read_to_string("/proc/sys/kernel/panic").unwrap(), panic);
}

#[test]
fn masks_and_read_only_mounts_cannot_be_undone_by_root_with_all_capabilities() {
    let world = world();
    fs::create_dir(world.path("vol")).unwrap();
    let undo = "umount /proc/keys; umount /proc/sys; umount /proc; umount /sys/firmware; umount /vol; \
                mount -o remount,rw,bind /proc/sys; mount -o remount,rw,bind /vol; \
                touch /vol/x || echo kept; test -w /proc/sys/kernel/panic || echo masked";
    let mut spec = world.shell("web", 0, undo);
    spec.security.add_capabilities = vec!["ALL".to_owned()];
    spec.security.seccomp = Seccomp::Unconfined;
    spec.mounts.push(Mount { access: MountAccess::ReadOnly, ..volume(&world, "vol", "/vol") });
    let output = world.output(&spec);
    assert!(output.contains("kept\n") && output.contains("masked\n"), "{output}");
    assert!(!world.path("vol/x").exists());
}

#[test]
fn files_of_volumes_belong_to_the_same_ids_on_the_disk_whatever_the_range_is() {
    let world = world();
    fs::create_dir(world.path("vol")).unwrap();
    fs::set_permissions(world.path("vol"), fs::Permissions::from_mode(0o2775)).unwrap();
    chown(world.path("vol"), Some(0), Some(2000)).unwrap();
    fs::write(world.path("vol/given"), "given").unwrap();
    chown(world.path("vol/given"), Some(1000), Some(2000)).unwrap();
    let memory = tempfile::Builder::new().prefix("rekindle-").tempdir_in("/dev/shm").unwrap();
    fs::set_permissions(memory.path(), fs::Permissions::from_mode(0o777)).unwrap();
    let script = "stat -c '%u:%g' /vol /vol/given /memory; touch /vol/made /memory/made /below/made; \
                  chown 5:6 /memory/made; stat -c '%u:%g' /vol/made /memory/made /below";
    let mut spec = world.shell("web", 0, script);
    let in_memory = MountSource::Host(memory.path().to_owned());
    spec.mounts = vec![
        volume(&world, "vol", "/vol"),
        Mount { source: in_memory, ..volume(&world, "", "/memory") },
        Mount { sub_path: Some("a/b".into()), ..volume(&world, "vol", "/below") },
    ];
    assert_eq!(world.output(&spec), "0:2000\n1000:2000\n0:0\n0:2000\n5:6\n0:2000\n");
    let owner = |path: &Path| {
        let meta = fs::metadata(path).unwrap();
        (meta.uid(), meta.gid())
    };
    assert_eq!(owner(&world.path("vol/made")), (0, 2000));
    assert_eq!(owner(&world.path("vol/a/b/made")), (0, 2000));
    assert_eq!(owner(&memory.path().join("made")), (5, 6));

    // another range sees the same
    world.block(world.rt().remove_sandbox(&world.sandbox())).unwrap();
    world.block(world.rt().run_sandbox(&spec_again(&world))).unwrap();
    let mut again = world.shell("web", 1, "stat -c '%u:%g' /vol/made /vol/given; rm /vol/made");
    again.key.sandbox = world.sandbox_attempt(1);
    again.mounts = vec![volume(&world, "vol", "/vol")];
    assert_eq!(world.output(&again), "0:2000\n1000:2000\n");
}

fn spec_again(world: &World) -> SandboxSpec {
    spec(world, 1, range(1))
}

/// On the disk, what a pod keeps to itself is closed to all but the host: to another pod's range by
/// its ids.
#[test]
fn somebody_of_another_range_can_neither_read_its_files_nor_signal_it() {
    let world = world();
    fs::set_permissions(world.dir.path(), fs::Permissions::from_mode(0o755)).unwrap();
    fs::create_dir(world.path("vol")).unwrap();
    let script = "umask 077; echo secret > /vol/mine; echo secret > /dev/shm/mine; exec sleep 1000";
    let mut spec = world.shell("web", 0, script);
    spec.mounts = vec![volume(&world, "vol", "/vol")];
    let pid = world.start(&spec).pid;
    let (exit, _) = world.exec(&spec.key, "until test -s /dev/shm/mine; do :; done");
    assert_eq!(exit, ExecExit::Code(0));
    let others = range(1).first.to_string();
    let as_other = |script: String| {
        let ids = [format!("--reuid={others}"), format!("--regid={others}")];
        let mut command = Command::new("setpriv");
        command.args(ids).args(["--clear-groups", "/bin/sh", "-c", &script]).status().unwrap()
    };
    let mine = world.path("vol/mine");
    assert!(as_other("true".to_owned()).success());
    assert!(!as_other(format!("cat {}", mine.display())).success());
    assert!(!as_other(format!("cat /proc/{pid}/root/dev/shm/mine")).success());
    assert!(!as_other(format!("kill -0 {pid}")).success());
    assert_eq!(fs::read_to_string(mine).unwrap(), "secret\n");
}

#[test]
fn a_file_system_that_cannot_map_ids_is_told_and_nothing_is_left() {
    let world = world();
    let mut spec = world.shell("web", 0, "true");
    let of_kernel = MountSource::Host("/proc/sys".into());
    spec.mounts = vec![Mount { source: of_kernel, ..volume(&world, "", "/vol") }];
    let error = world.block(world.rt().create_container(&spec)).unwrap_err().chain();
    assert!(error.contains("/proc/sys") && error.contains("id-mapped"), "{error}");
    assert_eq!(world.state_of(&spec.key), None);
    assert_eq!(world.output(&world.shell("web", 1, "echo well")), "well\n");
}

#[test]
fn a_limit_too_small_to_start_anything_is_told_and_nothing_is_left() {
    let world = world();
    let mut spec = world.shell("web", 0, "true");
    spec.resources.memory_limit_bytes = Some(64 * 1024);
    let error = world.block(world.rt().create_container(&spec)).unwrap_err().chain();
    // What is told depends on who of those that prepare it comes to the limit, and how.
    let told = ["too small", "killed while it was being prepared", "cannot allocate memory"];
    assert!(told.into_iter().any(|told| error.contains(told)), "{error}");
    assert_eq!(world.state_of(&spec.key), None);
    assert_eq!(world.output(&world.shell("web", 1, "echo well")), "well\n");
}

#[test]
fn processes_are_shared_where_that_is_asked_for_and_still_belong_to_the_users() {
    let world = World::new();
    let mut spec = spec(&world, 0, range(0));
    spec.namespaces.processes = ProcessVisibility::Pod;
    world.block(world.rt().run_sandbox(&spec)).unwrap();
    let first = world.shell("first", 0, "exec sleep 4711");
    let pid = world.start(&first).pid;
    assert_eq!(ids_of(pid), (FIRST, FIRST));
    let mut second = world.shell("second", 0, "pkill -x sleep && mount -t proc x /mnt");
    second.security.privileged = true;
    world.start(&second);
    let exits = [world.next_exit(), world.next_exit()];
    let code = |key: &ContainerKey| {
        let exit = exits.iter().find(|(ended, _)| ended == key);
        exit.unwrap().1.status.code()
    };
    assert_eq!((code(&first.key), code(&second.key)), (128 + 15, 0));
}

#[test]
fn one_that_joins_another_sees_its_processes() {
    let world = world();
    let target = world.shell("web", 0, "exec sleep 4712");
    world.start(&target);
    let mut debug = world.shell("debug", 0, "tr '\\0' ' ' < /proc/1/cmdline; id -u; touch /made");
    debug.target = Some(target.key.clone());
    assert_eq!(world.output(&debug), "sleep 4712 0\n");
}

#[test]
fn proc_is_shown_whole_to_users_of_its_own_and_to_no_others() {
    let world = world();
    let nested =
        "unshare --user --map-root-user --pid --fork --mount mount -t proc x /mnt && echo nested";
    let mut spec = world.shell("web", 0, nested);
    spec.security.seccomp = Seccomp::Unconfined;
    assert_ne!(world.run(&spec).status.code(), 0, "what is hidden stays hidden further in");
    let mut spec = world.shell("web", 1, nested);
    spec.security.seccomp = Seccomp::Unconfined;
    spec.security.proc_mount = ProcMount::Unmasked;
    assert_eq!(world.output(&spec), "nested\n");

    let shared = World::new();
    shared.run_sandbox();
    let mut spec = shared.shell("web", 0, "true");
    spec.security.proc_mount = ProcMount::Unmasked;
    let error = shared.block(shared.rt().create_container(&spec)).unwrap_err();
    assert!(
        matches!(&error, RuntimeError::Config { problem, .. } if problem.contains("hostUsers"))
    );
}

#[test]
fn settings_are_made_as_the_users_of_the_pod_understand_them() {
    let world = World::new();
    let mut spec = spec(&world, 0, range(0));
    for (name, value) in [
        ("kernel.msgmax", "9000"),
        ("fs.mqueue.msg_max", "20"),
        ("net.core.somaxconn", "777"),
        ("net.ipv4.ping_group_range", "5 6"),
    ] {
        spec.sysctls.insert(name.to_owned(), value.to_owned());
    }
    world.block(world.rt().run_sandbox(&spec)).unwrap();
    let show = "cd /proc/sys; cat kernel/msgmax fs/mqueue/msg_max net/core/somaxconn net/ipv4/ping_group_range";
    let output = world.output(&world.shell("web", 0, show));
    assert_eq!(output, "9000\n20\n777\n5\t6\n");
    spec.key = world.sandbox_attempt(1);
    spec.sysctls = [("kernel.msgmax".to_owned(), "nonsense".to_owned())].into();
    let error = world.block(world.rt().run_sandbox(&spec)).unwrap_err().chain();
    assert!(error.contains("set the sysctl kernel.msgmax=nonsense"), "{error}");
}

#[test]
fn no_namespace_of_the_host_goes_with_users_of_its_own() {
    for namespaces in [
        Namespaces { network: NamespaceOwner::Host, ..Namespaces::default() },
        Namespaces { ipc: NamespaceOwner::Host, ..Namespaces::default() },
        Namespaces { processes: ProcessVisibility::Host, ..Namespaces::default() },
    ] {
        let world = World::new();
        let users = SandboxUsers::Own(range(0));
        let spec = SandboxSpec {
            namespaces: Namespaces { users, ..namespaces },
            ..sandbox_spec(world.sandbox())
        };
        let error = world.block(world.rt().run_sandbox(&spec)).unwrap_err().chain();
        assert!(error.contains("can share no namespace"), "{namespaces:?}: {error}");
        assert!(world.block(world.rt().snapshot()).unwrap().is_empty());
    }
}

#[test]
fn a_sandbox_that_was_made_ahead_is_not_taken_and_another_agent_goes_on_with_the_range() {
    let mut world = World::new();
    let spare = world.block(world.rt().prepare_sandbox()).unwrap().unwrap();
    let mut spec = spec(&world, 0, range(3));
    spec.shm_bytes = 64 << 20;
    let info = world.block(world.rt().run_sandbox(&spec)).unwrap();
    assert_ne!(info.id, spare.id);
    assert_eq!(info.namespaces.users, SandboxUsers::Own(range(3)));
    let running = world.shell("running", 0, "exec sleep 1000");
    world.start(&running);
    world.reopen();
    assert_eq!(world.snapshot().info, Some(info));
    let map = "tr -s ' ' < /proc/self/uid_map";
    let expected = format!(" 0 {} {LENGTH}\n", range(3).first);
    assert_eq!(world.exec(&running.key, map), (ExecExit::Code(0), expected.clone()));
    assert_eq!(world.output(&world.shell("web", 0, map)), expected);
}

#[test]
fn a_container_that_was_made_and_never_started_goes_away() {
    let world = world();
    for number in 0..3 {
        let spec = world.shell("web", number, "true");
        world.block(world.rt().create_container(&spec)).unwrap();
        world.block(world.rt().remove_container(&spec.key)).unwrap();
        assert_eq!(world.state_of(&spec.key), None);
    }
    assert_eq!(world.output(&world.shell("web", 3, "echo well")), "well\n");
}
