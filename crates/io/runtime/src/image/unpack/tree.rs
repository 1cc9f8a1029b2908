//! The file system beneath a layer's root: every name is resolved relative to an open folder, no
//! symbolic link is ever followed, and what stands in the way is replaced, so that an archive
//! cannot reach anything else of the host.

use std::collections::BTreeSet;
use std::ffi::OsStr;
use std::fs::File;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::path::PathBuf;

use rustix::fs::{
    AtFlags, CWD, Dir, FileType, Gid, Mode, OFlags, ResolveFlags, Stat, Timespec, Timestamps, Uid,
    XattrFlags,
};
use rustix::io::Errno;

use super::path::Parts;

const OPAQUE_ATTRIBUTE: &str = "trusted.overlay.opaque";
const CAPABILITY_ATTRIBUTE: &str = "security.capability";
/// Implied folders that are remembered at most; those that come later stay as they are made.
const IMPLIED_MAX: usize = 20_000;
/// Tries of an openat2 that the kernel wants repeated.
const AGAIN_MAX: u32 = 32;

/// Why something could not be made.
#[derive(Debug, thiserror::Error)]
pub(super) enum TreeError {
    /// The archive asks for something that is refused.
    #[error("{0}")]
    Refused(&'static str),
    /// The disk or the kernel does not do it.
    #[error("{operation}")]
    Failed {
        operation: &'static str,
        #[source]
        source: std::io::Error,
    },
}

/// Who owns something, its permissions and its time.
#[derive(Clone, Copy, Debug)]
pub(super) struct EntryMetadata {
    pub(super) mode: u32,
    pub(super) uid: u32,
    pub(super) gid: u32,
    pub(super) mtime_s: i64,
}

/// A layer's root, and the folder that was used last: entries of one folder follow each other.
pub(super) struct LayerTree {
    root: OwnedFd,
    last: Option<(Parts, OwnedFd)>,
    /// Folders that were made for what lies in them, and were no entries so far.
    implied: BTreeSet<Parts>,
}

impl LayerTree {
    /// The tree beneath `root`, an existing folder of ours that nobody else writes to.
    pub(super) fn open(root: &std::path::Path) -> std::io::Result<Self> {
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let root = rustix::fs::openat(CWD, root, flags, Mode::empty())?;
        Ok(Self { root, last: None, implied: BTreeSet::new() })
    }

    /// Those of the implied folders that were not replaced by something else.
    pub(super) fn implied_folders(&self) -> BTreeSet<PathBuf> {
        let still = self.implied.iter().filter(|parts| self.open_beneath(parts).is_ok());
        still.map(|parts| PathBuf::from(os(&parts.join(&b'/')))).collect()
    }

    /// A folder. One that is there already keeps its content.
    pub(super) fn directory(
        &mut self,
        parts: &[Vec<u8>],
        meta: EntryMetadata,
    ) -> Result<(), TreeError> {
        self.implied.remove(parts);
        let folder = match parts.split_last() {
            None => rustix::io::dup(&self.root).map_err(failed("open folder"))?,
            Some((name, parents)) => {
                let parent = self.folder(parents)?;
                make_folder(parent.as_fd(), name)?;
                open_child(parent.as_fd(), name, OFlags::RDONLY | OFlags::DIRECTORY)?
            }
        };
        set_owner_and_mode(folder.as_fd(), meta)
    }

    /// A new file with what `copy` writes into it.
    pub(super) fn file(
        &mut self,
        parts: &[Vec<u8>],
        meta: EntryMetadata,
        capability: Option<&[u8]>,
        copy: impl FnOnce(&mut File) -> std::io::Result<()>,
    ) -> Result<(), TreeError> {
        let (parent, name) = self.place(parts)?;
        let flags =
            OFlags::CREATE | OFlags::EXCL | OFlags::WRONLY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let fd = rustix::fs::openat(parent, os(name), flags, Mode::from_raw_mode(0o600))
            .map_err(failed("create file"))?;
        let mut file = File::from(fd);
        copy(&mut file).map_err(|source| TreeError::Failed { operation: "write file", source })?;
        set_owner_and_mode(file.as_fd(), meta)?;
        if let Some(value) = capability {
            rustix::fs::fsetxattr(&file, CAPABILITY_ATTRIBUTE, value, XattrFlags::empty())
                .map_err(failed("set file capabilities"))?;
        }
        rustix::fs::futimens(&file, &times(meta.mtime_s)).map_err(failed("set time"))
    }

