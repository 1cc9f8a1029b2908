//! The container's mounts, from the host's to its own.
//!
//! ```text
//! at the start:   copy of the host's mounts → what lasts → what is of this start → pivot
//! ahead of it:    copy of the host's mounts → what lasts → pivot, and the shim holds them open
//!                                              at the start: enter them → what is of this start
//! ```
//! What lasts is the same at each start of a container: layers, /sys, /dev. Of this start are
//! /proc, the cgroup and the volumes.

use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd, RawFd};

use rustix::fs::{Mode, OFlags};
use rustix::mount::{MountAttrFlags, MountPropagationFlags, UnmountFlags};
use rustix::thread::UnshareFlags;

use super::handover::enter_mounts;
use super::mounts::{self, BindDepth};
use super::{rootfs, stage, system_mounts, volumes};
use crate::paths::LinkPolicy;
use crate::problem::FailureContext;
use crate::protocol::{
    CgroupPlan, ContainerPlan, MountAccess, Privilege, RootAhead, RootPlan, ShimFailure,
    is_of_system,
};
use crate::sandbox::ShimSandbox;
use crate::sys::{self, MountReach};
use crate::users::UserIdOwner;

/// Where a container's root comes from.
pub(crate) enum RootSource {
    /// It is put together by the container itself.
    New,
    /// What lasts of it stands in this mount namespace.
    Ahead(OwnedFd),
}

/// Enters the container's mounts. But for `keep`, all files are closed on the way.
pub(super) fn enter(
    plan: &ContainerPlan,
    root: &RootSource,
    sandbox: &ShimSandbox,
    keep: &[RawFd],
) -> Result<(), ShimFailure> {
    match root {
        RootSource::New => build(plan, sandbox, keep),
        RootSource::Ahead(mounts) => complete(plan, mounts.as_fd(), sandbox, keep),
    }
}

/// All of it at once.
pub(super) fn build(
    plan: &ContainerPlan,
    sandbox: &ShimSandbox,
    keep: &[RawFd],
) -> Result<(), ShimFailure> {
    let shm = sandbox.clone_shm()?;
    enter_host_mounts(sandbox)?;
    unshare(UnshareFlags::NEWNS | cgroup_namespace(&plan.cgroup))?;
    // While the copies still have their ties to the host's own: a volume may keep them.
    let opened = open_volumes(plan)?;
    cut_ties()?;
    close_all_but(
        keep,
        opened.iter().filter_map(volumes::ClonedVolume::descriptor).chain([shm.as_raw_fd()]),
    )?;
    rustix::process::umask(Mode::empty());
    let users = &sandbox.users;
    let staged = match users {
        UserIdOwner::Host => None,
        UserIdOwner::Own(own) => {
            own.make_for_root()?;
            Some(stage::root(&plan.root, own)?)
        }
    };
    let privilege = plan.confinement.privilege;
    let masked = plan.confinement.masked_paths.iter().filter(|path| is_of_system(path));
    let root_plan = staged.as_ref().unwrap_or(&plan.root);
    let root = lay_out(root_plan, privilege, masked, shm.as_fd(), users)?;
    add_own(plan, root.as_fd(), &opened, users)?;
    pivot(root.as_fd())
}

/// What lasts, alone: for the start that a root is made ahead for. Its users are the host's.
pub(super) fn build_ahead(
    plan: &RootAhead,
    sandbox: &ShimSandbox,
    keep: &[RawFd],
) -> Result<(), ShimFailure> {
    let shm = sandbox.clone_shm()?;
    enter_host_mounts(sandbox)?;
    unshare(UnshareFlags::NEWNS)?;
    cut_ties()?;
    close_all_but(keep, [shm.as_raw_fd()])?;
    rustix::process::umask(Mode::empty());
    let (confined, users) = (Privilege::Confined, &sandbox.users);
    let root = lay_out(&plan.root, confined, &plan.masked_paths, shm.as_fd(), users)?;
    pivot(root.as_fd())
}

/// The rest, in the mounts that were made ahead.
fn complete(
    plan: &ContainerPlan,
    mounts: BorrowedFd<'_>,
    sandbox: &ShimSandbox,
    keep: &[RawFd],
) -> Result<(), ShimFailure> {
    enter_host_mounts(sandbox)?;
    let opened = open_volumes(plan)?;
    enter_mounts(mounts).setup(|| "enter the mounts that were made ahead".to_owned())?;
    unshare(cgroup_namespace(&plan.cgroup))?;
    close_all_but(keep, opened.iter().filter_map(volumes::ClonedVolume::descriptor))?;
    rustix::process::umask(Mode::empty());
    let root = rootfs::open()?;
    add_own(plan, root.as_fd(), &opened, &sandbox.users)
}

