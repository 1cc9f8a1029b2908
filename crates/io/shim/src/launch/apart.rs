//! A container with users and a PID namespace of its own: two processes make it.
//!
//! A PID namespace belongs to the user namespace that its first process was forked in, and a
//! process that was, has none of the host's rights, without which no root file system is put
//! together. So the first process waits for another one, the builder:
//!
//! ```text
//! shim ─▶ first process: root of the user namespace ····························· mounts ─▶ who am I → … → exec
//!   └───▶ builder: host's root, in the same PID namespace: root, /proc, volumes → joins the users → copies the mounts ─┘
//! ```
//! The copy is the user namespace's, and what it was copied from was not: nothing in it can be
//! taken off or made writable, not by root in there either. The builder ends when it has handed it
//! over; while it lives the first process cannot be reaped.

use std::os::fd::{AsFd, AsRawFd, OwnedFd};

use super::build::build;
use super::cgroups::{self, CgroupTasks, ContainerCgroups};
use super::child::{self, Pipes, begin, finish, report, settle};
use super::handover::{enter_mounts, give_mounts, look_at_own_namespaces};
use crate::birth::{self, PidNamespaceOrigin};
use crate::oom::SHELL_KILLED;
use crate::pipes::socket_pair;
use crate::problem::{FailureContext, KILLED_UNREADY};
use crate::protocol::{ContainerPlan, FailureKind, ShimFailure};
use crate::report::LaunchReport;
use crate::sandbox::ShimSandbox;
use crate::sys::{self, ForkSide};
use crate::users::UserNamespace;

/// The two processes.
pub(super) struct ProcessPair {
    pub(super) pid: u32,
    pub(super) pidfd: OwnedFd,
    pub(super) builder: OwnedFd,
}

/// Forks both.
pub(super) fn launch(
    plan: &ContainerPlan,
    own: &UserNamespace,
    sandbox: &ShimSandbox,
    cgroups: &ContainerCgroups,
    pipes: &Pipes,
) -> Result<ProcessPair, ShimFailure> {
    let unified = cgroups.unified.as_ref().map(AsFd::as_fd);
    let (giver, taker) = socket_pair()?;
    let before = || {
        cgroups::join(&cgroups.tasks.first)?;
        child::best_effort_limits(sandbox, plan.oom_score_adj);
        pipes.stdio.give(own)
    };
    let (pid, pidfd) = match birth::fork_first(own, unified, before)? {
        ForkSide::Child => run_first(plan, sandbox, &cgroups.tasks, pipes, &taker),
        ForkSide::Parent { pid, pidfd } => (pid, pidfd),
    };
    let place = PidNamespaceOrigin::With(pidfd.as_fd());
    match birth::fork(unified, place, sandbox.host_processes.as_fd()) {
        Ok(ForkSide::Child) => run_builder(plan, sandbox, own, &cgroups.tasks, pipes, &giver),
        Ok(ForkSide::Parent { pidfd: builder, .. }) => Ok(ProcessPair { pid, pidfd, builder }),
        Err(failure) => {
            birth::end_child(pidfd.as_fd());
            Err(match failure.kind {
                // The namespace that has ended is its own: somebody has killed its first process
                // just now.
                FailureKind::State => ShimFailure::new(FailureKind::Setup, KILLED_UNREADY),
                FailureKind::Config | FailureKind::Setup | FailureKind::Start => failure,
            })
        }
    }
}

/// As [`child::run`], in the first process.
fn run_first(
    plan: &ContainerPlan,
    sandbox: &ShimSandbox,
    tasks: &CgroupTasks,
    pipes: &Pipes,
    taker: &OwnedFd,
) -> ! {
    let prepared =
        take_over(tasks, pipes, taker).and_then(|()| settle(plan, sandbox, tasks, pipes));
    finish(prepared, pipes)
}

/// As [`child::run`], in the builder, which ends when its work is done.
fn run_builder(
    plan: &ContainerPlan,
    sandbox: &ShimSandbox,
    own: &UserNamespace,
    tasks: &CgroupTasks,
    pipes: &Pipes,
    giver: &OwnedFd,
) -> ! {
    let handed_over =
        begin(tasks).and_then(|()| look_at_own_namespaces(sandbox)).and_then(|namespaces| {
            let keep = [
                pipes.status.as_raw_fd(),
                own.namespace.as_raw_fd(),
                namespaces.as_raw_fd(),
                giver.as_raw_fd(),
            ];
            build(plan, sandbox, &keep)?;
            own.join_with_mounts()?;
            give_mounts(&namespaces, giver)
        });
    match handed_over {
        Ok(()) => sys::exit_now(0),
        Err(failure) => {
            report(pipes, LaunchReport::Failed(failure));
            sys::exit_now(128);
        }
    }
}

/// The first process' first acts, before it touches anything that is the pod's.
fn take_over(tasks: &CgroupTasks, pipes: &Pipes, taker: &OwnedFd) -> Result<(), ShimFailure> {
    child::stand_alone()?;
    let mut keep = vec![pipes.status.as_raw_fd(), pipes.go.as_raw_fd(), taker.as_raw_fd()];
    keep.extend(pipes.stdio.descriptors());
    keep.extend(tasks.last.iter().map(AsRawFd::as_raw_fd));
    sys::close_all_but(&keep).setup(|| "close inherited files".to_owned())?;
    let Ok(mounts) = sys::await_file(taker) else {
        // It has said why, unless it could not any more: then this ends as a shell does whose child
        // was killed.
        sys::exit_now(SHELL_KILLED);
    };
    enter_mounts(mounts.as_fd()).setup(|| "enter the mounts that were made for it".to_owned())
}
