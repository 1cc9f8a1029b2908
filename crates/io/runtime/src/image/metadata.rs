//! `images.json`: which images are there, under which names, made of which layers. Written beside
//! and renamed, flushed to the disk before anybody is told; who holds a layer is counted from it,
//! never stored.

use std::collections::{BTreeMap, BTreeSet};
use std::fs::{self, File};
use std::io::Write;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use super::reference::{ImageReference, is_sha256_hex};
use super::{ImageConfig, ImageError};

const FILE: &str = "images.json";
/// The form that this program writes.
const VERSION: u32 = 1;

/// All images of a store.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct ImageIndex {
    version: u32,
    /// By id.
    pub(crate) images: BTreeMap<String, StoredImage>,
}

/// One image.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct StoredImage {
    pub(crate) config: ImageConfig,
    /// Names with tags, in full form.
    pub(crate) references: BTreeSet<String>,
    /// Names with the digests of manifests and indexes that it was loaded by:
    /// `docker.io/library/x@sha256:…`.
    pub(crate) digests: BTreeSet<String>,
    /// Diff ids without `sha256:`, bottom first, as the image's config has them; on top perhaps one
    /// of folders' attributes.
    pub(crate) layers: Vec<String>,
    /// Bytes of all layers, unpacked.
    pub(crate) size_bytes: u64,
    /// Absent in what an earlier program wrote.
    #[serde(default)]
    pub(crate) retention: ImageRetention,
}

/// Whether an image that nothing uses goes when the disk fills.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum ImageRetention {
    /// It goes: a registry has it.
    #[default]
    Evictable,
    /// It stays until somebody removes it (CRI: `Image.pinned`).
    Pinned,
}

impl Default for ImageIndex {
    fn default() -> Self {
        Self { version: VERSION, images: BTreeMap::new() }
    }
}

impl ImageIndex {
    /// The image of this reference. A digest decides over a tag.
    pub(crate) fn find(&self, reference: &ImageReference) -> Option<(&String, &StoredImage)> {
        let wanted = match reference.digest() {
            Some(digest) => format!("{}@{digest}", reference.name()),
            None => reference.to_string(),
        };
        self.images.iter().find(|(_, image)| {
            image.references.contains(&wanted) || image.digests.contains(&wanted)
        })
    }

    /// Adds an image or what is new about it. Its names are taken from the images that had them.
    pub(crate) fn insert(&mut self, id: &str, image: StoredImage) {
        for other in self.images.values_mut() {
            let before = other.references.len();
            other.references.retain(|name| !image.references.contains(name));
            if other.references.is_empty() && before > 0 {
                // nobody can ask for it any more
                other.retention = ImageRetention::Evictable;
            }
        }
        match self.images.get_mut(id) {
            Some(known) => {
                // what an earlier program did not read of it
                known.config = image.config;
                known.references.extend(image.references);
                known.digests.extend(image.digests);
            }
            None => {
                self.images.insert(id.to_owned(), image);
            }
        }
    }

    /// Layers that some image is made of.
    pub(crate) fn layers_in_use(&self) -> BTreeSet<&str> {
        self.images.values().flat_map(|image| &image.layers).map(String::as_str).collect()
    }

    /// Says what becomes of an image when the disk fills.
    pub(crate) fn retain(&mut self, id: &str, retention: ImageRetention) {
        if let Some(image) = self.images.get_mut(id) {
            image.retention = retention;
        }
    }

    fn defect(&self) -> Option<String> {
        if self.version != VERSION {
            return Some(format!("it has version {}, this program knows {VERSION}", self.version));
        }
        let layers = self.layers_in_use();
        let bad = layers.iter().find(|layer| !is_sha256_hex(layer))?;
        Some(format!("{bad:?} is no digest"))
    }
}

/// The file as it was when it was last read; a change by another process shows in one of these.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct FileStamp {
    inode: u64,
    size: i64,
    mtime: (i64, i64),
}

/// The file's place.
#[derive(Clone, Debug)]
pub(crate) struct IndexFile {
    dir: PathBuf,
}

impl IndexFile {
    pub(crate) fn new(dir: &Path) -> Self {
        Self { dir: dir.to_owned() }
    }

    /// The file's stamp; `None` when there is no file.
    pub(crate) fn stamp(&self) -> Result<Option<FileStamp>, ImageError> {
        match rustix::fs::stat(self.path()) {
            Ok(stat) => Ok(Some(FileStamp {
                inode: stat.st_ino,
                size: stat.st_size,
                mtime: (stat.st_mtime, i64::try_from(stat.st_mtime_nsec).unwrap_or(0)),
            })),
            Err(rustix::io::Errno::NOENT) => Ok(None),
            Err(errno) => Err(self.failed("read", errno.into())),
        }
    }

