//! The system calls that neither std nor rustix offers, each behind a safe function.
#![allow(unsafe_code, reason = "raw system calls; each block says why it is sound")]

use std::ffi::{CStr, CString};
use std::os::fd::{AsRawFd, BorrowedFd, FromRawFd, OwnedFd, RawFd};

use rustix::io::Errno;

/// libc's constant of this name is too narrow for its value.
const CLONE_INTO_CGROUP: u64 = 0x2_0000_0000;

/// linux/mount.h; rustix and libc do not have it on every platform.
const MOUNT_ATTR_IDMAP: u64 = 0x0010_0000;

/// Who came back from [`fork_into`].
pub(crate) enum ForkSide {
    /// The new process.
    Child,
    /// The caller.
    Parent {
        /// The new process, in the caller's numbers.
        pid: u32,
        /// Becomes readable when it ends.
        pidfd: OwnedFd,
    },
}

/// Which PID namespace a fork lives in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum PidNamespace {
    /// A new one, whose first process it is.
    New,
    /// The one that is meant for the caller's children: its own, or the one it joined by setns(2).
    OfChildren,
}

/// Forks, into a new PID namespace when asked for and, when given, straight into a cgroup of the
/// unified hierarchy.
///
/// This copies the (small) address space rather than share it as vfork does: an OOM kill in the
/// child's cgroup would take everything with it that shares its memory, the shim included.
pub(crate) fn fork_into(
    cgroup: Option<BorrowedFd<'_>>,
    namespace: PidNamespace,
) -> Result<ForkSide, Errno> {
    clone3(namespace.flag(), cgroup)
}

/// Forks into new namespaces. With [`rustix::thread::UnshareFlags::NEWUSER`] among them, that one
/// owns the others.
pub(crate) fn fork_into_new(namespaces: rustix::thread::UnshareFlags) -> Result<ForkSide, Errno> {
    clone3(namespaces.bits().into(), None)
}

impl PidNamespace {
    fn flag(self) -> u64 {
        match self {
            PidNamespace::New => libc::CLONE_NEWPID as u64,
            PidNamespace::OfChildren => 0,
        }
    }
}

fn clone3(namespaces: u64, cgroup: Option<BorrowedFd<'_>>) -> Result<ForkSide, Errno> {
    let mut pidfd: RawFd = -1;
    let mut flags = libc::CLONE_PIDFD as u64 | namespaces;
    if cgroup.is_some() {
        flags |= CLONE_INTO_CGROUP;
    }
    // SAFETY: clone_args is plain numbers, for which all zeroes is a value.
    let mut args: libc::clone_args = unsafe { std::mem::zeroed() };
    args.flags = flags;
    args.pidfd = (&raw mut pidfd) as u64;
    args.exit_signal = libc::SIGCHLD as u64;
    args.cgroup = cgroup.map_or(0, |fd| fd.as_raw_fd() as u64);
    // SAFETY: without CLONE_VM this is a fork; the process has a single thread, so the child's copy
    // of the heap and of all locks is in order. `args` and `pidfd` live across the call.
    let pid = unsafe { libc::syscall(libc::SYS_clone3, &raw const args, size_of_val(&args)) };
    match pid {
        0 => Ok(ForkSide::Child),
        pid if pid > 0 => {
            // SAFETY: the kernel put a fresh descriptor there, which nobody else owns.
            let pidfd = unsafe { OwnedFd::from_raw_fd(pidfd) };
            Ok(ForkSide::Parent { pid: u32::try_from(pid).unwrap_or(0), pidfd })
        }
        _ => Err(last_errno()),
    }
}

/// A descriptor that is readable when a child has ended. The signal that says so is blocked from
/// now on; children unblock it by [`reset_signals`].
pub(crate) fn children_signal() -> Result<OwnedFd, Errno> {
    // SAFETY: sigset_t is plain data, and the set is initialised before it is read; there is only
    // one thread. The kernel puts a fresh descriptor into the result, which nobody else owns.
    unsafe {
        let mut children: libc::sigset_t = std::mem::zeroed();
        libc::sigemptyset(&raw mut children);
        libc::sigaddset(&raw mut children, libc::SIGCHLD);
        if libc::sigprocmask(libc::SIG_BLOCK, &raw const children, std::ptr::null_mut()) < 0 {
            return Err(last_errno());
        }
        let fd = libc::signalfd(-1, &raw const children, libc::SFD_CLOEXEC | libc::SFD_NONBLOCK);
        if fd < 0 { Err(last_errno()) } else { Ok(OwnedFd::from_raw_fd(fd)) }
    }
}

