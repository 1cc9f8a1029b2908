//! The shim's loop: one thread, one epoll, woken by the agent's socket, by the containers' pidfds and by their pipes.

mod attach;
mod exec;
mod mounts;
mod processes;

use std::collections::BTreeMap;
use std::os::fd::{AsFd, OwnedFd};
use std::time::Instant;

use rustix::event::epoll::{self, EventData, EventFlags};
use rustix::io::Errno;
use rustix::net::SocketFlags;

use crate::connection::{Connection, Link};
use crate::container::{Container, Files, Stage, StatusPipe, Terminal};
use crate::launch::{self, Launched};
use crate::logs::{Log, Pipe, Stream};
use crate::notes::note;
use crate::problem::{Context, KILLED_UNREADY, errno_text};
use crate::protocol::{
    Answer, Call, ClaimPlan, ContainerPlan, ContainerState, ExitCause, ExitRecord, Failure,
    FailureKind, Message, Request, SandboxPhase, SandboxPlan, ShimState,
};
use crate::report::Report;
use crate::sandbox::{self, Sandbox};
use crate::state_file::StateFile;
use crate::{state_file, timestamp};
use processes::Orphans;

/// The number of a call that nobody waits for any more; agents count from 0.
const NOBODY: u64 = u64::MAX;

/// What a wake-up is about. Packed into epoll's 64 bits: the container's number, then three bits for which of its files.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Source {
    Listener,
    Agent,
    /// The first process of the containers' common PID namespace.
    Init,
    /// Some child has ended.
    Children,
    /// The process that puts a container's root together has ended.
    Builder(u32),
    Exit(u32),
    Status(u32),
    Output(u32, Stream),
    CommandStatus(u32),
    CommandExit(u32),
}

impl Source {
    fn pack(self) -> EventData {
        let (number, file) = match self {
            Source::Listener => (0, 0),
            Source::Agent => (0, 1),
            // No container has the number 0.
            Source::Init => (0, 2),
            Source::Children => (0, 3),
            Source::Builder(number) => (number, 0),
            Source::Exit(number) => (number, 2),
            Source::Status(number) => (number, 3),
            Source::Output(number, Stream::Stdout) => (number, 4),
            Source::Output(number, Stream::Stderr) => (number, 5),
            Source::CommandStatus(number) => (number, 6),
            Source::CommandExit(number) => (number, 7),
        };
        EventData::new_u64(u64::from(number) << 3 | file)
    }

    fn unpack(data: EventData) -> Option<Self> {
        let number = u32::try_from(data.u64() >> 3).ok()?;
        Some(match data.u64() & 7 {
            0 if number == 0 => Source::Listener,
            0 => Source::Builder(number),
            1 => Source::Agent,
            2 if number == 0 => Source::Init,
            3 if number == 0 => Source::Children,
            2 => Source::Exit(number),
            3 => Source::Status(number),
            4 => Source::Output(number, Stream::Stdout),
            5 => Source::Output(number, Stream::Stderr),
            6 => Source::CommandStatus(number),
            7 => Source::CommandExit(number),
            _ => return None,
        })
    }
}

/// Whether the loop goes on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Next {
    Continue,
    Exit,
}

/// All that a shim holds.
pub(crate) struct Server {
    epoll: OwnedFd,
    listener: OwnedFd,
    /// The sandbox's folder on the host, for the state files.
    dir: OwnedFd,
    agent: Option<Connection>,
    sandbox: Option<Sandbox>,
    containers: BTreeMap<u32, Container>,
    commands: BTreeMap<u32, exec::Command>,
    next_number: u32,
    /// The call that waits for the last container to end.
    shutdown: Option<u64>,
    orphans: Orphans,
    /// Of containers that ended a moment ago.
    kept_mounts: mounts::Kept,
}