    /// A symbolic link; where it points to is the container's own affair.
    pub(super) fn symlink(
        &mut self,
        parts: &[Vec<u8>],
        meta: EntryMetadata,
        to: &[u8],
    ) -> Result<(), TreeError> {
        if to.is_empty() || to.contains(&0) {
            return Err(TreeError::Refused("a symbolic link to nowhere"));
        }
        let (parent, name) = self.place(parts)?;
        rustix::fs::symlinkat(os(to), parent, os(name)).map_err(failed("create symbolic link"))?;
        own(parent, name, meta)?;
        rustix::fs::utimensat(parent, os(name), &times(meta.mtime_s), AtFlags::SYMLINK_NOFOLLOW)
            .map_err(failed("set time"))
    }

    /// A named pipe.
    pub(super) fn fifo(&mut self, parts: &[Vec<u8>], meta: EntryMetadata) -> Result<(), TreeError> {
        let (parent, name) = self.place(parts)?;
        rustix::fs::mknodat(
            parent,
            os(name),
            FileType::Fifo,
            Mode::from_raw_mode(meta.mode & 0o777),
            0,
        )
        .map_err(failed("create named pipe"))?;
        own(parent, name, meta)
    }

    /// Another name for a file of this layer.
    pub(super) fn hard_link(&mut self, parts: &[Vec<u8>], to: &[Vec<u8>]) -> Result<(), TreeError> {
        if parts == to {
            return Err(TreeError::Refused("a hard link to itself"));
        }
        let Some((to_name, to_parents)) = to.split_last() else {
            return Err(TreeError::Refused("a hard link to the root"));
        };
        const ABSENT: TreeError =
            TreeError::Refused("a hard link to a file that is not in this layer");
        let to_parent = match self.open_beneath(to_parents) {
            Ok(folder) => folder,
            Err(Errno::NOENT) => return Err(ABSENT),
            Err(errno) => return Err(refused_parent(errno)),
        };
        match stat(to_parent.as_fd(), to_name)?.map(|stat| file_type(&stat)) {
            None => return Err(ABSENT),
            Some(FileType::RegularFile | FileType::Symlink | FileType::Fifo) => {}
            Some(_) => return Err(TreeError::Refused("a hard link to something that is no file")),
        }
        let (parent, name) = self.place(parts)?;
        rustix::fs::linkat(&to_parent, os(to_name), parent, os(name), AtFlags::empty())
            .map_err(failed("create hard link"))
    }

    /// Hides whatever lower layers have here, in overlayfs' form: a character device 0/0. What this
    /// layer itself has here stays, and hides the lower layers' all the same.
    pub(super) fn whiteout(&mut self, parts: &[Vec<u8>]) -> Result<(), TreeError> {
        let Some((name, parents)) = parts.split_last() else {
            return Err(TreeError::Refused("a whiteout of the root"));
        };
        let parent = self.folder(parents)?;
        match stat(parent.as_fd(), name)?.map(|stat| file_type(&stat)) {
            None => {
                rustix::fs::mknodat(parent, os(name), FileType::CharacterDevice, Mode::empty(), 0)
                    .map_err(failed("create whiteout"))
            }
            Some(FileType::Directory) => {
                let folder = open_child(parent.as_fd(), name, OFlags::RDONLY | OFlags::DIRECTORY)?;
                set_opaque(folder.as_fd())
            }
            Some(_) => Ok(()),
        }
    }

    /// Hides what lower layers have inside this folder.
    pub(super) fn opaque(&mut self, parts: &[Vec<u8>]) -> Result<(), TreeError> {
        let folder = self.folder(parts)?;
        // the kept descriptor may only name the folder; attributes need an open one
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let open =
            rustix::fs::openat(folder, ".", flags, Mode::empty()).map_err(failed("open folder"))?;
        set_opaque(open.as_fd())
    }

    /// Sets a folder's time, once everything in it is made. One that was replaced meanwhile is left
    /// alone.
    pub(super) fn set_folder_time(
        &mut self,
        parts: &[Vec<u8>],
        mtime_s: i64,
    ) -> Result<(), TreeError> {
        match self.open_beneath(parts) {
            Ok(folder) => rustix::fs::utimensat(folder, ".", &times(mtime_s), AtFlags::empty())
                .map_err(failed("set time")),
            Err(Errno::NOENT | Errno::NOTDIR | Errno::LOOP) => Ok(()),
            Err(errno) => Err(failed("open folder")(errno)),
        }
    }

    /// Writes everything to the disk.
    pub(super) fn sync(&self) -> Result<(), TreeError> {
        rustix::fs::syncfs(&self.root).map_err(failed("write to disk"))
    }

