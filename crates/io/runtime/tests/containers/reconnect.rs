//! Shims outlive the agent, and the agent outlives shims: promise P1.

use std::io::{Read, Write};
use std::os::unix::net::{UnixListener, UnixStream};
use std::process::Command;
use std::time::Duration;

use rekindle_runtime::embedded::EmbeddedRuntime;
use rekindle_runtime::*;
use rekindle_shim::frame;
use rekindle_shim::protocol::{
    RootsAhead, SandboxPhase, ShimAnswer, ShimCall, ShimMessage, ShimRequest, ShimState,
};
use rekindle_testkit::guarded_child::GuardedChild;
use rekindle_types::{ExitStatus, StopNotice};
use rustix::process::{Pid, Signal, kill_process};

use crate::world::{self, World, config, sandbox_spec};

/// The folder an agent process of [`kill_minus_nine_of_the_agent`] works in; unset in an ordinary
/// run of the tests.
const AGENT_DIR: &str = "REKINDLE_TEST_AGENT_DIR";
const AGENT_ID: &str = "REKINDLE_TEST_AGENT_ID";

fn kill(pid: u32) {
    let pid = Pid::from_raw(i32::try_from(pid).unwrap()).unwrap();
    kill_process(pid, Signal::KILL).unwrap();
}

#[test]
fn another_agent_finds_everything_as_it_was() {
    let mut world = World::new();
    let info = world.run_sandbox();
    let running = world.shell("running", 0, "sleep 100");
    let started = world.start(&running);
    let created = world.shell("created", 0, "echo it goes on");
    let made = world.block(world.rt().create_container(&created)).unwrap();
    let ended = world.shell("ended", 0, "exit 5");
    world.run(&ended);
    let before = world.snapshot();

    world.reopen();

    assert_eq!(world.snapshot(), before);
    assert_eq!(world.run_sandbox(), info);
    assert_eq!(world.block(world.rt().start_container(&running.key)).unwrap(), started);
    assert_eq!(world.block(world.rt().create_container(&created)).unwrap(), made);
    world.block(world.rt().start_container(&created.key)).unwrap();
    let (key, exit) = world.next_exit();
    assert_eq!((key, exit.status), (created.key.clone(), ExitStatus::Code { code: 0 }));
    assert_eq!(world::read_log(&created.log_path), "it goes on\n");
}

#[test]
fn an_exit_while_no_agent_was_there_is_in_the_snapshot_of_the_next() {
    let mut world = World::new();
    world.run_sandbox();
    let spec = world.shell("web", 0, "sleep 100");
    let started = world.start(&spec);
    world.end_agent();
    let pidfd = pidfd(started.pid);
    kill(started.pid);
    wait_for_end(&pidfd);
    world.reopen();
    // The shim may still be busy with the exit: then it comes as an event.
    let exit = match world.state_of(&spec.key).unwrap() {
        RuntimeContainerState::Exited { exit } => exit,
        RuntimeContainerState::Running { .. } | RuntimeContainerState::Created => {
            world.next_exit().1
        }
    };
    assert_eq!(exit.status, ExitStatus::Signal { signal: 9 });
    assert_eq!(exit.started_at, started.started_at);
}

/// A deadline is for those alone that know of it.
#[test]
fn another_agent_finds_who_was_asked_to_end_and_who_was_not() {
    let mut world = World::new();
    world.run_sandbox();
    let asked = world.shell("asked", 0, "trap '' TERM; sleep 100");
    let unasked = world.shell("unasked", 0, "sleep 100");
    for spec in [&asked, &unasked] {
        world.start(spec);
    }
    world.block(world.rt().signal_container(&asked.key, StopSignal::Number(15))).unwrap();
    let notice = |world: &World, spec: &ContainerSpec| match world.state_of(&spec.key) {
        Some(RuntimeContainerState::Running { notice, .. }) => notice,
        other => panic!("it runs: {other:?}"),
    };
    for agent in ["the one that asked", "the next one"] {
        assert_eq!(notice(&world, &asked), StopNotice::Given, "{agent}");
        assert_eq!(notice(&world, &unasked), StopNotice::NotGiven, "{agent}");
        world.reopen();
    }
}

