//! The child: from the fork to the exec.
//!
//! `cgroups (but CPU) → the host's mounts, copied → root, system mounts, volumes → pivot → who am I → working directory →
//! CPU cgroup → confine → "ready" → wait for the word → exec`
//!
//! With users of its own it joins them when the root is changed; if its PID namespace is its own, too, that takes two
//! processes ([`super::apart`]).
//!
//! It is a fork of the single-threaded shim, so ordinary code is fine here; it never returns into the shim's. What it finds
//! wrong it writes into the status pipe; the exec closes that.

use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd, RawFd};
use std::path::Path;

use rustix::fs::{Mode, OFlags};
use rustix::io::Errno;
use rustix::mount::{MountPropagationFlags, UnmountFlags};
use rustix::process::{Resource, Rlimit, Signal};
use rustix::thread::{LinkNameSpaceType, UnshareFlags};

use super::cgroups::{self, Tasks};
use super::mounts::{self, Depth};
use super::stdio::Stdio;
use super::{confine, exec, rootfs, stage, system_mounts, user, volumes};
use crate::paths::{self, Kind, Links};
use crate::problem::Context;
use crate::protocol::{
    Access, CgroupPlan, ContainerPlan, Failure, FailureKind, Privilege, ProcessPlan, TerminalPlan,
};
use crate::report::{Identity, Report};
use crate::sandbox::Sandbox;
use crate::sys;
use crate::users::Users;

/// Open files that a container may have, where the machine allows it (containerd's and Docker's figure).
const OPEN_FILES: u64 = 1_048_576;

/// The child's ends of its pipes.
pub(crate) struct Pipes {
    pub(crate) status: OwnedFd,
    pub(crate) go: OwnedFd,
    pub(crate) stdio: Stdio,
}

/// Runs in the child and never returns.
pub(crate) fn run(plan: &ContainerPlan, sandbox: &Sandbox, tasks: &Tasks, pipes: &Pipes) -> ! {
    finish(prepare(plan, sandbox, tasks, pipes), pipes)
}

/// Tells how the preparation went, and execs at the word.
pub(super) fn finish(prepared: Result<(Prepared, Identity), Failure>, pipes: &Pipes) -> ! {
    let failure = match prepared {
        Ok((prepared, identity)) => {
            report(pipes, Report::Ready(Some(identity)));
            if !wait_for_the_word(&pipes.go) {
                sys::exit_now(0);
            }
            match prepared {
                Prepared::Command(command) => command.exec(),
                Prepared::CannotStart(failure) => failure,
            }
        }
        Err(failure) => failure,
    };
    report(pipes, Report::Failed(failure));
    sys::exit_now(128);
}

/// What waits for the word to start.
pub(super) enum Prepared {
    Command(exec::Command),
    /// Known already, but it is the start that fails, not the creation.
    CannotStart(Failure),
}

/// Writes into the status pipe.
pub(super) fn report(pipes: &Pipes, report: Report) {
    // Nobody to tell means the shim is gone; this process is about to be killed, too.
    let _ = rustix::io::write(&pipes.status, &report.encode());
}

/// True when the word came; false when the shim closed the pipe, or is gone.
fn wait_for_the_word(go: &OwnedFd) -> bool {
    let mut byte = [0u8; 1];
    loop {
        match rustix::io::read(go, &mut byte) {
            Ok(count) => return count == 1,
            Err(Errno::INTR) => {}
            Err(_) => return false,
        }
    }
}

fn prepare(
    plan: &ContainerPlan,
    sandbox: &Sandbox,
    tasks: &Tasks,
    pipes: &Pipes,
) -> Result<(Prepared, Identity), Failure> {
    begin(tasks)?;
    best_effort_limits(sandbox, plan.oom_score_adj);
    let mut keep = vec![pipes.go.as_raw_fd()];
    keep.extend(pipes.stdio.descriptors());
    keep.extend(tasks.last.iter().map(AsRawFd::as_raw_fd));
    keep.extend(sandbox.users.own().map(|own| own.namespace.as_raw_fd()));
    build(plan, sandbox, pipes, &keep)?;
    if let Some(own) = sandbox.users.own() {
        pipes.stdio.give(own)?;
        own.join_with_mounts()?;
    }
    settle(plan, sandbox, tasks, pipes)
}

/// Its first acts: it stands alone, and in its cgroups, so that what follows counts as the container's.
pub(super) fn begin(tasks: &Tasks) -> Result<(), Failure> {
    stand_alone()?;
    cgroups::join(&tasks.first)
}

/// Ends with its shim, and has nothing else of it: neither what it does about signals nor its session.
pub(super) fn stand_alone() -> Result<(), Failure> {
    rustix::process::set_parent_process_death_signal(Some(Signal::KILL))
        .setup(|| "bind the process to its shim".to_owned())?;
    sys::reset_signals();
    rustix::process::setsid().setup(|| "start a session".to_owned()).map(drop)
}

