//! How much disk a folder takes. The tree is hostile: links point out of it, it may be huge and
//! very deep, it changes meanwhile. No link is followed, no mount is crossed, and the work has an
//! end.

use std::collections::HashSet;
use std::ffi::{CStr, CString};
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::path::{Path, PathBuf};
use std::rc::Rc;

use rustix::fs::{AtFlags, CWD, Dir, FileType, Mode, OFlags, ResolveFlags, Stat};
use rustix::io::Errno;

use crate::blocking;

/// Files and folders that are looked at in one tree while somebody waits. A million take a core
/// about two seconds.
pub const TREE_ENTRIES_MAX: u64 = 1_000_000;
/// The same when nobody waits: more than a pod fills a disk with.
pub const TREE_ENTRIES_LONG: u64 = 200_000_000;
/// Files with several names that are remembered; of further ones each name counts as a file.
const LINKED_MAX: usize = 2_000_000;
/// Folders that are held open in one walk to reach deeper than a path is long: each lets one go as
/// deep again.
const OPEN_FOLDERS_MAX: usize = 64;
/// Bytes of a path beneath an open folder; the kernel takes 4096.
const PATH_BYTES_MAX: usize = 3_500;
/// Bytes of names that are remembered to be looked into later.
const PENDING_BYTES_MAX: usize = 16 * 1024 * 1024;
/// A block of `st_blocks` in bytes.
const BLOCK_BYTES: u64 = 512;

/// How much disk a folder and all that is in it take.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TreeUsage {
    /// Bytes of allocated blocks; a file with several names counts once.
    pub bytes: u64,
    /// Files, folders and links.
    pub inodes: u64,
    /// Whether that is all.
    pub extent: WalkExtent,
}

/// Whether a whole tree was looked at.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum WalkExtent {
    /// Yes.
    #[default]
    Whole,
    /// No: it has too many entries, is too deep, or too broad. There is at least as much.
    AtLeast,
}

impl std::ops::Add for TreeUsage {
    type Output = Self;

    fn add(self, other: Self) -> Self {
        let extent = match (self.extent, other.extent) {
            (WalkExtent::Whole, WalkExtent::Whole) => WalkExtent::Whole,
            (WalkExtent::AtLeast, WalkExtent::Whole | WalkExtent::AtLeast)
            | (WalkExtent::Whole, WalkExtent::AtLeast) => WalkExtent::AtLeast,
        };
        Self {
            bytes: self.bytes.saturating_add(other.bytes),
            inodes: self.inodes.saturating_add(other.inodes),
            extent,
        }
    }
}

/// Measures the folder at `path`, itself included; absent is nothing. Blocks as long as the disk
/// takes.
///
/// # Errors
/// When `path` or the way to it is a link, or something in it cannot be looked at.
pub fn measure_tree(path: &Path, entries_max: u64) -> io::Result<TreeUsage> {
    measure(path, WalkLimits { entries: entries_max, pending_bytes: PENDING_BYTES_MAX })
}

/// As [`measure_tree`], while other tasks go on. Neither they nor the end of the process wait for a
/// long walk.
///
/// # Errors
/// As [`measure_tree`].
pub async fn walk_tree(path: PathBuf, entries_max: u64) -> io::Result<TreeUsage> {
    if entries_max <= TREE_ENTRIES_MAX {
        return blocking::run(move || measure_tree(&path, entries_max)).await;
    }
    let (tell, told) = tokio::sync::oneshot::channel();
    let walk = move || {
        // an error means that nobody asks any more
        let _told = tell.send(measure_tree(&path, entries_max));
    };
    std::thread::Builder::new().name("walk".to_owned()).spawn(walk)?;
    told.await.map_err(io::Error::other)?
}

/// What a walk may cost.
#[derive(Clone, Copy)]
struct WalkLimits {
    entries: u64,
    pending_bytes: usize,
}

fn measure(path: &Path, limits: WalkLimits) -> io::Result<TreeUsage> {
    let no_links = ResolveFlags::NO_SYMLINKS;
    let root = match rustix::fs::openat2(CWD, path, folder_flags(), Mode::empty(), no_links) {
        Ok(root) => root,
        Err(Errno::NOENT) => return Ok(TreeUsage::default()),
        Err(error) => return Err(error.into()),
    };
    let mut walk = TreeWalk::new(&root, limits)?;
    let place = Rc::new(FolderLocation { base: Rc::new(root), path: Vec::new() });
    walk.pending.push(PendingFolder { parent: place, name: CString::from(c"."), bytes: 0 });
    while let Some(folder) = walk.pending.pop() {
        walk.pending_bytes -= folder.bytes;
        if walk.left == 0 {
            walk.usage.extent = WalkExtent::AtLeast;
            break;
        }
        walk.look_into(&folder)?;
    }
    Ok(walk.usage)
}

/// Where folders lie that are still to be looked into.
struct FolderLocation {
    base: Rc<OwnedFd>,
    /// Beneath `base`; empty for itself.
    path: Vec<u8>,
}

/// A folder that is still to be looked into.
struct PendingFolder {
    parent: Rc<FolderLocation>,
    name: CString,
    /// What remembering it takes.
    bytes: usize,
}

