//! A container's cgroups: opened by the shim, which has the host's files, and joined by its
//! processes themselves.

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::{Path, PathBuf};

use rustix::fs::OFlags;
use rustix::io::Errno;

use crate::paths::{self, LinkPolicy};
use crate::problem::FailureContext;
use crate::protocol::{CgroupPlan, ShimFailure};
use crate::sandbox::ShimSandbox;
use crate::sys::{self, ForkSide, PidNamespace};

/// A container's cgroups, opened.
pub(super) struct ContainerCgroups {
    /// `tasks` files of version 1, for a process to write itself into.
    pub(super) tasks: CgroupTasks,
    /// The folder in the unified hierarchy, for a process to be born in.
    pub(super) unified: Option<OwnedFd>,
}

/// The `tasks` files of the version 1 cgroups that a process joins.
pub(super) struct CgroupTasks {
    /// Before anything else, so that what it makes counts as the container's.
    pub(super) first: Vec<OwnedFd>,
    /// When all but the exec is done.
    pub(super) last: Vec<OwnedFd>,
}

/// Opens those of a plan.
pub(super) fn open(
    plan: &CgroupPlan,
    sandbox: &ShimSandbox,
) -> Result<ContainerCgroups, ShimFailure> {
    let open = |path: &String, flags: OFlags| {
        paths::open(sandbox.host_root.as_fd(), Path::new(path), flags, LinkPolicy::InRoot)
            .setup(|| format!("open {path}"))
    };
    let tasks = |paths: &[String]| -> Result<Vec<OwnedFd>, ShimFailure> {
        paths.iter().map(|path| open(path, OFlags::WRONLY)).collect()
    };
    let tasks = CgroupTasks { first: tasks(&plan.v1_tasks)?, last: tasks(&plan.v1_cpu_tasks)? };
    let unified = plan.unified.as_ref();
    let unified = unified.map(|path| open(path, OFlags::RDONLY | OFlags::DIRECTORY));
    Ok(ContainerCgroups { tasks, unified: unified.transpose()? })
}

/// Forks into a container's unified cgroup, or when that holds none itself any more, as it hands
/// its controllers on (a privileged container may have it so), into the one beneath it that its
/// first process has gone to, as runc does.
pub(super) fn fork_beside(
    cgroups: &ContainerCgroups,
    plan: &CgroupPlan,
    first: BorrowedFd<'_>,
    sandbox: &ShimSandbox,
) -> Result<ForkSide, ShimFailure> {
    let what = || "fork".to_owned();
    let fork = |cgroup: Option<&OwnedFd>| {
        sys::fork_into(cgroup.map(AsFd::as_fd), PidNamespace::OfChildren)
    };
    match (fork(cgroups.unified.as_ref()), &plan.unified) {
        (Err(Errno::BUSY), Some(own)) => {
            let Some(group) = group_beneath(own, first, sandbox) else {
                return Err(Errno::BUSY).setup(what);
            };
            let flags = OFlags::RDONLY | OFlags::DIRECTORY;
            let group = paths::open(sandbox.host_root.as_fd(), &group, flags, LinkPolicy::Refused)
                .setup(|| "open the cgroup of the first process".to_owned())?;
            fork(Some(&group)).setup(what)
        }
        (result, _) => result.setup(what),
    }
}

/// Where a process is beneath a cgroup; `None` when it is elsewhere, or gone.
fn group_beneath(own: &str, process: BorrowedFd<'_>, sandbox: &ShimSandbox) -> Option<PathBuf> {
    let groups = sandbox.read_of_process(process, "cgroup")?;
    let group = Path::new(groups.lines().find_map(|line| line.strip_prefix("0::/"))?);
    // its path begins at the hierarchy's root, wherever that is mounted
    let above = group.ancestors().find(|above| Path::new(own).ends_with(above))?;
    Some(Path::new(own).join(group.strip_prefix(above).ok()?))
        .filter(|_| !above.as_os_str().is_empty())
}

/// Puts this process into the cgroups of these `tasks` files.
pub(super) fn join(tasks: &[OwnedFd]) -> Result<(), ShimFailure> {
    for file in tasks {
        rustix::io::write(file, b"0").setup(|| "join the cgroup".to_owned())?;
    }
    Ok(())
}
