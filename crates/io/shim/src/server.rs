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

use crate::connection::{AgentConnection, ConnectionState};
use crate::container::{ContainerStage, ShimContainer};
use crate::notes::note;
use crate::problem::errno_text;
use crate::protocol::{
    ClaimPlan, ContainerReport, FailureKind, RootsAhead, SandboxPhase, SandboxPlan, ShimAnswer,
    ShimCall, ShimFailure, ShimMessage, ShimRequest, ShimState,
};
use crate::sandbox::{self, ShimSandbox};
use processes::OrphanReaper;
use roots::ReadyRoots;
use source::WakeSource;

/// The number of a call that nobody waits for any more; agents count from 0.
const NOBODY: u64 = u64::MAX;

/// Whether the loop goes on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum LoopControl {
    Continue,
    Exit,
}

/// All that a shim holds.
pub(crate) struct ShimServer {
    epoll: OwnedFd,
    listener: OwnedFd,
    /// The sandbox's folder on the host, for the state files.
    dir: OwnedFd,
    agent: Option<AgentConnection>,
    sandbox: Option<ShimSandbox>,
    containers: BTreeMap<u32, ShimContainer>,
    commands: BTreeMap<u32, exec::RunningCommand>,
    roots: ReadyRoots,
    next_number: u32,
    /// The call that waits for the last container to end.
    shutdown: Option<u64>,
    orphans: OrphanReaper,
    /// Of containers that ended a moment ago.
    kept_mounts: mounts::RetainedMounts,
}