/// The number of a child that has ended and is not reaped; it stays so.
pub(crate) fn ended_child() -> Result<Option<u32>, Errno> {
    // SAFETY: siginfo_t is plain data, for which all zeroes is a value; waitid fills it in, and
    // `si_pid` is what it fills.
    unsafe {
        let mut info: libc::siginfo_t = std::mem::zeroed();
        let options = libc::WEXITED | libc::WNOHANG | libc::WNOWAIT;
        if libc::waitid(libc::P_ALL, 0, &raw mut info, options) < 0 {
            return match last_errno() {
                Errno::CHILD => Ok(None),
                errno => Err(errno),
            };
        }
        Ok(u32::try_from(info.si_pid()).ok().filter(|pid| *pid != 0))
    }
}

/// Who came back from [`fork_sibling`].
pub(crate) enum SiblingForkSide {
    /// The new process.
    Child,
    /// The caller; the new process in its numbers.
    Caller {
        /// The new process.
        pid: u32,
    },
}

/// Forks a child of the caller's parent, which alone has to reap it. By the old clone(2), which a
/// seccomp profile can look into and so lets pass.
pub(crate) fn fork_sibling(namespace: PidNamespace) -> Result<SiblingForkSide, Errno> {
    let flags = libc::CLONE_PARENT as libc::c_ulong
        | libc::SIGCHLD as libc::c_ulong
        | namespace.flag() as libc::c_ulong;
    // SAFETY: without CLONE_VM and a stack of its own this is a fork of a single-threaded process,
    // so the child's copy of the heap and of all locks is in order. The other arguments are for
    // flags that are not given.
    let pid = unsafe { libc::syscall(libc::SYS_clone, flags, 0usize, 0usize, 0usize, 0usize) };
    match pid {
        0 => Ok(SiblingForkSide::Child),
        pid if pid > 0 => Ok(SiblingForkSide::Caller { pid: u32::try_from(pid).unwrap_or(0) }),
        _ => Err(last_errno()),
    }
}

/// How far a change of mount attributes reaches.
#[derive(Clone, Copy)]
pub(crate) enum MountReach {
    /// This mount.
    Mount,
    /// All mounts beneath it, too.
    Tree,
}

/// `struct mount_attr` of mount_setattr(2), in its first version.
#[repr(C)]
struct MountAttr {
    set: u64,
    clear: u64,
    propagation: u64,
    userns_fd: u64,
}

/// What becomes of a mount's ties to other namespaces.
#[derive(Clone, Copy)]
pub(crate) enum MountPropagationChange {
    /// They are cut.
    Private,
    /// Changes come from there and none go back.
    Slave,
    /// They stay as they are.
    Kept,
}

/// Adds attributes to the mount that `mount` is the root of, and sets its ties.
pub(crate) fn mount_setattr(
    mount: BorrowedFd<'_>,
    add: rustix::mount::MountAttrFlags,
    ties: MountPropagationChange,
    reach: MountReach,
) -> Result<(), Errno> {
    let propagation = match ties {
        MountPropagationChange::Private => libc::MS_PRIVATE,
        MountPropagationChange::Slave => libc::MS_SLAVE,
        MountPropagationChange::Kept => 0,
    };
    let attr = MountAttr { set: add.bits().into(), clear: 0, propagation, userns_fd: 0 };
    let recursive = match reach {
        MountReach::Mount => 0,
        MountReach::Tree => libc::AT_RECURSIVE,
    };
    change_mount(mount, &attr, recursive)
}

/// Shows the ids of a file system by the map of a user namespace: what belongs to id n on the disk
/// belongs to its id n in this mount, which must not be attached anywhere yet. Mounts beneath it
/// are left as they are. EINVAL when the file system cannot do that.
pub(crate) fn map_mount_ids(mount: BorrowedFd<'_>, namespace: BorrowedFd<'_>) -> Result<(), Errno> {
    let userns_fd = u64::try_from(namespace.as_raw_fd()).map_err(|_| Errno::BADF)?;
    let attr = MountAttr { set: MOUNT_ATTR_IDMAP, clear: 0, propagation: 0, userns_fd };
    change_mount(mount, &attr, 0)
}

