//! `fsGroup`: a volume and all that lies in it is given to the pod's group, as the kubelet does
//! (`VolumeOwnership`).
//!
//! What lies in a volume is a pod's doing. Each name is opened beneath an open folder, as what it
//! is: links are given to the group themselves and never followed, and no mount is crossed. The
//! folder of the volume comes last: as long as it is not the group's, what an interrupted change
//! left undone is seen to be so.

use std::ffi::{CStr, OsStr};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use rustix::fs::{AtFlags, CWD, Dir, FileType, Gid, Mode, OFlags, ResolveFlags, Stat};
use rustix::io::Errno;

use super::error::VolumeProblem;

/// What the group may do with everything: read and write.
const READ_WRITE: u32 = 0o660;
/// And with folders: enter, and pass itself on to what is made in them.
const ENTER_AND_PASS_ON: u32 = 0o2110;

/// `fsGroupChangePolicy`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ChangePolicy {
    /// Everything, each time.
    Always,
    /// Nothing when the folder of the volume is the group's already.
    OnRootMismatch,
}

impl ChangePolicy {
    /// As the API writes it; Always is the default.
    pub(super) fn parse(text: Option<&str>) -> Self {
        match text {
            Some("OnRootMismatch") => Self::OnRootMismatch,
            Some(_) | None => Self::Always,
        }
    }
}

/// Gives the volume whose folder is at `path` to the group.
pub(super) fn give_to_group(
    path: &Path,
    group: u32,
    policy: ChangePolicy,
) -> Result<(), VolumeProblem> {
    let root = open_root(path)?;
    let about_root = |error: Errno| failed(path, Path::new(""), error);
    match policy {
        ChangePolicy::OnRootMismatch => {
            let stat = rustix::fs::fstat(&root).map_err(about_root)?;
            if wanted(&stat, group).is_none() {
                return Ok(());
            }
        }
        ChangePolicy::Always => {}
    }
    // paths in the volume, and not open folders, of which a hostile tree could need very many
    let mut folders = vec![PathBuf::new()];
    while let Some(folder) = folders.pop() {
        let about = |error: Errno| failed(path, &folder, error);
        let Some(open) = open_beneath(&root, &folder).map_err(about)? else { continue };
        for entry in Dir::read_from(&open).map_err(about)? {
            let entry = entry.map_err(about)?;
            let name = entry.file_name();
            if name == c"." || name == c".." {
                continue;
            }
            let inside = folder.join(OsStr::from_bytes(name.to_bytes()));
            let kind = give_one(open.as_fd(), name, group);
            match kind.map_err(|error| failed(path, &inside, error))? {
                OwnedEntry::Folder => folders.push(inside),
                OwnedEntry::Other => {}
            }
        }
    }
    change(root.as_fd(), group).map(drop).map_err(about_root)
}

/// What was given.
enum OwnedEntry {
    /// A folder of the volume, in which there may be more.
    Folder,
    /// Anything else, or nothing: what has gone meanwhile, or what is mounted there.
    Other,
}

fn give_one(folder: BorrowedFd<'_>, name: &CStr, group: u32) -> Result<OwnedEntry, Errno> {
    let flags = OFlags::PATH | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    match rustix::fs::openat2(folder, name, flags, Mode::empty(), beneath()) {
        Ok(entry) => match change(entry.as_fd(), group)? {
            FileType::Directory => Ok(OwnedEntry::Folder),
            _ => Ok(OwnedEntry::Other),
        },
        Err(Errno::NOENT | Errno::XDEV) => Ok(OwnedEntry::Other),
        Err(error) => Err(error),
    }
}

/// Changes what this descriptor is of, whatever its name stands for by now.
fn change(entry: BorrowedFd<'_>, group: u32) -> Result<FileType, Errno> {
    let stat = rustix::fs::fstat(entry)?;
    let kind = FileType::from_raw_mode(stat.st_mode);
    let Some(mode) = wanted(&stat, group) else { return Ok(kind) };
    rustix::fs::chownat(entry, c"", None, Some(Gid::from_raw(group)), AtFlags::EMPTY_PATH)?;
    if kind != FileType::Symlink {
        // also puts back what the kernel takes from executable files with their group
        rustix::fs::chmod(format!("/proc/self/fd/{}", entry.as_raw_fd()), mode)?;
    }
    Ok(kind)
}

/// The mode that it is to have; none when it is as it should be.
fn wanted(stat: &Stat, group: u32) -> Option<Mode> {
    let mode = stat.st_mode & 0o7777;
    let wanted = match FileType::from_raw_mode(stat.st_mode) {
        FileType::Symlink => mode,
        FileType::Directory => mode | READ_WRITE | ENTER_AND_PASS_ON,
        _ => mode | READ_WRITE,
    };
    (stat.st_gid != group || wanted != mode).then(|| Mode::from_raw_mode(wanted))
}

fn open_root(path: &Path) -> Result<OwnedFd, VolumeProblem> {
    let root = rustix::fs::openat2(
        CWD,
        path,
        OFlags::DIRECTORY | OFlags::RDONLY | OFlags::CLOEXEC,
        Mode::empty(),
        ResolveFlags::NO_SYMLINKS | ResolveFlags::NO_MAGICLINKS,
    );
    root.map_err(|error| failed(path, Path::new(""), error))
}

