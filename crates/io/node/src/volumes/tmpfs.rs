//! tmpfs mounts: memory volumes, secrets, and the agent's own small files.

use std::ffi::CString;
use std::path::Path;

use rustix::fs::{AtFlags, CWD, Mode};
use rustix::io::Errno;
use rustix::mount::{MountFlags, UnmountFlags};

use super::error::VolumeProblem;

/// `f_type` of a tmpfs.
const TMPFS_MAGIC: u64 = 0x0102_1994;

/// How large a tmpfs may grow, and who may enter.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct TmpfsOptions {
    /// Bytes at most; `None` is the kernel's own limit, half of the memory.
    pub size_bytes: Option<u64>,
    /// Permission bits of its root.
    pub mode: u32,
    /// Whose group its root is; `None` is the agent's.
    pub group: Option<u32>,
}

/// Of the files that the agent provides and a pod may write to: /etc/hosts and its like. Its size
/// is what keeps a pod from filling the disk through them.
pub(crate) const FILES_TMPFS: TmpfsOptions =
    TmpfsOptions { size_bytes: Some(1024 * 1024), mode: 0o755, group: None };

/// Of secrets and other projected volumes: the old and the new content for the moment of the swap.
pub(crate) const PAYLOAD_TMPFS: TmpfsOptions =
    TmpfsOptions { size_bytes: Some(66 * 1024 * 1024), mode: 0o755, group: None };

/// Makes `path` a tmpfs, if it is not one yet.
pub(crate) fn ensure_tmpfs(path: &Path, options: TmpfsOptions) -> Result<(), VolumeProblem> {
    make_folder(path)?;
    if is_tmpfs_mount(path)? {
        return Ok(());
    }
    mount_tmpfs(path, options)
}

/// Mounts a new tmpfs over the folder `path`.
pub(crate) fn mount_tmpfs(path: &Path, options: TmpfsOptions) -> Result<(), VolumeProblem> {
    let size = options.size_bytes.map(|bytes| format!(",size={bytes}")).unwrap_or_default();
    let group = options.group.map(|group| format!(",gid={group}")).unwrap_or_default();
    let data = CString::new(format!("mode={:o}{size}{group}", options.mode))
        .expect("digits and letters hold no NUL");
    let flags = MountFlags::NOSUID | MountFlags::NODEV;
    rustix::mount::mount("tmpfs", path, "tmpfs", flags, data.as_c_str())
        .map_err(|error| VolumeProblem::io("mount tmpfs at", path, error))
}

/// Unmounts `path` if it is a tmpfs mount; it may still be in use by what is ending.
pub(crate) fn unmount_tmpfs(path: &Path) -> Result<(), VolumeProblem> {
    while is_tmpfs_mount(path)? {
        rustix::mount::unmount(path, UnmountFlags::DETACH | UnmountFlags::NOFOLLOW)
            .map_err(|error| VolumeProblem::io("unmount", path, error))?;
    }
    Ok(())
}

/// Whether a tmpfs is mounted exactly here. Absent is no.
pub(crate) fn is_tmpfs_mount(path: &Path) -> Result<bool, VolumeProblem> {
    let failed = |error: Errno| VolumeProblem::io("look at", path, error);
    let own = match rustix::fs::statat(CWD, path, AtFlags::SYMLINK_NOFOLLOW) {
        Ok(own) => own,
        Err(Errno::NOENT) => return Ok(false),
        Err(error) => return Err(failed(error)),
    };
    let parent = path.parent().unwrap_or(Path::new("/"));
    let above = rustix::fs::statat(CWD, parent, AtFlags::SYMLINK_NOFOLLOW).map_err(failed)?;
    if own.st_dev == above.st_dev {
        return Ok(false);
    }
    let kind = rustix::fs::statfs(path).map_err(failed)?.f_type;
    Ok(u64::try_from(kind).is_ok_and(|kind| kind == TMPFS_MAGIC))
}

/// Makes the folder and its parents, 0755 (the agent's own folder above is 0700).
pub(crate) fn make_folder(path: &Path) -> Result<(), VolumeProblem> {
    match rustix::fs::mkdirat(CWD, path, Mode::from_raw_mode(0o755)) {
        Ok(()) | Err(Errno::EXIST) => Ok(()),
        Err(Errno::NOENT) => {
            if let Some(parent) = path.parent() {
                make_folder(parent)?;
            }
            rustix::fs::mkdirat(CWD, path, Mode::from_raw_mode(0o755))
                .map_err(|error| VolumeProblem::io("create folder", path, error))
        }
        Err(error) => Err(VolumeProblem::io("create folder", path, error)),
    }
}