impl Server {
    pub(crate) fn new(listener: OwnedFd, dir: OwnedFd) -> Result<Self, Errno> {
        let epoll = epoll::create(epoll::CreateFlags::CLOEXEC)?;
        epoll::add(&epoll, &listener, Source::Listener.pack(), EventFlags::IN)?;
        Ok(Self {
            epoll,
            listener,
            dir,
            agent: None,
            sandbox: None,
            containers: BTreeMap::new(),
            commands: BTreeMap::new(),
            next_number: 1,
            shutdown: None,
            orphans: Orphans::NotOurs,
            kept_mounts: mounts::Kept::default(),
        })
    }

    /// Serves until it is told to shut down, or until its agent goes away before there is a sandbox to hold.
    pub(crate) fn run(&mut self) -> Result<(), Errno> {
        let mut events = Vec::with_capacity(16);
        loop {
            events.clear();
            let timeout = self.kept_mounts.timeout(Instant::now());
            let space = rustix::buffer::spare_capacity(&mut events);
            match epoll::wait(&self.epoll, space, timeout.as_ref()) {
                Ok(_) | Err(Errno::INTR) => {}
                Err(errno) => return Err(errno),
            }
            // Exits last: what the pipes say of the same moment came before.
            let mut sources: Vec<Source> =
                events.iter().filter_map(|event| Source::unpack(event.data)).collect();
            sources
                .sort_by_key(|source| matches!(source, Source::Exit(_) | Source::CommandExit(_)));
            for source in sources {
                if self.handle(source) == Next::Exit {
                    return Ok(());
                }
            }
            self.reap_orphans();
            self.kept_mounts.let_go(Instant::now());
        }
    }

    fn handle(&mut self, source: Source) -> Next {
        match source {
            Source::Listener => self.accept(),
            Source::Agent => return self.serve_agent(),
            Source::Status(number) => self.read_status(number),
            Source::Output(number, stream) => self.pump(number, stream),
            Source::CommandStatus(number) => self.read_command_status(number),
            Source::CommandExit(number) => self.reap_command(number),
            Source::Children => self.note_children(),
            Source::Builder(number) => self.reap_builder(number),
            Source::Init => return self.reap_init(),
            Source::Exit(number) => return self.reap(number),
        }
        Next::Continue
    }

    /// The newest agent is the one that counts: an older connection belongs to one that is gone, or about to be.
    fn accept(&mut self) {
        let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
        let accepted = rustix::net::accept_with(&self.listener, flags).and_then(|socket| {
            let peer = rustix::net::sockopt::socket_peercred(&socket)?;
            if peer.uid != rustix::process::getuid() {
                return Err(Errno::PERM);
            }
            epoll::add(&self.epoll, &socket, Source::Agent.pack(), EventFlags::IN)?;
            Ok(socket)
        });
        match accepted {
            Ok(socket) => {
                self.kill_all_commands();
                self.agent = Some(Connection::new(socket));
                for container in self.containers.values_mut() {
                    // Numbers of the agent before mean nothing to this one.
                    container.waiting = None;
                    container.removal = container.removal.map(|_| NOBODY);
                }
                self.shutdown = self.shutdown.map(|_| NOBODY);
            }
            Err(errno) => note(&format!("accept an agent: {}", errno_text(errno))),
        }
    }

    fn serve_agent(&mut self) -> Next {
        let Some(agent) = &mut self.agent else { return Next::Continue };
        let mut link = agent.read();
        loop {
            let Some(agent) = &mut self.agent else { return Next::Continue };
            match agent.take() {
                Ok(Some(call)) => self.serve(call),
                Ok(None) => break,
                Err(problem) => {
                    note(&problem);
                    link = Link::Down;
                    break;
                }
            }
        }
        if link == Link::Up
            && let Some(agent) = &mut self.agent
        {
            link = agent.flush();
        }
        if link == Link::Down {
            self.agent = None;
        }
        self.watch_unsent();
        if self.agent.is_none() {
            self.kill_all_commands();
        }
        match (&self.agent, &self.sandbox) {
            (None, None) => Next::Exit,
            _ => self.exit_when_done(),
        }
    }

    fn watch_unsent(&mut self) {
        if let Some(agent) = &self.agent {
            let flags =
                if agent.has_unsent() { EventFlags::IN | EventFlags::OUT } else { EventFlags::IN };
            if epoll::modify(&self.epoll, &agent.socket, Source::Agent.pack(), flags).is_err() {
                self.agent = None;
            }
        }
    }

