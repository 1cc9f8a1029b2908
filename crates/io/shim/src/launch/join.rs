//! One more command in a container that runs: from the fork to the exec.
//!
//! ```text
//! shim ─ fork ─▶ helper: cgroups → close files → mount, cgroup, user namespaces → files → working directory → confine
//!                  └─ fork into the PID namespace ─▶ command: session → files 0, 1, 2 → exec
//! ```
//!
//! The helper is outside of the container's PID namespace, so that nothing in there can see it, let
//! alone take hold of it (of one in the host's namespace it is the kernel that keeps others off:
//! neither process can be dumped). The command is born inside, but only when it may no more than
//! the container may, and as a child of the shim, which alone reaps it. Whatever the container has
//! made of its files meanwhile: paths are resolved inside its root and without magic links, and the
//! identity is the one that its first process got.

use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::path::Path;

use rustix::fs::{FileType, Mode, OFlags};
use rustix::io::Errno;
use rustix::net::SendFlags;
use rustix::process::Signal;
use rustix::thread::ThreadNameSpaceType;

use super::cgroups::{self, CgroupTasks};
use super::{child, confine, exec, rootfs, terminal};
use crate::paths::{self, LinkPolicy};
use crate::pipes::{send_file, set_nonblocking, socket_pair};
use crate::problem::{FailureContext, no_fork};
use crate::protocol::{
    CgroupPlan, Confinement, ContainerPlan, ExecFiles, ExecPlan, FailureKind, FileSource,
    ProcessPlan, ShimAnswer, ShimFailure, UserIds,
};
use crate::report::{JoinReport, ProcessIdentity};
use crate::sandbox::ShimSandbox;
use crate::sys::{self, ForkSide, PidNamespace, SiblingForkSide};
use crate::users::{self, UserIdOwner};

/// What a container's further commands need of its plan.
pub(crate) struct JoinPlan {
    process: ProcessPlan,
    confinement: Confinement,
    pub(crate) cgroup: CgroupPlan,
    oom_score_adj: i32,
    /// Who its first process is; `None` when it has more groups than a report can hold.
    pub(crate) identity: Option<ProcessIdentity>,
}

impl JoinPlan {
    /// Keeps what is needed, and nothing else: a shim is small.
    pub(crate) fn from_plan(plan: &ContainerPlan) -> Self {
        let process = ProcessPlan { argv: Vec::new(), ..plan.process.clone() };
        let confinement = Confinement {
            privilege: plan.confinement.privilege,
            capabilities: plan.confinement.capabilities,
            escalation: plan.confinement.escalation,
            seccomp: plan.confinement.seccomp.clone(),
            masked_paths: Vec::new(),
            read_only_paths: Vec::new(),
        };
        let (cgroup, oom_score_adj) = (plan.cgroup.clone(), plan.oom_score_adj);
        Self { process, confinement, cgroup, oom_score_adj, identity: None }
    }

    /// What the container's creation is answered with.
    pub(crate) fn created(&self) -> ShimAnswer {
        match &self.identity {
            Some(ProcessIdentity { uid, gid, groups, home: _ }) => {
                ShimAnswer::Created(UserIds { uid: *uid, gid: *gid, groups: groups.clone() })
            }
            None => ShimAnswer::Done,
        }
    }
}

/// Where the command goes.
pub(crate) struct JoinTarget<'a> {
    pub(crate) basis: &'a JoinPlan,
    /// The container's first process.
    pub(crate) container: BorrowedFd<'a>,
}

/// The shim's and the helper's end of a socket for [`JoinReport`]s: it closes when the exec
/// succeeded, or both processes died.
pub(crate) fn status_sockets() -> Result<(OwnedFd, OwnedFd), ShimFailure> {
    let (ours, helpers) = socket_pair()?;
    set_nonblocking(&ours).setup(|| "make a pair of sockets".to_owned())?;
    Ok((ours, helpers))
}

