//! The containers: how each is made, started, listened to, reaped and forgotten.

use std::os::fd::{AsFd, OwnedFd};
use std::time::Instant;

use rustix::event::epoll::{self, EventFlags};
use rustix::io::Errno;

use super::mounts;
use super::source::WakeSource;
use super::{LoopControl, ShimServer};
use crate::container::{ContainerFiles, ContainerStage, ShimContainer, StatusPipe};
use crate::launch::{self, ForkedContainer};
use crate::log_records::OutputStream;
use crate::logs::{ContainerLog, PipeState};
use crate::notes::note;
use crate::problem::{FailureContext, KILLED_UNREADY, errno_text};
use crate::protocol::{
    ContainerPlan, ExitCause, ExitRecord, FailureKind, ShimAnswer, ShimFailure, ShimMessage,
    SignalNotice,
};
use crate::report::LaunchReport;
use crate::state_file::{self, StateFile};
use crate::timestamp;

impl ShimServer {
    pub(super) fn find(&self, slot: &str) -> Option<u32> {
        self.containers.iter().find(|(_, container)| container.slot == slot).map(|(n, _)| *n)
    }

    /// `None`: answered by [`Self::read_status`] when the child is ready.
    pub(super) fn create(
        &mut self,
        plan: &ContainerPlan,
        seq: u64,
    ) -> Result<Option<ShimAnswer>, ShimFailure> {
        let Some(sandbox) = &self.sandbox else {
            return Err(ShimFailure::new(FailureKind::State, "there is no sandbox yet"));
        };
        if !state_file::is_valid_slot(&plan.slot) {
            let problem = format!("{:?} is no name for a container", plan.slot);
            return Err(ShimFailure::new(FailureKind::Config, problem));
        }
        if self.shutdown.is_some() {
            return Err(ShimFailure::new(FailureKind::State, "the sandbox is being taken away"));
        }
        let found = self.find(&plan.slot);
        if let Some(container) = found.and_then(|number| self.containers.get_mut(&number)) {
            return Ok(match container.stage {
                ContainerStage::Preparing => {
                    container.create_call = Some(seq);
                    None
                }
                ContainerStage::Created
                | ContainerStage::Starting { .. }
                | ContainerStage::Running { .. }
                | ContainerStage::Exited(_) => Some(container.basis.created()),
            });
        }
        let root = self.roots.take(plan);
        let launched =
            launch::launch(plan, root, sandbox, self.birthplace(&plan.processes, sandbox)?)?;
        // Files are made while the child is at work already: on a disk that takes about as long as
        // a mount.
        let number = self.next_number;
        let files = ContainerLog::open(sandbox, &plan.log).and_then(|log| {
            let state = StateFile::create(&self.dir, &plan.slot)
                .setup(|| format!("make the state file of {}", plan.slot))?;
            self.watch(number, &launched).setup(|| "watch the container".to_owned())?;
            Ok(ContainerFiles { log, state })
        });
        match files {
            Ok(files) => {
                self.next_number += 1;
                self.containers.insert(number, ShimContainer::new(launched, files, plan, seq));
                Ok(None)
            }
            Err(failure) => {
                launched.abandon();
                Err(failure)
            }
        }
    }

    fn watch(&self, number: u32, launched: &ForkedContainer) -> Result<(), Errno> {
        let add = |fd: &OwnedFd, source: WakeSource| {
            epoll::add(&self.epoll, fd, source.pack(), EventFlags::IN)
        };
        let outputs =
            [(&launched.stdout, OutputStream::Stdout), (&launched.stderr, OutputStream::Stderr)];
        add(&launched.pidfd, WakeSource::Exit(number))
            .and_then(|()| add(&launched.status, WakeSource::Status(number)))
            .and_then(|()| match &launched.builder {
                Some(builder) => add(builder, WakeSource::Builder(number)),
                None => Ok(()),
            })
            .and_then(|()| {
                outputs.into_iter().try_for_each(|(pipe, stream)| match pipe {
                    Some(pipe) => add(pipe, WakeSource::Output(number, stream)),
                    None => Ok(()),
                })
            })
    }

    pub(super) fn reap_builder(&mut self, number: u32) {
        // What it had to say came before.
        self.read_status(number);
        let container = self.containers.get_mut(&number);
        if let Some(builder) = container.and_then(ShimContainer::reap_builder)
            && let Err(errno) = epoll::delete(&self.epoll, &builder)
        {
            note(&format!("stop watching a builder: {}", errno_text(errno)));
        }
    }

