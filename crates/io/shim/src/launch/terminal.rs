//! A terminal of the container's own: a pair from its /dev/pts, so that programs in it find their
//! terminal by name.

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::Path;

use rustix::fs::{FileType, OFlags};
use rustix::pty::OpenptFlags;
use rustix::termios::Winsize;

use super::rootfs;
use crate::paths::{self, LinkPolicy};
use crate::problem::FailureContext;
use crate::protocol::{FailureKind, ShimFailure, TerminalSize};
use crate::report::ProcessIdentity;

/// What statfs(2) says of a devpts.
const DEVPTS_MAGIC: u64 = 0x1cd1;

/// Both ends.
pub(super) struct TerminalPair {
    /// The side of whoever looks at it.
    pub(super) master: OwnedFd,
    /// The program's side.
    pub(super) slave: OwnedFd,
}

/// Opens a terminal that belongs to the user. Whatever the container has put at /dev/pts/ptmx:
/// nothing but a devpts' own multiplexer will do, and the program's side is had from the other
/// without looking at a path again.
pub(super) fn open(
    identity: &ProcessIdentity,
    size: TerminalSize,
) -> Result<TerminalPair, ShimFailure> {
    let what = || "open a terminal".to_owned();
    let root = rootfs::open()?;
    let flags = OFlags::RDWR | OFlags::NOCTTY | OFlags::NONBLOCK;
    let master = paths::open(root.as_fd(), Path::new("/dev/pts/ptmx"), flags, LinkPolicy::Refused)
        .setup(what)?;
    let stat = rustix::fs::fstat(&master).setup(what)?;
    let fs = rustix::fs::fstatfs(&master).setup(what)?;
    let is_ptmx = FileType::from_raw_mode(stat.st_mode) == FileType::CharacterDevice
        && stat.st_rdev == rustix::fs::makedev(5, 2)
        && u64::try_from(fs.f_type).is_ok_and(|kind| kind == DEVPTS_MAGIC);
    if !is_ptmx {
        return Err(ShimFailure::new(
            FailureKind::Setup,
            "the container's /dev/pts is something else",
        ));
    }
    rustix::pty::unlockpt(&master).setup(what)?;
    let flags = OpenptFlags::RDWR | OpenptFlags::NOCTTY | OpenptFlags::CLOEXEC;
    let slave = rustix::pty::ioctl_tiocgptpeer(&master, flags).setup(what)?;
    let owner = Some(rustix::fs::Uid::from_raw(identity.uid));
    rustix::fs::fchown(&slave, owner, None).setup(|| "give the terminal to the user".to_owned())?;
    set_size(master.as_fd(), size)?;
    Ok(TerminalPair { master, slave })
}

fn set_size(master: BorrowedFd<'_>, size: TerminalSize) -> Result<(), ShimFailure> {
    let TerminalSize { rows, columns } = size;
    if rows == 0 || columns == 0 {
        return Ok(()); // nobody has said yet
    }
    let size = Winsize { ws_row: rows, ws_col: columns, ws_xpixel: 0, ws_ypixel: 0 };
    rustix::termios::tcsetwinsize(master, size).setup(|| "set the terminal's size".to_owned())
}
