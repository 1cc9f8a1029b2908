//! Mount namespaces that one process makes and another one enters.

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use rustix::fs::{Mode, OFlags};
use rustix::io::Errno;
use rustix::thread::LinkNameSpaceType;

use crate::pipes::send_file;
use crate::problem::FailureContext;
use crate::protocol::ShimFailure;
use crate::sandbox::ShimSandbox;

/// Where a process finds its mount namespace when nothing of the host is in sight any more, or when
/// it has no rights left to look for it: in the host's /proc, since nobody has got at that.
pub(super) fn look_at_own_namespaces(sandbox: &ShimSandbox) -> Result<OwnedFd, ShimFailure> {
    let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
    rustix::fs::openat(&sandbox.host_root, "proc/self/ns", flags, Mode::empty())
        .setup(|| "look at its own namespaces".to_owned())
}

/// Gives the mount namespace that the process is in now to whoever has the socket's other end.
pub(super) fn give_mounts(namespaces: &OwnedFd, giver: &OwnedFd) -> Result<(), ShimFailure> {
    let flags = OFlags::RDONLY | OFlags::CLOEXEC;
    let mounts = rustix::fs::openat(namespaces, "mnt", flags, Mode::empty())
        .setup(|| "open its own mount namespace".to_owned())?;
    send_file(giver.as_fd(), mounts.as_fd())
}

/// Enters a mount namespace; root and working directory are its root then.
pub(super) fn enter_mounts(mounts: BorrowedFd<'_>) -> Result<(), Errno> {
    rustix::thread::move_into_link_name_space(mounts, Some(LinkNameSpaceType::Mount))
}