    /// `None`: answered by [`Self::read_status`] when the exec succeeded or failed. One that is
    /// still being prepared goes on as soon as it is, without another word from its agent.
    pub(super) fn start(
        &mut self,
        slot: &str,
        seq: u64,
    ) -> Option<Result<ShimAnswer, ShimFailure>> {
        let found = self.find(slot);
        let Some((number, container)) = found.and_then(|n| Some((n, self.containers.get_mut(&n)?)))
        else {
            return Some(Err(no_such(slot)));
        };
        let pid = container.pid;
        match &container.stage {
            ContainerStage::Created => {
                container.start_call = Some(seq);
                self.let_go(number);
                None
            }
            ContainerStage::Preparing | ContainerStage::Starting { .. } => {
                container.start_call = Some(seq);
                None
            }
            ContainerStage::Running { started_at_us } => {
                Some(Ok(ShimAnswer::Started { pid, started_at_us: *started_at_us }))
            }
            ContainerStage::Exited(exit) => Some(match exit.cause {
                ExitCause::StartError => {
                    Err(ShimFailure::new(FailureKind::Start, exit.message.clone()))
                }
                ExitCause::Code(_)
                | ExitCause::Signal(_)
                | ExitCause::OomKilled
                | ExitCause::Unknown => {
                    Ok(ShimAnswer::Started { pid, started_at_us: exit.started_at_us })
                }
            }),
        }
    }

    pub(super) fn signal(&mut self, slot: &str, signal: i32) -> Result<ShimAnswer, ShimFailure> {
        let found = self.find(slot);
        let container =
            found.and_then(|n| self.containers.get_mut(&n)).ok_or_else(|| no_such(slot))?;
        container.signal(signal).setup(|| format!("send signal {signal} to {slot}"))?;
        container.notice = SignalNotice::Given;
        Ok(ShimAnswer::Done)
    }

    /// `None`: answered by [`Self::reap`] when the process that was never started is gone.
    pub(super) fn remove(
        &mut self,
        slot: &str,
        seq: u64,
    ) -> Result<Option<ShimAnswer>, ShimFailure> {
        if let Some(number) = self.find(slot)
            && let Some(container) = self.containers.get_mut(&number)
        {
            match container.stage {
                ContainerStage::Exited(_) => drop(self.containers.remove(&number)),
                ContainerStage::Preparing | ContainerStage::Created => {
                    container.removal = Some(seq);
                    container.signal(libc::SIGKILL).setup(|| format!("end {slot}"))?;
                    return Ok(None);
                }
                ContainerStage::Starting { .. } | ContainerStage::Running { .. } => {
                    let problem = format!("container {slot} has not ended");
                    return Err(ShimFailure::new(FailureKind::State, problem));
                }
            }
        }
        state_file::remove(&self.dir, slot).setup(|| format!("remove the state file of {slot}"))?;
        Ok(Some(ShimAnswer::Done))
    }

    pub(super) fn pump(&mut self, number: u32, stream: OutputStream) {
        let Some(container) = self.containers.get_mut(&number) else { return };
        if container.pump(stream) == PipeState::Ended {
            // Closing it takes it out of the epoll.
            match stream {
                OutputStream::Stdout => container.stdout = None,
                OutputStream::Stderr => container.stderr = None,
            }
        }
    }

    /// What a terminal shows is its program's output.
    fn watch_terminal(&mut self, number: u32) {
        let Some(container) = self.containers.get(&number) else { return };
        let Some(terminal) = &container.stdout else { return };
        let source = WakeSource::Output(number, OutputStream::Stdout).pack();
        if let Err(errno) = epoll::add(&self.epoll, terminal, source, EventFlags::IN) {
            note(&format!("watch the terminal of {}: {}", container.slot, errno_text(errno)));
        }
    }

    pub(super) fn read_status(&mut self, number: u32) {
        let Some(container) = self.containers.get_mut(&number) else { return };
        match container.read_status() {
            StatusPipe::Quiet => {}
            StatusPipe::Said(LaunchReport::Ready(identity)) => {
                container.basis.identity = identity;
                if container.take_terminal() {
                    self.watch_terminal(number);
                }
                let Some(container) = self.containers.get_mut(&number) else { return };
                container.stage = ContainerStage::Created;
                let is_to_start = container.start_call.is_some() && container.removal.is_none();
                let created = container.basis.created();
                let create_call = container.create_call.take();
                if is_to_start {
                    self.let_go(number);
                }
                if let Some(seq) = create_call {
                    self.answer(seq, Ok(created));
                }
            }
            StatusPipe::Said(LaunchReport::Failed(failure)) => {
                container.status = None;
                match container.stage {
                    ContainerStage::Preparing | ContainerStage::Created => {
                        self.forget_unready(number, failure)
                    }
                    ContainerStage::Starting { .. }
                    | ContainerStage::Running { .. }
                    | ContainerStage::Exited(_) => {
                        self.end_by_start_error(number, failure);
                    }
                }
            }
            StatusPipe::Closed => {
                container.status = None;
                if let ContainerStage::Starting { at_us: started_at_us } = container.stage {
                    // on disk it runs already
                    container.stage = ContainerStage::Running { started_at_us };
                    let answer = ShimAnswer::Started { pid: container.pid, started_at_us };
                    let start_call = container.start_call.take();
                    if let Some(seq) = start_call {
                        self.answer(seq, Ok(answer));
                    }
                    self.hold_mounts(number);
                }
            }
        }
    }