/// Forks the helper. It comes back at once with its pidfd; how it goes is read from the other end
/// of `status`.
pub(crate) fn join(
    plan: &ExecPlan,
    target: &JoinTarget<'_>,
    files: Vec<OwnedFd>,
    sandbox: &ShimSandbox,
    status: OwnedFd,
) -> Result<OwnedFd, ShimFailure> {
    let Some(identity) = &target.basis.identity else {
        let problem = "its user is in too many groups to run further commands as";
        return Err(ShimFailure::new(FailureKind::Config, problem));
    };
    let cgroups = cgroups::open(&target.basis.cgroup, sandbox)?;
    match cgroups::fork_beside(&cgroups, &target.basis.cgroup, target.container, sandbox)? {
        ForkSide::Child => {
            let helper = JoinHelper { plan, target, identity, tasks: &cgroups.tasks, sandbox };
            helper.run(&files, &status)
        }
        ForkSide::Parent { pidfd, .. } => Ok(pidfd),
    }
}

struct JoinHelper<'a> {
    plan: &'a ExecPlan,
    target: &'a JoinTarget<'a>,
    identity: &'a ProcessIdentity,
    tasks: &'a CgroupTasks,
    sandbox: &'a ShimSandbox,
}

impl JoinHelper<'_> {
    /// Runs in the helper, and in the command that it forks; returns in neither.
    fn run(&self, files: &[OwnedFd], status: &OwnedFd) -> ! {
        let said = match self.prepare(files, status) {
            Ok((command, wired)) => match sys::fork_sibling(PidNamespace::OfChildren) {
                Ok(SiblingForkSide::Caller { pid }) => {
                    report(status, JoinReport::Forked(pid));
                    sys::exit_now(0);
                }
                Ok(SiblingForkSide::Child) => match become_session(&wired) {
                    Ok(()) => JoinReport::Failed(command.exec()),
                    Err(failure) => JoinReport::Failed(failure),
                },
                Err(Errno::NOMEM) => JoinReport::NoMemory,
                Err(errno) => JoinReport::Failed(no_fork(errno)),
            },
            Err(failure) => JoinReport::Failed(failure),
        };
        report(status, said);
        sys::exit_now(128);
    }

    fn prepare(
        &self,
        files: &[OwnedFd],
        status: &OwnedFd,
    ) -> Result<(exec::ExecCommand, WiredStdio), ShimFailure> {
        rustix::process::set_parent_process_death_signal(Some(Signal::KILL))
            .setup(|| "bind the process to its shim".to_owned())?;
        cgroups::join(&self.tasks.first)?;
        cgroups::join(&self.tasks.last)?;
        sys::reset_signals();
        child::best_effort_limits(self.sandbox, self.target.basis.oom_score_adj);
        let mut keep = vec![status.as_raw_fd(), self.target.container.as_raw_fd()];
        keep.extend(files.iter().map(AsRawFd::as_raw_fd));
        sys::close_all_but(&keep).setup(|| "close inherited files".to_owned())?;
        self.enter_namespaces(files)?;
        let JoinPlan { process, confinement, .. } = self.target.basis;
        let mut process = ProcessPlan { argv: self.plan.argv.clone(), ..process.clone() };
        match self.plan.files {
            ExecFiles::Given { .. } => {}
            ExecFiles::Terminal(_) => exec::name_terminal(&mut process),
        }
        let command = exec::prepare(&process, &self.identity.home)?;
        let wired = wire(self.plan.files, files, self.identity)?;
        enter_working_dir(&process.working_dir)?;
        rustix::process::umask(Mode::from_raw_mode(0o022));
        // What follows a seccomp profile has to be allowed by it: as little as can be.
        sys::close_all_on_exec().setup(|| "close files at the exec".to_owned())?;
        confine::apply(confinement, self.identity)?;
        Ok((command, wired))
    }

    /// Network, IPC and UTS are the sandbox's, which the shim is in already. The PID namespace is
    /// for the next fork.
    fn enter_namespaces(&self, files: &[OwnedFd]) -> Result<(), ShimFailure> {
        let mut namespaces = ThreadNameSpaceType::MOUNT
            | ThreadNameSpaceType::PROCESS_ID
            | ThreadNameSpaceType::CONTROL_GROUP;
        if let Some(own) = self.sandbox.users.own() {
            files.iter().try_for_each(|file| own.give(file.as_fd()))?;
            namespaces |= ThreadNameSpaceType::USER;
        }
        match rustix::thread::move_into_thread_name_spaces(self.target.container, namespaces) {
            Err(Errno::SRCH) => return Err(not_running(&self.plan.slot)),
            result => result.setup(|| format!("enter the namespaces of {}", self.plan.slot))?,
        }
        match self.sandbox.users {
            UserIdOwner::Host => Ok(()),
            UserIdOwner::Own(_) => users::become_root(),
        }
    }
}