fn pidfd(pid: u32) -> std::os::fd::OwnedFd {
    let pid = Pid::from_raw(i32::try_from(pid).unwrap()).unwrap();
    rustix::process::pidfd_open(pid, rustix::process::PidfdFlags::empty()).unwrap()
}

fn wait_for_end(pidfd: &std::os::fd::OwnedFd) {
    let mut ended = [rustix::event::PollFd::new(pidfd, rustix::event::PollFlags::IN)];
    rustix::event::poll(&mut ended, None).unwrap();
}

/// Not a test by itself: the agent that the next one kills.
#[test]
fn agent_process() {
    let (Ok(dir), Ok(id)) = (std::env::var(AGENT_DIR), std::env::var(AGENT_ID)) else { return };
    let tokio =
        tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap();
    tokio.block_on(async {
        let runtime = EmbeddedRuntime::open(config(dir.as_ref(), &id)).await.unwrap();
        let key = SandboxKey { pod: world::pod(), attempt: rekindle_types::SandboxAttempt(0) };
        runtime.run_sandbox(&sandbox_spec(key.clone())).await.unwrap();
        for (name, command) in [("long", "sleep 100"), ("short", "sleep 0.2; exit 6")] {
            let spec = agents_spec(dir.as_ref(), &key, name, command);
            runtime.create_container(&spec).await.unwrap();
            runtime.start_container(&spec.key).await.unwrap();
        }
        println!("\nagent is up");
        std::future::pending::<()>().await;
    });
}

fn agents_spec(dir: &std::path::Path, key: &SandboxKey, name: &str, script: &str) -> ContainerSpec {
    std::fs::create_dir_all(dir.join("logs")).unwrap();
    ContainerSpec {
        key: ContainerKey {
            sandbox: key.clone(),
            name: rekindle_types::ContainerName(name.to_owned()),
            attempt: rekindle_types::ContainerAttempt(0),
        },
        image: "localhost/host".to_owned(),
        command: ["/bin/sh", "-c", script].map(str::to_owned).to_vec(),
        args: Vec::new(),
        env: Vec::new(),
        working_dir: None,
        mounts: Vec::new(),
        resources: Resources::default(),
        security: world::security(),
        log_path: dir.join("logs").join(format!("{name}.log")),
        log_limits: LogLimits::default(),
        stdio: rekindle_runtime::ContainerStdio::default(),
        target: None,
        oom_score_adj: 0,
        renewal: ExpectedRestart::NotExpected,
    }
}

#[test]
fn an_exit_at_any_moment_of_a_reconnection_is_told() {
    const CONTAINERS: u32 = 8;
    let mut world = World::new();
    world.run_sandbox();
    for round in 0..20 {
        let specs: Vec<ContainerSpec> = (0..CONTAINERS)
            .map(|number| world.shell(&format!("web{number}"), round, "sleep 100"))
            .collect();
        let pids: Vec<u32> = specs.iter().map(|spec| world.start(spec).pid).collect();
        world.end_agent();
        let begun = std::time::Instant::now();
        let killer = std::thread::spawn(move || {
            // each round at other moments of it
            for (number, pid) in (1..).zip(pids) {
                let moment = Duration::from_micros(600 * number + 30 * u64::from(round));
                while begun.elapsed() < moment {
                    std::hint::spin_loop();
                }
                kill(pid);
            }
        });
        world.reopen();
        killer.join().unwrap();
        for spec in &specs {
            // an end that is not in the snapshot comes as an event
            while !matches!(world.state_of(&spec.key), Some(RuntimeContainerState::Exited { .. })) {
                world.next_exit();
            }
        }
        for spec in &specs {
            world.block(world.rt().remove_container(&spec.key)).unwrap();
        }
    }
}

