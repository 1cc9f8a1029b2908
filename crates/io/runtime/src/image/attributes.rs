//! Folders that a layer implies: its archive has what lies in them, and not them. In a stack of
//! layers such a folder must look as a lower layer says (containerd asks the snapshot beneath for
//! it), while overlayfs shows the attributes of the upper one. Layers are unpacked each for itself
//! and shared, so no layer can know them; an image gets one layer more, of folders only, where it
//! makes a difference (docs/adr/0037).

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write;
use std::fs::{self, Permissions};
use std::io;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};

use rustix::io::Errno;

use super::digest::Sha256Digest;

const OPAQUE_ATTRIBUTE: &str = "trusted.overlay.opaque";

/// A layer in a stack.
#[derive(Debug)]
pub(super) struct StackedLayer {
    pub(super) root: PathBuf,
    pub(super) implied: BTreeSet<PathBuf>,
}

/// Whose a folder is, and who may do what in it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct FolderAttributes {
    mode: u32,
    uid: u32,
    gid: u32,
}

/// What a folder has that was made for what lies in it.
const OF_IMPLIED: FolderAttributes = FolderAttributes { mode: 0o755, uid: 0, gid: 0 };

/// What a layer has at a path.
enum LayerEntry {
    Nothing,
    /// Something that lower layers do not show through.
    Cover,
    Folder {
        attributes: FolderAttributes,
        /// Lower layers do not show through it.
        opaque: bool,
    },
}

/// Folders with the attributes that they should have, and all above them.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct FolderTree(BTreeMap<PathBuf, FolderAttributes>);

impl FolderTree {
    /// Those that layers imply and that do not look as they should. The layers are top first.
    pub(super) fn missing(layers: &[StackedLayer]) -> io::Result<Self> {
        let mut folders = BTreeMap::new();
        for path in layers.iter().flat_map(|layer| &layer.implied) {
            if let Some(attributes) = stated(layers, path)?.filter(|stated| *stated != OF_IMPLIED) {
                folders.insert(path.clone(), attributes);
            }
        }
        let paths: Vec<PathBuf> = folders.keys().cloned().collect();
        for above in paths.iter().flat_map(|path| path.ancestors().skip(1)) {
            if !above.as_os_str().is_empty() && !folders.contains_key(above) {
                folders.insert(above.to_owned(), shown(layers, above)?);
            }
        }
        Ok(Self(folders))
    }

    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// A name by which images that need the same share it.
    pub(super) fn digest(&self) -> Sha256Digest {
        let mut text = String::from("rekindle folders 1\n");
        for (path, FolderAttributes { mode, uid, gid }) in &self.0 {
            // in escaped form, so that a line is a folder
            let _ = writeln!(text, "{mode:o} {uid} {gid} {path:?}");
        }
        Sha256Digest::from_bytes(text.as_bytes())
    }

    /// Makes them in an empty folder of ours.
    pub(super) fn make(&self, root: &Path) -> io::Result<()> {
        // parents come before children
        for (path, FolderAttributes { mode, uid, gid }) in &self.0 {
            let folder = root.join(path);
            fs::create_dir(&folder)?;
            std::os::unix::fs::chown(&folder, Some(*uid), Some(*gid))?;
            fs::set_permissions(&folder, Permissions::from_mode(*mode))?;
        }
        Ok(())
    }
}

/// What a layer says of the folder beneath others that only imply it; `None` when the uppermost
/// says it itself, or none does.
fn stated(layers: &[StackedLayer], path: &Path) -> io::Result<Option<FolderAttributes>> {
    let mut implied = false;
    for layer in layers {
        match find(&layer.root, path)? {
            LayerEntry::Nothing => {}
            LayerEntry::Cover => return Ok(None),
            LayerEntry::Folder { attributes, .. } if !layer.implied.contains(path) => {
                return Ok(implied.then_some(attributes));
            }
            LayerEntry::Folder { opaque: true, .. } => return Ok(None),
            LayerEntry::Folder { opaque: false, .. } => implied = true,
        }
    }
    Ok(None)
}

/// What overlayfs shows of a folder.
fn shown(layers: &[StackedLayer], path: &Path) -> io::Result<FolderAttributes> {
    for layer in layers {
        match find(&layer.root, path)? {
            LayerEntry::Nothing | LayerEntry::Cover => {}
            LayerEntry::Folder { attributes, .. } => return Ok(attributes),
        }
    }
    Ok(OF_IMPLIED)
}

/// Looks part by part, so that no link is followed: what stands above is a folder.
fn find(root: &Path, path: &Path) -> io::Result<LayerEntry> {
    let mut at = root.to_owned();
    let mut last = None;
    let mut opaque = false;
    for part in path.components() {
        at.push(part);
        let found = match fs::symlink_metadata(&at) {
            Ok(found) => found,
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                return Ok(if opaque { LayerEntry::Cover } else { LayerEntry::Nothing });
            }
            Err(error) => return Err(error),
        };
        if !found.is_dir() {
            return Ok(LayerEntry::Cover);
        }
        opaque |= is_opaque(&at)?;
        last = Some(found);
    }
    let Some(found) = last else { return Ok(LayerEntry::Nothing) };
    let attributes =
        FolderAttributes { mode: found.mode() & 0o7777, uid: found.uid(), gid: found.gid() };
    Ok(LayerEntry::Folder { attributes, opaque })
}

fn is_opaque(folder: &Path) -> io::Result<bool> {
    let mut value = [0u8; 1];
    match rustix::fs::lgetxattr(folder, OPAQUE_ATTRIBUTE, &mut value) {
        Ok(length) => Ok(value.get(..length) == Some(b"y")),
        Err(Errno::NODATA | Errno::OPNOTSUPP | Errno::RANGE) => Ok(false),
        Err(errno) => Err(errno.into()),
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a test that cannot go on has failed")]
mod tests;