/// The shim's own mount namespace is all but empty. Volumes are found in the host's as it is now,
/// so that what was mounted since is there. A copy of it goes away with the pivot, but for what is
/// moved into the root.
fn enter_host_mounts(sandbox: &ShimSandbox) -> Result<(), ShimFailure> {
    enter_mounts(sandbox.host_mounts.as_fd())
        .setup(|| "enter the host's mount namespace".to_owned())
}

/// A cgroup namespace begins at the groups its first process is in: it has to wait until they are
/// all joined.
fn cgroup_namespace(cgroup: &CgroupPlan) -> UnshareFlags {
    if cgroup.v1_cpu_tasks.is_empty() && (cgroup.unified.is_some() || !cgroup.v1_tasks.is_empty()) {
        UnshareFlags::NEWCGROUP
    } else {
        UnshareFlags::empty()
    }
}

fn unshare(namespaces: UnshareFlags) -> Result<(), ShimFailure> {
    if namespaces.is_empty() {
        return Ok(());
    }
    sys::unshare(namespaces).setup(|| "make namespaces of its own".to_owned())
}

fn open_volumes(plan: &ContainerPlan) -> Result<Vec<volumes::ClonedVolume<'_>>, ShimFailure> {
    plan.mounts.iter().map(volumes::open).collect()
}

fn cut_ties() -> Result<(), ShimFailure> {
    let private = MountPropagationFlags::PRIVATE | MountPropagationFlags::REC;
    rustix::mount::mount_change("/", private).setup(|| "make the mounts private".to_owned())
}

fn close_all_but(keep: &[RawFd], also: impl IntoIterator<Item = RawFd>) -> Result<(), ShimFailure> {
    let all: Vec<RawFd> = keep.iter().copied().chain(also).collect();
    sys::close_all_but(&all).setup(|| "close inherited files".to_owned())
}

/// What is the same at each start.
fn lay_out<'m>(
    plan: &RootPlan,
    privilege: Privilege,
    masked: impl IntoIterator<Item = &'m String>,
    shm: BorrowedFd<'_>,
    users: &UserIdOwner,
) -> Result<OwnedFd, ShimFailure> {
    let root = rootfs::mount(plan, privilege, users)?;
    // Before there is anything else in it that a link of the image could lead to.
    rootfs::mount_volumes(root.as_fd(), plan)?;
    system_mounts::mount_lasting(root.as_fd(), privilege, masked, shm, users)?;
    match (privilege, users) {
        // It may look at the host as it likes.
        (Privilege::Privileged, UserIdOwner::Host) => {}
        (Privilege::Confined, _) | (Privilege::Privileged, UserIdOwner::Own(_)) => {
            system_mounts::mask(root.as_fd(), &plan.mask, LinkPolicy::InRoot)?;
        }
    }
    Ok(root)
}

/// What is of this start.
fn add_own(
    plan: &ContainerPlan,
    root: BorrowedFd<'_>,
    opened: &[volumes::ClonedVolume<'_>],
    users: &UserIdOwner,
) -> Result<(), ShimFailure> {
    system_mounts::mount_own(root, &plan.confinement, plan.cgroup.view)?;
    for volume in opened {
        volumes::attach(root, volume, plan.confinement.privilege, &plan.root.mount_point, users)?;
    }
    match plan.root.access {
        MountAccess::ReadWrite => Ok(()),
        MountAccess::ReadOnly => {
            mounts::add_attributes(root, MountAttrFlags::MOUNT_ATTR_RDONLY, MountReach::Mount)
                .setup(|| "make the root read-only".to_owned())
        }
    }
}

/// The old root is stacked under the new one for a moment and then taken off with all that hangs on
/// it; see pivot_root(2).
fn pivot(root: BorrowedFd<'_>) -> Result<(), ShimFailure> {
    rustix::process::fchdir(root)
        .and_then(|()| rustix::process::pivot_root(".", "."))
        .and_then(|()| rustix::mount::unmount(".", UnmountFlags::DETACH))
        .and_then(|()| rustix::process::chdir("/"))
        .setup(|| "change the root".to_owned())
}

impl ShimSandbox {
    /// The sandbox's /dev/shm as a detached mount. Only from within the sandbox's own mount
    /// namespace, whose root it is.
    fn clone_shm(&self) -> Result<OwnedFd, ShimFailure> {
        rustix::fs::open("/", OFlags::PATH | OFlags::CLOEXEC, Mode::empty())
            .and_then(|root| mounts::clone_of(root.as_fd(), BindDepth::Mount))
            .setup(|| "bind the shared memory".to_owned())
    }
}