/// From the host's mounts to the container's. But for `keep` and the status pipe, all files are closed on the way.
pub(super) fn build(
    plan: &ContainerPlan,
    sandbox: &Sandbox,
    pipes: &Pipes,
    keep: &[RawFd],
) -> Result<(), Failure> {
    let shm = sandbox.clone_shm().setup(|| "bind the shared memory".to_owned())?;
    enter_copy_of_host_mounts(sandbox, &plan.cgroup)?;
    // While the copies still have their ties to the host's own: a volume may keep them.
    let opened = plan.mounts.iter().map(volumes::open).collect::<Result<Vec<_>, _>>()?;
    let private = MountPropagationFlags::PRIVATE | MountPropagationFlags::REC;
    rustix::mount::mount_change("/", private).setup(|| "make the mounts private".to_owned())?;
    let mut all = vec![pipes.status.as_raw_fd(), shm.as_raw_fd()];
    all.extend(opened.iter().filter_map(volumes::Opened::descriptor));
    all.extend(keep);
    sys::close_all_but(&all).setup(|| "close inherited files".to_owned())?;
    rustix::process::umask(Mode::empty());
    build_root(plan, &opened, shm.as_fd(), &sandbox.users)
}

/// In the container's root, and as whoever it belongs to: who the process is, and what it may do.
pub(super) fn settle(
    plan: &ContainerPlan,
    sandbox: &Sandbox,
    tasks: &Tasks,
    pipes: &Pipes,
) -> Result<(Prepared, Identity), Failure> {
    rustix::process::umask(Mode::empty());
    let identity = find_identity(plan, &sandbox.users)?;
    let mut process = plan.process.clone();
    match plan.stdio.terminal {
        TerminalPlan::None => {}
        TerminalPlan::Own => exec::name_terminal(&mut process),
    }
    let command = exec::prepare(&process, &identity.home)?;
    pipes.stdio.connect(&identity)?;
    let in_place = enter_working_dir(&plan.process);
    join_last(tasks, &sandbox.users)?;
    rustix::process::umask(Mode::from_raw_mode(0o022));
    // What follows a seccomp profile has to be allowed by it: as little as can be.
    sys::close_all_on_exec().setup(|| "close files at the exec".to_owned())?;
    confine::apply(&plan.confinement, &identity)?;
    let prepared = match in_place {
        Ok(()) => Prepared::Command(command),
        Err(failure) => Prepared::CannotStart(failure),
    };
    Ok((prepared, identity))
}

fn join_last(tasks: &Tasks, users: &Users) -> Result<(), Failure> {
    match users {
        Users::Host if tasks.last.is_empty() => return Ok(()),
        // The one from before is the host's.
        Users::Host | Users::Own(_) => {}
    }
    cgroups::join(&tasks.last)?;
    sys::unshare(UnshareFlags::NEWCGROUP).setup(|| "make a cgroup namespace".to_owned())
}

/// The shim's own mount namespace is all but empty. The container's starts as a copy of the host's as it is now, so that
/// volumes mounted since are there; what is not moved into the root goes away with the pivot.
fn enter_copy_of_host_mounts(sandbox: &Sandbox, cgroup: &CgroupPlan) -> Result<(), Failure> {
    rustix::thread::move_into_link_name_space(
        sandbox.host_mounts.as_fd(),
        Some(LinkNameSpaceType::Mount),
    )
    .setup(|| "enter the host's mount namespace".to_owned())?;
    let mut flags = UnshareFlags::NEWNS;
    // A cgroup namespace begins at the groups its first process is in: it has to wait until they are all joined.
    if cgroup.v1_cpu_tasks.is_empty() && (cgroup.unified.is_some() || !cgroup.v1_tasks.is_empty()) {
        flags |= UnshareFlags::NEWCGROUP;
    }
    sys::unshare(flags).setup(|| "make namespaces of its own".to_owned())
}

