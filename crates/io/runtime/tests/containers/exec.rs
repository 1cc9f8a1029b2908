//! Further commands in running containers: how they end, what they write, and that they may no more
//! than their container.

use std::os::fd::AsFd;
use std::process::{Child, Command};
use std::time::{Duration, Instant};

use futures::future::join_all;
use rekindle_runtime::*;
use rustix::process::{Pid, PidfdFlags, WaitId, WaitIdOptions, pidfd_open, waitid};
use rustix::thread::{ThreadNameSpaceType, move_into_thread_name_spaces};

use crate::world::{self, World};

/// Longer than any of these commands takes, on a busy machine, too.
const LONG: Duration = world::PATIENCE;

fn exec_within(
    world: &World,
    key: &ContainerKey,
    command: &[&str],
    timeout: Duration,
) -> Result<ExecOutcome, RuntimeError> {
    let command: Vec<String> = command.iter().map(|arg| (*arg).to_owned()).collect();
    world.block(world.rt().exec_sync(key, &command, timeout))
}

/// A world with one container that sleeps.
fn sleeping(change: impl FnOnce(&mut ContainerSpec)) -> (World, ContainerKey) {
    let world = World::new();
    world.run_sandbox();
    let mut spec = world.shell("web", 0, "exec sleep 1000");
    change(&mut spec);
    world.start(&spec);
    (world, spec.key)
}

#[test]
fn exit_codes_signals_and_output_of_commands_come_back() {
    let (world, key) = sleeping(|_| {});
    for (script, exit, output) in [
        ("true", ExecExit::Code(0), ""),
        ("echo out; echo err >&2; exit 7", ExecExit::Code(7), "out\nerr\n"),
        ("kill -9 $$", ExecExit::Signal(9), ""),
        ("cat", ExecExit::Code(0), ""),
        ("printf x; (sleep 1000 &) ", ExecExit::Code(0), "x"),
    ] {
        assert_eq!(world.exec(&key, script), (exit, output.to_owned()), "{script}");
    }
    let state = world.state_of(&key).unwrap();
    assert!(
        matches!(state, RuntimeContainerState::Running { .. }),
        "the container goes on: {state:?}"
    );
}

#[test]
fn output_is_kept_up_to_its_limit_and_the_rest_does_not_block() {
    let (world, key) = sleeping(|_| {});
    let (exit, output) = world.exec(&key, "yes | head -c 1000000; echo end");
    assert_eq!((exit, output.len()), (ExecExit::Code(0), EXEC_OUTPUT_BYTES_MAX));
}

#[test]
fn a_command_beyond_its_time_is_killed_with_what_it_started() {
    let (world, key) = sleeping(|_| {});
    let command = ["/bin/sh", "-c", "echo begun; sleep 4711 & sleep 4712; true"];
    let begun = Instant::now();
    // time enough to begin, and much less than what it began would take
    let outcome = exec_within(&world, &key, &command, Duration::from_secs(2)).unwrap();
    assert!(begun.elapsed() < LONG);
    assert_eq!(outcome.exit, ExecExit::TimedOut);
    assert_eq!(outcome.output, b"begun\n");
    // The shim serves its calls in order, so this one sees what the kill has left.
    let left =
        "for p in /proc/[0-9]*; do tr '\\0' ' ' < $p/cmdline; done | grep -c 'sleep 471[12]'";
    while world.exec(&key, left).1 != "0\n" {
        assert!(begun.elapsed() < LONG, "what the command started is still there");
    }
}

