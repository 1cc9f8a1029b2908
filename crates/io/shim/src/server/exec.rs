//! Further commands in running containers. Each begins as a helper process, which forks the command
//! and ends. A command is forgotten when both are reaped.
//!
//! They belong to the connection that asked for them: whoever reads their output is gone with it.

use std::os::fd::{AsFd, OwnedFd};

use rustix::event::epoll::{self, EventFlags};
use rustix::io::Errno;
use rustix::process::{Pid, Signal, WaitId, WaitIdOptions};

use super::ShimServer;
use super::source::WakeSource;
use crate::birth;
use crate::container::{ContainerStage, cause_of};
use crate::launch;
use crate::notes::note;
use crate::problem::{FailureContext, KILLED_UNREADY, errno_text, no_fork};
use crate::protocol::{ExecPlan, ExitCause, FailureKind, ShimAnswer, ShimFailure, ShimMessage};
use crate::report::{JoinReport, REPORT_BYTES_MAX};
use crate::sys;

/// Commands at one time in a sandbox; probes, hooks and people together need far fewer.
const COMMANDS_MAX: usize = 256;

/// One command.
pub(crate) struct RunningCommand {
    id: u64,
    /// The container that it is for.
    slot: String,
    /// The call that waits for the exec; `None` when it was answered.
    waiting: Option<u64>,
    /// Whether its end is told: not that of one whose exec failed.
    end: EndReporting,
    helper: Option<ExecHelper>,
    process: Option<CommandProcess>,
    fate: CommandFate,
}

/// The helper, and the socket that closes when it and the command's exec are done.
struct ExecHelper {
    status: OwnedFd,
    pidfd: OwnedFd,
}

/// Whether a command may go on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum CommandFate {
    Live,
    /// It is killed as soon as it is there.
    Doomed,
}

/// What is done about the end of a command.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum EndReporting {
    Told,
    Silent,
}

struct CommandProcess {
    pid: Pid,
    pidfd: OwnedFd,
    /// How it ended, once it was reaped.
    ended: Option<ExitCause>,
}

impl ShimServer {
    /// `None`: answered when the exec succeeded or failed.
    pub(super) fn exec(
        &mut self,
        plan: &ExecPlan,
        seq: u64,
    ) -> Option<Result<ShimAnswer, ShimFailure>> {
        let files = self.agent.as_mut().map(|agent| agent.take_files(plan.files.passed()));
        let Some(Some(files)) = files else {
            let problem = "the call came without its descriptors";
            return Some(Err(ShimFailure::new(FailureKind::State, problem)));
        };
        match self.begin(plan, files, seq) {
            Ok(()) => None,
            Err(failure) => Some(Err(failure)),
        }
    }

    fn begin(&mut self, plan: &ExecPlan, files: Vec<OwnedFd>, seq: u64) -> Result<(), ShimFailure> {
        let container = self.containers.values().find(|container| container.slot == plan.slot);
        let (Some(container), Some(sandbox)) = (container, &self.sandbox) else {
            return Err(super::containers::no_such(&plan.slot));
        };
        if !matches!(container.stage, ContainerStage::Running { .. }) {
            return Err(launch::not_running(&plan.slot));
        }
        if self.commands.len() >= COMMANDS_MAX {
            let problem = format!("{COMMANDS_MAX} commands run in this pod already");
            return Err(ShimFailure::new(FailureKind::Setup, problem));
        }
        let target =
            launch::JoinTarget { basis: &container.basis, container: container.pidfd.as_fd() };
        let number = self.next_number;
        let (status, helpers_end) = launch::status_sockets()?;
        epoll::add(&self.epoll, &status, WakeSource::CommandStatus(number).pack(), EventFlags::IN)
            .setup(|| "watch the command".to_owned())?;
        let pidfd = launch::join(plan, &target, files, sandbox, helpers_end)?;
        self.next_number += 1;
        let command = RunningCommand {
            id: plan.id,
            slot: plan.slot.clone(),
            waiting: Some(seq),
            end: EndReporting::Told,
            helper: Some(ExecHelper { status, pidfd }),
            process: None,
            fate: CommandFate::Live,
        };
        self.commands.insert(number, command);
        Ok(())
    }

    /// Ends a command and what it started in its session's first process group.
    pub(super) fn kill_command(&mut self, id: u64) {
        if let Some(command) = self.commands.values_mut().find(|command| command.id == id) {
            command.kill();
        }
    }

    /// The agent that asked for them is gone.
    pub(super) fn kill_all_commands(&mut self) {
        for command in self.commands.values_mut() {
            command.waiting = None;
            command.end = EndReporting::Silent;
            command.kill();
        }
    }

    /// Takes all that helper and command have said.
    pub(super) fn read_command_status(&mut self, number: u32) {
        loop {
            let Some(command) = self.commands.get_mut(&number) else { return };
            let Some(ExecHelper { status, .. }) = &command.helper else { return };
            let mut buffer = [0u8; REPORT_BYTES_MAX];
            match rustix::io::read(status, &mut buffer) {
                Err(Errno::INTR) => {}
                Err(Errno::AGAIN) => return,
                Ok(count) => match JoinReport::decode(&buffer[..count]) {
                    Some(JoinReport::Forked(pid)) => self.follow_command(number, pid),
                    Some(JoinReport::NoMemory) => self.command_lost(number, no_fork(Errno::NOMEM)),
                    Some(JoinReport::Failed(failure)) => self.command_failed(number, failure),
                    None => return self.command_started(number),
                },
                Err(_) => return self.command_started(number),
            }
        }
    }

