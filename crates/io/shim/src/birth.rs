//! In which PID namespace a container is born, or a sandbox's first process.
//!
//! A child gets there by its fork alone, so it is the shim that enters the namespace for its
//! children, forks, and leaves it again. The shim itself is in the host's all the time. It cannot
//! be dumped, nor can the child be before its exec: those who live in the namespace already get
//! nothing of either unless they may trace any process of the machine.

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use rustix::io::Errno;
use rustix::process::{Pid, PidfdFlags, Signal, WaitId, WaitIdOptions};
use rustix::thread::{LinkNameSpaceType, ThreadNameSpaceType};

use crate::pipes::pipe;
use crate::problem::{FailureContext, KILLED_UNREADY, errno_text, no_fork};
use crate::protocol::{FailureKind, ShimFailure};
use crate::report::{JoinReport, REPORT_BYTES_MAX};
use crate::sys::{self, ForkSide, PidNamespace, SiblingForkSide};
use crate::users::UserNamespace;

/// The namespace.
#[derive(Clone, Copy)]
pub(crate) enum PidNamespaceOrigin<'a> {
    /// A new one.
    New,
    /// The host's.
    Host,
    /// That of this process.
    With(BorrowedFd<'a>),
}

/// Forks there and, when it is given, into a cgroup. `host_processes` is the PID namespace that the
/// shim is in.
pub(crate) fn fork(
    cgroup: Option<BorrowedFd<'_>>,
    place: PidNamespaceOrigin<'_>,
    host_processes: BorrowedFd<'_>,
) -> Result<ForkSide, ShimFailure> {
    let what = || "fork".to_owned();
    match place {
        PidNamespaceOrigin::New => sys::fork_into(cgroup, PidNamespace::New).setup(what),
        PidNamespaceOrigin::Host => sys::fork_into(cgroup, PidNamespace::OfChildren).setup(what),
        PidNamespaceOrigin::With(process) => {
            enter(process)?;
            let forked = sys::fork_into(cgroup, PidNamespace::OfChildren);
            match forked {
                Ok(ForkSide::Child) => Ok(ForkSide::Child),
                Ok(ForkSide::Parent { pid, pidfd }) => match leave(host_processes) {
                    Ok(()) => Ok(ForkSide::Parent { pid, pidfd }),
                    Err(errno) => {
                        end_child(pidfd.as_fd());
                        Err(stuck(errno))
                    }
                },
                Err(errno) => leave(host_processes).map_err(stuck).and(Err(errno).setup(what)),
            }
        }
    }
}

/// Forks the first process of a new PID namespace that belongs to the user namespace, and is root
/// in there. Only somebody in there can make one, so a helper joins, forks it as the shim's child,
/// and ends. `before` runs in the helper while it has the host's rights still; what it does to
/// itself is inherited.
pub(crate) fn fork_first(
    own: &UserNamespace,
    cgroup: Option<BorrowedFd<'_>>,
    before: impl FnOnce() -> Result<(), ShimFailure>,
) -> Result<ForkSide, ShimFailure> {
    let what = || "make a PID namespace for the pod's users".to_owned();
    let (said, report) = pipe()?;
    match sys::fork_into(cgroup, PidNamespace::OfChildren).setup(what)? {
        ForkSide::Child => {
            drop(said);
            let forked = before()
                .and_then(|()| own.join())
                .and_then(|()| sys::fork_sibling(PidNamespace::New).setup(what));
            let said = match forked {
                Ok(SiblingForkSide::Child) => return Ok(ForkSide::Child),
                Ok(SiblingForkSide::Caller { pid }) => JoinReport::Forked(pid),
                Err(failure) => JoinReport::Failed(failure),
            };
            // Nobody to tell: the shim is gone.
            let _ = rustix::io::write(&report, &said.encode());
            sys::exit_now(0)
        }
        ForkSide::Parent { pidfd, .. } => {
            drop(report);
            let heard = hear(&said);
            rustix::process::waitid(WaitId::PidFd(pidfd.as_fd()), WaitIdOptions::EXITED)
                .setup(what)?;
            let pid = heard?;
            let (_, pidfd) = follow_child(pid).setup(what)?;
            Ok(ForkSide::Parent { pid, pidfd })
        }
    }
}