    /// The images; none when there is no file.
    pub(crate) fn read(&self) -> Result<ImageIndex, ImageError> {
        let bytes = match fs::read(self.path()) {
            Ok(bytes) => bytes,
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => {
                return Ok(ImageIndex::default());
            }
            Err(source) => return Err(self.failed("read", source)),
        };
        let index: ImageIndex = serde_json::from_slice(&bytes)
            .map_err(|error| self.failed("read", std::io::Error::other(error)))?;
        match index.defect() {
            None => Ok(index),
            Some(defect) => Err(self.failed("read", std::io::Error::other(defect))),
        }
    }

    /// Replaces the file; it is on the disk when this returns.
    pub(crate) fn write(&self, index: &ImageIndex) -> Result<(), ImageError> {
        let bytes = serde_json::to_vec(index).expect("an index has only strings for keys");
        let beside = self.dir.join("images.json.new");
        let written = File::create(&beside)
            .and_then(|mut file| file.write_all(&bytes).and_then(|()| file.sync_all()))
            .and_then(|()| fs::rename(&beside, self.path()))
            .and_then(|()| File::open(&self.dir)?.sync_all());
        written.map_err(|source| self.failed("write", source))
    }

    fn path(&self) -> PathBuf {
        self.dir.join(FILE)
    }

    fn failed(&self, operation: &'static str, source: std::io::Error) -> ImageError {
        ImageError::Store { operation, path: self.path(), source }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn image(references: &[&str]) -> StoredImage {
        StoredImage {
            config: ImageConfig::default(),
            references: references.iter().map(|r| (*r).to_owned()).collect(),
            digests: BTreeSet::new(),
            layers: vec!["0".repeat(64)],
            size_bytes: 1,
            retention: ImageRetention::Evictable,
        }
    }

    #[test]
    fn a_pin_lasts_as_long_as_the_image_has_a_name_and_is_absent_in_older_files() {
        let mut index = ImageIndex::default();
        index.insert("sha256:a", image(&["x/y:1", "x/y:2"]));
        index.retain("sha256:a", ImageRetention::Pinned);
        let pin = |index: &ImageIndex| index.images["sha256:a"].retention;
        index.insert("sha256:a", image(&["x/y:1"]));
        assert_eq!(pin(&index), ImageRetention::Pinned, "a pull does not take it");
        index.insert("sha256:b", image(&["x/y:1"]));
        assert_eq!(pin(&index), ImageRetention::Pinned);
        let text = serde_json::to_string(&index).unwrap();
        assert_eq!(serde_json::from_str::<ImageIndex>(&text).unwrap(), index);
        let older = text.replace(",\"retention\":\"pinned\"", "");
        assert_ne!(older, text);
        assert_eq!(pin(&serde_json::from_str(&older).unwrap()), ImageRetention::Evictable);
        index.insert("sha256:b", image(&["x/y:2"]));
        assert_eq!(pin(&index), ImageRetention::Evictable);
    }

    #[test]
    fn a_name_belongs_to_the_image_that_was_loaded_last() {
        let mut index = ImageIndex::default();
        index.insert("sha256:a", image(&["x/y:1", "x/y:2"]));
        index.insert("sha256:b", image(&["x/y:1"]));
        let find =
            |name| index.find(&ImageReference::parse(name).unwrap()).map(|(id, _)| id.as_str());
        assert_eq!(index.images["sha256:a"].references.len(), 1);
        assert_eq!(find("docker.io/x/y:1"), None, "names are compared in full form");
        index.insert("sha256:a", image(&["docker.io/x/y:3"]));
        let find =
            |name| index.find(&ImageReference::parse(name).unwrap()).map(|(id, _)| id.as_str());
        assert_eq!(find("x/y:3"), Some("sha256:a"));
        assert_eq!(find("x/y:4"), None);
    }

    #[test]
    fn the_index_is_read_back_and_a_damaged_one_is_an_error() {
        let dir = tempfile::tempdir().unwrap();
        let file = IndexFile::new(dir.path());
        assert_eq!(file.stamp().unwrap(), None);
        assert_eq!(file.read().unwrap(), ImageIndex::default());
        let mut index = ImageIndex::default();
        index.insert("sha256:a", image(&["docker.io/x/y:1"]));
        file.write(&index).unwrap();
        assert_eq!(file.read().unwrap(), index);
        let before = file.stamp().unwrap();
        file.write(&index).unwrap();
        assert_ne!(file.stamp().unwrap(), before, "each write shows");
        for text in ["", "{}", "{\"version\":2,\"images\":{}}"] {
            fs::write(dir.path().join(FILE), text).unwrap();
            assert!(file.read().is_err(), "{text:?}");
        }
    }
}