#[test]
fn kill_minus_nine_of_the_agent() {
    let mut world = World::new();
    world.end_agent();
    let mut agent = Command::new(std::env::current_exe().unwrap());
    agent.args(["reconnect::agent_process", "--exact", "--nocapture"]);
    agent.env(AGENT_DIR, world.dir.path()).env(AGENT_ID, &world.engine_id);
    let mut agent = GuardedChild::start(&mut agent);
    assert!(agent.lines().any(|line| line.unwrap() == "agent is up"), "the agent came up");
    // A terminal's Ctrl-C is for its process group, which is the agent's alone.
    drop(agent);

    world.reopen();

    let snapshot = world.snapshot();
    assert_eq!(snapshot.state, SandboxReadiness::Ready);
    let states: Vec<_> = snapshot.containers.iter().map(|c| (&c.key.name.0, &c.state)).collect();
    assert!(
        matches!(states[0], (name, RuntimeContainerState::Running { .. }) if name == "long"),
        "{states:?}"
    );
    let short = match &states[1].1 {
        RuntimeContainerState::Exited { exit } => exit.clone(),
        RuntimeContainerState::Running { .. } | RuntimeContainerState::Created => {
            world.next_exit().1
        }
    };
    assert_eq!(
        short.status,
        ExitStatus::Code { code: 6 },
        "its exit was kept, or is still to come"
    );
}

#[test]
fn the_death_of_a_shim_is_told_and_nothing_of_the_sandbox_lives_on() {
    let mut world = World::new();
    let info = world.run_sandbox();
    let spec = world.shell("web", 0, "sleep 100");
    let started = world.start(&spec);
    let container = pidfd(started.pid);
    kill(info.pid);
    let event = world.block(world.rt().next_event());
    assert_eq!(event, RuntimeEvent::SandboxDied { key: world.sandbox() });
    let (key, told) = world.next_exit();
    assert_eq!(
        (key, told.status),
        (spec.key.clone(), ExitStatus::Unknown),
        "nobody waits for it in vain"
    );
    wait_for_end(&container);
    let snapshot = world.snapshot();
    assert_eq!((snapshot.state, &snapshot.info), (SandboxReadiness::NotReady, &None));
    let Some(RuntimeContainerState::Exited { exit }) = world.state_of(&spec.key) else {
        panic!("{snapshot:?}");
    };
    assert_eq!((exit.status, exit.started_at), (ExitStatus::Unknown, started.started_at));
    assert_eq!(exit, told);
    let error = world.block(world.rt().run_sandbox(&sandbox_spec(world.sandbox()))).unwrap_err();
    assert!(error.chain().contains("its shim is gone"), "{}", error.chain());

    world.reopen();
    assert_eq!(world.snapshot(), snapshot, "the next agent tells the same, to the microsecond");
    world.block(world.rt().remove_sandbox(&world.sandbox())).unwrap();
    assert!(world.block(world.rt().snapshot()).unwrap().is_empty());
}

/// A container runs, and then its agent and its shim are gone.
fn die_together(world: &mut World) -> (SandboxInfo, ContainerSpec) {
    let info = world.run_sandbox();
    let spec = world.shell("web", 0, "sleep 100");
    let started = world.start(&spec);
    let (shim, container) = (pidfd(info.pid), pidfd(started.pid));
    world.end_agent();
    kill(info.pid);
    wait_for_end(&shim);
    wait_for_end(&container);
    (info, spec)
}

#[test]
fn a_shim_that_died_with_its_agent_is_found_dead() {
    let mut world = World::new();
    let (_, spec) = die_together(&mut world);
    world.reopen();
    assert_eq!(world.snapshot().state, SandboxReadiness::NotReady);
    let state = world.state_of(&spec.key).unwrap();
    assert!(
        matches!(&state, RuntimeContainerState::Exited { exit } if exit.status == ExitStatus::Unknown),
        "{state:?}"
    );
}

/// Something that listens in place of a shim.
struct StandIn {
    agent: UnixStream,
    input: Vec<u8>,
}

impl StandIn {
    /// Takes the place of the shim of this sandbox, which is gone.
    fn listen(world: &World, info: &SandboxInfo) -> UnixListener {
        let socket = world.path("run").join(&info.id);
        std::fs::remove_file(&socket).unwrap();
        UnixListener::bind(&socket).unwrap()
    }

