//! What pods have written on this node: bounded walks on threads where blocking is no harm, and
//! file systems.

use std::io;
use std::path::Path;

use k8s_openapi::api::core::v1::{Pod, Volume};
use rekindle_runtime::{TreeUsage, WalkExtent};
use rekindle_types::Tick;
use rustix::fs::{CWD, Mode, OFlags, ResolveFlags};

use super::snapshot::{FileSystemUsage, VolumeMedium};

/// The file system that `path` lies on.
pub(crate) fn file_system(path: &Path, now: Tick) -> io::Result<FileSystemUsage> {
    let found = rustix::fs::statvfs(path)?;
    Ok(usage_of(&found, now))
}

fn usage_of(found: &rustix::fs::StatVfs, now: Tick) -> FileSystemUsage {
    FileSystemUsage {
        taken_at: now,
        capacity_bytes: found.f_blocks.saturating_mul(found.f_frsize),
        available_bytes: found.f_bavail.saturating_mul(found.f_frsize),
        used_bytes: found.f_blocks.saturating_sub(found.f_bfree).saturating_mul(found.f_frsize),
        inodes: found.f_files,
        inodes_free: found.f_favail,
    }
}

/// A volume that the node keeps for a pod: its name and where it lies; `None` for what is the
/// host's own.
pub(super) fn medium(volume: &Volume) -> Option<VolumeMedium> {
    if let Some(empty_dir) = &volume.empty_dir {
        let medium = empty_dir.medium.as_deref().unwrap_or_default();
        return Some(if medium.is_empty() { VolumeMedium::Disk } else { VolumeMedium::Memory });
    }
    if volume.config_map.is_some() {
        return Some(VolumeMedium::Disk);
    }
    let in_memory =
        volume.secret.is_some() || volume.projected.is_some() || volume.downward_api.is_some();
    in_memory.then_some(VolumeMedium::Memory)
}

/// The volumes of a pod that the node keeps.
pub(super) fn kept_volumes(pod: &Pod) -> impl Iterator<Item = (&str, VolumeMedium)> {
    let volumes = pod.spec.iter().flat_map(|spec| spec.volumes.iter().flatten());
    volumes.filter_map(|volume| Some((volume.name.as_str(), medium(volume)?)))
}

/// The tmpfs that is mounted at `path`: what is in it, without a walk. `None` while nothing is
/// mounted there.
pub(super) fn mounted(path: &Path, now: Tick) -> io::Result<Option<FileSystemUsage>> {
    let flags = OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::PATH | OFlags::CLOEXEC;
    let open = |path: &Path| {
        rustix::fs::openat2(CWD, path, flags, Mode::empty(), ResolveFlags::NO_SYMLINKS)
    };
    let Some(parent) = path.parent() else { return Ok(None) };
    let folder = match open(path) {
        Ok(folder) => folder,
        Err(rustix::io::Errno::NOENT) => return Ok(None),
        Err(error) => return Err(error.into()),
    };
    if rustix::fs::fstat(&folder)?.st_dev == rustix::fs::fstat(open(parent)?)?.st_dev {
        return Ok(None);
    }
    Ok(Some(usage_of(&rustix::fs::fstatvfs(&folder)?, now)))
}

/// What is in a file system of its own.
pub(super) fn all_of(file_system: &FileSystemUsage) -> TreeUsage {
    TreeUsage {
        bytes: file_system.used_bytes,
        inodes: file_system.inodes_used(),
        extent: WalkExtent::Whole,
    }
}
