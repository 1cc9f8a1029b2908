//! Mounts by descriptor: made or cloned detached, given their attributes, then attached to a
//! directory that was resolved before. No path is looked at twice, so nothing can be swapped in
//! between.

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use rustix::io::Errno;
use rustix::mount::{FsMountFlags, FsOpenFlags, MountAttrFlags, MoveMountFlags, OpenTreeFlags};

use crate::sys::{self, MountPropagationChange, MountReach};

/// How much of a tree of mounts a bind mount takes along.
#[derive(Clone, Copy)]
pub(crate) enum BindDepth {
    /// The one mount.
    Mount,
    /// Everything mounted beneath it.
    Tree,
}

/// Makes a new file system, mounted nowhere yet. A value of `None` is a flag.
pub(crate) fn new_filesystem(
    kind: &str,
    options: &[(&str, Option<&str>)],
    attributes: MountAttrFlags,
) -> Result<OwnedFd, Errno> {
    let context = rustix::mount::fsopen(kind, FsOpenFlags::FSOPEN_CLOEXEC)?;
    rustix::mount::fsconfig_set_string(&context, "source", kind)?;
    for (key, value) in options {
        match value {
            Some(value) => rustix::mount::fsconfig_set_string(&context, *key, *value)?,
            None => rustix::mount::fsconfig_set_flag(&context, *key)?,
        }
    }
    rustix::mount::fsconfig_create(&context)?;
    rustix::mount::fsmount(&context, FsMountFlags::FSMOUNT_CLOEXEC, attributes)
}

/// A bind mount of what `of` refers to, mounted nowhere yet.
pub(crate) fn clone_of(of: BorrowedFd<'_>, depth: BindDepth) -> Result<OwnedFd, Errno> {
    let flags = OpenTreeFlags::OPEN_TREE_CLONE
        | OpenTreeFlags::OPEN_TREE_CLOEXEC
        | OpenTreeFlags::AT_EMPTY_PATH
        | match depth {
            BindDepth::Mount => OpenTreeFlags::empty(),
            BindDepth::Tree => OpenTreeFlags::AT_RECURSIVE,
        };
    rustix::mount::open_tree(of, c"", flags)
}

/// Mounts a detached mount over `on`.
pub(crate) fn attach(mount: BorrowedFd<'_>, on: BorrowedFd<'_>) -> Result<(), Errno> {
    let flags = MoveMountFlags::MOVE_MOUNT_F_EMPTY_PATH | MoveMountFlags::MOVE_MOUNT_T_EMPTY_PATH;
    rustix::mount::move_mount(mount, c"", on, c"", flags)
}

/// Binds what `of` refers to over `on` with these attributes added.
pub(crate) fn bind(
    of: BorrowedFd<'_>,
    on: BorrowedFd<'_>,
    depth: BindDepth,
    attributes: MountAttrFlags,
) -> Result<(), Errno> {
    let mount = clone_of(of, depth)?;
    let reach = match depth {
        BindDepth::Mount => MountReach::Mount,
        BindDepth::Tree => MountReach::Tree,
    };
    add_attributes(mount.as_fd(), attributes, reach)?;
    attach(mount.as_fd(), on)
}

/// Adds attributes to a mount and cuts it off from other namespaces' changes.
pub(crate) fn add_attributes(
    mount: BorrowedFd<'_>,
    attributes: MountAttrFlags,
    reach: MountReach,
) -> Result<(), Errno> {
    sys::mount_setattr(mount, attributes, MountPropagationChange::Private, reach)
}