    fn accept(listener: &UnixListener) -> Self {
        Self { agent: listener.accept().unwrap().0, input: Vec::new() }
    }

    /// `None` when the agent has left.
    fn next_call(&mut self) -> Option<ShimCall> {
        let mut buffer = [0; 4096];
        loop {
            if let Some(call) = frame::take(&mut self.input).unwrap() {
                return Some(call);
            }
            match self.agent.read(&mut buffer).unwrap() {
                0 => return None,
                count => self.input.extend_from_slice(&buffer[..count]),
            }
        }
    }

    fn answer(&mut self, seq: u64, answer: ShimAnswer) {
        let mut output = Vec::new();
        frame::write(&ShimMessage::Answer { seq, result: Ok(answer) }, &mut output).unwrap();
        self.agent.write_all(&output).unwrap();
    }

    /// Tells that it has a sandbox without containers.
    fn tell_state(&mut self) {
        let call = self.next_call().unwrap();
        assert_eq!(call.request, ShimRequest::State);
        self.answer(call.seq, empty_sandbox());
    }
}

fn empty_sandbox() -> ShimAnswer {
    let (pid, sandbox) = (std::process::id(), SandboxPhase::Ready);
    ShimAnswer::State(ShimState {
        pid,
        sandbox,
        containers: Vec::new(),
        roots_ahead: RootsAhead::Made,
    })
}

/// Neither the removal of a container that was begun is answered, nor what has happened meanwhile.
#[test]
fn a_shim_that_is_stuck_while_stock_is_taken_does_not_keep_the_next_agent_from_starting() {
    let mut world = World::new();
    let (info, spec) = die_together(&mut world);
    let listener = StandIn::listen(&world, &info);
    std::thread::spawn(move || {
        let mut shim = StandIn::accept(&listener);
        shim.tell_state();
        while shim.next_call().is_some() {}
    });
    world.reopen();
    assert_eq!(world.snapshot().state, SandboxReadiness::Ready);
    assert_eq!(world.state_of(&spec.key), None, "it was undone");
}

/// As when an agent before this one is not quite gone, and takes the shim over once more.
#[test]
fn a_shim_that_hangs_up_in_the_moment_it_is_found_is_called_again() {
    let mut world = World::new();
    let (info, _) = die_together(&mut world);
    let listener = StandIn::listen(&world, &info);
    let (asked_to_end, ends) = std::sync::mpsc::channel();
    std::thread::spawn(move || {
        drop(StandIn::accept(&listener)); // before it has said anything
        StandIn::accept(&listener).tell_state(); // and right after
        let mut shim = StandIn::accept(&listener);
        while let Some(ShimCall { seq, request }) = shim.next_call() {
            let answer = match request {
                ShimRequest::State => empty_sandbox(),
                ShimRequest::Shutdown => {
                    asked_to_end.send(()).unwrap();
                    ShimAnswer::Done
                }
                other => panic!("nobody asks for {other:?}"),
            };
            shim.answer(seq, answer);
        }
    });
    world.reopen();
    assert_eq!(world.snapshot().state, SandboxReadiness::Ready);
    world.block(world.rt().remove_sandbox(&world.sandbox())).unwrap();
    ends.try_recv().expect("its link works: the shim was asked to end");
}

#[test]
fn shims_ignore_the_signals_of_a_terminal() {
    let world = World::new();
    let info = world.run_sandbox();
    let pid = Pid::from_raw(i32::try_from(info.pid).unwrap()).unwrap();
    for signal in [Signal::INT, Signal::TERM, Signal::HUP, Signal::QUIT, Signal::PIPE] {
        kill_process(pid, signal).unwrap();
    }
    assert_eq!(world.run(&world.shell("web", 0, "exit 4")).status, ExitStatus::Code { code: 4 });
    let group = std::fs::read_to_string(format!("/proc/{}/stat", info.pid)).unwrap();
    let group: u32 = group.rsplit(") ").next().unwrap().split(' ').nth(2).unwrap().parse().unwrap();
    assert_eq!(group, info.pid, "a process group of its own");
}

