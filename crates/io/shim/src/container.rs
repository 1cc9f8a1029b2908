//! One container in its shim.
//!
//! `Preparing → Created → Starting → Running → Exited`; a container whose preparation fails is
//! forgotten, one whose exec fails goes from Starting to Exited, and any of them can be killed.

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use rustix::io::Errno;
use rustix::process::{WaitId, WaitIdOptions, WaitIdStatus};

use crate::cgroup;
use crate::launch::{ForkedContainer, JoinPlan};
use crate::log_records::OutputStream;
use crate::logs::{ContainerLog, PipeState};
use crate::notes::note;
use crate::oom::SHELL_KILLED;
use crate::pipes::{send_file, set_nonblocking};
use crate::problem::errno_text;
use crate::protocol::{
    ContainerPhase, ContainerPlan, ExitCause, ExitRecord, FileSource, OomRecord, PidNamespacePlan,
    ShimFailure, SignalNotice, StdinPlan,
};
use crate::report::{LaunchReport, REPORT_BYTES_MAX};
use crate::sandbox::ShimSandbox;
use crate::state_file::StateFile;
use crate::sys;
use crate::timestamp;

/// Where a container is.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum ContainerStage {
    /// The child makes mounts.
    Preparing,
    /// The child waits for the word.
    Created,
    /// It got the word; its exec has not answered yet.
    Starting { at_us: u64 },
    /// The command runs.
    Running { started_at_us: u64 },
    /// It has ended.
    Exited(ExitRecord),
}

/// A container.
pub(crate) struct ShimContainer {
    pub(crate) slot: String,
    pub(crate) pid: u32,
    pub(crate) stage: ContainerStage,
    /// The call that waits until it is prepared.
    pub(crate) create_call: Option<u64>,
    /// The call that waits until its command runs. One that comes while it is being prepared is why
    /// it goes on then.
    pub(crate) start_call: Option<u64>,
    /// The call that waits for its removal.
    pub(crate) removal: Option<u64>,
    pub(crate) pidfd: OwnedFd,
    pub(crate) status: Option<OwnedFd>,
    go: Option<OwnedFd>,
    pub(crate) stdout: Option<OwnedFd>,
    pub(crate) stderr: Option<OwnedFd>,
    /// Where its input is written.
    stdin: Option<OwnedFd>,
    stdin_plan: StdinPlan,
    /// Over which its terminal comes.
    console: Option<OwnedFd>,
    /// Who puts its root together, until it is reaped.
    builder: Option<OwnedFd>,
    /// Closed when it ends, which those at the other ends wait for.
    pub(crate) attachments: Vec<OwnedFd>,
    pub(crate) log: ContainerLog,
    pub(crate) state: StateFile,
    /// Where its processes are.
    pub(crate) processes: PidNamespacePlan,
    is_reaped: bool,
    /// Whether it was asked to end.
    pub(crate) notice: SignalNotice,
    /// Its mount namespace, once it runs; without it its end takes longer (see [`crate::server`]).
    pub(crate) mounts: Option<OwnedFd>,
    /// For further commands in it.
    pub(crate) basis: JoinPlan,
}

/// What becomes of processes that outlive a container's first one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum SurvivorPolicy {
    /// There are none: their PID namespace ends with its first process.
    None,
    /// They are killed.
    Killed,
}

impl SurvivorPolicy {
    fn from_plan(plan: &PidNamespacePlan) -> Self {
        match plan {
            PidNamespacePlan::Own => Self::None,
            PidNamespacePlan::Sandbox
            | PidNamespacePlan::Host
            | PidNamespacePlan::Container { .. } => Self::Killed,
        }
    }
}

/// The files of a container, open.
pub(crate) struct ContainerFiles {
    pub(crate) log: ContainerLog,
    pub(crate) state: StateFile,
}

/// What the status pipe says.
pub(crate) enum StatusPipe {
    /// Nothing more now.
    Quiet,
    /// A report.
    Said(LaunchReport),
    /// Closed: by the exec, or by death.
    Closed,
}

impl ShimContainer {
    pub(crate) fn new(
        launched: ForkedContainer,
        files: ContainerFiles,
        plan: &ContainerPlan,
        create_call: u64,
    ) -> Self {
        Self {
            slot: plan.slot.clone(),
            pid: launched.pid,
            stage: ContainerStage::Preparing,
            create_call: Some(create_call),
            start_call: None,
            removal: None,
            pidfd: launched.pidfd,
            status: Some(launched.status),
            go: Some(launched.go),
            stdout: launched.stdout,
            stderr: launched.stderr,
            stdin: launched.stdin,
            stdin_plan: plan.stdio.stdin,
            console: launched.console,
            builder: launched.builder,
            attachments: Vec::new(),
            log: files.log,
            state: files.state,
            processes: plan.processes.clone(),
            is_reaped: false,
            notice: SignalNotice::NotGiven,
            mounts: launched.mounts,
            basis: JoinPlan::from_plan(plan),
        }
    }

