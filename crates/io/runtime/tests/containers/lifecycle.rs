//! What a container goes through: created, started, signalled, ended, removed. On real namespaces.

use std::fs;

use rekindle_runtime::image::registry::Keyring;
use rekindle_runtime::*;
use rekindle_types::{ExitStatus, OomKill};

use crate::world::{self, World, read_log, sandbox_spec};

#[test]
fn exit_codes_signals_and_output_come_back() {
    let world = World::new();
    world.run_sandbox();
    for (attempt, (script, status)) in [
        ("true", ExitStatus::Code { code: 0 }),
        ("exit 3", ExitStatus::Code { code: 3 }),
        ("exit 255", ExitStatus::Code { code: 255 }),
        // The first process of a PID namespace cannot kill itself; a handler can exit as a signal
        // would have it.
        ("trap 'exit 143' TERM; kill -TERM $$; sleep 1", ExitStatus::Code { code: 143 }),
        ("head -c 10 /proc/self/nothing; exit 7", ExitStatus::Code { code: 7 }),
    ]
    .into_iter()
    .enumerate()
    {
        let spec = world.shell("web", u32::try_from(attempt).unwrap(), script);
        let exit = world.run(&spec);
        assert_eq!(exit.status, status, "{script}");
        assert!(exit.started_at <= exit.finished_at);
        let state = world.state_of(&spec.key).unwrap();
        assert_eq!(state, RuntimeContainerState::Exited { exit }, "the snapshot tells the same");
    }
    let spec = world.shell("out", 0, "echo hello; echo oops >&2; printf 'no newline'");
    world.run(&spec);
    let log = fs::read_to_string(&spec.log_path).unwrap();
    assert!(log.contains(" stdout F hello\n"), "{log}");
    assert!(log.contains(" stderr F oops\n"), "{log}");
    assert!(log.contains(" stdout P no newline\n"), "{log}");
}

#[test]
fn stop_signals_reach_the_first_process_and_kill_ends_all_of_it() {
    let world = World::new();
    world.run_sandbox();
    let script = "trap 'exit 9' TERM; trap 'exit 10' USR1; echo up; while :; do sleep 0.01; done";
    for (attempt, (signal, status)) in [
        (StopSignal::ImageDefault, ExitStatus::Code { code: 9 }),
        (StopSignal::Number(10), ExitStatus::Code { code: 10 }),
        (StopSignal::Kill, ExitStatus::Signal { signal: 9 }),
    ]
    .into_iter()
    .enumerate()
    {
        let spec = world.shell("web", u32::try_from(attempt).unwrap(), script);
        world.start(&spec);
        wait_for_log(&spec, "up\n");
        world.block(world.rt().signal_container(&spec.key, signal)).unwrap();
        assert_eq!(world.next_exit().1.status, status, "{signal:?}");
        world.block(world.rt().signal_container(&spec.key, signal)).expect("ended is success");
    }
}

/// Waits until the log holds a text: its file is watched through what the kernel says of it, the
/// shim being another process.
fn wait_for_log(spec: &ContainerSpec, text: &str) {
    let begun = std::time::Instant::now();
    while !read_log(&spec.log_path).contains(text) {
        assert!(begun.elapsed() < world::PATIENCE, "no {text:?} in the log");
        std::thread::yield_now();
    }
}

