//! The sandbox's namespaces: network, IPC, UTS, and a mount namespace that holds /dev/shm and
//! nothing else. Network and IPC may be the host's instead; then nothing of them is set here. And,
//! if its containers share one, a PID namespace, which the shim itself is not in; nor is it in the
//! user namespace of a sandbox that has one (see [`crate::users`]).
//!
//! The shim keeps nothing of the host mounted (but /dev/shm, with the host's IPC namespace), so
//! that it pins nobody's file system, and reaches host paths through a descriptor of the host's
//! root.

use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::path::Path;

use rustix::fs::{Mode, OFlags};
use rustix::io::Errno;
use rustix::mount::{MountFlags, MountPropagationFlags, UnmountFlags};
use rustix::net::{AddressFamily, SocketFlags, SocketType};
use rustix::thread::UnshareFlags;

use crate::init::{self, Init};
use crate::paths::{self, LinkPolicy};
use crate::problem::{FailureContext, errno_text};
use crate::protocol::{
    ClaimPlan, FailureKind, NamespacePlan, NamespacesPlan, ProcessesPlan, SandboxPlan, ShimFailure,
    UsersPlan,
};
use crate::sys;
use crate::users::{self, UserIdOwner};

/// Bytes of a file of /proc that are read at most.
const PROC_BYTES_MAX: u64 = 1 << 16;

/// A sandbox that stands; this process is in its namespaces.
pub(crate) struct ShimSandbox {
    /// The host's root directory.
    pub(crate) host_root: OwnedFd,
    /// The host's mount namespace.
    pub(crate) host_mounts: OwnedFd,
    /// The host's PID namespace, which this process is in.
    pub(crate) host_processes: OwnedFd,
    /// The first process of the PID namespace that its containers share, if they do.
    pub(crate) init: Option<Init>,
    /// Whose ids hold in it.
    pub(crate) users: UserIdOwner,
}

/// Makes the namespaces and enters them.
pub(crate) fn enter(plan: &SandboxPlan) -> Result<ShimSandbox, ShimFailure> {
    let open = |path: &str, flags: OFlags| {
        rustix::fs::open(path, flags | OFlags::CLOEXEC, Mode::empty())
            .setup(|| format!("open {path}"))
    };
    let host_root = open("/", OFlags::PATH | OFlags::DIRECTORY)?;
    let host_mounts = open("/proc/self/ns/mnt", OFlags::RDONLY)?;
    let host_processes = open("/proc/self/ns/pid", OFlags::RDONLY)?;
    let users = make_namespaces(plan, host_root.as_fd())?;
    set_hostname(&plan.hostname)?;
    match plan.namespaces.network {
        NamespacePlan::Own => loopback_up()?,
        NamespacePlan::Host => {}
    }
    keep_only_shm(plan, &users)?;
    let init = share_processes(plan.namespaces.processes, &users)?;
    Ok(ShimSandbox { host_root, host_mounts, host_processes, init, users })
}

#[cfg(test)]
impl ShimSandbox {
    /// What it has of the machine, for the tests of what looks through it.
    pub(crate) fn of_no_pod() -> Self {
        let open = |path: &str| std::fs::File::open(path).unwrap().into();
        Self {
            host_root: open("/"),
            host_mounts: open("/proc/self/ns/mnt"),
            host_processes: open("/proc/self/ns/pid"),
            init: None,
            users: UserIdOwner::Host,
        }
    }
}

/// Makes them and enters them, but for the user namespace, and makes the kernel settings in them.
fn make_namespaces(
    plan: &SandboxPlan,
    host_root: BorrowedFd<'_>,
) -> Result<UserIdOwner, ShimFailure> {
    let what = || "make the sandbox's namespaces".to_owned();
    match plan.namespaces.users {
        UsersPlan::Host => {
            sys::unshare(made(plan.namespaces)).setup(what)?;
            set_sysctls(host_root, &plan.sysctls)?;
            Ok(UserIdOwner::Host)
        }
        UsersPlan::Own { first, length } => {
            // Settings are its own root's to make, and their values are read as ids of its users.
            let settings = || set_sysctls(host_root, &plan.sysctls);
            let own = users::found(host_root, (first, length), plan.namespaces, settings)?;
            sys::unshare(UnshareFlags::NEWNS).setup(what)?;
            Ok(UserIdOwner::Own(own))
        }
    }
}

/// Makes what its containers need to see each other's processes, or the host's.
fn share_processes(plan: ProcessesPlan, users: &UserIdOwner) -> Result<Option<Init>, ShimFailure> {
    match plan {
        ProcessesPlan::Containers => Ok(None),
        ProcessesPlan::Sandbox => init::start(users).map(Some),
        ProcessesPlan::Host => {
            // Whoever is left without a parent there comes to this process.
            let own = Some(rustix::process::getpid());
            rustix::process::set_child_subreaper(own)
                .setup(|| "become the reaper of what containers leave behind".to_owned())?;
            Ok(None)
        }
    }
}

/// What is not shared.
fn made(namespaces: NamespacesPlan) -> UnshareFlags {
    let own = |whose, flag| match whose {
        NamespacePlan::Own => flag,
        NamespacePlan::Host => UnshareFlags::empty(),
    };
    UnshareFlags::NEWUTS
        | UnshareFlags::NEWNS
        | own(namespaces.network, UnshareFlags::NEWNET)
        | own(namespaces.ipc, UnshareFlags::NEWIPC)
}