impl PendingFolder {
    fn path(&self) -> Vec<u8> {
        let mut path = self.parent.path.clone();
        if !path.is_empty() {
            path.push(b'/');
        }
        path.extend_from_slice(self.name.as_bytes());
        path
    }
}

struct TreeWalk {
    usage: TreeUsage,
    device: u64,
    /// Entries that may still be looked at.
    left: u64,
    /// Bases that were opened so far, the root aside.
    bases: usize,
    /// The last one first, so that few of them wait in a usual tree.
    pending: Vec<PendingFolder>,
    pending_bytes: usize,
    pending_bytes_max: usize,
    /// Inodes with several names that have been counted.
    linked: HashSet<u64>,
}

impl TreeWalk {
    fn new(root: &OwnedFd, limits: WalkLimits) -> io::Result<Self> {
        let found = rustix::fs::fstat(root)?;
        let mut walk = Self {
            usage: TreeUsage::default(),
            device: found.st_dev,
            left: limits.entries,
            bases: 0,
            pending: Vec::new(),
            pending_bytes: 0,
            pending_bytes_max: limits.pending_bytes,
            linked: HashSet::new(),
        };
        walk.count(&found);
        Ok(walk)
    }

    fn count(&mut self, found: &Stat) {
        let is_folder = FileType::from_raw_mode(found.st_mode) == FileType::Directory;
        if !is_folder && found.st_nlink > 1 {
            if self.linked.contains(&found.st_ino) {
                return;
            }
            if self.linked.len() < LINKED_MAX {
                self.linked.insert(found.st_ino);
            }
        }
        let blocks = u64::try_from(found.st_blocks).unwrap_or(0);
        self.usage.bytes = self.usage.bytes.saturating_add(blocks.saturating_mul(BLOCK_BYTES));
        self.usage.inodes += 1;
    }

    fn look_into(&mut self, folder: &PendingFolder) -> io::Result<()> {
        let beneath = ResolveFlags::BENEATH | ResolveFlags::NO_SYMLINKS | ResolveFlags::NO_XDEV;
        let (base, path) = (&folder.parent.base, folder.path());
        let opened = match rustix::fs::openat2(base, &path, folder_flags(), Mode::empty(), beneath)
        {
            Ok(opened) => opened,
            // gone, replaced by a link or a file, or something was mounted on it: not this tree's
            // any more
            Err(Errno::NOENT | Errno::LOOP | Errno::NOTDIR | Errno::XDEV) => return Ok(()),
            Err(error) => return Err(error.into()),
        };
        // made when the first folder in this one is found
        let mut place = None;
        for entry in Dir::read_from(opened.as_fd())? {
            let entry = match entry {
                Ok(entry) => entry,
                Err(Errno::NOENT) => break, // the folder was removed meanwhile
                Err(error) => return Err(error.into()),
            };
            let name = entry.file_name();
            if name == c"." || name == c".." {
                continue;
            }
            if self.left == 0 {
                self.usage.extent = WalkExtent::AtLeast;
                return Ok(());
            }
            self.left -= 1;
            let found = match rustix::fs::statat(&opened, name, AtFlags::SYMLINK_NOFOLLOW) {
                Ok(found) => found,
                Err(Errno::NOENT) => continue,
                Err(error) => return Err(error.into()),
            };
            if found.st_dev != self.device {
                continue;
            }
            self.count(&found);
            if FileType::from_raw_mode(found.st_mode) == FileType::Directory {
                self.remember(&mut place, folder, &opened, name)?;
            }
        }
        Ok(())
    }

    fn remember(
        &mut self,
        place: &mut Option<Rc<FolderLocation>>,
        folder: &PendingFolder,
        opened: &OwnedFd,
        name: &CStr,
    ) -> io::Result<()> {
        let mut bytes = name.to_bytes().len() + size_of::<PendingFolder>();
        let parent = match place {
            Some(known) => known.clone(),
            None => {
                let Some(made) = self.place_of(folder, opened)? else {
                    self.usage.extent = WalkExtent::AtLeast;
                    return Ok(());
                };
                bytes += made.path.len();
                place.insert(Rc::new(made)).clone()
            }
        };
        if self.pending_bytes + bytes > self.pending_bytes_max {
            self.usage.extent = WalkExtent::AtLeast;
            return Ok(());
        }
        self.pending_bytes += bytes;
        self.pending.push(PendingFolder { parent, name: name.to_owned(), bytes });
        Ok(())
    }

    /// By its path, or by itself when the path becomes too long; `None` when too many were opened.
    fn place_of(
        &mut self,
        folder: &PendingFolder,
        opened: &OwnedFd,
    ) -> io::Result<Option<FolderLocation>> {
        let path = folder.path();
        if path.len() <= PATH_BYTES_MAX {
            return Ok(Some(FolderLocation { base: folder.parent.base.clone(), path }));
        }
        if self.bases == OPEN_FOLDERS_MAX {
            return Ok(None);
        }
        self.bases += 1;
        let base = rustix::io::fcntl_dupfd_cloexec(opened, 0)?;
        Ok(Some(FolderLocation { base: Rc::new(base), path: Vec::new() }))
    }
}

fn folder_flags() -> OFlags {
    OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::RDONLY | OFlags::CLOEXEC
}

#[cfg(test)]
mod tests;
