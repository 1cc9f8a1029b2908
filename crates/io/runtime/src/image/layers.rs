//! Layers on disk: `layers/<diff id>/fs` and, beside it, `size` and what folders it `implied`, if
//! any. A layer is unpacked under another name and renamed when it is whole, proven and on the
//! disk; what has its final name is good.

use std::collections::BTreeSet;
use std::ffi::OsStr;
use std::fs::{self, DirBuilder, File};
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};

use rekindle_types::causes;

use super::ImageError;
use super::archive::Blob;
use super::attributes::{FolderTree, StackedLayer};
use super::decompress;
use super::digest::{DigestReader, Sha256Digest};
use super::plan::PlannedLayer;
use super::reference::is_sha256_hex;
use super::unpack::{self, LimitedReader, UnpackError, UnpackLimits};

const LAYERS: &str = "layers";
const ROOT: &str = "fs";
const SIZE: &str = "size";
/// Paths, each with a zero byte behind it.
const IMPLIED: &str = "implied";
/// Begins the name of a layer being unpacked or removed.
const UNFINISHED: &str = "unfinished-";

/// The layers of a store.
#[derive(Clone, Debug)]
pub(super) struct Layers {
    dir: PathBuf,
}

/// Why a layer could not be brought in.
#[derive(Debug)]
pub(super) enum LayerError {
    /// The archive is at fault.
    Archive(String),
    /// The disk is.
    Store(ImageError),
}

/// A layer that is here.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct StoredLayer {
    pub(super) size_bytes: u64,
    /// Device nodes left out; 0 when it was here before.
    pub(super) devices_skipped: u64,
}

impl Layers {
    pub(super) fn open(store: &Path) -> Result<Self, ImageError> {
        let layers = Self { dir: store.join(LAYERS) };
        private_folder(&layers.dir)?;
        Ok(layers)
    }

    /// The unpacked root of a layer.
    pub(super) fn root(&self, diff_id_hex: &str) -> PathBuf {
        self.dir.join(diff_id_hex).join(ROOT)
    }

    /// The layer's bytes, when it is here.
    pub(super) fn present(&self, diff_id: &Sha256Digest) -> Option<StoredLayer> {
        let text = fs::read_to_string(self.dir.join(diff_id.hex()).join(SIZE)).ok()?;
        Some(StoredLayer { size_bytes: text.trim().parse().ok()?, devices_skipped: 0 })
    }

    /// Unpacks a layer. The caller holds the store's lock.
    pub(super) fn unpack(
        &self,
        planned: &PlannedLayer,
        blob: Blob,
        limits: &UnpackLimits,
    ) -> Result<StoredLayer, LayerError> {
        let hex = planned.diff_id.hex();
        let beside = self.dir.join(format!("{UNFINISHED}{hex}"));
        remove(&beside).map_err(LayerError::Store)?;
        let result = self.unpack_beside(&beside, planned, blob, limits).and_then(|layer| {
            self.show(&beside, hex).map_err(LayerError::Store)?;
            Ok(layer)
        });
        if result.is_err() {
            remove(&beside).map_err(LayerError::Store)?;
        }
        result
    }

    /// Gives a layer that is whole its name.
    fn show(&self, beside: &Path, hex: &str) -> Result<(), ImageError> {
        let shown = self.dir.join(hex);
        // half a layer from a version that did not finish its removal
        remove(&shown)?;
        fs::rename(beside, &shown)
            .and_then(|()| File::open(&self.dir)?.sync_all())
            .map_err(|source| store("show layer", &shown, source))
    }