    /// The command was forked. One that cannot be watched is ended: nobody could do it later, and
    /// unreaped it would keep its container from ending.
    fn follow_command(&mut self, number: u32, pid: u32) {
        let source = WakeSource::CommandExit(number).pack();
        let followed = birth::follow_child(pid).and_then(|(pid, pidfd)| {
            epoll::add(&self.epoll, &pidfd, source, EventFlags::IN)
                .inspect_err(|_| birth::end_child(pidfd.as_fd()))?;
            Ok((pid, pidfd))
        });
        let Some(command) = self.commands.get_mut(&number) else { return };
        match followed {
            Ok((pid, pidfd)) => {
                command.process = Some(CommandProcess { pid, pidfd, ended: None });
                if command.fate == CommandFate::Doomed {
                    command.kill();
                }
            }
            Err(errno) => {
                let problem = format!("watch the command: {}", errno_text(errno));
                self.command_failed(number, ShimFailure::new(FailureKind::Setup, problem));
            }
        }
    }

    /// The command was not begun, for this reason unless its container ends.
    fn command_lost(&mut self, number: u32, failure: ShimFailure) {
        let unanswered = self.commands.get(&number).filter(|command| command.waiting.is_some());
        let Some(RunningCommand { slot, .. }) = unanswered else { return };
        let failure = if self.is_over(slot) { launch::not_running(slot) } else { failure };
        self.command_failed(number, failure);
    }

    fn command_failed(&mut self, number: u32, failure: ShimFailure) {
        let Some(command) = self.commands.get_mut(&number) else { return };
        command.end = EndReporting::Silent;
        if let Some(seq) = command.waiting.take() {
            self.answer(seq, Err(failure));
        }
    }

    /// The status socket closed: the helper is gone, and the command's exec succeeded, or it is
    /// dead.
    fn command_started(&mut self, number: u32) {
        let Some(command) = self.commands.get_mut(&number) else { return };
        let Some(helper) = command.helper.take() else { return };
        // It has closed its files already, so it is a zombie any moment.
        reap(&helper.pidfd, WaitIdOptions::EXITED);
        match command.process {
            Some(_) => {
                if let Some(seq) = command.waiting.take() {
                    self.answer(seq, Ok(ShimAnswer::Done));
                }
            }
            None => {
                let killed = ShimFailure::new(FailureKind::Setup, KILLED_UNREADY);
                self.command_lost(number, killed);
            }
        }
        self.forget_ended_command(number);
    }

    /// The command ended.
    pub(super) fn reap_command(&mut self, number: u32) {
        self.read_command_status(number);
        let Some(command) = self.commands.get_mut(&number) else { return };
        let Some(process) = &mut command.process else { return };
        let options = WaitIdOptions::EXITED | WaitIdOptions::NOHANG;
        let Some(cause) = reap(&process.pidfd, options) else { return };
        process.ended = Some(cause);
        // Its descriptor would go on being readable.
        if let Err(errno) = epoll::delete(&self.epoll, &process.pidfd) {
            note(&format!("stop watching a command: {}", errno_text(errno)));
        }
        self.forget_ended_command(number);
    }

    /// Its end is told behind the answer to its call.
    fn forget_ended_command(&mut self, number: u32) {
        let Some(command) = self.commands.get(&number) else { return };
        let cause = match (&command.helper, &command.process) {
            (Some(_), _) | (None, Some(CommandProcess { ended: None, .. })) => return,
            (None, Some(CommandProcess { ended: Some(cause), .. })) => Some(*cause),
            (None, None) => None,
        };
        let (id, end) = (command.id, command.end);
        self.commands.remove(&number);
        if let (EndReporting::Told, Some(cause)) = (end, cause) {
            self.send(&ShimMessage::ExecEnded { id, cause });
        }
    }
}

impl RunningCommand {
    /// Whether this child of the shim is its helper or its process; while there is a helper, any
    /// child may be its process.
    pub(super) fn may_be(&self, child: u32) -> bool {
        let own = |process: &CommandProcess| {
            let number = process.pid.as_raw_nonzero().get().cast_unsigned();
            process.ended.is_none() && number == child
        };
        self.helper.is_some() || self.process.as_ref().is_some_and(own)
    }

    fn kill(&mut self) {
        self.fate = CommandFate::Doomed;
        let Some(process) = &self.process else { return };
        if process.ended.is_some() {
            return;
        }
        // Not a group leader yet when it has just been forked.
        let _ = rustix::process::kill_process_group(process.pid, Signal::KILL);
        match sys::pidfd_send_signal(process.pidfd.as_fd(), libc::SIGKILL) {
            Ok(()) | Err(Errno::SRCH) => {}
            Err(errno) => note(&format!("kill a command: {}", errno_text(errno))),
        }
    }
}

/// Reaps an ended process; `None` while it lives.
fn reap(pidfd: &OwnedFd, options: WaitIdOptions) -> Option<ExitCause> {
    match rustix::process::waitid(WaitId::PidFd(pidfd.as_fd()), options) {
        Ok(Some(status)) => Some(cause_of(status)),
        Ok(None) | Err(Errno::INTR) => None,
        Err(_) => Some(ExitCause::Unknown), // not ours to wait for any more
    }
}
