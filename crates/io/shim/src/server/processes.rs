//! PID namespaces that containers share with each other or with the host: where a container is
//! born, the end of the first process, and the reaping of those in the host's namespace whose
//! parents are gone.

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use rustix::event::epoll::{self, EventFlags};
use rustix::process::{Pid, WaitId, WaitIdOptions};

use super::source::WakeSource;
use super::{LoopControl, NOBODY, ShimServer};
use crate::birth::PidNamespaceOrigin;
use crate::container::ContainerStage;
use crate::launch;
use crate::notes::note;
use crate::problem::{FailureContext, errno_text};
use crate::protocol::{FailureKind, PidNamespacePlan, ProcessesPlan, ShimFailure};
use crate::sandbox::ShimSandbox;
use crate::sys;

/// Among the flags of proc_pid_stat(5): `PF_EXITING` of include/linux/sched.h.
const EXITING: u32 = 0x4;

/// Processes that come to the shim when their parents are gone.
#[derive(Debug)]
pub(super) enum OrphanReaper {
    /// None do: PID namespaces have a first process for that.
    NotOurs,
    /// All of a sandbox on the host's PID namespace.
    Ours {
        /// Readable when a child has ended.
        ended: OwnedFd,
        /// Whether a child may have ended since the last look.
        is_reaping_due: bool,
    },
}

impl ShimServer {
    /// Watches what the sandbox has for its containers' processes.
    pub(super) fn watch_processes(&mut self, plan: ProcessesPlan) -> Result<(), ShimFailure> {
        let watch = |fd: &OwnedFd, source: WakeSource| {
            epoll::add(&self.epoll, fd, source.pack(), EventFlags::IN)
                .setup(|| "watch the pod's processes".to_owned())
        };
        match plan {
            ProcessesPlan::Containers => Ok(()),
            ProcessesPlan::Sandbox => {
                let init = self.sandbox.as_ref().and_then(|sandbox| sandbox.init.as_ref());
                init.map_or(Ok(()), |init| watch(&init.pidfd, WakeSource::Init))
            }
            ProcessesPlan::Host => {
                let ended = sys::children_signal().setup(|| "watch for children".to_owned())?;
                watch(&ended, WakeSource::Children)?;
                self.orphans = OrphanReaper::Ours { ended, is_reaping_due: true };
                Ok(())
            }
        }
    }

    /// Where a container with this plan is born.
    pub(super) fn birthplace<'a>(
        &'a self,
        plan: &PidNamespacePlan,
        sandbox: &'a ShimSandbox,
    ) -> Result<PidNamespaceOrigin<'a>, ShimFailure> {
        match plan {
            PidNamespacePlan::Own => Ok(PidNamespaceOrigin::New),
            PidNamespacePlan::Host => Ok(PidNamespaceOrigin::Host),
            PidNamespacePlan::Sandbox => match &sandbox.init {
                Some(init) => Ok(PidNamespaceOrigin::With(init.pidfd.as_fd())),
                None => {
                    let problem = "the sandbox has no PID namespace for its containers";
                    Err(ShimFailure::new(FailureKind::State, problem))
                }
            },
            PidNamespacePlan::Container { slot } => {
                let target = self.find(slot).and_then(|number| self.containers.get(&number));
                match target {
                    Some(target) if matches!(target.stage, ContainerStage::Running { .. }) => {
                        Ok(PidNamespaceOrigin::With(target.pidfd.as_fd()))
                    }
                    Some(_) | None => Err(launch::not_running(slot)),
                }
            }
        }
    }

    /// Whether a container is over, or is just ending. The kernel lets nobody into a PID namespace
    /// whose first process ends, long before that one's pidfd tells: not before all others in there
    /// are reaped.
    pub(super) fn is_over(&self, slot: &str) -> bool {
        let container = self.find(slot).and_then(|number| self.containers.get(&number));
        let (Some(container), Some(sandbox)) = (container, &self.sandbox) else { return true };
        if !matches!(container.stage, ContainerStage::Running { .. }) {
            return true;
        }
        let first = match self.birthplace(&container.processes, sandbox) {
            Ok(PidNamespaceOrigin::With(first)) => Some(first),
            Ok(PidNamespaceOrigin::New | PidNamespaceOrigin::Host) => None,
            Err(_) => return true, // it ends with the one whose namespace it shares
        };
        is_ending(container.pidfd.as_fd(), sandbox)
            || first.is_some_and(|first| is_ending(first, sandbox))
    }

    /// The first process has ended, and with it everything in its namespace. Unless it was told to,
    /// the sandbox is over.
    pub(super) fn reap_init(&mut self) -> LoopControl {
        let Some(init) = self.sandbox.as_mut().and_then(|sandbox| sandbox.init.take()) else {
            return LoopControl::Continue;
        };
        init.reap();
        if self.shutdown.is_none() {
            note("the first process of the pod's PID namespace has ended");
            self.shut_down(NOBODY);
        }
        self.exit_when_done()
    }

    /// Takes the signals that have come; what they are about is looked up.
    pub(super) fn note_children(&mut self) {
        let OrphanReaper::Ours { ended, is_reaping_due } = &mut self.orphans else { return };
        *is_reaping_due = true;
        let mut signals = [0u8; 16 * size_of::<libc::signalfd_siginfo>()];
        // One read is enough: one signal stands for any number of children.
        if let Err(errno) = rustix::io::read(ended, &mut signals)
            && errno != rustix::io::Errno::AGAIN
        {
            note(&format!("read the children's signal: {}", errno_text(errno)));
        }
    }

    /// Reaps children that are neither containers nor commands, nor make roots. What is one of
    /// those is left to where its end is taken in, which brings this here again.
    pub(super) fn reap_orphans(&mut self) {
        match self.orphans {
            OrphanReaper::NotOurs | OrphanReaper::Ours { is_reaping_due: false, .. } => return,
            OrphanReaper::Ours { is_reaping_due: true, .. } => {}
        }
        loop {
            match sys::ended_child() {
                Ok(Some(pid)) if self.may_be_known(pid) => return,
                Ok(Some(pid)) => reap(pid),
                Ok(None) => break,
                Err(errno) => {
                    note(&format!("look for ended children: {}", errno_text(errno)));
                    break;
                }
            }
        }
        if let OrphanReaper::Ours { is_reaping_due, .. } = &mut self.orphans {
            *is_reaping_due = false;
        }
    }

    fn may_be_known(&self, pid: u32) -> bool {
        self.containers.values().any(|container| container.is_process(pid))
            || self.commands.values().any(|command| command.may_be(pid))
            || self.roots.is_builder(pid)
    }
}

/// Whether a process ends, or has ended. Of one with several threads it is the last one whose end
/// counts; the first one ends with it at the latest.
fn is_ending(process: BorrowedFd<'_>, sandbox: &ShimSandbox) -> bool {
    let Some(stat) = sandbox.read_of_process(process, "stat") else { return true };
    // Its name, which may hold anything, is in parentheses; the flags are the seventh field behind
    // it.
    let flags = stat.rsplit(')').next().and_then(|rest| rest.split_whitespace().nth(6));
    flags.and_then(|flags| flags.parse::<u32>().ok()).is_some_and(|flags| flags & EXITING != 0)
}

fn reap(pid: u32) {
    let child = i32::try_from(pid).ok().and_then(Pid::from_raw);
    let Some(child) = child else { return };
    let options = WaitIdOptions::EXITED | WaitIdOptions::NOHANG;
    if let Err(errno) = rustix::process::waitid(WaitId::Pid(child), options) {
        note(&format!("reap process {pid}: {}", errno_text(errno)));
    }
}
