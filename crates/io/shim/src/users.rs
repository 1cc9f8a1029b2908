//! Whose user and group ids hold in a sandbox: the host's, or its own, which are a range of the
//! host's (KEP-127).
//!
//! A namespace belongs to the user namespace that it was made in, so those of a sandbox with ids of
//! its own are made by a fork that is born in the new user namespace. The shim enters them and
//! stays in the host's user namespace itself, since it has the host's files to write. So does each
//! child of it as long as it makes mounts; it [joins](UserNamespace::join) before anything of the
//! pod's is done, and cannot come back.
//!
//! ```text
//! shim ─ fork into user, network, IPC, UTS namespaces ─▶ founder: waits for the map ─▶ root in there ─▶ sysctls ─▶ ends
//!   └─ writes the map, keeps the user namespace by a descriptor, enters the others
//! ```

use std::io::Read;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::Path;

use rustix::fs::{Mode, OFlags};
use rustix::process::{DumpableBehavior, Gid, Signal, Uid, WaitId, WaitIdOptions};
use rustix::thread::{LinkNameSpaceType, ThreadNameSpaceType, UnshareFlags};

use crate::paths::{self, LinkPolicy};
use crate::pipes::pipe;
use crate::problem::FailureContext;
use crate::protocol::{FailureKind, NamespacePlan, NamespacesPlan, ProcessesPlan, ShimFailure};
use crate::report::LaunchReport;
use crate::sys::{self, ForkSide};

/// Whose ids hold.
pub(crate) enum UserIdOwner {
    /// The host's.
    Host,
    /// A range of them.
    Own(UserNamespace),
}

/// A user namespace.
pub(crate) struct UserNamespace {
    pub(crate) namespace: OwnedFd,
    /// The host's id of its root.
    pub(crate) first: u32,
    /// How many ids there are.
    pub(crate) length: u32,
}

impl UserIdOwner {
    /// The ids of its own, if it has any.
    pub(crate) fn own(&self) -> Option<&UserNamespace> {
        match self {
            UserIdOwner::Host => None,
            UserIdOwner::Own(own) => Some(own),
        }
    }

    /// The first of these ids that does not exist.
    pub(crate) fn unknown(&self, ids: impl IntoIterator<Item = u32>) -> Option<u32> {
        let own = self.own()?;
        ids.into_iter().find(|id| *id >= own.length)
    }

    /// What the host calls an id that is meant for the inside.
    pub(crate) fn outside(&self, id: u32) -> u32 {
        match self {
            UserIdOwner::Host => id,
            UserIdOwner::Own(own) => own.first.saturating_add(id),
        }
    }
}

/// Makes the user namespace and those that it owns, and enters the latter. `in_there` runs as their
/// root.
pub(crate) fn found(
    host_root: BorrowedFd<'_>,
    range: (u32, u32),
    namespaces: NamespacesPlan,
    in_there: impl FnOnce() -> Result<(), ShimFailure>,
) -> Result<UserNamespace, ShimFailure> {
    refuse_shared(namespaces)?;
    let (go, word) = pipe()?;
    let (status, report) = pipe()?;
    let new =
        UnshareFlags::NEWUSER | UnshareFlags::NEWNET | UnshareFlags::NEWIPC | UnshareFlags::NEWUTS;
    match sys::fork_into_new(new).setup(|| "make the sandbox's user namespace".to_owned())? {
        ForkSide::Child => {
            drop((word, status));
            settle(&go, &report, in_there)
        }
        ForkSide::Parent { pid, pidfd } => {
            drop((go, report));
            let entered = enter(host_root, pid, pidfd.as_fd(), range);
            if entered.is_ok() {
                // Should it be gone, it has not said that all is well.
                let _ = rustix::io::write(&word, b"g");
            }
            drop(word);
            let said = listen(status);
            let child = WaitId::PidFd(pidfd.as_fd());
            rustix::process::waitid(child, WaitIdOptions::EXITED)
                .setup(|| "wait for the founder of the user namespace".to_owned())?;
            entered.and_then(|own| said.map(|()| own))
        }
    }
}

/// Host namespaces belong to the host's users: nobody in there could use them, and whoever thinks
/// so is mistaken in the rest.
fn refuse_shared(namespaces: NamespacesPlan) -> Result<(), ShimFailure> {
    let NamespacesPlan { network, ipc, processes, users: _ } = namespaces;
    match (network, ipc, processes) {
        (
            NamespacePlan::Own,
            NamespacePlan::Own,
            ProcessesPlan::Containers | ProcessesPlan::Sandbox,
        ) => Ok(()),
        (NamespacePlan::Host, _, _) | (_, NamespacePlan::Host, _) | (_, _, ProcessesPlan::Host) => {
            let problem = "a sandbox with user ids of its own can share no namespace with the host";
            Err(ShimFailure::new(FailureKind::Config, problem))
        }
    }
}

/// The shim's half.
fn enter(
    host_root: BorrowedFd<'_>,
    pid: u32,
    founder: BorrowedFd<'_>,
    (first, length): (u32, u32),
) -> Result<UserNamespace, ShimFailure> {
    for map in ["uid_map", "gid_map"] {
        let path = format!("/proc/{pid}/{map}");
        paths::open(host_root, Path::new(&path), OFlags::WRONLY, LinkPolicy::Refused)
            .and_then(|file| rustix::io::write(&file, format!("0 {first} {length}\n").as_bytes()))
            .setup(|| format!("give the user namespace the {length} ids from {first} on"))?;
    }
    let path = format!("proc/{pid}/ns/user");
    let flags = OFlags::RDONLY | OFlags::CLOEXEC;
    let namespace = rustix::fs::openat(host_root, path, flags, Mode::empty())
        .setup(|| "open the user namespace".to_owned())?;
    let others = ThreadNameSpaceType::NETWORK
        | ThreadNameSpaceType::INTER_PROCESS_COMMUNICATION
        | ThreadNameSpaceType::HOST_NAME_AND_NIS_DOMAIN_NAME;
    rustix::thread::move_into_thread_name_spaces(founder, others)
        .setup(|| "enter the sandbox's namespaces".to_owned())?;
    Ok(UserNamespace { namespace, first, length })
}