/// The number of the process that the helper forked.
fn hear(said: &OwnedFd) -> Result<u32, ShimFailure> {
    let mut buffer = [0u8; REPORT_BYTES_MAX];
    let count = loop {
        match rustix::io::read(said, &mut buffer) {
            Err(Errno::INTR) => {}
            result => break result.setup(|| "hear of a fork".to_owned())?,
        }
    };
    match JoinReport::decode(&buffer[..count]) {
        Some(JoinReport::Forked(pid)) => Ok(pid),
        Some(JoinReport::NoMemory) => Err(no_fork(Errno::NOMEM)),
        Some(JoinReport::Failed(failure)) => Err(failure),
        None => Err(ShimFailure::new(FailureKind::Setup, KILLED_UNREADY)),
    }
}

/// Takes hold of a child that a helper forked: as nobody has reaped it, its number is its own. One
/// that cannot be taken hold of is ended and reaped, since nobody could do it later.
pub(crate) fn follow_child(pid: u32) -> Result<(Pid, OwnedFd), Errno> {
    let pid = i32::try_from(pid).ok().and_then(Pid::from_raw).ok_or(Errno::INVAL)?;
    match rustix::process::pidfd_open(pid, PidfdFlags::empty()) {
        Ok(pidfd) => Ok((pid, pidfd)),
        Err(errno) => {
            // Nobody is told of it: the launch has failed.
            let _ = rustix::process::kill_process(pid, Signal::KILL);
            let _ = rustix::process::waitid(WaitId::Pid(pid), WaitIdOptions::EXITED);
            Err(errno)
        }
    }
}

fn enter(process: BorrowedFd<'_>) -> Result<(), ShimFailure> {
    match rustix::thread::move_into_thread_name_spaces(process, ThreadNameSpaceType::PROCESS_ID) {
        Err(Errno::SRCH) => {
            Err(ShimFailure::new(FailureKind::State, "whose PID namespace it joins has ended"))
        }
        result => result.setup(|| "enter the PID namespace".to_owned()),
    }
}

fn leave(host_processes: BorrowedFd<'_>) -> Result<(), Errno> {
    rustix::thread::move_into_link_name_space(host_processes, Some(LinkNameSpaceType::ProcessID))
}

/// The kernel refuses a new namespace from then on, so nothing starts where it does not belong.
fn stuck(errno: Errno) -> ShimFailure {
    ShimFailure::new(
        FailureKind::Setup,
        format!("go back to the host's PID namespace: {}", errno_text(errno)),
    )
}

/// Ends a child that nobody will watch over, and reaps it.
pub(crate) fn end_child(child: BorrowedFd<'_>) {
    // Nobody is told of it: the launch has failed.
    let _ = sys::pidfd_send_signal(child, libc::SIGKILL);
    let _ = rustix::process::waitid(WaitId::PidFd(child), WaitIdOptions::EXITED);
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a test that cannot go on has failed")]
mod tests {
    use std::process::Command;

    use rustix::process::{Resource, Rlimit};

    use super::*;

    /// Set in the process that runs one test alone.
    const ALONE: &str = "REKINDLE_TEST_ALONE";

    #[test]
    fn a_child_that_cannot_be_followed_is_ended_and_reaped() {
        if std::env::var_os(ALONE).is_none() {
            // The limit is the whole process', and other tests run in this one.
            let name = "birth::tests::a_child_that_cannot_be_followed_is_ended_and_reaped";
            let mut alone = Command::new(std::env::current_exe().unwrap());
            let output = alone.args(["--exact", name]).env(ALONE, "1").output().unwrap();
            let said = String::from_utf8_lossy(&output.stdout);
            assert!(output.status.success() && said.contains("1 passed"), "{said}");
            return;
        }
        let mut child = Command::new("sleep").arg("1000").spawn().unwrap();
        let usual = rustix::process::getrlimit(Resource::Nofile);
        let no_more = Rlimit { current: Some(0), ..usual };
        rustix::process::setrlimit(Resource::Nofile, no_more).unwrap();
        let followed = follow_child(child.id());
        rustix::process::setrlimit(Resource::Nofile, usual).unwrap();
        assert_eq!(followed.map(drop), Err(Errno::MFILE));
        let reaped_before = child.wait().unwrap_err();
        assert_eq!(Errno::from_io_error(&reaped_before), Some(Errno::CHILD));
    }
}
