//! Deleting what a pod has written. The tree is hostile: links point out of it, it may be very
//! deep, and something may be mounted in it. Every name is resolved beneath an open folder, no link
//! is followed and no mount is crossed.

use std::ffi::{CStr, CString};
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::Path;

use rustix::fs::{AtFlags, CWD, Dir, Mode, OFlags, ResolveFlags};
use rustix::io::Errno;

/// Folders open at the same time; what lies deeper is moved up first.
const DEPTH_MAX: u32 = 32;

/// Deletes the folder or file at `path`; absent is success. The parent of `path` must be the
/// agent's own.
pub(crate) fn remove_tree(path: &Path) -> io::Result<()> {
    match rustix::fs::unlinkat(CWD, path, AtFlags::empty()) {
        Ok(()) | Err(Errno::NOENT) => return Ok(()),
        Err(Errno::ISDIR | Errno::PERM) => {}
        Err(error) => return Err(error.into()),
    }
    let flags = ResolveFlags::NO_SYMLINKS;
    let root = match rustix::fs::openat2(CWD, path, folder_flags(), Mode::empty(), flags) {
        // another sweep of the same trash was faster
        Err(Errno::NOENT) => return Ok(()),
        answer => answer?,
    };
    empty_folder(root)?;
    match rustix::fs::unlinkat(CWD, path, AtFlags::REMOVEDIR) {
        Ok(()) | Err(Errno::NOENT) => Ok(()),
        Err(error) => Err(error.into()),
    }
}

/// Deletes everything in the folder `path`, which stays; errors are for the log, the rest goes on.
pub(crate) fn sweep(path: &Path) {
    let Ok(entries) = std::fs::read_dir(path) else { return };
    for entry in entries.flatten() {
        if let Err(error) = remove_tree(&entry.path()) {
            tracing::warn!(path = %entry.path().display(), %error, "failed to delete what a pod left; trying again at the next start");
        }
    }
}

/// Deletes everything in `root`, which stays. No link is followed and no mount is crossed.
///
/// # Errors
/// Something could not be deleted, as what is mounted in it; what came before it is gone.
pub fn empty_folder(root: OwnedFd) -> io::Result<()> {
    let mut moved = 0;
    // each round deletes all but what was moved up into the root from below DEPTH_MAX, so the depth
    // left shrinks
    loop {
        let before = moved;
        empty_level(root.as_fd(), root.as_fd(), 0, &mut moved)?;
        if moved == before {
            return Ok(());
        }
    }
}

fn empty_level(
    root: BorrowedFd<'_>,
    folder: BorrowedFd<'_>,
    depth: u32,
    moved: &mut u64,
) -> io::Result<()> {
    for name in names_in(folder)? {
        match rustix::fs::unlinkat(folder, &name, AtFlags::empty()) {
            Ok(()) | Err(Errno::NOENT) => continue,
            Err(Errno::ISDIR | Errno::PERM) => {}
            Err(error) => return Err(error.into()),
        }
        if depth >= DEPTH_MAX {
            move_up(root, folder, &name, moved)?;
            continue;
        }
        let beneath = ResolveFlags::BENEATH | ResolveFlags::NO_SYMLINKS | ResolveFlags::NO_XDEV;
        let inner = match rustix::fs::openat2(folder, &name, folder_flags(), Mode::empty(), beneath)
        {
            Err(Errno::NOENT) => continue,
            answer => answer?,
        };
        empty_level(root, inner.as_fd(), depth + 1, moved)?;
        match rustix::fs::unlinkat(folder, &name, AtFlags::REMOVEDIR) {
            // not empty: a folder was moved out of the way, or something is still being written;
            // the next round sees
            Ok(()) | Err(Errno::NOENT | Errno::NOTEMPTY) => {}
            Err(error) => return Err(error.into()),
        }
    }
    Ok(())
}

fn move_up(
    root: BorrowedFd<'_>,
    folder: BorrowedFd<'_>,
    name: &CStr,
    moved: &mut u64,
) -> io::Result<()> {
    loop {
        *moved += 1;
        let target = format!("..deep-{moved}");
        let no_replace = rustix::fs::RenameFlags::NOREPLACE;
        match rustix::fs::renameat_with(folder, name, root, target, no_replace) {
            Err(Errno::EXIST) => {}
            Err(Errno::NOENT) => return Ok(()),
            answer => return answer.map_err(Into::into),
        }
    }
}

fn names_in(folder: BorrowedFd<'_>) -> io::Result<Vec<CString>> {
    let mut names = Vec::new();
    for entry in Dir::read_from(folder)? {
        let entry = entry?;
        let name = entry.file_name();
        if name != c"." && name != c".." {
            names.push(name.to_owned());
        }
    }
    Ok(names)
}

fn folder_flags() -> OFlags {
    OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::RDONLY | OFlags::CLOEXEC
}