    /// An empty place for something that is no folder: its parent and name. What was there is
    /// removed.
    fn place<'p>(&mut self, parts: &'p [Vec<u8>]) -> Result<(BorrowedFd<'_>, &'p [u8]), TreeError> {
        let Some((name, parents)) = parts.split_last() else {
            return Err(TreeError::Refused("the root must be a folder"));
        };
        let parent = self.folder(parents)?;
        match stat(parent.as_fd(), name)?.map(|stat| file_type(&stat)) {
            None => {}
            Some(FileType::Directory) => {
                let parent = rustix::io::dup(parent).map_err(failed("open folder"))?;
                // the folder kept from before may lie inside
                self.last = None;
                remove_tree(parent.as_fd(), name)?;
            }
            Some(_) => {
                rustix::fs::unlinkat(parent, os(name), AtFlags::empty())
                    .map_err(failed("replace"))?;
            }
        }
        Ok((self.folder(parents)?, name))
    }

    /// The folder of this path, made with what is missing above it.
    fn folder(&mut self, parts: &[Vec<u8>]) -> Result<BorrowedFd<'_>, TreeError> {
        if parts.is_empty() {
            return Ok(self.root.as_fd());
        }
        let kept = matches!(&self.last, Some((path, _)) if path == parts);
        if !kept {
            self.last = None;
            let folder = match self.open_beneath(parts) {
                Ok(folder) => folder,
                Err(Errno::NOENT | Errno::NOTDIR) => self.make_folders(parts)?,
                Err(errno) => return Err(refused_parent(errno)),
            };
            self.last = Some((parts.to_vec(), folder));
        }
        Ok(self.last.as_ref().map_or(self.root.as_fd(), |(_, folder)| folder.as_fd()))
    }

    fn make_folders(&mut self, parts: &[Vec<u8>]) -> Result<OwnedFd, TreeError> {
        let mut folder = rustix::io::dup(&self.root).map_err(failed("open folder"))?;
        for (depth, name) in (1..).zip(parts) {
            match stat(folder.as_fd(), name)? {
                Some(found) if file_type(&found) == FileType::Directory => {}
                None => {
                    make_folder(folder.as_fd(), name)?;
                    if self.implied.len() < IMPLIED_MAX {
                        self.implied.insert(parts[..depth].to_vec());
                    }
                }
                // nothing of lower layers is seen in it
                Some(found) if is_whiteout(&found) => make_folder(folder.as_fd(), name)?,
                Some(found) if file_type(&found) == FileType::Symlink => {
                    return Err(refused_parent(Errno::LOOP));
                }
                Some(_) => return Err(refused_parent(Errno::NOTDIR)),
            }
            folder = open_child(folder.as_fd(), name, OFlags::PATH | OFlags::DIRECTORY)?;
        }
        Ok(folder)
    }

    fn open_beneath(&self, parts: &[Vec<u8>]) -> Result<OwnedFd, Errno> {
        if parts.is_empty() {
            return rustix::io::dup(&self.root);
        }
        let path = parts.join(&b'/');
        let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let resolve = ResolveFlags::BENEATH
            | ResolveFlags::NO_SYMLINKS
            | ResolveFlags::NO_MAGICLINKS
            | ResolveFlags::NO_XDEV;
        let mut tries = 0;
        loop {
            match rustix::fs::openat2(&self.root, os(&path), flags, Mode::empty(), resolve) {
                Err(Errno::AGAIN) if tries < AGAIN_MAX => tries += 1,
                // a path longer than the kernel takes at once is walked part by part
                Err(Errno::NAMETOOLONG) => return self.walk_beneath(parts),
                other => return other,
            }
        }
    }

    fn walk_beneath(&self, parts: &[Vec<u8>]) -> Result<OwnedFd, Errno> {
        let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let mut folder = rustix::io::dup(&self.root)?;
        for name in parts {
            folder = rustix::fs::openat(&folder, os(name), flags, Mode::empty())?;
        }
        Ok(folder)
    }
}

/// A folder by this name: a file, link or whiteout in its place is replaced. One that replaces a
/// whiteout shows nothing of the lower layers, as the whiteout said.
fn make_folder(parent: BorrowedFd<'_>, name: &[u8]) -> Result<(), TreeError> {
    let found = stat(parent, name)?;
    match &found {
        Some(found) if file_type(found) == FileType::Directory => return Ok(()),
        Some(_) => {
            rustix::fs::unlinkat(parent, os(name), AtFlags::empty()).map_err(failed("replace"))?
        }
        None => {}
    }
    rustix::fs::mkdirat(parent, os(name), Mode::from_raw_mode(0o755))
        .map_err(failed("create folder"))?;
    let folder = open_child(parent, name, OFlags::RDONLY | OFlags::DIRECTORY)?;
    // whatever the umask of this process is
    rustix::fs::fchmod(&folder, Mode::from_raw_mode(0o755)).map_err(failed("set mode"))?;
    if found.as_ref().is_some_and(is_whiteout) {
        set_opaque(folder.as_fd())?;
    }
    Ok(())
}