    /// As the agent and the state file see it. A container in Preparing is not there yet.
    pub(crate) fn phase(&self) -> Option<ContainerPhase> {
        match &self.stage {
            ContainerStage::Preparing => None,
            ContainerStage::Created => Some(ContainerPhase::Created),
            ContainerStage::Starting { at_us: started_at_us }
            | ContainerStage::Running { started_at_us } => {
                let (pid, notice) = (self.pid, self.notice);
                Some(ContainerPhase::Running { pid, started_at_us: *started_at_us, notice })
            }
            ContainerStage::Exited(exit) => {
                Some(ContainerPhase::Exited { pid: self.pid, exit: exit.clone() })
            }
        }
    }

    /// Whether a child of this number is its first process.
    pub(crate) fn is_process(&self, child: u32) -> bool {
        self.pid == child && !self.is_reaped
    }

    /// Reads one report.
    pub(crate) fn read_status(&mut self) -> StatusPipe {
        let Some(status) = &self.status else { return StatusPipe::Closed };
        let mut buffer = [0u8; REPORT_BYTES_MAX];
        loop {
            match rustix::io::read(status, &mut buffer) {
                Ok(count) => match LaunchReport::decode(&buffer[..count]) {
                    Some(report) => return StatusPipe::Said(report),
                    None => return StatusPipe::Closed,
                },
                Err(Errno::INTR) => {}
                Err(Errno::AGAIN) => return StatusPipe::Quiet,
                Err(_) => return StatusPipe::Closed,
            }
        }
    }

    /// Takes the other side of its terminal, if it has one, which was sent before the report that
    /// it is ready. True if it has come.
    pub(crate) fn take_terminal(&mut self) -> bool {
        let Some(console) = self.console.take() else { return false };
        let taken = sys::receive_file(&console).and_then(|master| {
            set_nonblocking(&master)?;
            Ok((rustix::io::fcntl_dupfd_cloexec(&master, 3)?, master))
        });
        match taken {
            Ok((output, input)) => {
                (self.stdout, self.stdin) = (Some(output), Some(input));
                true
            }
            Err(_) => false, // its output is lost, and its program hangs up
        }
    }

    /// Sends the writing end of the input over a socket, if that is wanted and there is one. Of an
    /// input that is for the first only, nothing stays here.
    pub(crate) fn hand_over_input(
        &mut self,
        wanted: FileSource,
        socket: BorrowedFd<'_>,
    ) -> Result<(), ShimFailure> {
        let Some(input) = &self.stdin else { return Ok(()) };
        match wanted {
            FileSource::Null => return Ok(()),
            FileSource::Passed => send_file(socket, input.as_fd())?,
        }
        match self.stdin_plan {
            StdinPlan::Null | StdinPlan::Open => {}
            StdinPlan::Once => self.stdin = None,
        }
        Ok(())
    }

    /// Reaps the process that puts its root together, if there is one; before, its first process
    /// cannot be. It has ended, or is about to. Answers its descriptor, which would go on being
    /// readable.
    pub(crate) fn reap_builder(&mut self) -> Option<OwnedFd> {
        let builder = self.builder.take()?;
        let child = WaitId::PidFd(builder.as_fd());
        if let Err(errno) = rustix::process::waitid(child, WaitIdOptions::EXITED) {
            note(&format!("reap the builder of {}: {}", self.slot, errno_text(errno)));
        }
        Some(builder)
    }

    /// From now on it counts as one that runs: the word is about to be given.
    pub(crate) fn begin_start(&mut self) {
        self.stage = ContainerStage::Starting { at_us: timestamp::now_us() };
    }

    /// Gives the word to start.
    pub(crate) fn go(&mut self) {
        // A child that is gone meanwhile is noticed by its pidfd.
        if let Some(go) = self.go.take() {
            let _ = rustix::io::write(&go, b"g");
        }
    }

