//! A container's cgroups: opened by the shim, which has the host's files, and joined by its processes themselves.

use std::os::fd::{AsFd, OwnedFd};
use std::path::Path;

use rustix::fs::OFlags;

use crate::paths::{self, Links};
use crate::problem::Context;
use crate::protocol::{CgroupPlan, Failure};
use crate::sandbox::Sandbox;

/// A container's cgroups, opened.
pub(super) struct Cgroups {
    /// `tasks` files of version 1, for a process to write itself into.
    pub(super) tasks: Tasks,
    /// The folder in the unified hierarchy, for a process to be born in.
    pub(super) unified: Option<OwnedFd>,
}

/// The `tasks` files of the version 1 cgroups that a process joins.
pub(super) struct Tasks {
    /// Before anything else, so that what it makes counts as the container's.
    pub(super) first: Vec<OwnedFd>,
    /// When all but the exec is done.
    pub(super) last: Vec<OwnedFd>,
}

/// Opens those of a plan.
pub(super) fn open(plan: &CgroupPlan, sandbox: &Sandbox) -> Result<Cgroups, Failure> {
    let open = |path: &String, flags: OFlags| {
        paths::open(sandbox.host_root.as_fd(), Path::new(path), flags, Links::InRoot)
            .setup(|| format!("open {path}"))
    };
    let tasks = |paths: &[String]| -> Result<Vec<OwnedFd>, Failure> {
        paths.iter().map(|path| open(path, OFlags::WRONLY)).collect()
    };
    let tasks = Tasks { first: tasks(&plan.v1_tasks)?, last: tasks(&plan.v1_cpu_tasks)? };
    let unified = plan.unified.as_ref();
    let unified = unified.map(|path| open(path, OFlags::RDONLY | OFlags::DIRECTORY));
    Ok(Cgroups { tasks, unified: unified.transpose()? })
}

/// Puts this process into the cgroups of these `tasks` files.
pub(super) fn join(tasks: &[OwnedFd]) -> Result<(), Failure> {
    for file in tasks {
        rustix::io::write(file, b"0").setup(|| "join the cgroup".to_owned())?;
    }
    Ok(())
}