    fn send(&mut self, message: &Message) {
        if let Some(agent) = &mut self.agent {
            match agent.send(message) {
                Link::Up => {
                    if agent.has_unsent() {
                        self.watch_unsent();
                    }
                }
                Link::Down => self.agent = None,
            }
        }
    }

    fn answer(&mut self, seq: u64, result: Result<Answer, Failure>) {
        self.send(&Message::Answer { seq, result });
    }

    fn serve(&mut self, call: Call) {
        let seq = call.seq;
        let result = match call.request {
            Request::Configure(plan) => Some(self.configure(&plan)),
            Request::Claim(plan) => Some(self.claim(&plan)),
            Request::Create(plan) => self.create(&plan, seq).transpose(),
            Request::Start { slot } => self.start(&slot, seq),
            Request::Signal { slot, signal } => Some(self.signal(&slot, signal)),
            Request::Remove { slot } => self.remove(&slot, seq).transpose(),
            Request::Exec(plan) => self.exec(&plan, seq),
            Request::Attach(plan) => Some(self.attach(&plan)),
            Request::KillExec { id } => {
                self.kill_command(id);
                Some(Ok(Answer::Done))
            }
            Request::State => Some(Ok(Answer::State(self.state()))),
            Request::Shutdown => {
                self.shut_down(seq);
                None
            }
        };
        if let Some(result) = result {
            self.answer(seq, result);
        }
    }

    fn configure(&mut self, plan: &SandboxPlan) -> Result<Answer, Failure> {
        if self.sandbox.is_some() {
            return Err(Failure::new(FailureKind::State, "the sandbox stands already"));
        }
        self.sandbox = Some(sandbox::enter(plan)?);
        self.watch_processes(plan.namespaces.processes).map(|()| Answer::Done)
    }

    fn claim(&mut self, plan: &ClaimPlan) -> Result<Answer, Failure> {
        let Some(sandbox) = &mut self.sandbox else {
            return Err(Failure::new(FailureKind::State, "there is no sandbox yet"));
        };
        sandbox.claim(plan)?;
        self.watch_processes(plan.processes).map(|()| Answer::Done)
    }

    fn find(&self, slot: &str) -> Option<u32> {
        self.containers.iter().find(|(_, container)| container.slot == slot).map(|(n, _)| *n)
    }

    /// `None`: answered by [`Self::read_status`] when the child is ready.
    fn create(&mut self, plan: &ContainerPlan, seq: u64) -> Result<Option<Answer>, Failure> {
        let Some(sandbox) = &self.sandbox else {
            return Err(Failure::new(FailureKind::State, "there is no sandbox yet"));
        };
        if !state_file::is_valid_slot(&plan.slot) {
            let problem = format!("{:?} is no name for a container", plan.slot);
            return Err(Failure::new(FailureKind::Config, problem));
        }
        if self.shutdown.is_some() {
            return Err(Failure::new(FailureKind::State, "the sandbox is being taken away"));
        }
        let found = self.find(&plan.slot);
        if let Some(container) = found.and_then(|number| self.containers.get_mut(&number)) {
            return Ok(match container.stage {
                Stage::Preparing => {
                    container.waiting = Some(seq);
                    None
                }
                Stage::Created
                | Stage::Starting { .. }
                | Stage::Running { .. }
                | Stage::Exited(_) => Some(container.basis.created()),
            });
        }
        let launched = launch::launch(plan, sandbox, self.birthplace(&plan.processes, sandbox)?)?;
        // Files are made while the child is at work already: on a disk that takes about as long as a mount.
        let number = self.next_number;
        let files = Log::open(sandbox, &plan.log).and_then(|log| {
            let state = StateFile::create(&self.dir, &plan.slot)
                .setup(|| format!("make the state file of {}", plan.slot))?;
            self.watch(number, &launched).setup(|| "watch the container".to_owned())?;
            Ok(Files { log, state })
        });
        match files {
            Ok(files) => {
                self.next_number += 1;
                self.containers.insert(number, Container::new(launched, files, plan, seq));
                Ok(None)
            }
            Err(failure) => {
                launched.abandon();
                Err(failure)
            }
        }
    }

