//! Unpacking a layer's archive into a folder, in the form that overlayfs stacks. The archive is
//! hostile until proven otherwise: `path` judges names, `limits` the amounts, `tree` keeps
//! everything beneath the folder.
//!
//! | in the archive | in the folder |
//! |---|---|
//! | folder that is missing above an entry | made, and remembered as implied |
//! | file, folder, symbolic and hard link, named pipe | the same, with owner, mode (setuid too), time, file capabilities |
//! | `.wh.x` | `x` as character device 0/0 |
//! | `.wh..wh..opq` | `trusted.overlay.opaque=y` on its folder |
//! | device node | left out: it could be opened nowhere, and containers get their own /dev |
//! | sparse file, unknown type, `..`, path through a link, link out of the layer | refused |

mod limits;
mod path;
mod tree;

use std::collections::BTreeSet;
use std::io::{self, Read, Write};
use std::path::{Path, PathBuf};

use self::path::{EntryTarget, Parts};
use self::tree::{EntryMetadata, LayerTree, TreeError};
use super::tar_stream::{TarEntry, TarEntryKind, TarError, TarStream};

pub(crate) use self::limits::{LimitedReader, UnpackLimits};

/// Bytes of folder names remembered at most, to set the folders' times in the end.
const FOLDER_NAMES_MAX_BYTES: usize = 64 << 20;
const COPY_BUFFER_BYTES: usize = 128 * 1024;

/// Why a layer cannot be unpacked.
#[derive(Debug, thiserror::Error)]
pub(crate) enum UnpackError {
    /// The archive itself.
    #[error(transparent)]
    Archive(#[from] TarError),
    /// One entry asks for something that is refused.
    #[error("entry {name:?}: {problem}")]
    Refused { name: String, problem: String },
    /// The disk or kernel failed at one entry.
    #[error("entry {name:?}: {operation}")]
    Failed {
        name: String,
        operation: &'static str,
        #[source]
        source: io::Error,
    },
}

/// What was unpacked.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct UnpackedLayer {
    /// Bytes of all files.
    pub(crate) file_bytes: u64,
    /// Entries, whiteouts included.
    pub(crate) entries: u64,
    /// Device nodes that were left out.
    pub(crate) devices_skipped: u64,
    /// Folders that entries lie in and that are no entries themselves: they stand for those of
    /// lower layers, whose attributes they do not know.
    pub(crate) implied: BTreeSet<PathBuf>,
}

/// Unpacks the plain tar archive `reader` into `root`, an empty folder of ours, and writes it to
/// the disk. The reader is read to the archive's end mark; what follows is left in it.
pub(crate) fn unpack<R: Read>(
    reader: R,
    root: &Path,
    limits: &UnpackLimits,
) -> Result<(UnpackedLayer, R), UnpackError> {
    let tree = LayerTree::open(root).map_err(|source| UnpackError::Failed {
        name: "/".to_owned(),
        operation: "open folder",
        source,
    })?;
    let mut unpacker = Unpacker {
        stream: TarStream::new(reader),
        tree,
        done: UnpackedLayer::default(),
        folders: Vec::new(),
        folder_name_bytes: 0,
        buffer: vec![0; COPY_BUFFER_BYTES],
    };
    while let Some(entry) = unpacker.stream.next()? {
        if unpacker.done.entries == limits.entries_max {
            let problem = format!("the archive has more than {} entries", limits.entries_max);
            return Err(UnpackError::Refused { name: entry.name(), problem });
        }
        unpacker.done.entries += 1;
        unpacker.apply(&entry).map_err(|error| at(entry.name(), error))?;
    }
    unpacker.finish()
}

struct Unpacker<R> {
    stream: TarStream<R>,
    tree: LayerTree,
    done: UnpackedLayer,
    /// Folders with the times to set in the end.
    folders: Vec<(Parts, i64)>,
    folder_name_bytes: usize,
    buffer: Vec<u8>,
}

impl<R: Read> Unpacker<R> {
    fn apply(&mut self, entry: &TarEntry) -> Result<(), TreeError> {
        match path::target(&entry.path).map_err(TreeError::Refused)? {
            EntryTarget::Place(parts) => self.make(&parts, entry),
            EntryTarget::Whiteout(parts) => self.tree.whiteout(&parts),
            EntryTarget::Opaque(parts) => self.tree.opaque(&parts),
            EntryTarget::Ignored => Ok(()),
        }
    }

    fn make(&mut self, parts: &[Vec<u8>], entry: &TarEntry) -> Result<(), TreeError> {
        let meta = EntryMetadata {
            mode: entry.mode,
            uid: entry.uid,
            gid: entry.gid,
            mtime_s: entry.mtime_s,
        };
        match entry.kind {
            TarEntryKind::Directory => {
                self.remember_folder(parts, meta.mtime_s)?;
                self.tree.directory(parts, meta)
            }
            TarEntryKind::File => {
                let Self { stream, tree, buffer, done, .. } = self;
                tree.file(parts, meta, entry.capability.as_deref(), |file| {
                    done.file_bytes += copy(stream, file, buffer)?;
                    Ok(())
                })
            }
            TarEntryKind::Symlink => self.tree.symlink(parts, meta, &entry.link),
            TarEntryKind::HardLink => {
                let to = path::split(&entry.link).map_err(|_| {
                    TreeError::Refused("a hard link to a path that leaves the layer")
                })?;
                self.tree.hard_link(parts, &to)
            }
            TarEntryKind::Fifo => self.tree.fifo(parts, meta),
            TarEntryKind::Device => {
                self.done.devices_skipped += 1;
                Ok(())
            }
        }
    }

    fn remember_folder(&mut self, parts: &[Vec<u8>], mtime_s: i64) -> Result<(), TreeError> {
        self.folder_name_bytes +=
            parts.iter().map(|part| part.len() + size_of::<Vec<u8>>()).sum::<usize>();
        if self.folder_name_bytes > FOLDER_NAMES_MAX_BYTES {
            return Err(TreeError::Refused("the archive's folders have more than 64 MiB of names"));
        }
        self.folders.push((parts.to_vec(), mtime_s));
        Ok(())
    }

    /// The folders' times, deepest last made first, so that setting one does not change another.
    fn finish(mut self) -> Result<(UnpackedLayer, R), UnpackError> {
        for (parts, mtime_s) in std::mem::take(&mut self.folders).iter().rev() {
            self.tree.set_folder_time(parts, *mtime_s).map_err(|error| at(shown(parts), error))?;
        }
        self.tree.sync().map_err(|error| at("/".to_owned(), error))?;
        self.done.implied = self.tree.implied_folders();
        Ok((self.done, self.stream.into_inner()))
    }
}

fn copy(from: &mut impl Read, to: &mut impl Write, buffer: &mut [u8]) -> io::Result<u64> {
    let mut bytes = 0;
    loop {
        match from.read(buffer) {
            Ok(0) => return Ok(bytes),
            Ok(read) => {
                to.write_all(&buffer[..read])?;
                bytes += read as u64;
            }
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
}

fn at(name: String, error: TreeError) -> UnpackError {
    match error {
        TreeError::Refused(problem) => UnpackError::Refused { name, problem: problem.to_owned() },
        TreeError::Failed { operation, source } => UnpackError::Failed { name, operation, source },
    }
}

fn shown(parts: &[Vec<u8>]) -> String {
    String::from_utf8_lossy(&parts.join(&b'/')).into_owned()
}

#[cfg(test)]
mod tests;
