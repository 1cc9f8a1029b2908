//! The shim's loop: one thread, one epoll, woken by the agent's socket, by the containers' pidfds
//! and by their pipes.

mod attach;
mod containers;
mod exec;
mod mounts;
mod processes;
mod roots;
mod source;

use std::collections::BTreeMap;
use std::os::fd::OwnedFd;
use std::time::Instant;

use rustix::event::epoll::{self, EventFlags};
use rustix::io::Errno;
use rustix::net::SocketFlags;

use crate::connection::{Connection, Link};
use crate::container::{Container, Stage};
use crate::notes::note;
use crate::problem::errno_text;
use crate::protocol::{
    Answer, Call, ClaimPlan, ContainerState, Failure, FailureKind, Message, Request, RootsAhead,
    SandboxPhase, SandboxPlan, ShimState,
};
use crate::sandbox::{self, Sandbox};
use processes::Orphans;
use roots::Roots;
use source::Source;

/// The number of a call that nobody waits for any more; agents count from 0.
const NOBODY: u64 = u64::MAX;

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
    roots: Roots,
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
            roots: Roots::default(),
            next_number: 1,
            shutdown: None,
            orphans: Orphans::NotOurs,
            kept_mounts: mounts::Kept::default(),
        })
    }

    /// Serves until it is told to shut down, or until its agent goes away before there is a sandbox
    /// to hold.
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
            Source::RootBuilder(number) => self.root_made(number),
            Source::Init => return self.reap_init(),
            Source::Exit(number) => return self.reap(number),
        }
        Next::Continue
    }

    /// The newest agent is the one that counts: an older connection belongs to one that is gone, or
    /// about to be.
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
                self.roots.clear();
                self.agent = Some(Connection::new(socket));
                for container in self.containers.values_mut() {
                    // Numbers of the agent before mean nothing to this one.
                    container.create_call = None;
                    container.start_call = None;
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
            Request::MakeRoot(plan) => self.make_root(*plan, seq).transpose(),
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
            roots_ahead: RootsAhead::Made,
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
}