    fn watch(&self, number: u32, launched: &Launched) -> Result<(), Errno> {
        let add = |fd: &OwnedFd, source: Source| {
            epoll::add(&self.epoll, fd, source.pack(), EventFlags::IN)
        };
        let outputs = [(&launched.stdout, Stream::Stdout), (&launched.stderr, Stream::Stderr)];
        add(&launched.pidfd, Source::Exit(number))
            .and_then(|()| add(&launched.status, Source::Status(number)))
            .and_then(|()| match &launched.builder {
                Some(builder) => add(builder, Source::Builder(number)),
                None => Ok(()),
            })
            .and_then(|()| {
                outputs.into_iter().try_for_each(|(pipe, stream)| match pipe {
                    Some(pipe) => add(pipe, Source::Output(number, stream)),
                    None => Ok(()),
                })
            })
    }

    fn reap_builder(&mut self, number: u32) {
        // What it had to say came before.
        self.read_status(number);
        let container = self.containers.get_mut(&number);
        if let Some(builder) = container.and_then(Container::reap_builder)
            && let Err(errno) = epoll::delete(&self.epoll, &builder)
        {
            note(&format!("stop watching a builder: {}", errno_text(errno)));
        }
    }

    /// `None`: answered by [`Self::read_status`] when the exec succeeded or failed.
    fn start(&mut self, slot: &str, seq: u64) -> Option<Result<Answer, Failure>> {
        let number = self.find(slot);
        let Some(container) = number.and_then(|number| self.containers.get_mut(&number)) else {
            return Some(Err(no_such(slot)));
        };
        let pid = container.pid;
        match &container.stage {
            Stage::Created => {
                container.go();
                container.waiting = Some(seq);
                None
            }
            Stage::Preparing => {
                let problem = format!("container {slot} is not ready yet");
                Some(Err(Failure::new(FailureKind::State, problem)))
            }
            Stage::Starting { at_us: started_at_us } | Stage::Running { started_at_us } => {
                Some(Ok(Answer::Started { pid, started_at_us: *started_at_us }))
            }
            Stage::Exited(exit) => Some(match exit.cause {
                ExitCause::StartError => {
                    Err(Failure::new(FailureKind::Start, exit.message.clone()))
                }
                ExitCause::Code(_)
                | ExitCause::Signal(_)
                | ExitCause::OomKilled
                | ExitCause::Unknown => {
                    Ok(Answer::Started { pid, started_at_us: exit.started_at_us })
                }
            }),
        }
    }

    fn signal(&mut self, slot: &str, signal: i32) -> Result<Answer, Failure> {
        let container =
            self.find(slot).and_then(|n| self.containers.get(&n)).ok_or_else(|| no_such(slot))?;
        container.signal(signal).setup(|| format!("send signal {signal} to {slot}"))?;
        Ok(Answer::Done)
    }

    /// `None`: answered by [`Self::reap`] when the process that was never started is gone.
    fn remove(&mut self, slot: &str, seq: u64) -> Result<Option<Answer>, Failure> {
        if let Some(number) = self.find(slot)
            && let Some(container) = self.containers.get_mut(&number)
        {
            match container.stage {
                Stage::Exited(_) => drop(self.containers.remove(&number)),
                Stage::Preparing | Stage::Created => {
                    container.removal = Some(seq);
                    container.signal(libc::SIGKILL).setup(|| format!("end {slot}"))?;
                    return Ok(None);
                }
                Stage::Starting { .. } | Stage::Running { .. } => {
                    let problem = format!("container {slot} has not ended");
                    return Err(Failure::new(FailureKind::State, problem));
                }
            }
        }
        state_file::remove(&self.dir, slot).setup(|| format!("remove the state file of {slot}"))?;
        Ok(Some(Answer::Done))
    }