impl ShimServer {
    pub(crate) fn new(listener: OwnedFd, dir: OwnedFd) -> Result<Self, Errno> {
        let epoll = epoll::create(epoll::CreateFlags::CLOEXEC)?;
        epoll::add(&epoll, &listener, WakeSource::Listener.pack(), EventFlags::IN)?;
        Ok(Self {
            epoll,
            listener,
            dir,
            agent: None,
            sandbox: None,
            containers: BTreeMap::new(),
            commands: BTreeMap::new(),
            roots: ReadyRoots::default(),
            next_number: 1,
            shutdown: None,
            orphans: OrphanReaper::NotOurs,
            kept_mounts: mounts::RetainedMounts::default(),
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
            let mut sources: Vec<WakeSource> =
                events.iter().filter_map(|event| WakeSource::unpack(event.data)).collect();
            sources.sort_by_key(|source| {
                matches!(source, WakeSource::Exit(_) | WakeSource::CommandExit(_))
            });
            for source in sources {
                if self.handle(source) == LoopControl::Exit {
                    return Ok(());
                }
            }
            self.reap_orphans();
            self.kept_mounts.let_go(Instant::now());
        }
    }

    fn handle(&mut self, source: WakeSource) -> LoopControl {
        match source {
            WakeSource::Listener => self.accept(),
            WakeSource::Agent => return self.serve_agent(),
            WakeSource::Status(number) => self.read_status(number),
            WakeSource::Output(number, stream) => self.pump(number, stream),
            WakeSource::CommandStatus(number) => self.read_command_status(number),
            WakeSource::CommandExit(number) => self.reap_command(number),
            WakeSource::Children => self.note_children(),
            WakeSource::Builder(number) => self.reap_builder(number),
            WakeSource::RootBuilder(number) => self.root_made(number),
            WakeSource::Init => return self.reap_init(),
            WakeSource::Exit(number) => return self.reap(number),
        }
        LoopControl::Continue
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
            epoll::add(&self.epoll, &socket, WakeSource::Agent.pack(), EventFlags::IN)?;
            Ok(socket)
        });
        match accepted {
            Ok(socket) => {
                self.kill_all_commands();
                self.roots.clear();
                self.agent = Some(AgentConnection::new(socket));
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

    fn serve_agent(&mut self) -> LoopControl {
        let Some(agent) = &mut self.agent else { return LoopControl::Continue };
        let mut link = agent.read();
        loop {
            let Some(agent) = &mut self.agent else { return LoopControl::Continue };
            match agent.take() {
                Ok(Some(call)) => self.serve(call),
                Ok(None) => break,
                Err(problem) => {
                    note(&problem);
                    link = ConnectionState::Down;
                    break;
                }
            }
        }
        if link == ConnectionState::Up
            && let Some(agent) = &mut self.agent
        {
            link = agent.flush();
        }
        if link == ConnectionState::Down {
            self.agent = None;
        }
        self.watch_unsent();
        if self.agent.is_none() {
            self.kill_all_commands();
        }
        match (&self.agent, &self.sandbox) {
            (None, None) => LoopControl::Exit,
            _ => self.exit_when_done(),
        }
    }

    fn watch_unsent(&mut self) {
        if let Some(agent) = &self.agent {
            let flags =
                if agent.has_unsent() { EventFlags::IN | EventFlags::OUT } else { EventFlags::IN };
            if epoll::modify(&self.epoll, &agent.socket, WakeSource::Agent.pack(), flags).is_err() {
                self.agent = None;
            }
        }
    }

    fn send(&mut self, message: &ShimMessage) {
        if let Some(agent) = &mut self.agent {
            match agent.send(message) {
                ConnectionState::Up => {
                    if agent.has_unsent() {
                        self.watch_unsent();
                    }
                }
                ConnectionState::Down => self.agent = None,
            }
        }
    }

    fn answer(&mut self, seq: u64, result: Result<ShimAnswer, ShimFailure>) {
        self.send(&ShimMessage::Answer { seq, result });
    }

    fn serve(&mut self, call: ShimCall) {
        let seq = call.seq;
        let result = match call.request {
            ShimRequest::Configure(plan) => Some(self.configure(&plan)),
            ShimRequest::Claim(plan) => Some(self.claim(&plan)),
            ShimRequest::Create(plan) => self.create(&plan, seq).transpose(),
            ShimRequest::MakeRoot(plan) => self.make_root(*plan, seq).transpose(),
            ShimRequest::Start { slot } => self.start(&slot, seq),
            ShimRequest::Signal { slot, signal } => Some(self.signal(&slot, signal)),
            ShimRequest::Remove { slot } => self.remove(&slot, seq).transpose(),
            ShimRequest::Exec(plan) => self.exec(&plan, seq),
            ShimRequest::Attach(plan) => Some(self.attach(&plan)),
            ShimRequest::KillExec { id } => {
                self.kill_command(id);
                Some(Ok(ShimAnswer::Done))
            }
            ShimRequest::State => Some(Ok(ShimAnswer::State(self.state()))),
            ShimRequest::Shutdown => {
                self.shut_down(seq);
                None
            }
        };
        if let Some(result) = result {
            self.answer(seq, result);
        }
    }

    fn configure(&mut self, plan: &SandboxPlan) -> Result<ShimAnswer, ShimFailure> {
        if self.sandbox.is_some() {
            return Err(ShimFailure::new(FailureKind::State, "the sandbox stands already"));
        }
        self.sandbox = Some(sandbox::enter(plan)?);
        self.watch_processes(plan.namespaces.processes).map(|()| ShimAnswer::Done)
    }

    fn claim(&mut self, plan: &ClaimPlan) -> Result<ShimAnswer, ShimFailure> {
        let Some(sandbox) = &mut self.sandbox else {
            return Err(ShimFailure::new(FailureKind::State, "there is no sandbox yet"));
        };
        sandbox.claim(plan)?;
        self.watch_processes(plan.processes).map(|()| ShimAnswer::Done)
    }

    fn state(&self) -> ShimState {
        let containers = self.containers.values().filter_map(|container| {
            let phase = container.phase()?;
            Some(ContainerReport { slot: container.slot.clone(), phase })
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

    fn exit_when_done(&mut self) -> LoopControl {
        let Some(seq) = self.shutdown else { return LoopControl::Continue };
        let ended =
            |container: &ShimContainer| matches!(container.stage, ContainerStage::Exited(_));
        if !self.containers.values().all(ended) {
            return LoopControl::Continue;
        }
        if let Some(init) = self.sandbox.as_ref().and_then(|sandbox| sandbox.init.as_ref()) {
            init.end(); // and then this again
            return LoopControl::Continue;
        }
        self.answer(seq, Ok(ShimAnswer::Done));
        LoopControl::Exit
    }
}