fn change_mount(mount: BorrowedFd<'_>, attr: &MountAttr, recursive: i32) -> Result<(), Errno> {
    let flags = libc::AT_EMPTY_PATH | recursive;
    // SAFETY: the path is a C string, `attr` has the size that is passed with it; both live across
    // the call.
    let result = unsafe {
        libc::syscall(
            libc::SYS_mount_setattr,
            mount.as_raw_fd(),
            c"".as_ptr(),
            flags,
            &raw const *attr,
            size_of::<MountAttr>(),
        )
    };
    check(result)
}

/// Whom the files belong to that this process makes from now on. It must run as the host's root;
/// takes effective capabilities that concern files away, as every change of that id does.
pub(crate) fn set_file_owner(id: u32) -> Result<(), Errno> {
    for call in [libc::SYS_setfsgid, libc::SYS_setfsuid] {
        // SAFETY: numbers only; the call knows no errors.
        unsafe { libc::syscall(call, id) };
        // It answers the id before; an id that does not exist changes nothing.
        // SAFETY: as above.
        let now = unsafe { libc::syscall(call, u32::MAX) };
        if now != libc::c_long::from(id) {
            return Err(Errno::PERM);
        }
    }
    Ok(())
}

/// Loads a seccomp program into the calling thread; instructions are the 8 bytes of a `sock_filter`
/// as a big number.
pub(crate) fn load_seccomp(program: &[u64]) -> Result<(), Errno> {
    let filter: Vec<libc::sock_filter> = program
        .iter()
        .map(|word| {
            let bytes = word.to_be_bytes();
            libc::sock_filter {
                code: u16::from_be_bytes([bytes[0], bytes[1]]),
                jt: bytes[2],
                jf: bytes[3],
                k: u32::from_be_bytes([bytes[4], bytes[5], bytes[6], bytes[7]]),
            }
        })
        .collect();
    let len = libc::c_ushort::try_from(filter.len()).map_err(|_| Errno::TOOBIG)?;
    let prog = libc::sock_fprog { len, filter: filter.as_ptr().cast_mut() };
    // SAFETY: `prog` points at `len` instructions that live across the call; the kernel only reads
    // them.
    let result = unsafe {
        libc::syscall(libc::SYS_seccomp, libc::SECCOMP_SET_MODE_FILTER, 0, &raw const prog)
    };
    check(result)
}

/// Loads a program of type `BPF_PROG_TYPE_CGROUP_DEVICE` and gives it to a cgroup of the unified
/// hierarchy, where it stays as long as that, beside those that are there. Cgroups beneath may have
/// programs of their own, as a nested runtime makes them: what all of them allow is allowed.
/// Instructions lie in memory as the kernel reads them.
pub(crate) fn attach_device_program(program: &[u64], cgroup: BorrowedFd<'_>) -> Result<(), Errno> {
    const PROG_LOAD: libc::c_long = 5;
    const PROG_ATTACH: libc::c_long = 8;
    const PROG_TYPE_CGROUP_DEVICE: u32 = 15;
    const ATTACH_TYPE_CGROUP_DEVICE: u32 = 6;
    const ALLOW_MULTI: u32 = 2;
    /// The first fields of `union bpf_attr` for each of the two commands; the rest is zero when it
    /// is not given.
    #[repr(C)]
    struct BpfLoad {
        prog_type: u32,
        instruction_count: u32,
        instructions: u64,
        license: u64,
    }
    #[repr(C)]
    struct BpfAttach {
        target: u32,
        program: u32,
        attach_type: u32,
        flags: u32,
    }
    let license = c"Apache-2.0";
    let load = BpfLoad {
        prog_type: PROG_TYPE_CGROUP_DEVICE,
        instruction_count: u32::try_from(program.len()).map_err(|_| Errno::TOOBIG)?,
        instructions: program.as_ptr().expose_provenance() as u64,
        license: license.as_ptr().expose_provenance() as u64,
    };
    // SAFETY: the kernel reads `load` and what it points at, which live across the call; the size
    // is that of `load`.
    let loaded =
        unsafe { libc::syscall(libc::SYS_bpf, PROG_LOAD, &raw const load, size_of::<BpfLoad>()) };
    check(loaded)?;
    let loaded = RawFd::try_from(loaded).map_err(|_| Errno::BADF)?;
    // SAFETY: the kernel has just made this descriptor for the caller, and nobody else knows it.
    let loaded = unsafe { OwnedFd::from_raw_fd(loaded) };
    let number = |fd: RawFd| u32::try_from(fd).map_err(|_| Errno::BADF);
    let attach = BpfAttach {
        target: number(cgroup.as_raw_fd())?,
        program: number(loaded.as_raw_fd())?,
        attach_type: ATTACH_TYPE_CGROUP_DEVICE,
        flags: ALLOW_MULTI,
    };
    // SAFETY: the kernel only reads `attach`, whose size is given.
    check(unsafe {
        libc::syscall(libc::SYS_bpf, PROG_ATTACH, &raw const attach, size_of::<BpfAttach>())
    })
}