    fn state(&self) -> ShimState {
        let containers = self.containers.values().filter_map(|container| {
            let phase = container.phase()?;
            Some(ContainerState { slot: container.slot.clone(), phase })
        });
        ShimState {
            pid: std::process::id(),
            sandbox: match self.sandbox {
                Some(_) => SandboxPhase::Ready,
                None => SandboxPhase::Absent,
            },
            containers: containers.collect(),
        }
    }

    fn shut_down(&mut self, seq: u64) {
        self.shutdown = Some(seq);
        for container in self.containers.values() {
            if let Err(errno) = container.signal(libc::SIGKILL) {
                note(&format!("kill {}: {}", container.slot, errno_text(errno)));
            }
        }
    }

    fn exit_when_done(&mut self) -> Next {
        let Some(seq) = self.shutdown else { return Next::Continue };
        let ended = |container: &Container| matches!(container.stage, Stage::Exited(_));
        if !self.containers.values().all(ended) {
            return Next::Continue;
        }
        if let Some(init) = self.sandbox.as_ref().and_then(|sandbox| sandbox.init.as_ref()) {
            init.end(); // and then this again
            return Next::Continue;
        }
        self.answer(seq, Ok(Answer::Done));
        Next::Exit
    }

    fn pump(&mut self, number: u32, stream: Stream) {
        let Some(container) = self.containers.get_mut(&number) else { return };
        if container.pump(stream) == Pipe::Ended {
            // Closing it takes it out of the epoll.
            match stream {
                Stream::Stdout => container.stdout = None,
                Stream::Stderr => container.stderr = None,
            }
        }
    }

    /// What a terminal shows is its program's output.
    fn watch_terminal(&mut self, number: u32) {
        let Some(container) = self.containers.get(&number) else { return };
        let Some(terminal) = &container.stdout else { return };
        let source = Source::Output(number, Stream::Stdout).pack();
        if let Err(errno) = epoll::add(&self.epoll, terminal, source, EventFlags::IN) {
            note(&format!("watch the terminal of {}: {}", container.slot, errno_text(errno)));
        }
    }

    fn read_status(&mut self, number: u32) {
        let Some(container) = self.containers.get_mut(&number) else { return };
        match container.read_status() {
            StatusPipe::Quiet => {}
            StatusPipe::Said(Report::Ready(identity)) => {
                container.basis.identity = identity;
                let taken = container.take_terminal();
                if taken == Terminal::Taken {
                    self.watch_terminal(number);
                }
                let Some(container) = self.containers.get_mut(&number) else { return };
                container.stage = Stage::Created;
                if let Some(seq) = container.waiting.take() {
                    let created = container.basis.created();
                    self.answer(seq, Ok(created));
                }
            }
            StatusPipe::Said(Report::Failed(failure)) => {
                container.status = None;
                match container.stage {
                    Stage::Preparing | Stage::Created => self.forget_unready(number, failure),
                    Stage::Starting { .. } | Stage::Running { .. } | Stage::Exited(_) => {
                        self.end_by_start_error(number, failure);
                    }
                }
            }
            StatusPipe::Closed => {
                container.status = None;
                if let Stage::Starting { at_us: started_at_us } = container.stage {
                    container.stage = Stage::Running { started_at_us };
                    let answer = Answer::Started { pid: container.pid, started_at_us };
                    let waiting = container.waiting.take();
                    self.persist(number);
                    if let Some(seq) = waiting {
                        self.answer(seq, Ok(answer));
                    }
                    self.hold_mounts(number);
                }
            }
        }
    }

    /// When there is time for it: nobody waits any more.
    fn hold_mounts(&mut self, number: u32) {
        let container = self.containers.get_mut(&number);
        if let (Some(container), Some(sandbox)) = (container, &self.sandbox) {
            container.mounts = mounts::open(sandbox, container.pid);
        }
    }

    /// A preparation that failed leaves nothing behind.
    fn forget_unready(&mut self, number: u32, failure: Failure) {
        let Some(mut container) = self.containers.remove(&number) else { return };
        drop(container.reap_builder());
        // The child is on its way out; its closed pidfd leaves the epoll, and nobody else would reap it.
        let options = rustix::process::WaitIdOptions::EXITED;
        let child = rustix::process::WaitId::PidFd(container.pidfd.as_fd());
        if let Err(errno) = rustix::process::waitid(child, options) {
            note(&format!("reap {}: {}", container.slot, errno_text(errno)));
        }
        if let Some(seq) = container.waiting.take() {
            self.answer(seq, Err(failure));
        }
        if let Some(seq) = container.removal.take() {
            self.answer(seq, Ok(Answer::Done));
        }
    }