fn open_child(parent: BorrowedFd<'_>, name: &[u8], flags: OFlags) -> Result<OwnedFd, TreeError> {
    let flags = flags | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    rustix::fs::openat(parent, os(name), flags, Mode::empty()).map_err(failed("open folder"))
}

/// Removes a folder with everything in it. Its depth is bounded by the depth of paths, links are
/// not followed.
fn remove_tree(parent: BorrowedFd<'_>, name: &[u8]) -> Result<(), TreeError> {
    let folder = open_child(parent, name, OFlags::RDONLY | OFlags::DIRECTORY)?;
    let mut names = Vec::new();
    for entry in Dir::read_from(&folder).map_err(failed("list folder"))? {
        let entry = entry.map_err(failed("list folder"))?;
        let name = entry.file_name().to_bytes();
        if name != b"." && name != b".." {
            names.push((name.to_vec(), entry.file_type()));
        }
    }
    for (child, kind) in names {
        let is_folder = match kind {
            FileType::Unknown => stat(folder.as_fd(), &child)?
                .is_some_and(|found| file_type(&found) == FileType::Directory),
            known => known == FileType::Directory,
        };
        if is_folder {
            remove_tree(folder.as_fd(), &child)?;
        } else {
            rustix::fs::unlinkat(&folder, os(&child), AtFlags::empty())
                .map_err(failed("remove"))?;
        }
    }
    rustix::fs::unlinkat(parent, os(name), AtFlags::REMOVEDIR).map_err(failed("remove folder"))
}

fn stat(parent: BorrowedFd<'_>, name: &[u8]) -> Result<Option<Stat>, TreeError> {
    match rustix::fs::statat(parent, os(name), AtFlags::SYMLINK_NOFOLLOW) {
        Ok(found) => Ok(Some(found)),
        Err(Errno::NOENT) => Ok(None),
        Err(errno) => Err(failed("look at")(errno)),
    }
}

fn file_type(stat: &Stat) -> FileType {
    FileType::from_raw_mode(stat.st_mode)
}

/// Devices are made by nobody but us.
fn is_whiteout(stat: &Stat) -> bool {
    file_type(stat) == FileType::CharacterDevice && stat.st_rdev == 0
}

fn set_opaque(folder: BorrowedFd<'_>) -> Result<(), TreeError> {
    rustix::fs::fsetxattr(folder, OPAQUE_ATTRIBUTE, b"y", XattrFlags::empty())
        .map_err(failed("make folder opaque"))
}

/// First the owner: a change of owner clears the setuid bit.
fn set_owner_and_mode(file: BorrowedFd<'_>, meta: EntryMetadata) -> Result<(), TreeError> {
    rustix::fs::fchown(file, Some(Uid::from_raw(meta.uid)), Some(Gid::from_raw(meta.gid)))
        .map_err(failed("set owner"))?;
    rustix::fs::fchmod(file, Mode::from_raw_mode(meta.mode)).map_err(failed("set mode"))
}

fn own(parent: BorrowedFd<'_>, name: &[u8], meta: EntryMetadata) -> Result<(), TreeError> {
    let (uid, gid) = (Uid::from_raw(meta.uid), Gid::from_raw(meta.gid));
    rustix::fs::chownat(parent, os(name), Some(uid), Some(gid), AtFlags::SYMLINK_NOFOLLOW)
        .map_err(failed("set owner"))
}

fn times(mtime_s: i64) -> Timestamps {
    let time = Timespec { tv_sec: mtime_s, tv_nsec: 0 };
    Timestamps { last_access: time, last_modification: time }
}

fn os(bytes: &[u8]) -> &OsStr {
    OsStr::from_bytes(bytes)
}

fn refused_parent(errno: Errno) -> TreeError {
    match errno {
        Errno::LOOP => TreeError::Refused("a folder above it is a symbolic link"),
        Errno::NOTDIR => TreeError::Refused("something above it is no folder"),
        errno => failed("open folder")(errno),
    }
}

fn failed(operation: &'static str) -> impl Fn(Errno) -> TreeError {
    move |errno| TreeError::Failed { operation, source: errno.into() }
}