    /// Sends a signal to the first process; one that is gone already is success.
    pub(crate) fn signal(&self, number: i32) -> Result<(), Errno> {
        // The first process of a PID namespace takes no signal but SIGKILL before it has handlers.
        let number = match self.stage {
            ContainerStage::Preparing | ContainerStage::Created => libc::SIGKILL,
            ContainerStage::Starting { .. }
            | ContainerStage::Running { .. }
            | ContainerStage::Exited(_) => number,
        };
        match sys::pidfd_send_signal(self.pidfd.as_fd(), number) {
            Err(Errno::SRCH) => Ok(()),
            result => result,
        }
    }

    /// Takes what its pipes hold while it lives.
    pub(crate) fn pump(&mut self, stream: OutputStream) -> PipeState {
        let pipe = match stream {
            OutputStream::Stdout => &self.stdout,
            OutputStream::Stderr => &self.stderr,
        };
        match pipe {
            Some(pipe) => self.log.pump(pipe, stream),
            None => PipeState::Ended,
        }
    }

    /// How the process ended: `None` while it lives. All of its PID namespace is dead by then, or
    /// what it left in another one is on its way out, so the pipes hold all output there will be.
    /// It is still to be [released](Self::release).
    pub(crate) fn take_end(&mut self, sandbox: Option<&ShimSandbox>) -> Option<ExitRecord> {
        let options = WaitIdOptions::EXITED | WaitIdOptions::NOHANG | WaitIdOptions::NOWAIT;
        let status = match rustix::process::waitid(WaitId::PidFd(self.pidfd.as_fd()), options) {
            Ok(Some(status)) => Some(status),
            Ok(None) | Err(Errno::INTR) => return None,
            Err(_) => None, // not ours to wait for any more: it is gone, nobody knows how
        };
        self.kill_leftovers(sandbox);
        if let Some(pipe) = self.stdout.take() {
            self.log.drain(&pipe, OutputStream::Stdout);
        }
        if let Some(pipe) = self.stderr.take() {
            self.log.drain(&pipe, OutputStream::Stderr);
        }
        self.stdin = None;
        self.attachments.clear();
        self.log.copies.clear();
        let cause = status.map_or(ExitCause::Unknown, cause_of);
        let finished_at_us = timestamp::now_us();
        let started_at_us = match &self.stage {
            ContainerStage::Preparing | ContainerStage::Created | ContainerStage::Exited(_) => {
                finished_at_us
            }
            ContainerStage::Starting { at_us: started_at_us }
            | ContainerStage::Running { started_at_us } => *started_at_us,
        };
        let oom = self.oom_kill(cause, sandbox);
        let cause = if oom.is_some() { ExitCause::OomKilled } else { cause };
        Some(ExitRecord { cause, started_at_us, finished_at_us, message: String::new(), oom })
    }

    /// Reaps the ended process. The kernel takes as long to forget it as all else about an end
    /// takes here, so that is told before.
    pub(crate) fn release(&mut self) {
        let options = WaitIdOptions::EXITED | WaitIdOptions::NOHANG;
        // Not ours to wait for any more: it is gone.
        let _ = rustix::process::waitid(WaitId::PidFd(self.pidfd.as_fd()), options);
        self.is_reaped = true;
    }

    fn kill_leftovers(&self, sandbox: Option<&ShimSandbox>) {
        match (SurvivorPolicy::from_plan(&self.processes), sandbox) {
            (SurvivorPolicy::None, _) | (SurvivorPolicy::Killed, None) => {}
            (SurvivorPolicy::Killed, Some(sandbox)) => {
                if let Err(problem) = cgroup::kill_all(sandbox, &self.basis.cgroup) {
                    note(&format!("kill what {} left behind: {problem}", self.slot));
                }
            }
        }
    }

    /// What its cgroup says, when such an end may have been for lack of memory and was.
    fn oom_kill(&self, cause: ExitCause, sandbox: Option<&ShimSandbox>) -> Option<OomRecord> {
        let killed =
            matches!(cause, ExitCause::Signal(libc::SIGKILL) | ExitCause::Code(SHELL_KILLED));
        let files = self.basis.cgroup.memory.as_ref().filter(|_| killed)?;
        let sandbox = sandbox?;
        files.read(|path, bytes_max| sandbox.read_host_file(path, bytes_max).ok())
    }
}

/// By what a reaped process ended.
pub(crate) fn cause_of(status: WaitIdStatus) -> ExitCause {
    match (status.exit_status(), status.terminating_signal()) {
        (Some(code), _) => ExitCause::Code(code),
        (None, Some(signal)) => ExitCause::Signal(signal),
        (None, None) => ExitCause::Unknown,
    }
}