    fn end_by_start_error(&mut self, number: u32, failure: Failure) {
        let Some(container) = self.containers.get_mut(&number) else { return };
        let now_us = timestamp::now_us();
        container.stage = Stage::Exited(ExitRecord {
            cause: ExitCause::StartError,
            started_at_us: now_us,
            finished_at_us: now_us,
            message: failure.problem.clone(),
            oom: None,
        });
        let waiting = container.waiting.take();
        self.persist(number);
        if let Some(seq) = waiting {
            self.answer(seq, Err(failure));
        }
    }

    /// Disk first, then the agent: an exit that was told is never forgotten.
    fn reap(&mut self, number: u32) -> Next {
        self.read_status(number);
        let Some(container) = self.containers.get_mut(&number) else { return Next::Continue };
        let Some(exit) = container.reap(self.sandbox.as_ref()) else { return Next::Continue };
        if let Err(errno) = epoll::delete(&self.epoll, &container.pidfd) {
            note(&format!("stop watching {}: {}", container.slot, errno_text(errno)));
        }
        let lost_bytes = container.log.lost_bytes();
        if lost_bytes > 0 {
            note(&format!("{lost_bytes} bytes of {}'s output are lost", container.slot));
        }
        if let Some(mounts) = container.mounts.take() {
            self.kept_mounts.keep(Instant::now(), mounts);
        }
        let slot = container.slot.clone();
        let stage = std::mem::replace(&mut container.stage, Stage::Exited(exit.clone()));
        match (stage, container.removal.take()) {
            (Stage::Preparing | Stage::Created, Some(removal)) => {
                self.forget_ended(number, "it was removed while it was being prepared");
                self.answer(removal, Ok(Answer::Done));
            }
            (Stage::Preparing, None) => self.forget_ended(number, died_unready(exit.cause)),
            (Stage::Exited(start_error), _) => container.stage = Stage::Exited(start_error),
            (Stage::Created | Stage::Starting { .. } | Stage::Running { .. }, _) => {
                self.persist(number);
                self.send(&Message::Exited { slot, exit });
            }
        }
        self.exit_when_done()
    }

    fn forget_ended(&mut self, number: u32, problem: &str) {
        let container = self.containers.remove(&number);
        if let Some(seq) = container.and_then(|mut container| container.waiting.take()) {
            self.answer(seq, Err(Failure::new(FailureKind::Setup, problem)));
        }
    }

    /// A disk that is full loses the record, not the exit: this process knows it still.
    fn persist(&self, number: u32) {
        let Some(container) = self.containers.get(&number) else { return };
        let Some(phase) = container.phase() else { return };
        if let Err(errno) = container.state.write(&phase) {
            note(&format!("write the state of {}: {}", container.slot, errno_text(errno)));
        }
    }
}

fn died_unready(cause: ExitCause) -> &'static str {
    match cause {
        ExitCause::OomKilled => "its memory limit is too small to start anything",
        ExitCause::Signal(_) | ExitCause::Code(_) | ExitCause::StartError | ExitCause::Unknown => {
            KILLED_UNREADY
        }
    }
}

fn no_such(slot: &str) -> Failure {
    Failure::new(FailureKind::State, format!("there is no container {slot} in the sandbox"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sources_survive_epoll() {
        let sources = [
            Source::Listener,
            Source::Agent,
            Source::Init,
            Source::Children,
            Source::Builder(1),
            Source::Exit(1),
            Source::Status(u32::MAX),
            Source::Output(7, Stream::Stdout),
            Source::Output(7, Stream::Stderr),
            Source::CommandStatus(8),
            Source::CommandExit(9),
        ];
        for source in sources {
            assert_eq!(Source::unpack(source.pack()), Some(source));
        }
    }
}
