//! Starting a container: the parent's half. [`child`] is the other.

mod ahead;
mod apart;
mod build;
mod cgroups;
mod child;
mod confine;
mod devices;
mod exec;
mod handover;
mod join;
mod mounts;
mod public_view;
mod rootfs;
mod stage;
mod stdio;
mod system_mounts;
mod terminal;
mod user;
mod volumes;

use std::os::fd::{AsFd, OwnedFd};

pub(crate) use ahead::{RootBuilder, begin_root};
pub(crate) use build::RootSource;
pub(crate) use join::{JoinPlan, JoinTarget, join, not_running, status_sockets};

use crate::birth::{self, PidNamespaceOrigin};
use crate::notes::note;
use crate::pipes::{pipe, set_nonblocking};
use crate::problem::{FailureContext, errno_text};
use crate::protocol::{ContainerPlan, ShimFailure};
use crate::sandbox::ShimSandbox;
use crate::sys::{self, ForkSide};

/// A forked container that prepares itself and then waits for a byte in `go`.
pub(crate) struct ForkedContainer {
    pub(crate) pid: u32,
    pub(crate) pidfd: OwnedFd,
    /// [`LaunchReport`](crate::report::LaunchReport)s, and the end of file when the exec succeeded
    /// (or the process died).
    pub(crate) status: OwnedFd,
    pub(crate) go: OwnedFd,
    /// None of a container on a terminal: that comes over `console`.
    pub(crate) stdout: Option<OwnedFd>,
    pub(crate) stderr: Option<OwnedFd>,
    /// Where its input is written, when it has any.
    pub(crate) stdin: Option<OwnedFd>,
    pub(crate) console: Option<OwnedFd>,
    /// Who puts its root together, when it is not the process itself: to be reaped, first.
    pub(crate) builder: Option<OwnedFd>,
    /// Its mount namespace, when that was made ahead.
    pub(crate) mounts: Option<OwnedFd>,
}

impl ForkedContainer {
    /// Ends a child that nobody will watch over, and reaps it.
    pub(crate) fn abandon(self) {
        let reap = |child: &OwnedFd| {
            let child = rustix::process::WaitId::PidFd(child.as_fd());
            rustix::process::waitid(child, rustix::process::WaitIdOptions::EXITED).map(drop)
        };
        let ended = sys::pidfd_send_signal(self.pidfd.as_fd(), libc::SIGKILL)
            .and_then(|()| self.builder.as_ref().map_or(Ok(()), reap))
            .and_then(|()| reap(&self.pidfd));
        if let Err(errno) = ended {
            note(&format!("end a child that cannot be watched: {}", errno_text(errno)));
        }
    }
}

/// Forks the container. It comes back at once; how the preparation goes is read from `status`.
pub(crate) fn launch(
    plan: &ContainerPlan,
    root: RootSource,
    sandbox: &ShimSandbox,
    place: PidNamespaceOrigin<'_>,
) -> Result<ForkedContainer, ShimFailure> {
    let cgroups = cgroups::open(&plan.cgroup, sandbox)?;
    devices::withhold(plan, &sandbox.users, &cgroups)?;
    let (status, child_status) = pipe()?;
    let (child_go, go) = pipe()?;
    let (ours, stdio) = stdio::open(plan.stdio)?;
    let pipes = child::Pipes { status: child_status, go: child_go, stdio };
    // Before there is a child that would have to be ended.
    for end in [&ours.stdout, &ours.stderr].into_iter().flatten().chain([&status]) {
        set_nonblocking(end).setup(|| "set up the pipes".to_owned())?;
    }
    let (pid, pidfd, builder) = match (place, sandbox.users.own()) {
        (PidNamespaceOrigin::New, Some(own)) => {
            let apart::ProcessPair { pid, pidfd, builder } =
                apart::launch(plan, own, sandbox, &cgroups, &pipes)?;
            (pid, pidfd, Some(builder))
        }
        (PidNamespaceOrigin::New | PidNamespaceOrigin::Host | PidNamespaceOrigin::With(_), _) => {
            let unified = cgroups.unified.as_ref().map(AsFd::as_fd);
            match birth::fork(unified, place, sandbox.host_processes.as_fd())? {
                ForkSide::Child => child::run(plan, &root, sandbox, &cgroups.tasks, &pipes),
                ForkSide::Parent { pid, pidfd } => (pid, pidfd, None),
            }
        }
    };
    let stdio::ShimStdio { stdin, stdout, stderr, console } = ours;
    let mounts = match root {
        RootSource::New => None,
        RootSource::Ahead(mounts) => Some(mounts),
    };
    Ok(ForkedContainer { pid, pidfd, status, go, stdout, stderr, stdin, console, builder, mounts })
}