    /// Disk first: a shim that is killed before it hears of the exec must not leave a start of
    /// which nobody knows.
    fn let_go(&mut self, number: u32) {
        if let Some(container) = self.containers.get_mut(&number) {
            container.begin_start();
        }
        self.persist(number);
        if let Some(container) = self.containers.get_mut(&number) {
            container.go();
        }
    }

    /// When there is time for it: nobody waits any more.
    fn hold_mounts(&mut self, number: u32) {
        let container = self.containers.get_mut(&number);
        if let (Some(container), Some(sandbox)) = (container, &self.sandbox)
            && container.mounts.is_none()
        {
            container.mounts = mounts::open(sandbox, container.pid);
        }
    }

    /// A preparation that failed leaves nothing behind.
    fn forget_unready(&mut self, number: u32, failure: ShimFailure) {
        let Some(mut container) = self.containers.remove(&number) else { return };
        drop(container.reap_builder());
        // The child is on its way out; its closed pidfd leaves the epoll, and nobody else would
        // reap it.
        let options = rustix::process::WaitIdOptions::EXITED;
        let child = rustix::process::WaitId::PidFd(container.pidfd.as_fd());
        if let Err(errno) = rustix::process::waitid(child, options) {
            note(&format!("reap {}: {}", container.slot, errno_text(errno)));
        }
        self.answer_calls(&mut container, &failure);
        if let Some(seq) = container.removal.take() {
            self.answer(seq, Ok(ShimAnswer::Done));
        }
    }

    fn end_by_start_error(&mut self, number: u32, failure: ShimFailure) {
        let Some(container) = self.containers.get_mut(&number) else { return };
        let now_us = timestamp::now_us();
        let exit = ExitRecord {
            cause: ExitCause::StartError,
            started_at_us: now_us,
            finished_at_us: now_us,
            message: failure.problem.clone(),
            oom: None,
        };
        container.stage = ContainerStage::Exited(exit.clone());
        let start_call = container.start_call.take();
        let slot = container.slot.clone();
        self.persist(number);
        match start_call {
            Some(seq) => self.answer(seq, Err(failure)),
            // an agent that came meanwhile takes it for one that runs
            None => self.send(&ShimMessage::Exited { slot, exit }),
        }
    }

    /// Disk first, then the agent: an exit that was told is never forgotten.
    pub(super) fn reap(&mut self, number: u32) -> LoopControl {
        self.read_status(number);
        let Some(container) = self.containers.get_mut(&number) else {
            return LoopControl::Continue;
        };
        let Some(exit) = container.take_end(self.sandbox.as_ref()) else {
            return LoopControl::Continue;
        };
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
        let stage = std::mem::replace(&mut container.stage, ContainerStage::Exited(exit.clone()));
        match (stage, container.removal.take()) {
            (ContainerStage::Preparing | ContainerStage::Created, Some(removal)) => {
                self.forget_ended(number, "it was removed while it was being prepared");
                self.answer(removal, Ok(ShimAnswer::Done));
            }
            (ContainerStage::Preparing, None) => {
                self.forget_ended(number, died_unready(exit.cause))
            }
            (ContainerStage::Exited(start_error), _) => {
                container.stage = ContainerStage::Exited(start_error)
            }
            (
                ContainerStage::Created
                | ContainerStage::Starting { .. }
                | ContainerStage::Running { .. },
                _,
            ) => {
                self.persist(number);
                self.send(&ShimMessage::Exited { slot, exit });
            }
        }
        if let Some(container) = self.containers.get_mut(&number) {
            container.release();
        }
        self.exit_when_done()
    }

    fn forget_ended(&mut self, number: u32, problem: &str) {
        if let Some(mut container) = self.containers.remove(&number) {
            container.release();
            self.answer_calls(&mut container, &ShimFailure::new(FailureKind::Setup, problem));
        }
    }

    /// What is asked of a container that will not be, neither prepared nor started.
    fn answer_calls(&mut self, container: &mut ShimContainer, failure: &ShimFailure) {
        for seq in [container.create_call.take(), container.start_call.take()].into_iter().flatten()
        {
            self.answer(seq, Err(failure.clone()));
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

pub(super) fn no_such(slot: &str) -> ShimFailure {
    ShimFailure::new(FailureKind::State, format!("there is no container {slot} in the sandbox"))
}