    /// The layer that gives the folders which layers of an image imply their attributes, by its
    /// name; `None` when they have them. The layers are here, bottom first. The caller holds the
    /// store's lock.
    pub(super) fn attributes<'h>(
        &self,
        layers: impl DoubleEndedIterator<Item = &'h str>,
    ) -> Result<Option<String>, ImageError> {
        let stacked = layers
            .rev()
            .map(|hex| Ok(StackedLayer { root: self.root(hex), implied: self.implied(hex)? }));
        let stacked = stacked.collect::<Result<Vec<_>, ImageError>>()?;
        let failed = |source| store("look at the folders of layers in", &self.dir, source);
        let folders = FolderTree::missing(&stacked).map_err(failed)?;
        if folders.is_empty() {
            return Ok(None);
        }
        let digest = folders.digest();
        let hex = digest.hex();
        if self.present(&digest).is_none() {
            let beside = self.dir.join(format!("{UNFINISHED}{hex}"));
            remove(&beside)?;
            let root = make_root(&beside)?;
            let made = folders
                .make(&root)
                .and_then(|()| write_synced(&beside.join(SIZE), b"0"))
                .and_then(|()| Ok(rustix::fs::syncfs(File::open(&root)?)?));
            made.map_err(|source| store("make folders in", &root, source))?;
            self.show(&beside, hex)?;
        }
        Ok(Some(hex.to_owned()))
    }

    fn implied(&self, hex: &str) -> Result<BTreeSet<PathBuf>, ImageError> {
        let file = self.dir.join(hex).join(IMPLIED);
        let paths = match fs::read(&file) {
            Ok(paths) => paths,
            Err(error) if error.kind() == io::ErrorKind::NotFound => Vec::new(),
            Err(source) => return Err(store("read", &file, source)),
        };
        let paths = paths.split(|byte| *byte == 0).filter(|path| !path.is_empty());
        Ok(paths.map(|path| PathBuf::from(OsStr::from_bytes(path))).collect())
    }

    fn unpack_beside(
        &self,
        beside: &Path,
        planned: &PlannedLayer,
        blob: Blob,
        limits: &UnpackLimits,
    ) -> Result<StoredLayer, LayerError> {
        let root = make_root(beside).map_err(LayerError::Store)?;
        let space = rustix::fs::statvfs(&self.dir)
            .map_err(|errno| LayerError::Store(store("look at", &self.dir, errno.into())))?;
        let limit = limits.unpacked_bytes(blob.size, space.f_bavail * space.f_frsize);

        let at =
            |problem: String| LayerError::Archive(format!("layer {}: {problem}", planned.blob));
        let mut packed = DigestReader::new(blob.reader);
        let plain = decompress::decompress(&mut packed).map_err(|error| at(error.to_string()))?;
        let stream = DigestReader::new(LimitedReader::new(plain, limit));
        let (done, mut stream) = unpack::unpack(stream, &root, limits)
            .map_err(|error| self.told(&planned.blob, error))?;
        // behind the archive's end may be fill bytes, which the digests count
        io::copy(&mut stream, &mut io::sink()).map_err(|error| at(error.to_string()))?;
        let (diff_id, size_bytes) = (stream.digest(), stream.count());
        drop(stream);
        io::copy(&mut packed, &mut io::sink()).map_err(|error| at(error.to_string()))?;

        let packed = packed.digest();
        if planned.digest.as_ref().is_some_and(|stated| *stated != packed) {
            return Err(at(format!(
                "it has the digest {packed}: the archive is damaged or forged"
            )));
        }
        if diff_id != planned.diff_id {
            return Err(at(format!(
                "it unpacks to {diff_id}, but the config says {}",
                planned.diff_id
            )));
        }
        let note = |name: &str, bytes: &[u8]| {
            let file = beside.join(name);
            write_synced(&file, bytes)
                .map_err(|source| LayerError::Store(store("write", &file, source)))
        };
        note(SIZE, size_bytes.to_string().as_bytes())?;
        if !done.implied.is_empty() {
            let paths = done.implied.iter().flat_map(|path| [path.as_os_str().as_bytes(), &[0]]);
            note(IMPLIED, &paths.collect::<Vec<_>>().concat())?;
        }
        Ok(StoredLayer { size_bytes, devices_skipped: done.devices_skipped })
    }

    fn told(&self, blob: &str, error: UnpackError) -> LayerError {
        match error {
            UnpackError::Failed { operation, source, .. } if is_of_disk(&source) => {
                LayerError::Store(store(operation, &self.dir, source))
            }
            UnpackError::Archive(_) | UnpackError::Refused { .. } | UnpackError::Failed { .. } => {
                LayerError::Archive(format!("layer {blob}: {}", causes(&error)))
            }
        }
    }

    /// Removes everything that is not in `keep`, and what was never finished. The caller holds the
    /// store's lock.
    pub(super) fn sweep(&self, keep: &BTreeSet<&str>) -> Result<(), ImageError> {
        let listing = fs::read_dir(&self.dir).map_err(|source| store("list", &self.dir, source))?;
        for entry in listing {
            let path = entry.map_err(|source| store("list", &self.dir, source))?.path();
            let name = path.file_name().and_then(|name| name.to_str()).unwrap_or_default();
            if name.starts_with(UNFINISHED) {
                remove(&path)?;
            } else if is_sha256_hex(name) && !keep.contains(name) {
                // first out of sight: half a layer must never look like a whole one
                let beside = self.dir.join(format!("{UNFINISHED}{name}"));
                remove(&beside)?;
                fs::rename(&path, &beside).map_err(|source| store("remove", &path, source))?;
                remove(&beside)?;
            }
        }
        Ok(())
    }
}

/// The folder of a new layer, with a root in it.
fn make_root(layer: &Path) -> Result<PathBuf, ImageError> {
    let root = layer.join(ROOT);
    private_folder(layer)?;
    // what containers see as their /
    DirBuilder::new().mode(0o755).create(&root).map_err(|source| store("create", &root, source))?;
    Ok(root)
}

/// A folder for root alone, made when absent.
pub(super) fn private_folder(path: &Path) -> Result<(), ImageError> {
    DirBuilder::new()
        .recursive(true)
        .mode(0o700)
        .create(path)
        .map_err(|source| store("create", path, source))
}

/// Writes a file; it is on the disk when this returns.
pub(super) fn write_synced(path: &Path, bytes: &[u8]) -> io::Result<()> {
    let mut file = File::create(path)?;
    io::Write::write_all(&mut file, bytes)?;
    file.sync_all()
}

/// Removes a tree; links in it are not followed. Absent is success.
pub(super) fn remove(path: &Path) -> Result<(), ImageError> {
    match fs::remove_dir_all(path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(store("remove", path, error)),
        Ok(()) | Err(_) => Ok(()),
    }
}

/// Whether our disk is at fault and not the archive. Reading is the archive's part, and gives
/// neither of these.
fn is_of_disk(error: &io::Error) -> bool {
    matches!(
        error.kind(),
        io::ErrorKind::StorageFull
            | io::ErrorKind::QuotaExceeded
            | io::ErrorKind::ReadOnlyFilesystem
    )
}

fn store(operation: &'static str, path: &Path, source: io::Error) -> ImageError {
    ImageError::Store { operation, path: path.to_owned(), source }
}
