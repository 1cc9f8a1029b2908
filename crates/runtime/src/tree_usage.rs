//! How much disk a folder takes. The tree is hostile: links point out of it, it may be huge and very deep, it changes
//! meanwhile. No link is followed, no mount is crossed, and the work has an end.

use std::collections::HashSet;
use std::ffi::CString;
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::path::Path;
use std::rc::Rc;

use rustix::fs::{AtFlags, CWD, Dir, FileType, Mode, OFlags, ResolveFlags, Stat};
use rustix::io::Errno;

/// Files and folders that are looked at in one tree. A million take a core about two seconds.
pub const TREE_ENTRIES_MAX: u64 = 1_000_000;
/// Folders that are held open at the same time. Each lets one reach as deep again as a path is long.
const OPEN_FOLDERS_MAX: usize = 64;
/// Bytes of a path beneath an open folder; the kernel takes 4096.
const PATH_BYTES_MAX: usize = 3_500;
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
    pub extent: Extent,
}

/// Whether a whole tree was looked at.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Extent {
    /// Yes.
    #[default]
    Whole,
    /// No: it has too many entries, or is too deep. There is at least as much.
    AtLeast,
}

impl std::ops::Add for TreeUsage {
    type Output = Self;

    fn add(self, other: Self) -> Self {
        let extent = match (self.extent, other.extent) {
            (Extent::Whole, Extent::Whole) => Extent::Whole,
            (Extent::AtLeast, Extent::Whole | Extent::AtLeast)
            | (Extent::Whole, Extent::AtLeast) => Extent::AtLeast,
        };
        Self {
            bytes: self.bytes.saturating_add(other.bytes),
            inodes: self.inodes.saturating_add(other.inodes),
            extent,
        }
    }
}

/// Measures the folder at `path`, itself included; absent is nothing. Blocks as long as the disk takes.
///
/// # Errors
/// When `path` or the way to it is a link, or something in it cannot be looked at.
pub fn measure_tree(path: &Path, entries_max: u64) -> io::Result<TreeUsage> {
    let root = match rustix::fs::openat2(
        CWD,
        path,
        folder_flags(),
        Mode::empty(),
        ResolveFlags::NO_SYMLINKS,
    ) {
        Ok(root) => root,
        Err(Errno::NOENT) => return Ok(TreeUsage::default()),
        Err(error) => return Err(error.into()),
    };
    let mut walk = Walk::new(&root, entries_max)?;
    walk.pending.push(Folder { base: Rc::new(root), path: CString::from(c".") });
    while let Some(folder) = walk.pending.pop() {
        if walk.left == 0 {
            walk.usage.extent = Extent::AtLeast;
            break;
        }
        walk.look_into(&folder)?;
    }
    Ok(walk.usage)
}

/// A folder that is still to be looked into.
struct Folder {
    base: Rc<OwnedFd>,
    /// Beneath `base`.
    path: CString,
}

struct Walk {
    usage: TreeUsage,
    device: u64,
    /// Entries that may still be looked at.
    left: u64,
    /// Bases held open, the root aside.
    bases: usize,
    pending: Vec<Folder>,
    /// Inodes with several names that have been counted.
    linked: HashSet<u64>,
}

impl Walk {
    fn new(root: &OwnedFd, entries_max: u64) -> io::Result<Self> {
        let found = rustix::fs::fstat(root)?;
        let mut walk = Self {
            usage: TreeUsage::default(),
            device: found.st_dev,
            left: entries_max,
            bases: 0,
            pending: Vec::new(),
            linked: HashSet::new(),
        };
        walk.count(&found);
        Ok(walk)
    }

    fn count(&mut self, found: &Stat) {
        let is_folder = FileType::from_raw_mode(found.st_mode) == FileType::Directory;
        if !is_folder && found.st_nlink > 1 && !self.linked.insert(found.st_ino) {
            return;
        }
        let blocks = u64::try_from(found.st_blocks).unwrap_or(0);
        self.usage.bytes = self.usage.bytes.saturating_add(blocks.saturating_mul(BLOCK_BYTES));
        self.usage.inodes += 1;
    }

    fn look_into(&mut self, folder: &Folder) -> io::Result<()> {
        let beneath = ResolveFlags::BENEATH | ResolveFlags::NO_SYMLINKS | ResolveFlags::NO_XDEV;
        let opened =
            rustix::fs::openat2(&folder.base, &folder.path, folder_flags(), Mode::empty(), beneath);
        let opened = match opened {
            Ok(opened) => opened,
            // gone, replaced by a link or a file, or something was mounted on it: not this tree's any more
            Err(Errno::NOENT | Errno::LOOP | Errno::NOTDIR | Errno::XDEV) => return Ok(()),
            Err(error) => return Err(error.into()),
        };
        let mut inner = Vec::new();
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
                self.usage.extent = Extent::AtLeast;
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
                inner.push(name.to_owned());
            }
        }
        self.descend(folder, opened, inner);
        Ok(())
    }

    fn descend(&mut self, folder: &Folder, opened: OwnedFd, inner: Vec<CString>) {
        let longest = inner.iter().map(|name| name.as_bytes().len()).max().unwrap_or(0);
        let path_bytes = folder.path.as_bytes().len();
        if path_bytes + 1 + longest <= PATH_BYTES_MAX {
            let under = |name: &CString| {
                let mut path = folder.path.as_bytes().to_vec();
                path.push(b'/');
                path.extend_from_slice(name.as_bytes());
                CString::new(path).ok()
            };
            for path in inner.iter().filter_map(under) {
                self.pending.push(Folder { base: folder.base.clone(), path });
            }
        } else if self.bases < OPEN_FOLDERS_MAX {
            self.bases += 1;
            let base = Rc::new(opened);
            for path in inner {
                self.pending.push(Folder { base: base.clone(), path });
            }
        } else {
            self.usage.extent = Extent::AtLeast;
        }
    }
}

fn folder_flags() -> OFlags {
    OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::RDONLY | OFlags::CLOEXEC
}

#[cfg(test)]
mod tests;