#[test]
fn what_cannot_be_executed_is_told_as_for_containers() {
    let (world, key) = sleeping(|_| {});
    for (command, problem) in [
        ("/bin/nope", r#"exec "/bin/nope": no such file or directory"#),
        ("nope", r#"exec "nope": executable file not found in $PATH"#),
        ("/etc/passwd", r#"exec "/etc/passwd": permission denied"#),
    ] {
        match exec_within(&world, &key, &[command], LONG).unwrap_err() {
            RuntimeError::Start { problem: told, .. } => assert_eq!(told, problem),
            error => panic!("{}", error.chain()),
        }
    }
}

#[test]
fn a_container_that_does_not_run_takes_no_commands() {
    let world = World::new();
    world.run_sandbox();
    let spec = world.shell("web", 0, "exec sleep 1000");
    let refused = |problem: &str| {
        let error = exec_within(&world, &spec.key, &["true"], LONG).unwrap_err();
        assert!(matches!(error, RuntimeError::Container { .. }), "{error:?}");
        assert!(error.chain().ends_with(problem), "{}", error.chain());
    };
    refused("it does not exist");
    world.block(world.rt().create_container(&spec)).unwrap();
    refused("is not running");
    world.block(world.rt().start_container(&spec.key)).unwrap();
    assert_eq!(world.exec(&spec.key, "true").0, ExecExit::Code(0));
    world.block(world.rt().signal_container(&spec.key, StopSignal::Kill)).unwrap();
    world.next_exit();
    refused("is not running");
}

/// A process of ours in the PID namespace of that one, to be reaped by us.
fn spawn_beside(first: u32) -> Child {
    let first = Pid::from_raw(i32::try_from(first).unwrap()).unwrap();
    let first = pidfd_open(first, PidfdFlags::empty()).unwrap();
    // what a thread enters is for its own children
    let spawned = std::thread::spawn(move || {
        move_into_thread_name_spaces(first.as_fd(), ThreadNameSpaceType::PROCESS_ID).unwrap();
        Command::new("sleep").arg("1000").spawn().unwrap()
    });
    spawned.join().unwrap()
}

/// A PID namespace whose first process ends lets nobody in: the kernel says that it lacks memory,
/// or that there is no such process. Here its end takes until what is beside it is reaped, so no
/// answer can wait for that.
#[test]
fn a_command_that_comes_while_its_container_ends_is_begun_or_told_that_it_ends() {
    for processes in [ProcessVisibility::Container, ProcessVisibility::Pod] {
        let world = World::new();
        let namespaces = Namespaces { processes, ..Namespaces::default() };
        let sandbox = SandboxSpec { namespaces, ..world::sandbox_spec(world.sandbox()) };
        world.block(world.rt().run_sandbox(&sandbox)).unwrap();
        for attempt in 0..10 {
            let spec = world.shell("web", attempt, "exec sleep 1000");
            let started = world.start(&spec);
            let beside = match processes {
                ProcessVisibility::Container => Some(spawn_beside(started.pid)),
                // that namespace does not end with a container
                ProcessVisibility::Pod | ProcessVisibility::Host => None,
            };
            let errors = errors_while_it_is_killed(&world, &spec.key);
            if let Some(mut beside) = beside {
                // killed by the end of the namespace: from now on it is closed
                let pid = Pid::from_raw(i32::try_from(beside.id()).unwrap()).unwrap();
                let ended = WaitIdOptions::EXITED | WaitIdOptions::NOWAIT;
                waitid(WaitId::Pid(pid), ended).unwrap();
                let error = exec_within(&world, &spec.key, &["true"], LONG).unwrap_err();
                assert!(error.chain().ends_with("is not running"), "{}", error.chain());
                beside.wait().unwrap();
            }
            for error in errors {
                assert!(error.ends_with("is not running"), "{error}");
            }
            assert_eq!(world.next_exit().0, spec.key);
        }
    }
}

/// Of commands that come before, at the same time, and after.
fn errors_while_it_is_killed(world: &World, key: &ContainerKey) -> Vec<String> {
    let runtime = world.rt();
    let command = ["true".to_owned()];
    let commands = || join_all((0..4).map(|_| runtime.exec_sync(key, &command, LONG)));
    let (before, killed, after) = world.block(async {
        tokio::join!(commands(), runtime.signal_container(key, StopSignal::Kill), commands())
    });
    killed.unwrap();
    let failed = before.into_iter().chain(after).filter_map(Result::err);
    failed.map(|error| error.chain()).collect()
}

#[test]
fn a_command_ends_with_its_container_and_does_not_hold_it_back() {
    let (world, key) = sleeping(|_| {});
    let runtime = world.runtime.clone().unwrap();
    assert_eq!(world.exec(&key, "mkfifo /begun").0, ExecExit::Code(0));
    let exit = world.block(async {
        let command = |script: &str| ["/bin/sh", "-c", script].map(str::to_owned);
        let (begins, is_awaited) = (command("echo >/begun; sleep 1000"), command("cat /begun"));
        let call = runtime.exec_sync(&key, &begins, LONG);
        let kill = async {
            // A command that is still on its way into the container would be refused, as nothing
            // runs there any more.
            runtime.exec_sync(&key, &is_awaited, LONG).await.unwrap();
            runtime.signal_container(&key, StopSignal::Kill).await.unwrap();
        };
        tokio::join!(call, kill).0.unwrap().exit
    });
    assert_eq!(exit, ExecExit::Signal(9));
    assert_eq!(world.next_exit().0, key);
}

/// Promise P4 for commands: the same script, run as the container's first process and by exec,
/// shows the same rights.
#[test]
fn a_command_has_the_rights_of_its_container_and_no_more() {
    const SHOW: &str = "grep -E '^(Uid|Gid|Groups|Cap...|NoNewPrivs|Seccomp|Seccomp_filters):' /proc/self/status; \
        cat /proc/self/mountinfo /proc/self/limits /proc/self/oom_score_adj /proc/self/cgroup; \
        readlink /proc/self/ns/*; pwd; umask; env | sort; hostname";
    type Change = fn(&mut ContainerSpec);
    let changes: [Change; 4] = [
        |_| {},
        |spec| {
            spec.security.run_as_user = Some(1234);
            spec.security.run_as_group = Some(1235);
            spec.security.supplemental_groups = vec![77, 1236];
            spec.security.allow_privilege_escalation = false;
            spec.resources.memory_limit_bytes = Some(64 * 1024 * 1024);
            spec.env = vec![("A".to_owned(), "b c".to_owned())];
            spec.working_dir = Some("/usr".to_owned());
        },
        |spec| {
            spec.security.drop_capabilities = vec!["ALL".to_owned()];
            spec.security.read_only_root = true;
            spec.security.seccomp = Seccomp::Unconfined;
        },
        |spec| spec.security.privileged = true,
    ];
    for change in changes {
        let (world, key) = sleeping(|spec| {
            spec.command[2] = format!("({SHOW}); echo shown; exec sleep 1000");
            change(spec);
        });
        let log = world.path("logs/web-0.log");
        let begun = Instant::now();
        while !world::read_log(&log).ends_with("shown\n") {
            assert!(begun.elapsed() < LONG, "{}", world::read_log(&log));
            std::thread::yield_now();
        }
        let first = world::read_log(&log).replace("shown\n", "");
        let (exit, output) = world.exec(&key, &format!("({SHOW})"));
        assert_eq!(exit, ExecExit::Code(0));
        assert_eq!(output, first);
    }
}

#[test]
fn a_command_has_no_descriptor_but_its_three_and_none_leads_out() {
    let (world, key) = sleeping(|spec| spec.security.add_capabilities = vec!["SYS_PTRACE".into()]);
    let (_, output) = world.exec(&key, "exec ls -l /proc/self/fd");
    let open: Vec<&str> = output.lines().filter(|line| line.contains(" -> ")).collect();
    assert_eq!(open.len(), 4, "null, two pipes, and the listing's own: {output}");
}

#[test]
fn what_a_container_made_of_its_files_does_not_mislead_a_command() {
    let (world, key) = sleeping(|spec| spec.working_dir = Some("/tmp/rekindle-work".to_owned()));
    // A passwd of the container's own making has no say any more.
    world.exec(&key, "echo 'root:x:4711:4711::/:/bin/sh' > /etc/passwd");
    assert_eq!(world.exec(&key, "id -u").1, "0\n");
    // CVE-2024-21626: a working directory that leads to a descriptor of the one who starts the
    // command.
    for fd in 0..20 {
        let link =
            format!("cd /; rm -rf /tmp/rekindle-work; ln -s /proc/self/fd/{fd} /tmp/rekindle-work");
        match exec_within(&world, &key, &["/bin/sh", "-c", &link], LONG) {
            Ok(outcome) => assert_eq!((fd, outcome.exit), (0, ExecExit::Code(0))),
            Err(RuntimeError::Start { problem, .. }) => {
                assert!(problem.starts_with("change to working directory"), "{problem}");
                break;
            }
            Err(error) => panic!("{}", error.chain()),
        }
    }
}

#[test]
fn a_null_device_that_is_none_any_more_is_not_opened_as_one() {
    let (world, key) = sleeping(|_| {});
    let outcome = exec_within(&world, &key, &["/bin/sh", "-c", "umount /dev/null"], LONG).unwrap();
    assert_ne!(outcome.exit, ExecExit::Code(0), "it is a mount of its own");
    let (world, key) = sleeping(|spec| spec.security.add_capabilities = vec!["SYS_ADMIN".into()]);
    let made = "umount -l /dev/null && rm /dev/null && mkfifo /dev/null";
    assert_eq!(world.exec(&key, made), (ExecExit::Code(0), String::new()));
    let error = exec_within(&world, &key, &["true"], LONG).unwrap_err();
    assert!(error.chain().ends_with("/dev/null is something else"), "{}", error.chain());
}

#[test]
fn commands_end_with_the_agent_that_asked_for_them() {
    let (mut world, key) = sleeping(|_| {});
    let runtime = world.runtime.clone().unwrap();
    world.block(async {
        let command = ["/bin/sh", "-c", "sleep 4713"].map(str::to_owned);
        let call = runtime.exec_sync(&key, &command, LONG);
        let other = async {
            runtime.exec_sync(&key, &["true".to_owned()], LONG).await.unwrap();
        };
        tokio::select! {
            _ = call => panic!("it ended"),
            () = other => {}
        }
    });
    drop(runtime);
    world.reopen();
    let left = "for p in /proc/[0-9]*; do tr '\\0' ' ' < $p/cmdline; done | grep -c 'sleep 471[3]'";
    let begun = Instant::now();
    while world.exec(&key, left).1 != "0\n" {
        assert!(begun.elapsed() < LONG, "the command is still there");
    }
}

/// Writes to a command, reads what it writes until its end, and answers both with its exit.
async fn talk(mut streams: ExecStreams, input: &[u8]) -> (ExecExit, String, String) {
    use tokio::io::{AsyncReadExt, AsyncWriteExt};
    let (mut out, mut err) = (Vec::new(), Vec::new());
    let write = async {
        if let Some(mut stdin) = streams.stdin.take() {
            stdin.write_all(input).await.unwrap();
            if streams.terminal.is_some() {
                return Some(stdin);
            }
        }
        None
    };
    let read = async |from: Option<tokio::net::unix::pipe::Receiver>, to: &mut Vec<u8>| {
        if let Some(mut from) = from {
            // A terminal ends with EIO.
            let _ = from.read_to_end(to).await;
        }
    };
    let (stdout, stderr) = (streams.stdout.take(), streams.stderr.take());
    let (_stdin, (), (), exit) =
        tokio::join!(write, read(stdout, &mut out), read(stderr, &mut err), streams.running);
    (exit.unwrap(), String::from_utf8(out).unwrap(), String::from_utf8(err).unwrap())
}

const ALL: StreamRequest =
    StreamRequest { stdin: true, stdout: true, stderr: true, terminal: false };

fn script(text: &str) -> Vec<String> {
    ["/bin/sh", "-c", text].map(str::to_owned).to_vec()
}

#[test]
fn input_output_and_errors_go_through_pipes() {
    let (world, key) = sleeping(|spec| spec.security.run_as_user = Some(1234));
    let input = "x".repeat(300_000);
    let (exit, out, err) = world.block(async {
        let command = script("cat; echo done > /dev/stderr; exit 5");
        talk(world.rt().exec(&key, &command, ALL).await.unwrap(), input.as_bytes()).await
    });
    assert_eq!((exit, err.as_str()), (ExecExit::Code(5), "done\n"));
    assert!(out == input, "{} bytes came back", out.len());
}

#[test]
fn a_command_on_a_terminal_has_it_as_its_own() {
    let (world, key) = sleeping(|spec| spec.security.run_as_user = Some(1234));
    let (exit, out, _) = world.block(async {
        let request = StreamRequest { terminal: true, ..ALL };
        let command =
            script("tty; stat -c %u $(tty); echo $TERM; read line; stty size; echo got $line");
        let streams = world.rt().exec(&key, &command, request).await.unwrap();
        streams.terminal.as_ref().unwrap().resize(33, 77).unwrap();
        talk(streams, b"hello\n").await
    });
    assert_eq!(exit, ExecExit::Code(0));
    let lines: Vec<&str> = out.lines().filter(|line| *line != "hello").collect();
    assert_eq!(lines, ["/dev/pts/0", "1234", "xterm", "33 77", "got hello"], "{out:?}");
}

#[test]
fn a_terminal_that_goes_away_hangs_its_command_up_and_ctrl_c_interrupts_it() {
    let (world, key) = sleeping(|_| {});
    let request = StreamRequest { terminal: true, ..ALL };
    let exit = world.block(async {
        let streams = world.rt().exec(&key, &script("sleep 1000"), request).await.unwrap();
        drop((streams.stdin, streams.stdout, streams.terminal));
        streams.running.await.unwrap()
    });
    assert_eq!(exit, ExecExit::Signal(1));
    let (exit, _, _) = world.block(async {
        let streams = world.rt().exec(&key, &script("exec sleep 1000"), request).await.unwrap();
        talk(streams, b"\x03").await
    });
    assert_eq!(exit, ExecExit::Signal(2));
}

fn stdio(stdin: Stdin, terminal: TerminalUse) -> impl FnOnce(&mut ContainerSpec) {
    move |spec| {
        spec.command[2] = "while read line; do echo got $line; done; echo end".to_owned();
        spec.stdio = ContainerStdio { stdin, terminal };
    }
}

#[test]
fn an_input_that_is_for_the_first_ends_with_them() {
    let (world, key) = sleeping(stdio(Stdin::Once, TerminalUse::None));
    let (exit, out, _) = world
        .block(async { talk(world.rt().attach(&key, ALL).await.unwrap(), b"one\ntwo\n").await });
    assert_eq!((exit, out.as_str()), (ExecExit::Code(0), "got one\ngot two\nend\n"));
    assert_eq!(world.next_exit().1.status.code(), 0);
    assert_eq!(world::read_log(&world.path("logs/web-0.log")), out, "the log has it, too");
}

#[test]
fn an_input_that_stays_open_outlives_those_who_attach_and_the_agent() {
    use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader};
    let (mut world, key) = sleeping(stdio(Stdin::Open, TerminalUse::None));
    for (number, text) in ["one", "two", "three"].iter().enumerate() {
        let answer = world.block(async {
            let mut streams = world.rt().attach(&key, ALL).await.unwrap();
            let mut stdin = streams.stdin.take().unwrap();
            stdin.write_all(format!("{text}\n").as_bytes()).await.unwrap();
            let mut lines = BufReader::new(streams.stdout.take().unwrap()).lines();
            lines.next_line().await.unwrap().unwrap()
        });
        assert_eq!(answer, format!("got {text}"));
        if number == 1 {
            world.reopen();
        }
    }
    assert!(matches!(world.state_of(&key), Some(RuntimeContainerState::Running { .. })));
}

#[test]
fn a_first_process_on_a_terminal_is_attached_to_and_resized() {
    let (world, key) = sleeping(|spec| {
        // The terminal's echo of the line comes before all of this, and not somewhere in it.
        spec.command[2] = "read line; tty; echo $TERM; stty size; echo got $line".to_owned();
        spec.stdio = ContainerStdio { stdin: Stdin::Open, terminal: TerminalUse::Own };
        spec.security.run_as_user = Some(1234);
    });
    let (_, out, _) = world.block(async {
        let streams = world.rt().attach(&key, ALL).await.unwrap();
        streams.terminal.as_ref().unwrap().resize(33, 77).unwrap();
        talk(streams, b"hello\n").await
    });
    assert!(out.ends_with("33 77\r\ngot hello\r\n"), "{out:?}");
    assert_eq!(world.next_exit().1.status.code(), 0);
    let log = world::read_log(&world.path("logs/web-0.log"));
    assert!(log.ends_with("/dev/pts/0\nxterm\n33 77\ngot hello\n"), "{log:?}");
}

#[test]
fn a_client_that_does_not_read_is_cut_off_and_the_container_goes_on() {
    let (world, key) = sleeping(|spec| {
        spec.command[2] = "read line; yes | head -c 8000000; echo done >&2".to_owned();
        spec.stdio = ContainerStdio { stdin: Stdin::Open, terminal: TerminalUse::None };
    });
    let _unread = world.block(async {
        use tokio::io::AsyncWriteExt;
        let mut streams = world.rt().attach(&key, ALL).await.unwrap();
        streams.stdin.as_mut().unwrap().write_all(b"go\n").await.unwrap();
        streams
    });
    assert_eq!(world.next_exit().1.status.code(), 0);
}