fn set_hostname(name: &str) -> Result<(), ShimFailure> {
    rustix::system::sethostname(name.as_bytes())
        .fail(FailureKind::Config, || format!("set the hostname {name:?}"))
}

fn loopback_up() -> Result<(), ShimFailure> {
    let flags = SocketFlags::CLOEXEC;
    rustix::net::socket_with(AddressFamily::INET, SocketType::DGRAM, flags, None)
        .and_then(|socket| sys::loopback_up(socket.as_fd()))
        .setup(|| "bring the loopback device up".to_owned())
}

/// The kernel resolves network and IPC settings by the writer's namespaces, so the host's /proc
/// will do.
fn set_sysctls(
    host_root: BorrowedFd<'_>,
    settings: &[(String, String)],
) -> Result<(), ShimFailure> {
    for (name, value) in settings {
        // the dots between the parts of a name are slashes of its file, and a slash in one of them
        // is a dot
        let file = name.chars().map(|letter| match letter {
            '.' => '/',
            '/' => '.',
            other => other,
        });
        let path = Path::new("/proc/sys").join(file.collect::<String>());
        let what = || format!("set the sysctl {name}={value}");
        let file = paths::open(host_root, &path, OFlags::WRONLY, LinkPolicy::Refused)
            .fail(FailureKind::Config, what)?;
        rustix::io::write(&file, value.as_bytes()).fail(FailureKind::Config, what)?;
    }
    Ok(())
}

/// Makes the shared memory the root, which containers bind as their /dev/shm, and lets go of
/// everything else.
fn keep_only_shm(plan: &SandboxPlan, users: &UserIdOwner) -> Result<(), ShimFailure> {
    let private = MountPropagationFlags::PRIVATE | MountPropagationFlags::REC;
    rustix::mount::mount_change("/", private).setup(|| "make the mounts private".to_owned())?;
    match plan.namespaces.ipc {
        NamespacePlan::Own => mount_own_shm(plan, users),
        NamespacePlan::Host => bind_host_shm(plan),
    }
    .setup(|| format!("mount the shared memory on {}", plan.mount_point))?;
    rustix::process::chdir(plan.mount_point.as_str())
        .and_then(|()| rustix::process::pivot_root(".", "."))
        .and_then(|()| rustix::mount::unmount(".", UnmountFlags::DETACH))
        .and_then(|()| rustix::process::chdir("/"))
        .setup(|| "leave the host's mounts".to_owned())
}

const SHM_FLAGS: MountFlags = MountFlags::NOSUID.union(MountFlags::NODEV).union(MountFlags::NOEXEC);

fn mount_own_shm(plan: &SandboxPlan, users: &UserIdOwner) -> Result<(), Errno> {
    let root = users.outside(0);
    let options = format!("size={},mode=1777,uid={root},gid={root}", plan.shm_bytes);
    let options = std::ffi::CString::new(options).expect("a number holds no zero byte");
    rustix::mount::mount("shm", plan.mount_point.as_str(), "tmpfs", SHM_FLAGS, options.as_c_str())
}

/// A bind mount takes its flags only when it is mounted again.
fn bind_host_shm(plan: &SandboxPlan) -> Result<(), Errno> {
    let mount_point = plan.mount_point.as_str();
    rustix::mount::mount_bind("/dev/shm", mount_point)?;
    rustix::mount::mount_remount(mount_point, MountFlags::BIND | SHM_FLAGS, "")
}

impl ShimSandbox {
    /// Takes the settings of the pod that a sandbox made ahead of need is given to.
    pub(crate) fn claim(&mut self, plan: &ClaimPlan) -> Result<(), ShimFailure> {
        set_hostname(&plan.hostname)?;
        set_sysctls(self.host_root.as_fd(), &plan.sysctls)?;
        self.init = share_processes(plan.processes, &self.users)?;
        Ok(())
    }

    /// Reads a file of /proc about a process; `None` when it is gone.
    pub(crate) fn read_of_process(&self, process: BorrowedFd<'_>, file: &str) -> Option<String> {
        let read = |path: &str| self.read_host_file(path, PROC_BYTES_MAX).ok();
        let info = read(&format!("/proc/self/fdinfo/{}", process.as_raw_fd()))?;
        let pid = info.lines().find_map(|line| line.strip_prefix("Pid:"))?.trim();
        read(&format!("/proc/{pid}/{file}"))
    }

    /// Reads a small file of the host. Bytes that are no text, as a process may have in its name,
    /// are replaced.
    pub(crate) fn read_host_file(&self, path: &str, bytes_max: u64) -> Result<String, String> {
        let file = paths::open(
            self.host_root.as_fd(),
            Path::new(path),
            OFlags::RDONLY,
            LinkPolicy::InRoot,
        )
        .map_err(errno_text)?;
        let mut bytes = Vec::new();
        std::io::Read::read_to_end(
            &mut std::io::Read::take(std::fs::File::from(file), bytes_max),
            &mut bytes,
        )
        .map_err(|error| error.to_string())?;
        Ok(String::from_utf8_lossy(&bytes).into_owned())
    }
}