fn build_root(
    plan: &ContainerPlan,
    opened: &[volumes::Opened<'_>],
    shm: BorrowedFd<'_>,
    users: &Users,
) -> Result<(), Failure> {
    let privilege = plan.confinement.privilege;
    let staged = match users {
        Users::Host => None,
        Users::Own(own) => {
            own.make_for_root()?;
            Some(stage::root(&plan.root, own)?)
        }
    };
    let root_plan = staged.as_ref().unwrap_or(&plan.root);
    let root = rootfs::mount(root_plan, privilege)?;
    // Before there is anything else in it that a link of the image could lead to.
    rootfs::mount_volumes(root.as_fd(), root_plan)?;
    system_mounts::mount_all(root.as_fd(), &plan.confinement, plan.cgroup.view, shm, users)?;
    match (privilege, users) {
        // It may look at the host as it likes.
        (Privilege::Privileged, Users::Host) => {}
        (Privilege::Confined, _) | (Privilege::Privileged, Users::Own(_)) => {
            system_mounts::mask(root.as_fd(), &plan.root.mask, Links::InRoot)?;
        }
    }
    for volume in opened {
        volumes::attach(root.as_fd(), volume, privilege, &plan.root.mount_point, users)?;
    }
    match plan.root.access {
        Access::ReadWrite => {}
        Access::ReadOnly => mounts::add_attributes(
            root.as_fd(),
            rustix::mount::MountAttrFlags::MOUNT_ATTR_RDONLY,
            sys::Reach::Mount,
        )
        .setup(|| "make the root read-only".to_owned())?,
    }
    pivot(root.as_fd()).setup(|| "change the root".to_owned())
}

/// The old root is stacked under the new one for a moment and then taken off with all that hangs on it; see pivot_root(2).
fn pivot(root: BorrowedFd<'_>) -> Result<(), Errno> {
    rustix::process::fchdir(root)?;
    rustix::process::pivot_root(".", ".")?;
    rustix::mount::unmount(".", UnmountFlags::DETACH)?;
    rustix::process::chdir("/")
}

/// Raised where that is allowed; never a reason not to start.
fn raise_open_files() {
    let wanted = Rlimit { current: Some(OPEN_FILES), maximum: Some(OPEN_FILES) };
    if rustix::process::setrlimit(Resource::Nofile, wanted).is_err() {
        let now = rustix::process::getrlimit(Resource::Nofile);
        let raised = Rlimit { current: now.maximum, maximum: now.maximum };
        // It stays as it is.
        let _ = rustix::process::setrlimit(Resource::Nofile, raised);
    }
}

/// What the host's root may do to itself, for whoever it becomes. With CAP_SYS_RESOURCE the score is also the lowest that it may have
/// without; a score below the agent's takes that right, and is done without otherwise.
pub(super) fn best_effort_limits(sandbox: &Sandbox, oom_score_adj: i32) {
    raise_open_files();
    let path = Path::new("/proc/self/oom_score_adj");
    let file = paths::open(sandbox.host_root.as_fd(), path, OFlags::WRONLY, Links::InRoot);
    if let Ok(file) = file {
        let _ = rustix::io::write(&file, oom_score_adj.to_string().as_bytes());
    }
}

fn find_identity(plan: &ContainerPlan, users: &Users) -> Result<Identity, Failure> {
    let passwd = read_image_file("/etc/passwd")?;
    let group = read_image_file("/etc/group")?;
    let refused = |problem| Failure::new(FailureKind::Config, problem);
    let identity = user::identify(&plan.process.user, &passwd, &group).map_err(refused)?;
    let all = [identity.uid, identity.gid].into_iter().chain(identity.groups.iter().copied());
    match users.unknown(all) {
        None => Ok(identity),
        Some(id) => Err(refused(format!(
            "user or group {id} is beyond the ids that the pod has of its own (hostUsers: false)"
        ))),
    }
}

/// An absent file is empty. Anything but a regular file is not read: a FIFO would block, a device may do anything.
fn read_image_file(path: &str) -> Result<String, Failure> {
    let root = rootfs::open()?;
    let flags = OFlags::RDONLY | OFlags::NONBLOCK | OFlags::NOCTTY;
    let file = match paths::open(root.as_fd(), Path::new(path), flags, Links::InRoot) {
        Err(Errno::NOENT | Errno::NOTDIR) => return Ok(String::new()),
        result => result.fail(FailureKind::Config, || format!("read the image's {path}"))?,
    };
    let stat = rustix::fs::fstat(&file).setup(|| format!("look at the image's {path}"))?;
    if rustix::fs::FileType::from_raw_mode(stat.st_mode) != rustix::fs::FileType::RegularFile {
        let problem = format!("the image's {path} is not a regular file");
        return Err(Failure::new(FailureKind::Config, problem));
    }
    let mut text = Vec::new();
    std::io::Read::read_to_end(
        &mut std::io::Read::take(std::fs::File::from(file), user::FILE_BYTES_MAX),
        &mut text,
    )
    .map_err(|e| Errno::from_io_error(&e).unwrap_or(Errno::IO))
    .setup(|| format!("read the image's {path}"))?;
    Ok(String::from_utf8_lossy(&text).into_owned())
}

/// Made when absent, as other engines do. Resolved inside the root without magic links, so that a path like
/// `/proc/self/fd/7` cannot lead to a directory of the host.
fn enter_working_dir(plan: &ProcessPlan) -> Result<(), Failure> {
    let root = rootfs::open()?;
    let path = Path::new(&plan.working_dir);
    paths::find_or_make(root.as_fd(), path, Kind::Directory, Links::InRoot)
        .and_then(rustix::process::fchdir)
        .fail(FailureKind::Start, || format!("change to working directory {:?}", plan.working_dir))
}

impl Sandbox {
    /// The sandbox's /dev/shm as a detached mount. Only from within the sandbox's own mount namespace, whose root it is.
    fn clone_shm(&self) -> Result<OwnedFd, Errno> {
        let root = rustix::fs::open("/", OFlags::PATH | OFlags::CLOEXEC, Mode::empty())?;
        mounts::clone_of(root.as_fd(), Depth::Mount)
    }
}