/// What a call about a container that does not run is answered.
pub(crate) fn not_running(slot: &str) -> ShimFailure {
    ShimFailure::new(FailureKind::State, format!("container {slot} is not running"))
}

fn report(status: &OwnedFd, report: JoinReport) {
    // Nobody to tell means the shim is gone; this process is about to be killed, too.
    let _ = rustix::net::send(status, &report.encode(), SendFlags::NOSIGNAL);
}

/// The three files of the command, above the numbers they will get.
struct WiredStdio {
    files: [OwnedFd; 3],
    kind: StdioKind,
}

/// Whether the files are a terminal, which the session then has as its own.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum StdioKind {
    Plain,
    Terminal,
}

/// The user may open them again by /dev/stdout.
fn wire(
    plan: ExecFiles,
    passed: &[OwnedFd],
    identity: &ProcessIdentity,
) -> Result<WiredStdio, ShimFailure> {
    let owner = Some(rustix::fs::Uid::from_raw(identity.uid));
    let mut passed = passed.iter();
    let mut next = || {
        let problem = "the call came without its descriptors";
        passed.next().ok_or_else(|| ShimFailure::new(FailureKind::State, problem))
    };
    let again = |file: &OwnedFd| {
        rustix::io::fcntl_dupfd_cloexec(file, 3).setup(|| "double a descriptor".to_owned())
    };
    let mut connect = |source: FileSource| match source {
        FileSource::Null => open_null(),
        FileSource::Passed => {
            let file = next()?;
            rustix::fs::fchown(file, owner, None)
                .setup(|| "give the files to the user".to_owned())?;
            again(file)
        }
    };
    match plan {
        ExecFiles::Given { stdin, stdout, stderr } => {
            let files = [connect(stdin)?, connect(stdout)?, connect(stderr)?];
            Ok(WiredStdio { files, kind: StdioKind::Plain })
        }
        ExecFiles::Terminal(size) => {
            let terminal = terminal::open(identity, size)?;
            send_file(next()?.as_fd(), terminal.master.as_fd())?;
            let files = [again(&terminal.slave)?, again(&terminal.slave)?, terminal.slave];
            Ok(WiredStdio { files, kind: StdioKind::Terminal })
        }
    }
}

/// The container's own, if that is what it is still.
fn open_null() -> Result<OwnedFd, ShimFailure> {
    let flags = OFlags::RDWR | OFlags::NONBLOCK | OFlags::NOCTTY;
    let what = || "open /dev/null".to_owned();
    let root = rootfs::open()?;
    let null = paths::open(root.as_fd(), Path::new("/dev/null"), flags, LinkPolicy::Refused)
        .setup(what)?;
    let stat = rustix::fs::fstat(&null).setup(what)?;
    let is_null = FileType::from_raw_mode(stat.st_mode) == FileType::CharacterDevice
        && stat.st_rdev == rustix::fs::makedev(1, 3);
    if is_null {
        Ok(null)
    } else {
        Err(ShimFailure::new(FailureKind::Setup, "the container's /dev/null is something else"))
    }
}

/// Not made when absent: that was done when the container started.
fn enter_working_dir(path: &str) -> Result<(), ShimFailure> {
    let root = rootfs::open()?;
    let flags = OFlags::PATH | OFlags::DIRECTORY;
    paths::open(root.as_fd(), Path::new(path), flags, LinkPolicy::InRoot)
        .and_then(rustix::process::fchdir)
        .fail(FailureKind::Start, || format!("change to working directory {path:?}"))
}

/// What only the command itself can do.
fn become_session(wired: &WiredStdio) -> Result<(), ShimFailure> {
    rustix::process::set_parent_process_death_signal(Some(Signal::KILL))
        .setup(|| "bind the process to its shim".to_owned())?;
    rustix::process::setsid().setup(|| "start a session".to_owned())?;
    for (number, file) in (0..).zip(&wired.files) {
        sys::dup_to(file.as_fd(), number).setup(|| "connect the files".to_owned())?;
    }
    match wired.kind {
        StdioKind::Plain => Ok(()),
        StdioKind::Terminal => rustix::process::ioctl_tiocsctty(&wired.files[0])
            .setup(|| "take the terminal".to_owned()),
    }
}