/// Gives all signals their default action and unblocks them.
pub(crate) fn reset_signals() {
    for signal in 1..=64 {
        // SAFETY: SIG_DFL installs no handler. A number that cannot be changed is refused without
        // effect.
        unsafe { libc::signal(signal, libc::SIG_DFL) };
    }
    // SAFETY: sigset_t is plain data; the set is initialised before it is read.
    unsafe {
        let mut none: libc::sigset_t = std::mem::zeroed();
        libc::sigemptyset(&raw mut none);
        libc::sigprocmask(libc::SIG_SETMASK, &raw const none, std::ptr::null_mut());
    }
}

/// Lets the signals that are meant for the agent's process group pass by.
pub(crate) fn ignore_signals(signals: &[i32]) {
    for &signal in signals {
        // SAFETY: SIG_IGN installs no handler.
        unsafe { libc::signal(signal, libc::SIG_IGN) };
    }
}

/// Closes every descriptor from 3 up, but for `keep`.
pub(crate) fn close_all_but(keep: &[RawFd]) -> Result<(), Errno> {
    let mut keep: Vec<u32> = keep.iter().filter_map(|fd| u32::try_from(*fd).ok()).collect();
    keep.sort_unstable();
    let mut first: u32 = 3;
    for fd in keep {
        if fd > first {
            close_range(first, fd - 1, 0)?;
        }
        first = first.max(fd + 1);
    }
    close_range(first, u32::MAX, 0)
}

/// Marks every descriptor from 3 up to be closed by the next exec.
pub(crate) fn close_all_on_exec() -> Result<(), Errno> {
    close_range(3, u32::MAX, libc::CLOSE_RANGE_CLOEXEC)
}

fn close_range(first: u32, last: u32, flags: u32) -> Result<(), Errno> {
    // SAFETY: numbers only. The child that calls this owns its whole table of descriptors and
    // leaks, by `exec` or `_exit`, the owners of those it closes.
    check(unsafe { libc::syscall(libc::SYS_close_range, first, last, flags) })
}

/// Becomes another program; comes back only with an error.
pub(crate) fn execve(path: &CStr, argv: &[CString], env: &[CString]) -> Errno {
    let pointers = |strings: &[CString]| -> Vec<*const libc::c_char> {
        strings.iter().map(|text| text.as_ptr()).chain([std::ptr::null()]).collect()
    };
    let (argv, env) = (pointers(argv), pointers(env));
    // SAFETY: both lists end with a null pointer, and their strings live across the call.
    unsafe { libc::execve(path.as_ptr(), argv.as_ptr(), env.as_ptr()) };
    last_errno()
}

/// Ends the process without running anything of the parent's that was copied along.
pub(crate) fn exit_now(code: i32) -> ! {
    // SAFETY: _exit has no preconditions.
    unsafe { libc::_exit(code) }
}

/// Puts a descriptor in place of another one (`dup2`), open across an exec.
pub(crate) fn dup_to(from: BorrowedFd<'_>, to: RawFd) -> Result<(), Errno> {
    // SAFETY: numbers only; `to` is 0, 1 or 2, which no owner of this program closes.
    if unsafe { libc::dup2(from.as_raw_fd(), to) } < 0 { Err(last_errno()) } else { Ok(()) }
}

/// Takes one descriptor out of a message that has come already.
pub(crate) fn receive_file(socket: &OwnedFd) -> Result<OwnedFd, Errno> {
    receive(socket, rustix::net::RecvFlags::DONTWAIT)
}

/// Waits for a message with a descriptor. An error when the other side is closed.
pub(crate) fn await_file(socket: &OwnedFd) -> Result<OwnedFd, Errno> {
    receive(socket, rustix::net::RecvFlags::empty())
}

