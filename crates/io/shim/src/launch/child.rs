//! The child: from the fork to the exec.
//!
//! `cgroups (but CPU) → its mounts ([`super::build`]) → who am I → working directory → CPU cgroup →
//! confine → "ready" → wait for the word → exec`
//!
//! With users of its own it joins them when the root is changed; if its PID namespace is its own,
//! too, that takes two processes ([`super::apart`]).
//!
//! It is a fork of the single-threaded shim, so ordinary code is fine here; it never returns into
//! the shim's. What it finds wrong it writes into the status pipe; the exec closes that.

use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::path::Path;

use rustix::fs::{Mode, OFlags};
use rustix::io::Errno;
use rustix::process::{Resource, Rlimit, Signal};
use rustix::thread::UnshareFlags;

use super::build::{self, RootSource};
use super::cgroups::{self, CgroupTasks};
use super::stdio::StdioFiles;
use super::{confine, exec, rootfs, user};
use crate::paths::{self, LinkPolicy, PathKind};
use crate::problem::FailureContext;
use crate::protocol::{ContainerPlan, FailureKind, ProcessPlan, ShimFailure, TerminalPlan};
use crate::report::{LaunchReport, ProcessIdentity};
use crate::sandbox::ShimSandbox;
use crate::sys;
use crate::users::UserIdOwner;

/// Open files that a container may have, where the machine allows it (containerd's and Docker's
/// figure).
const OPEN_FILES: u64 = 1_048_576;

/// The child's ends of its pipes.
pub(crate) struct Pipes {
    pub(crate) status: OwnedFd,
    pub(crate) go: OwnedFd,
    pub(crate) stdio: StdioFiles,
}

/// Runs in the child and never returns.
pub(crate) fn run(
    plan: &ContainerPlan,
    root: &RootSource,
    sandbox: &ShimSandbox,
    tasks: &CgroupTasks,
    pipes: &Pipes,
) -> ! {
    finish(prepare(plan, root, sandbox, tasks, pipes), pipes)
}

/// Tells how the preparation went, and execs at the word.
pub(super) fn finish(
    prepared: Result<(PreparedCommand, ProcessIdentity), ShimFailure>,
    pipes: &Pipes,
) -> ! {
    let failure = match prepared {
        Ok((prepared, identity)) => {
            report(pipes, LaunchReport::Ready(Some(identity)));
            if !wait_for_the_word(&pipes.go) {
                sys::exit_now(0);
            }
            match prepared {
                PreparedCommand::Command(command) => command.exec(),
                PreparedCommand::CannotStart(failure) => failure,
            }
        }
        Err(failure) => failure,
    };
    report(pipes, LaunchReport::Failed(failure));
    sys::exit_now(128);
}

/// What waits for the word to start.
pub(super) enum PreparedCommand {
    Command(exec::ExecCommand),
    /// Known already, but it is the start that fails, not the creation.
    CannotStart(ShimFailure),
}

/// Writes into the status pipe.
pub(super) fn report(pipes: &Pipes, report: LaunchReport) {
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
    root: &RootSource,
    sandbox: &ShimSandbox,
    tasks: &CgroupTasks,
    pipes: &Pipes,
) -> Result<(PreparedCommand, ProcessIdentity), ShimFailure> {
    begin(tasks)?;
    best_effort_limits(sandbox, plan.oom_score_adj);
    let mut keep = vec![pipes.status.as_raw_fd(), pipes.go.as_raw_fd()];
    keep.extend(pipes.stdio.descriptors());
    keep.extend(tasks.last.iter().map(AsRawFd::as_raw_fd));
    keep.extend(sandbox.users.own().map(|own| own.namespace.as_raw_fd()));
    build::enter(plan, root, sandbox, &keep)?;
    if let Some(own) = sandbox.users.own() {
        pipes.stdio.give(own)?;
        own.join_with_mounts()?;
    }
    settle(plan, sandbox, tasks, pipes)
}

/// Its first acts: it stands alone, and in its cgroups, so that what follows counts as the
/// container's.
pub(super) fn begin(tasks: &CgroupTasks) -> Result<(), ShimFailure> {
    stand_alone()?;
    cgroups::join(&tasks.first)
}