/// What the founder has said: nothing is good news only when it is said.
fn listen(status: OwnedFd) -> Result<(), ShimFailure> {
    let mut said = Vec::new();
    std::fs::File::from(status)
        .read_to_end(&mut said)
        .map_err(|e| rustix::io::Errno::from_io_error(&e).unwrap_or(rustix::io::Errno::IO))
        .setup(|| "hear of the user namespace".to_owned())?;
    match LaunchReport::decode(&said) {
        Some(LaunchReport::Ready(_)) => Ok(()),
        Some(LaunchReport::Failed(failure)) => Err(failure),
        None => Err(ShimFailure::new(FailureKind::Setup, "the founder of the user namespace died")),
    }
}

/// The founder's half.
fn settle(go: &OwnedFd, report: &OwnedFd, in_there: impl FnOnce() -> Result<(), ShimFailure>) -> ! {
    let mut byte = [0u8; 1];
    let settled = rustix::process::set_parent_process_death_signal(Some(Signal::KILL))
        .and_then(|()| rustix::io::read(go, &mut byte))
        .setup(|| "wait for the user namespace's map".to_owned())
        .and_then(|count| if count == 0 { sys::exit_now(1) } else { become_root() })
        .and_then(|()| in_there());
    let said = match settled {
        Ok(()) => LaunchReport::Ready(None),
        Err(failure) => LaunchReport::Failed(failure),
    };
    // Nobody to tell: the shim is gone.
    let _ = rustix::io::write(report, &said.encode());
    sys::exit_now(0)
}

/// Makes the process root of the user namespace that it is in: before, it is somebody whom that
/// does not know, and everything is allowed to it. Nobody may look into it meanwhile; and it ends
/// with its shim still, which a change of ids undoes.
pub(crate) fn become_root() -> Result<(), ShimFailure> {
    let (uid, gid) = (Uid::ROOT, Gid::ROOT);
    rustix::thread::set_thread_groups(&[])
        .and_then(|()| rustix::thread::set_thread_res_gid(gid, gid, gid))
        .and_then(|()| rustix::thread::set_thread_res_uid(uid, uid, uid))
        .setup(|| "become root of the user namespace".to_owned())?;
    close_again()
}

/// A change of user has undone both: the process ends with its shim, and nobody who is that user
/// can look into it.
pub(crate) fn close_again() -> Result<(), ShimFailure> {
    rustix::process::set_parent_process_death_signal(Some(Signal::KILL))
        .setup(|| "bind the process to its shim".to_owned())?;
    rustix::process::set_dumpable_behavior(DumpableBehavior::NotDumpable)
        .setup(|| "close the process to others".to_owned())
}

impl UserNamespace {
    /// Makes the calling process root in there, with all capabilities in there and none outside.
    pub(crate) fn join(&self) -> Result<(), ShimFailure> {
        let kind = Some(LinkNameSpaceType::User);
        rustix::thread::move_into_link_name_space(self.namespace.as_fd(), kind)
            .setup(|| "enter the user namespace".to_owned())?;
        become_root()
    }

    /// As [`UserNamespace::join`], with a copy of the mounts that is the user namespace's. Nothing
    /// in it can be taken off or made writable in there: what it was copied from was the host's.
    pub(crate) fn join_with_mounts(&self) -> Result<(), ShimFailure> {
        self.join()?;
        sys::unshare(UnshareFlags::NEWNS).setup(|| "copy the mounts".to_owned())
    }

    /// Whatever the calling process makes from now on belongs to root in there: folders to mount
    /// on, device nodes, new file systems. It is the host's root still and may as much as before.
    pub(crate) fn make_for_root(&self) -> Result<(), ShimFailure> {
        let what = || "make files for the user namespace's root".to_owned();
        sys::set_file_owner(self.first).setup(what)?;
        let held = rustix::thread::capabilities(None).setup(what)?;
        let raised = rustix::thread::CapabilitySets { effective: held.permitted, ..held };
        rustix::thread::set_capabilities(None, raised).setup(what)
    }

    /// Gives a file of the shim's to root in there, which may then give it to others.
    pub(crate) fn give(&self, file: BorrowedFd<'_>) -> Result<(), ShimFailure> {
        let (uid, gid) = (Uid::from_raw(self.first), Gid::from_raw(self.first));
        rustix::fs::fchown(file, Some(uid), Some(gid))
            .setup(|| "give a file to the user namespace's root".to_owned())
    }

    /// Shows what `mount` shows, which is attached nowhere yet, by the ids in there: what is
    /// somebody's on the disk is the same id's inside, whatever range that is. Mounts beneath it
    /// are not changed; what is in them is nobody's inside.
    pub(crate) fn map(
        &self,
        mount: BorrowedFd<'_>,
        what: impl FnOnce() -> String,
    ) -> Result<(), ShimFailure> {
        match sys::map_mount_ids(mount, self.namespace.as_fd()) {
            Err(rustix::io::Errno::INVAL) => {
                let of = what();
                let problem = format!(
                    "show {of} by the pod's user ids (hostUsers: false): its file system has no id-mapped mounts"
                );
                Err(ShimFailure::new(FailureKind::Setup, problem))
            }
            result => result.setup(|| format!("show {} by the pod's user ids", what())),
        }
    }
}
