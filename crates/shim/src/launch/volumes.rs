//! Bind mounts from the host: the source is the agent's word, the path inside it and the destination are the pod's.

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::Path;

use rustix::fs::{CWD, Mode, OFlags};
use rustix::io::Errno;
use rustix::mount::MountAttrFlags;

use super::mounts::{self, Depth};
use super::paths::{self, Kind, Links};
use crate::problem::{Context, errno_text};
use crate::protocol::{Access, Failure, FailureKind, MountPlan, Privilege};
use crate::sys::Reach;

/// Mounts one volume. Other containers of the pod may be changing its content at this very moment.
pub(crate) fn mount(
    root: BorrowedFd<'_>,
    plan: &MountPlan,
    privilege: Privilege,
) -> Result<(), Failure> {
    let source = open_source(plan)?;
    let kind = paths::kind_of(source.as_fd()).setup(|| format!("look at {}", plan.source))?;
    let path = Path::new(&plan.destination);
    let at = paths::find_or_make(root, path, kind, Links::InRoot)
        .setup(|| format!("make the mount point {} in the container", plan.destination))?;
    if paths::kind_of(at.as_fd()).setup(|| format!("look at {}", plan.destination))? != kind {
        let (is, shall) = match kind {
            Kind::Directory => ("a file", "a folder"),
            Kind::File => ("a folder", "a file"),
        };
        let problem =
            format!("mount {}: {is} stands there, the volume is {shall}", plan.destination);
        return Err(Failure::new(FailureKind::Setup, problem));
    }
    mounts::clone_of(source.as_fd(), Depth::Tree)
        .and_then(|mount| {
            mounts::add_attributes(mount.as_fd(), attributes(plan.access, privilege), Reach::Tree)?;
            mounts::attach(mount.as_fd(), at.as_fd())
        })
        .setup(|| format!("mount {} on {}", plan.source, plan.destination))
}

fn attributes(access: Access, privilege: Privilege) -> MountAttrFlags {
    let write = match access {
        Access::ReadOnly => MountAttrFlags::MOUNT_ATTR_RDONLY,
        Access::ReadWrite => MountAttrFlags::empty(),
    };
    let devices = match privilege {
        Privilege::Confined => MountAttrFlags::MOUNT_ATTR_NODEV,
        Privilege::Privileged => MountAttrFlags::empty(),
    };
    write | devices
}

fn open_source(plan: &MountPlan) -> Result<OwnedFd, Failure> {
    let flags = OFlags::PATH | OFlags::CLOEXEC;
    let source = rustix::fs::openat(CWD, plan.source.as_str(), flags, Mode::empty())
        .setup(|| format!("open the volume {}", plan.source))?;
    let Some(sub_path) = &plan.sub_path else { return Ok(source) };
    let path = Path::new(sub_path);
    match paths::find_or_make(source.as_fd(), path, Kind::Directory, Links::Beneath) {
        Ok(fd) => Ok(fd),
        Err(Errno::XDEV | Errno::LOOP) => {
            let problem = format!("subPath {sub_path:?} leads out of its volume");
            Err(Failure::new(FailureKind::Setup, problem))
        }
        Err(errno) => {
            let problem = format!("open subPath {sub_path:?}: {}", errno_text(errno));
            Err(Failure::new(FailureKind::Setup, problem))
        }
    }
}
