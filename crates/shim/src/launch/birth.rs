//! In which PID namespace a container is born.
//!
//! A child gets there by its fork alone, so it is the shim that enters the namespace for its children, forks, and leaves it
//! again. The shim itself is in the host's all the time. It cannot be dumped, nor can the child be before its exec: those who
//! live in the namespace already get nothing of either unless they may trace any process of the machine.

use std::os::fd::{AsFd, BorrowedFd};

use rustix::io::Errno;
use rustix::process::{WaitId, WaitIdOptions};
use rustix::thread::{LinkNameSpaceType, ThreadNameSpaceType};

use crate::problem::{Context, errno_text};
use crate::protocol::{Failure, FailureKind};
use crate::sandbox::Sandbox;
use crate::sys::{self, Forked, PidNamespace};

/// The namespace.
#[derive(Clone, Copy)]
pub(crate) enum Birthplace<'a> {
    /// A new one.
    New,
    /// The host's.
    Host,
    /// That of this process.
    With(BorrowedFd<'a>),
}

/// Forks there and, when it is given, into a cgroup.
pub(super) fn fork(
    cgroup: Option<BorrowedFd<'_>>,
    place: Birthplace<'_>,
    sandbox: &Sandbox,
) -> Result<Forked, Failure> {
    let what = || "fork".to_owned();
    match place {
        Birthplace::New => sys::fork_into(cgroup, PidNamespace::New).setup(what),
        Birthplace::Host => sys::fork_into(cgroup, PidNamespace::OfChildren).setup(what),
        Birthplace::With(process) => {
            enter(process)?;
            let forked = sys::fork_into(cgroup, PidNamespace::OfChildren);
            match forked {
                Ok(Forked::Child) => Ok(Forked::Child),
                Ok(Forked::Parent { pid, pidfd }) => match leave(sandbox) {
                    Ok(()) => Ok(Forked::Parent { pid, pidfd }),
                    Err(errno) => {
                        end(pidfd.as_fd());
                        Err(stuck(errno))
                    }
                },
                Err(errno) => leave(sandbox).map_err(stuck).and(Err(errno).setup(what)),
            }
        }
    }
}

fn enter(process: BorrowedFd<'_>) -> Result<(), Failure> {
    match rustix::thread::move_into_thread_name_spaces(process, ThreadNameSpaceType::PROCESS_ID) {
        Err(Errno::SRCH) => {
            Err(Failure::new(FailureKind::State, "whose PID namespace it joins has ended"))
        }
        result => result.setup(|| "enter the PID namespace".to_owned()),
    }
}

fn leave(sandbox: &Sandbox) -> Result<(), Errno> {
    let host = sandbox.host_processes.as_fd();
    rustix::thread::move_into_link_name_space(host, Some(LinkNameSpaceType::ProcessID))
}

/// The kernel refuses a new namespace from then on, so nothing starts where it does not belong.
fn stuck(errno: Errno) -> Failure {
    Failure::new(
        FailureKind::Setup,
        format!("go back to the host's PID namespace: {}", errno_text(errno)),
    )
}

fn end(child: BorrowedFd<'_>) {
    // Nobody is told of it: the launch has failed.
    let _ = sys::pidfd_send_signal(child, libc::SIGKILL);
    let _ = rustix::process::waitid(WaitId::PidFd(child), WaitIdOptions::EXITED);
}