#[test]
fn half_a_sandbox_from_a_crash_is_cleared_away() {
    let mut world = World::new();
    world.run_sandbox();
    world.end_agent();
    let sandboxes = world.path("data/sandboxes");
    std::fs::create_dir(sandboxes.join("0123456789abcdef01234567")).unwrap();
    std::fs::create_dir(world.path("data/trash/left")).unwrap();
    let stray = std::path::Path::new("/sys/fs/cgroup/memory/rekindle")
        .join(&world.engine_id)
        .join("podgone/7/web-0");
    std::fs::create_dir_all(&stray).unwrap();
    world.reopen();
    assert_eq!(world.snapshot().state, SandboxReadiness::Ready);
    assert_eq!(std::fs::read_dir(&sandboxes).unwrap().count(), 1);
    let trash = world.path("data/trash");
    world.block(world.rt().remove_sandbox(&world.sandbox())).unwrap();
    let kept = world.runtime.take();
    drop(kept);
    drop(world);
    assert!(!stray.exists());
    assert!(!trash.exists());
}

#[test]
fn a_shim_that_is_stopped_is_taken_away_all_the_same() {
    let world = World::new();
    let info = world.run_sandbox();
    let started = world.start(&world.shell("web", 0, "sleep 100"));
    let (shim, container) = (pidfd(info.pid), pidfd(started.pid));
    let pid = Pid::from_raw(i32::try_from(info.pid).unwrap()).unwrap();
    kill_process(pid, Signal::STOP).unwrap();
    world.block(world.rt().remove_sandbox(&world.sandbox())).unwrap();
    wait_for_end(&container);
    wait_for_end(&shim);
    world.block(world.rt().settled());
    assert!(world.block(world.rt().snapshot()).unwrap().is_empty());
}

/// No probe asks it, and no exit is told any more: the pod would seem healthy for ever.
#[test]
fn a_shim_that_is_stopped_is_noticed_although_nothing_is_asked_of_it() {
    let mut world = World::new();
    let info = world.run_sandbox();
    let started = world.start(&world.shell("web", 0, "sleep 100"));
    // the agent that notices is not the one that started the shim
    world.reopen();
    let (shim, container) = (pidfd(info.pid), pidfd(started.pid));
    let pid = Pid::from_raw(i32::try_from(info.pid).unwrap()).unwrap();
    kill_process(pid, Signal::STOP).unwrap();
    let event = world.block(world.rt().next_event());
    assert_eq!(event, RuntimeEvent::SandboxDied { key: world.sandbox() });
    wait_for_end(&container);
    wait_for_end(&shim);
    assert_eq!(world.snapshot().state, SandboxReadiness::NotReady);
    world.block(world.rt().remove_sandbox(&world.sandbox())).unwrap();
}

/// Nobody could end what it holds otherwise: its pod would be terminating for ever.
#[test]
fn a_container_whose_shim_is_stopped_is_killed_with_all_of_its_sandbox() {
    let world = World::new();
    let info = world.run_sandbox();
    let web = world.shell("web", 0, "sleep 100");
    let pids = [&web, &world.shell("other", 0, "sleep 100")].map(|spec| world.start(spec).pid);
    let [shim, web_process, other_process] = [info.pid, pids[0], pids[1]].map(pidfd);
    let pid = Pid::from_raw(i32::try_from(info.pid).unwrap()).unwrap();
    kill_process(pid, Signal::STOP).unwrap();
    world.block(world.rt().signal_container(&web.key, StopSignal::Kill)).unwrap();
    wait_for_end(&web_process);
    wait_for_end(&other_process);
    assert_eq!(world.snapshot().state, SandboxReadiness::NotReady);
    world.block(world.rt().remove_sandbox(&world.sandbox())).unwrap();
    wait_for_end(&shim);
    world.block(world.rt().settled());
    assert!(world.block(world.rt().snapshot()).unwrap().is_empty());
}