fn receive(socket: &OwnedFd, wait: rustix::net::RecvFlags) -> Result<OwnedFd, Errno> {
    use rustix::net::{RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags};
    let mut space = [std::mem::MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
    let mut control = RecvAncillaryBuffer::new(&mut space);
    let mut byte = [0u8; 1];
    let slices = &mut [std::io::IoSliceMut::new(&mut byte)];
    let flags = RecvFlags::CMSG_CLOEXEC | wait;
    rustix::net::recvmsg(socket, slices, &mut control, flags)?;
    let mut messages = control.drain().filter_map(|message| match message {
        RecvAncillaryMessage::ScmRights(files) => Some(files),
        _ => None,
    });
    messages.next().and_then(|mut files| files.next()).ok_or(Errno::NOMSG)
}

/// Takes a descriptor that this process was started with.
pub(crate) fn inherited(fd: RawFd) -> Result<OwnedFd, Errno> {
    // SAFETY: F_DUPFD_CLOEXEC makes a fresh descriptor of one that need not even be open.
    let copy = unsafe { libc::fcntl(fd, libc::F_DUPFD_CLOEXEC, 3) };
    if copy < 0 {
        return Err(last_errno());
    }
    // SAFETY: the kernel made it just now; nobody else owns it.
    Ok(unsafe { OwnedFd::from_raw_fd(copy) })
}

/// Sends a signal, real-time ones included.
pub(crate) fn pidfd_send_signal(pidfd: BorrowedFd<'_>, signal: i32) -> Result<(), Errno> {
    let no_info = std::ptr::null::<libc::siginfo_t>();
    // SAFETY: numbers, and a null pointer where that is allowed.
    check(unsafe {
        libc::syscall(libc::SYS_pidfd_send_signal, pidfd.as_raw_fd(), signal, no_info, 0)
    })
}

/// Brings the loopback device of the current network namespace up.
pub(crate) fn loopback_up(socket: BorrowedFd<'_>) -> Result<(), Errno> {
    // SAFETY: ifreq is plain data, for which all zeroes is a value.
    let mut request: libc::ifreq = unsafe { std::mem::zeroed() };
    for (to, from) in request.ifr_name.iter_mut().zip(b"lo") {
        *to = *from as libc::c_char;
    }
    request.ifr_ifru.ifru_flags = (libc::IFF_UP | libc::IFF_RUNNING) as libc::c_short;
    // SAFETY: SIOCSIFFLAGS reads an ifreq, which lives across the call.
    let result = unsafe { libc::ioctl(socket.as_raw_fd(), libc::SIOCSIFFLAGS, &raw const request) };
    check(result.into())
}

/// Unmaps the pages of a mapping of a file that nobody can write to and of which no page was
/// changed.
pub(crate) fn unmap_file_pages(mapping: std::ops::Range<usize>) -> std::io::Result<()> {
    let start = mapping.start as *mut libc::c_void;
    // SAFETY: nothing is lost: each page is the file's own, and the next access, from whichever
    // thread, maps it again. Should the mapping have gone meanwhile, the kernel refuses; no other
    // one takes its place, as programs are mapped only once.
    let result = unsafe { libc::madvise(start, mapping.len(), libc::MADV_DONTNEED) };
    if result < 0 { Err(std::io::Error::last_os_error()) } else { Ok(()) }
}

/// Gives free pages of the heap back; see malloc_trim(3). False when there was none, and with other
/// C libraries than glibc.
pub(crate) fn trim_heap() -> bool {
    #[cfg(target_env = "gnu")]
    // SAFETY: the allocator gives back pages that it holds free, under its own locks; nothing that
    // is allocated moves.
    unsafe {
        libc::malloc_trim(0) != 0
    }
    #[cfg(not(target_env = "gnu"))]
    false
}

/// Leaves namespaces for new ones; see unshare(2).
pub(crate) fn unshare(flags: rustix::thread::UnshareFlags) -> Result<(), Errno> {
    // SAFETY: the descriptor table is not among the flags used here, and there is only one thread.
    unsafe { rustix::thread::unshare_unsafe(flags) }
}

fn check(result: libc::c_long) -> Result<(), Errno> {
    if result < 0 { Err(last_errno()) } else { Ok(()) }
}

fn last_errno() -> Errno {
    let code = std::io::Error::last_os_error().raw_os_error().unwrap_or(libc::EIO);
    Errno::from_raw_os_error(code)
}