/// Ends with its shim, and has nothing else of it: neither what it does about signals nor its
/// session.
pub(super) fn stand_alone() -> Result<(), ShimFailure> {
    rustix::process::set_parent_process_death_signal(Some(Signal::KILL))
        .setup(|| "bind the process to its shim".to_owned())?;
    sys::reset_signals();
    rustix::process::setsid().setup(|| "start a session".to_owned()).map(drop)
}

/// In the container's root, and as whoever it belongs to: who the process is, and what it may do.
pub(super) fn settle(
    plan: &ContainerPlan,
    sandbox: &ShimSandbox,
    tasks: &CgroupTasks,
    pipes: &Pipes,
) -> Result<(PreparedCommand, ProcessIdentity), ShimFailure> {
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
        Ok(()) => PreparedCommand::Command(command),
        Err(failure) => PreparedCommand::CannotStart(failure),
    };
    Ok((prepared, identity))
}

fn join_last(tasks: &CgroupTasks, users: &UserIdOwner) -> Result<(), ShimFailure> {
    match users {
        UserIdOwner::Host if tasks.last.is_empty() => return Ok(()),
        // The one from before is the host's.
        UserIdOwner::Host | UserIdOwner::Own(_) => {}
    }
    cgroups::join(&tasks.last)?;
    sys::unshare(UnshareFlags::NEWCGROUP).setup(|| "make a cgroup namespace".to_owned())
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

/// What the host's root may do to itself, for whoever it becomes. With CAP_SYS_RESOURCE the score
/// is also the lowest that it may have without; a score below the agent's takes that right, and is
/// done without otherwise.
pub(super) fn best_effort_limits(sandbox: &ShimSandbox, oom_score_adj: i32) {
    raise_open_files();
    let path = Path::new("/proc/self/oom_score_adj");
    let file = paths::open(sandbox.host_root.as_fd(), path, OFlags::WRONLY, LinkPolicy::InRoot);
    if let Ok(file) = file {
        let _ = rustix::io::write(&file, oom_score_adj.to_string().as_bytes());
    }
}

fn find_identity(
    plan: &ContainerPlan,
    users: &UserIdOwner,
) -> Result<ProcessIdentity, ShimFailure> {
    let passwd = read_image_file("/etc/passwd")?;
    let group = read_image_file("/etc/group")?;
    let refused = |problem| ShimFailure::new(FailureKind::Config, problem);
    let identity = user::identify(&plan.process.user, &passwd, &group).map_err(refused)?;
    let all = [identity.uid, identity.gid].into_iter().chain(identity.groups.iter().copied());
    match users.unknown(all) {
        None => Ok(identity),
        Some(id) => Err(refused(format!(
            "user or group {id} is beyond the ids that the pod has of its own (hostUsers: false)"
        ))),
    }
}

/// An absent file is empty. Anything but a regular file is not read: a FIFO would block, a device
/// may do anything.
fn read_image_file(path: &str) -> Result<String, ShimFailure> {
    let root = rootfs::open()?;
    let flags = OFlags::RDONLY | OFlags::NONBLOCK | OFlags::NOCTTY;
    let file = match paths::open(root.as_fd(), Path::new(path), flags, LinkPolicy::InRoot) {
        Err(Errno::NOENT | Errno::NOTDIR) => return Ok(String::new()),
        result => result.fail(FailureKind::Config, || format!("read the image's {path}"))?,
    };
    let stat = rustix::fs::fstat(&file).setup(|| format!("look at the image's {path}"))?;
    if rustix::fs::FileType::from_raw_mode(stat.st_mode) != rustix::fs::FileType::RegularFile {
        let problem = format!("the image's {path} is not a regular file");
        return Err(ShimFailure::new(FailureKind::Config, problem));
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

/// Made when absent, as other engines do. Resolved inside the root without magic links, so that a
/// path like `/proc/self/fd/7` cannot lead to a directory of the host.
fn enter_working_dir(plan: &ProcessPlan) -> Result<(), ShimFailure> {
    let root = rootfs::open()?;
    let path = Path::new(&plan.working_dir);
    paths::find_or_make(root.as_fd(), path, PathKind::Directory, LinkPolicy::InRoot)
        .and_then(rustix::process::fchdir)
        .fail(FailureKind::Start, || format!("change to working directory {:?}", plan.working_dir))
}
