//! emptyDir: a folder or a tmpfs that lives as long as the pod, and is made anew by a whole-pod
//! restart that says so.

use std::ffi::OsString;
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};

use k8s_openapi::api::core::v1::EmptyDirVolumeSource;
use rekindle_types::Quantity;
use rustix::fs::{AtFlags, CWD, FileType, Gid, Mode, OFlags};
use rustix::io::Errno;

use super::error::VolumeProblem;
use super::tmpfs::{TmpfsOptions, ensure_tmpfs, make_folder, mount_tmpfs, unmount_tmpfs};

/// Everybody may write to it, as with the kubelet.
const MODE: u32 = 0o777;
/// New files in it belong to its group.
const SET_GROUP_ID: u32 = 0o2000;
/// What the pod's fsGroup may do with it, whatever its mode says.
const GROUP_MAY: u32 = 0o770;

/// Where an emptyDir lives.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum EmptyDirMedium {
    Disk,
    Memory { size_bytes: Option<u64> },
}

/// What an emptyDir is made with.
#[derive(Clone, Copy, Debug)]
pub(crate) struct EmptyDir<'a> {
    /// The volume's source.
    pub source: &'a EmptyDirVolumeSource,
    /// The pod's fsGroup.
    pub fs_group: Option<u32>,
    /// What the pod can have of memory at most: its limit, or all that the node has for pods. A
    /// volume in memory is no larger [kubelet `calculateEmptyDirMemorySize`].
    pub memory_bytes_max: Option<u64>,
}

impl EmptyDir<'_> {
    /// `emptyDir.mode`, else everybody's.
    fn mode(&self) -> u32 {
        self.source.mode.and_then(|mode| u32::try_from(mode).ok()).unwrap_or(MODE)
    }

    fn medium(&self) -> Result<EmptyDirMedium, VolumeProblem> {
        let limit =
            self.source.size_limit.as_ref().and_then(|limit| limit.0.parse::<Quantity>().ok());
        let limit =
            limit.and_then(|limit| u64::try_from(limit.units()).ok()).filter(|bytes| *bytes > 0);
        match self.source.medium.as_deref().unwrap_or_default() {
            "" => Ok(EmptyDirMedium::Disk),
            "Memory" => Ok(EmptyDirMedium::Memory {
                size_bytes: match (limit, self.memory_bytes_max) {
                    (Some(a), Some(b)) => Some(a.min(b)),
                    (a, b) => a.or(b),
                },
            }),
            other => Err(VolumeProblem::Medium(other.to_owned())),
        }
    }

    /// Makes it, or finds it as it is: content, owner and permissions stay, also those that a
    /// container has set meanwhile.
    pub(crate) fn ensure(&self, path: &Path) -> Result<(), VolumeProblem> {
        match self.medium()? {
            EmptyDirMedium::Disk if is_folder(path)? => Ok(()),
            EmptyDirMedium::Disk => self.make_folder(path),
            EmptyDirMedium::Memory { size_bytes } => ensure_tmpfs(path, self.tmpfs(size_bytes)),
        }
    }

    /// Makes its content new. Only while no container runs. The old folder is moved to `trash`,
    /// whole, so that this takes as long with a million files as with none; a crash in between
    /// leaves a missing folder, which `ensure` makes again.
    pub(crate) fn refresh(&self, path: &Path, trash: &Path) -> Result<(), VolumeProblem> {
        match self.medium()? {
            EmptyDirMedium::Disk => {
                move_to_trash(path, trash)?;
                self.make_folder(path)
            }
            EmptyDirMedium::Memory { size_bytes } => {
                unmount_tmpfs(path)?;
                make_folder(path)?;
                mount_tmpfs(path, self.tmpfs(size_bytes))
            }
        }
    }

    /// It gets its name when it is complete, so that after a crash in between it is not taken for
    /// one that containers have.
    fn make_folder(&self, path: &Path) -> Result<(), VolumeProblem> {
        let mut name = OsString::from(".");
        name.push(path.file_name().unwrap_or_default());
        name.push(".new"); // no volume's name begins with a dot
        let new = path.with_file_name(name);
        make_folder(&new)?;
        self.set_permissions(&new)?;
        rustix::fs::renameat(CWD, &new, CWD, path)
            .map_err(|error| VolumeProblem::io("put in place", path, error))
    }

    fn tmpfs(&self, size_bytes: Option<u64>) -> TmpfsOptions {
        TmpfsOptions { size_bytes, mode: self.permissions(), group: self.fs_group }
    }

    /// The mode of its root, with what its group may do.
    fn permissions(&self) -> u32 {
        match self.fs_group {
            Some(_) => self.mode() | SET_GROUP_ID | GROUP_MAY,
            None => self.mode(),
        }
    }

    fn set_permissions(&self, path: &Path) -> Result<(), VolumeProblem> {
        let failed = |error: Errno| VolumeProblem::io("set permissions of", path, error);
        let flags = OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::RDONLY | OFlags::CLOEXEC;
        let folder = rustix::fs::openat(CWD, path, flags, Mode::empty()).map_err(failed)?;
        if let Some(group) = self.fs_group {
            rustix::fs::fchown(&folder, None, Some(Gid::from_raw(group))).map_err(failed)?;
        }
        rustix::fs::fchmod(&folder, Mode::from_raw_mode(self.permissions())).map_err(failed)
    }
}

/// Whether the volume's folder is there; what else stands at its place is nobody's volume.
fn is_folder(path: &Path) -> Result<bool, VolumeProblem> {
    match rustix::fs::statat(CWD, path, AtFlags::SYMLINK_NOFOLLOW) {
        Ok(found) if FileType::from_raw_mode(found.st_mode) == FileType::Directory => Ok(true),
        Ok(_) => Err(VolumeProblem::io("use", path, Errno::NOTDIR)),
        Err(Errno::NOENT) => Ok(false),
        Err(error) => Err(VolumeProblem::io("look at", path, error)),
    }
}

/// Moves a folder out of the way; absent is success.
pub(crate) fn move_to_trash(path: &Path, trash: &Path) -> Result<(), VolumeProblem> {
    static NEXT: AtomicU64 = AtomicU64::new(0);
    make_folder(trash)?;
    if let Err(Errno::NOENT) = rustix::fs::statat(CWD, path, AtFlags::SYMLINK_NOFOLLOW) {
        return Ok(());
    }
    loop {
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        let target = trash.join(format!("{}-{number}", std::process::id()));
        let no_replace = rustix::fs::RenameFlags::NOREPLACE;
        match rustix::fs::renameat_with(CWD, path, CWD, &target, no_replace) {
            Ok(()) | Err(Errno::NOENT) => return Ok(()),
            Err(Errno::EXIST) => {} // left by an earlier process of the same number
            Err(error) => return Err(VolumeProblem::io("move aside", path, error)),
        }
    }
}