/// A folder of the volume; none when it is gone, or is none any more.
fn open_beneath(root: &OwnedFd, folder: &Path) -> Result<Option<OwnedFd>, Errno> {
    let folder = if folder.as_os_str().is_empty() { Path::new(".") } else { folder };
    let flags = OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::RDONLY | OFlags::CLOEXEC;
    match rustix::fs::openat2(root, folder, flags, Mode::empty(), beneath()) {
        Ok(folder) => Ok(Some(folder)),
        Err(Errno::NOENT | Errno::NOTDIR | Errno::LOOP | Errno::XDEV) => Ok(None),
        Err(error) => Err(error),
    }
}

fn beneath() -> ResolveFlags {
    ResolveFlags::BENEATH | ResolveFlags::NO_SYMLINKS | ResolveFlags::NO_XDEV
}

fn failed(volume: &Path, inside: &Path, error: Errno) -> VolumeProblem {
    VolumeProblem::io("give to the pod's group", volume.join(inside), error)
}

#[cfg(test)]
mod tests {
    use std::fs::{self, Permissions};
    use std::os::unix::fs::{MetadataExt, PermissionsExt, symlink};

    use super::*;
    use crate::testing::TestFolder;

    /// Group and mode, of a link its own.
    fn shown(path: &Path) -> String {
        let found = fs::symlink_metadata(path).unwrap();
        format!("{} {:o}", found.gid(), found.mode() & 0o7777)
    }

    fn volume() -> (TestFolder, PathBuf) {
        let folder = TestFolder::new();
        let volume = folder.join("volume");
        fs::create_dir_all(volume.join("a/b")).unwrap();
        for (name, mode) in [("file", 0o600), ("a/tool", 0o4755), ("a/b/secret", 0o400)] {
            fs::write(volume.join(name), "").unwrap();
            fs::set_permissions(volume.join(name), Permissions::from_mode(mode)).unwrap();
        }
        for name in ["", "a", "a/b"] {
            fs::set_permissions(volume.join(name), Permissions::from_mode(0o700)).unwrap();
        }
        (folder, volume)
    }

    #[test]
    fn everything_in_a_volume_is_the_groups_and_passes_it_on() {
        let (_folder, volume) = volume();
        give_to_group(&volume, 4711, ChangePolicy::Always).unwrap();
        for (name, expected) in [
            ("", "4711 2770"),
            ("a", "4711 2770"),
            ("a/b", "4711 2770"),
            ("file", "4711 660"),
            ("a/tool", "4711 4775"),
            ("a/b/secret", "4711 660"),
        ] {
            assert_eq!(shown(&volume.join(name)), expected, "{name}");
        }
        fs::write(volume.join("a/b/new"), "").unwrap();
        assert!(shown(&volume.join("a/b/new")).starts_with("4711 "));
    }

    #[test]
    fn a_volume_whose_folder_is_the_groups_is_left_as_it_is_on_request() {
        let (_folder, volume) = volume();
        give_to_group(&volume, 4711, ChangePolicy::OnRootMismatch).unwrap();
        let secret = volume.join("a/b/secret");
        assert_eq!(shown(&secret), "4711 660");
        fs::set_permissions(&secret, Permissions::from_mode(0o400)).unwrap();
        give_to_group(&volume, 4711, ChangePolicy::OnRootMismatch).unwrap();
        assert_eq!(shown(&secret), "4711 400");
        give_to_group(&volume, 4711, ChangePolicy::Always).unwrap();
        assert_eq!(shown(&secret), "4711 660");
        // what is missing may also be a right of the folder
        fs::set_permissions(&volume, Permissions::from_mode(0o755)).unwrap();
        fs::set_permissions(&secret, Permissions::from_mode(0o400)).unwrap();
        give_to_group(&volume, 4711, ChangePolicy::OnRootMismatch).unwrap();
        assert_eq!(shown(&secret), "4711 660");
    }

    #[test]
    fn links_lead_nowhere_and_mounts_stay_as_they_are() {
        let (folder, volume) = volume();
        let host = folder.join("host");
        fs::create_dir(&host).unwrap();
        fs::write(host.join("shadow"), "").unwrap();
        fs::set_permissions(host.join("shadow"), Permissions::from_mode(0o600)).unwrap();
        let before = (shown(&host), shown(&host.join("shadow")));
        symlink(&host, volume.join("a/folder")).unwrap();
        symlink(host.join("shadow"), volume.join("a/shadow")).unwrap();
        symlink("/nowhere", volume.join("dangling")).unwrap();
        fs::create_dir(volume.join("mounted")).unwrap();
        rustix::mount::mount_bind(&host, volume.join("mounted")).unwrap();
        let given = give_to_group(&volume, 4711, ChangePolicy::Always);
        let after = (shown(&host), shown(&host.join("shadow")));
        rustix::mount::unmount(volume.join("mounted"), rustix::mount::UnmountFlags::DETACH)
            .unwrap();
        given.unwrap();
        assert_eq!(after, before);
        assert!(shown(&volume.join("a/shadow")).starts_with("4711 "));
        // nor does the volume itself lead elsewhere
        let link = folder.join("link");
        symlink(&host, &link).unwrap();
        assert!(give_to_group(&link, 4711, ChangePolicy::Always).is_err());
    }
}