#[test]
fn what_cannot_be_executed_is_a_start_error_with_exit_code_128() {
    let world = World::new();
    world.run_sandbox();
    let cases: [(&[&str], Option<&str>, &str); 5] = [
        (&["/bin/nope"], None, r#"exec "/bin/nope": no such file or directory"#),
        (&["nope"], None, r#"exec "nope": executable file not found in $PATH"#),
        (&["/etc/passwd"], None, r#"exec "/etc/passwd": permission denied"#),
        (&["/etc"], None, r#"exec "/etc": permission denied"#),
        (
            &["/bin/true"],
            Some("/etc/passwd/x"),
            r#"change to working directory "/etc/passwd/x": not a directory"#,
        ),
    ];
    for (attempt, (command, working_dir, problem)) in cases.into_iter().enumerate() {
        let mut spec = world.spec("web", u32::try_from(attempt).unwrap());
        spec.command = command.iter().map(|arg| (*arg).to_owned()).collect();
        spec.working_dir = working_dir.map(str::to_owned);
        for _repeated in 0..2 {
            let made = world.block(world.rt().run_container(&spec)).unwrap();
            assert_eq!(made.created.id.len(), 64);
            match made.start.unwrap_err() {
                RuntimeError::Start { problem: told, .. } => assert_eq!(told, problem),
                error => panic!("{}", error.chain()),
            }
        }
        let Some(RuntimeContainerState::Exited { exit }) = world.state_of(&spec.key) else {
            panic!("it has ended");
        };
        assert_eq!((exit.status, exit.status.code()), (ExitStatus::StartError, 128));
        assert_eq!(exit.message, problem);
        world.block(world.rt().remove_container(&spec.key)).unwrap();
    }
}

#[test]
fn a_container_that_needs_more_memory_than_its_limit_is_oom_killed() {
    let world = World::new();
    world.run_sandbox();
    let mut spec = world.shell("web", 0, "exec dd if=/dev/zero of=/dev/null bs=200M count=1");
    spec.resources.memory_limit_bytes = Some(32 * 1024 * 1024);
    let exit = world.run(&spec);
    assert_eq!(exit.status, ExitStatus::OomKilled);
    let (oom, rest) = OomKill::split(&exit.message).expect("it tells what its cgroup said");
    assert_eq!((oom.limit_bytes, rest), (Some(32 * 1024 * 1024), ""), "{}", exit.message);
    assert!(oom.kills >= 1, "{}", exit.message);
    assert!(oom.peak_bytes.is_none_or(|peak| peak > 16 * 1024 * 1024), "{}", exit.message);
    // A plain SIGKILL in a cgroup of its own is none.
    let mut spec = world.shell("web", 1, "sleep 100");
    spec.resources.memory_limit_bytes = Some(32 * 1024 * 1024);
    world.start(&spec);
    world.block(world.rt().signal_container(&spec.key, StopSignal::Kill)).unwrap();
    let (_, exit) = world.next_exit();
    assert_eq!((exit.status, exit.message.as_str()), (ExitStatus::Signal { signal: 9 }, ""));
}

#[test]
fn a_child_that_is_killed_for_lack_of_memory_is_told_while_its_container_lives_on() {
    let world = World::new();
    world.run_sandbox();
    let eats = "dd if=/dev/zero of=/dev/null bs=200M count=1";
    let mut spec = world.shell("web", 0, &format!("{eats}; exec sleep 100"));
    spec.resources.memory_limit_bytes = Some(32 * 1024 * 1024);
    world.start(&spec);
    match world.block(world.rt().next_event()) {
        RuntimeEvent::ProcessesOomKilled { key } => {
            assert_eq!(key, spec.key);
            let state = world.state_of(&spec.key);
            assert!(matches!(state, Some(RuntimeContainerState::Running { .. })), "{state:?}");
        }
        // with cgroups of version 2 all of the container goes
        RuntimeEvent::ContainerExited { exit, .. } => {
            assert_eq!(exit.status, ExitStatus::OomKilled);
        }
        event @ RuntimeEvent::SandboxDied { .. } => panic!("{event:?}"),
    }
}

#[test]
fn a_limit_too_small_to_start_anything_is_told_and_harms_nobody_else() {
    let world = World::new();
    world.run_sandbox();
    let neighbour = world.shell("neighbour", 0, "sleep 100");
    world.start(&neighbour);
    let mut spec = world.shell("web", 0, "true");
    spec.resources.memory_limit_bytes = Some(4096);
    let error = world.block(async {
        world.rt().create_container(&spec).await?;
        world.rt().start_container(&spec.key).await?;
        match world.rt().next_event().await {
            RuntimeEvent::ContainerExited { key, exit, .. } if key == spec.key => {
                assert_eq!(exit.status, ExitStatus::OomKilled);
            }
            event => panic!("{event:?}"),
        }
        Ok::<(), RuntimeError>(())
    });
    if let Err(error) = error {
        assert!(error.chain().contains("memory limit"), "{}", error.chain());
    }
    let state = world.state_of(&neighbour.key);
    assert!(matches!(state, Some(RuntimeContainerState::Running { .. })), "{state:?}");
}

#[test]
fn a_limit_on_processes_holds() {
    let world = World::new();
    world.run_sandbox();
    let script = "i=0; while [ $i -lt 40 ]; do sleep 5 & i=$((i+1)); done; echo made all";
    let mut spec = world.shell("web", 0, script);
    spec.resources.pids_limit = Some(10);
    world.run(&spec);
    assert!(!read_log(&spec.log_path).contains("made all"), "{}", read_log(&spec.log_path));
}

#[test]
fn calls_are_idempotent_by_key() {
    let world = World::new();
    let first = world.run_sandbox();
    assert_eq!(world.run_sandbox(), first);
    let spec = world.shell("web", 0, "sleep 100");
    let created = world.block(world.rt().create_container(&spec)).unwrap();
    assert_eq!(created.id.len(), 64);
    assert_eq!(world.block(world.rt().create_container(&spec)).unwrap(), created);
    assert_eq!(world.state_of(&spec.key), Some(RuntimeContainerState::Created));
    let started = world.block(world.rt().start_container(&spec.key)).unwrap();
    assert_eq!(world.block(world.rt().start_container(&spec.key)).unwrap(), started);
    assert_eq!(world.block(world.rt().create_container(&spec)).unwrap(), created);
    let running = world.block(world.rt().remove_container(&spec.key)).unwrap_err();
    assert!(running.chain().contains("has not ended"), "{}", running.chain());
    world.block(world.rt().signal_container(&spec.key, StopSignal::Kill)).unwrap();
    world.next_exit();
    for _repeated in 0..2 {
        world.block(world.rt().remove_container(&spec.key)).unwrap();
    }
    assert_eq!(world.state_of(&spec.key), None);
    for _repeated in 0..2 {
        world.block(world.rt().remove_sandbox(&world.sandbox())).unwrap();
    }
    assert!(world.block(world.rt().snapshot()).unwrap().is_empty());
}

#[test]
fn what_stands_prepared_is_run_with_the_limits_of_the_call_and_what_runs_is_run_once() {
    let world = World::new();
    world.run_sandbox();
    let mut spec = world.shell("web", 0, "exec dd if=/dev/zero of=/dev/null bs=200M count=1");
    let created = world.block(world.rt().create_container(&spec)).unwrap();
    spec.resources.memory_limit_bytes = Some(32 * 1024 * 1024);
    let made = world.block(world.rt().run_container(&spec)).unwrap();
    assert_eq!(made.created, created);
    let again = world.block(world.rt().run_container(&spec)).unwrap();
    assert_eq!((again.created, again.start.unwrap()), (created, made.start.unwrap()));
    assert_eq!(world.next_exit().1.status, ExitStatus::OomKilled);
}

#[test]
fn a_container_that_was_never_started_can_be_removed_or_killed() {
    let world = World::new();
    world.run_sandbox();
    let spec = world.shell("web", 0, "true");
    world.block(world.rt().create_container(&spec)).unwrap();
    world.block(world.rt().remove_container(&spec.key)).unwrap();
    assert_eq!(world.state_of(&spec.key), None);
    let spec = world.shell("web", 1, "true");
    world.block(world.rt().create_container(&spec)).unwrap();
    world.block(world.rt().signal_container(&spec.key, StopSignal::ImageDefault)).unwrap();
    assert_eq!(world.next_exit().1.status, ExitStatus::Signal { signal: 9 });
}

#[test]
fn containers_of_a_sandbox_share_network_ipc_and_hostname_but_not_processes() {
    let world = World::new();
    world.run_sandbox();
    let show = "for ns in net ipc uts pid mnt; do readlink /proc/self/ns/$ns; done; hostname; \
                echo $HOSTNAME; echo $$; cat /dev/shm/note 2>/dev/null; echo hi > /dev/shm/note";
    let first = world.shell("one", 0, &format!("{show}; echo done; sleep 100"));
    world.start(&first);
    wait_for_log(&first, "done\n");
    let one = read_log(&first.log_path);
    let two = world.output(&world.shell("two", 0, show));
    let (one, two): (Vec<_>, Vec<_>) = (one.lines().collect(), two.lines().collect());
    assert_eq!(one[..3], two[..3]);
    assert_ne!(one[3], two[3]);
    assert_ne!(one[4], two[4]);
    assert_eq!(one[5..], ["web-0", "web-0", "1", "done"]);
    assert_eq!(two[5..], ["web-0", "web-0", "1", "hi"]);
    let host = fs::read_link("/proc/self/ns/net").unwrap();
    assert_ne!(one[0], host.to_str().unwrap());
}

#[test]
fn a_new_sandbox_attempt_shares_nothing_with_the_one_before() {
    let world = World::new();
    world.run_sandbox();
    world.output(&world.shell("web", 0, "echo poison > /dev/shm/note"));
    let next = world.sandbox_attempt(1);
    world.block(world.rt().run_sandbox(&sandbox_spec(next.clone()))).unwrap();
    world.block(world.rt().remove_sandbox(&world.sandbox())).unwrap();
    let mut spec = world.shell("web", 1, "cat /dev/shm/note || echo clean");
    spec.key.sandbox = next;
    assert_eq!(world.output(&spec).trim_end().lines().last(), Some("clean"));
}

#[test]
fn removing_a_sandbox_ends_its_containers_and_leaves_nothing() {
    let world = World::new();
    let info = world.run_sandbox();
    let spec = world.shell("web", 0, "sleep 100");
    let started = world.start(&spec);
    world.block(world.rt().remove_sandbox(&world.sandbox())).unwrap();
    assert!(!std::path::Path::new(&format!("/proc/{}", started.pid)).exists());
    let data = world.path("data");
    assert_eq!(fs::read_dir(data.join("sandboxes")).unwrap().count(), 0);
    assert_eq!(fs::read_dir(world.path("run")).unwrap().count(), 0);
    let engine_id = world.engine_id.clone();
    drop(world); // waits for what is cleared away behind
    assert!(!info.netns.exists(), "the shim is gone");
    for hierarchy in fs::read_dir("/sys/fs/cgroup").unwrap().flatten() {
        let left = hierarchy.path().join("rekindle").join(&engine_id);
        assert!(!left.exists(), "{}", left.display());
    }
}

#[test]
fn environment_arguments_and_working_directory_are_as_the_spec_says() {
    let world = World::new();
    world.run_sandbox();
    let mut spec = world.spec("web", 0);
    spec.command = ["/bin/sh", "-c", "echo $GREETING $0 $1; pwd; id -u; umask; cat; echo end"]
        .map(str::to_owned)
        .to_vec();
    spec.args = ["a b", "c"].map(str::to_owned).to_vec();
    spec.env = vec![("GREETING".to_owned(), "hello".to_owned())];
    spec.working_dir = Some("/srv/made/for/it".to_owned());
    let output = world.output(&spec);
    assert_eq!(output, "hello a b c\n/srv/made/for/it\n0\n0022\nend\n");
}

#[test]
fn logs_are_rotated_and_stay_bounded() {
    let world = World::new();
    world.run_sandbox();
    let mut spec =
        world.shell("web", 0, "i=0; while [ $i -lt 20000 ]; do echo line $i; i=$((i+1)); done");
    spec.log_limits = LogLimits { max_bytes: 64 * 1024, max_files: 3 };
    world.run(&spec);
    let files: Vec<_> = fs::read_dir(world.path("logs")).unwrap().flatten().collect();
    assert_eq!(files.len(), 3, "{files:?}");
    assert!(files.iter().all(|file| file.metadata().unwrap().len() <= 64 * 1024));
    let newest = read_log(&spec.log_path);
    assert!(newest.ends_with("line 19999\n"), "the last lines are there when the exit is told");
}

#[test]
fn images_are_found_or_the_problem_is_told() {
    let world = World::new();
    world.run_sandbox();
    let is_here = |image: &str| world.block(world.rt().image_status(image)).unwrap().is_some();
    assert!(is_here("localhost/host"));
    assert!(!is_here("localhost/absent:1"));
    let request = ImagePull { image: "localhost/absent:1".to_owned(), keyring: Keyring::new() };
    let error = world.block(world.rt().pull_image(&request)).unwrap_err();
    assert!(error.chain().contains("rekindle image load"), "{}", error.chain());
    let mut spec = world.shell("web", 0, "true");
    spec.image = "localhost/absent:1".to_owned();
    let error = world.block(world.rt().create_container(&spec)).unwrap_err();
    assert!(matches!(error, RuntimeError::Image { .. }), "{}", error.chain());
}

#[test]
fn a_sandbox_that_cannot_be_made_is_told_and_leaves_nothing() {
    let world = World::new();
    let with = |name: &str, value: &str| {
        let mut spec = sandbox_spec(world.sandbox());
        spec.sysctls.insert(name.to_owned(), value.to_owned());
        spec
    };
    let mut long = sandbox_spec(world.sandbox());
    long.hostname = "x".repeat(65);
    for (spec, problem) in [
        (with("vm.overcommit_memory", "1"), "is the whole machine's, not the pod's"),
        (with("net.no.such", "1"), "set the sysctl net.no.such=1: no such file or directory"),
        (with("net.core.somaxconn", "x"), "set the sysctl net.core.somaxconn=x: invalid argument"),
        (long, "set the hostname"),
    ] {
        let error = world.block(world.rt().run_sandbox(&spec)).unwrap_err();
        assert!(error.chain().contains(problem), "{}", error.chain());
        assert!(world.block(world.rt().snapshot()).unwrap().is_empty());
        world.block(world.rt().settled());
        assert_eq!(fs::read_dir(world.path("data/sandboxes")).unwrap().count(), 0);
    }
    world.run_sandbox();
}

#[test]
fn a_sysctl_of_the_pod_is_set_in_the_pod_only() {
    let world = World::new();
    let mut spec = sandbox_spec(world.sandbox());
    spec.sysctls.insert("net.core.somaxconn".to_owned(), "123".to_owned());
    let host = fs::read_to_string("/proc/sys/net/core/somaxconn").unwrap();
    world.block(world.rt().run_sandbox(&spec)).unwrap();
    let script = "cat /proc/sys/net/core/somaxconn; cat /sys/class/net/lo/flags; ls /sys/class/net";
    assert_eq!(world.output(&world.shell("web", 0, script)), "123\n0x9\nlo\n");
    assert_eq!(fs::read_to_string("/proc/sys/net/core/somaxconn").unwrap(), host);
}

#[test]
fn many_pods_come_and_go_at_once() {
    let world = World::new();
    let runtime = world.runtime.clone().unwrap();
    let specs: Vec<ContainerSpec> = (0..24)
        .map(|n| {
            let mut spec = world.shell("web", 0, &format!("exit {n}"));
            spec.key.sandbox.pod.uid.0 = format!("pod-{n}");
            spec.log_path = world.path("logs").join(format!("{n}.log"));
            spec
        })
        .collect();
    let pods = specs.iter().cloned().map(|spec| {
        let runtime = runtime.clone();
        async move {
            runtime.run_sandbox(&sandbox_spec(spec.key.sandbox.clone())).await?;
            runtime.run_container(&spec).await?.start.map(drop)
        }
    });
    let codes = world.block(async {
        let tasks: Vec<_> = pods.map(tokio::spawn).collect();
        for task in tasks {
            task.await.unwrap().unwrap();
        }
        let mut codes = Vec::new();
        while codes.len() < specs.len() {
            match runtime.next_event().await {
                RuntimeEvent::ContainerExited { key, exit, .. } => {
                    assert_eq!(key.sandbox.pod.uid.0, format!("pod-{}", exit.status.code()));
                    codes.push(exit.status.code());
                }
                event @ (RuntimeEvent::SandboxDied { .. }
                | RuntimeEvent::ProcessesOomKilled { .. }) => panic!("{event:?}"),
            }
        }
        codes
    });
    let mut sorted = codes;
    sorted.sort_unstable();
    assert_eq!(sorted, (0..24).collect::<Vec<i32>>());
}
