//! The image store: what is present, found by reference or id, and how it comes and goes.

pub(super) mod pulled;
mod removal;

use std::collections::BTreeSet;
use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, PoisonError};

use rustix::fs::FlockOperation;
use serde::{Deserialize, Serialize};

use super::archive::{ArchiveSource, Blob};
use super::document::Platform;
use super::layers::{self, LayerError, Layers};
use super::metadata::{FileStamp, ImageIndex, ImageRetention, IndexFile, StoredImage};
use super::plan::{self, ImagePlan, PlannedLayer};
use super::reference::as_image_id;
use super::unpack::UnpackLimits;
use super::{
    ImageError, ImageReference, ResolvedImage, Rootfs, UpperKind, builtin, demo, has_registry,
};
use crate::runtime::{ImageFileSystem, ImageInfo, ImageOnDisk, ImageOrigin, ImageUse, ImagesInUse};
pub use removal::ImageRemoval;

const BLOBS: &str = "blobs/sha256";
const LOCK: &str = "lock";
const USE: &str = "use";
/// Images in the store at most.
const IMAGES_MAX: usize = 10_000;

/// What the built-in images `localhost/host` and `localhost/demo` need to know.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BuiltinImages {
    /// Folders of the engine (data, run), hidden in `localhost/host`.
    pub engine_dirs: Vec<PathBuf>,
    /// Bytes that a container of `localhost/host` may write at most.
    pub host_write_limit_bytes: u64,
    /// Whether containers may have `localhost/host`.
    pub host_image: HostImage,
}

/// Whether containers may have the image `localhost/host`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum HostImage {
    /// They may.
    #[default]
    On,
    /// It is refused as an image that cannot be pulled.
    Off,
}

impl std::str::FromStr for HostImage {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text {
            "on" => Ok(Self::On),
            "off" => Ok(Self::Off),
            _ => Err("it is on or off".to_owned()),
        }
    }
}

/// One line of a list of images.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ListedImage {
    /// Under one of its names.
    pub info: ImageInfo,
    /// Whether it goes when the disk fills.
    pub retention: ImageRetention,
}

/// One image that a load brought in.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LoadedImage {
    /// `sha256:…` of its config.
    pub id: String,
    /// Its references in their full form; empty when the archive gives it no name.
    pub references: Vec<String>,
    /// Bytes on disk, unpacked.
    pub size_bytes: u64,
    /// What was left out on purpose, for people.
    pub notes: Vec<String>,
}

/// Images in a folder. Cheap to ask (`resolve` reads memory, and the index file again only when
/// another process changed it); `load` and `remove` block on IO and belong on a blocking thread.
/// Several processes may use one folder.
#[derive(Debug)]
pub struct ImageStore {
    dir: PathBuf,
    builtins: BuiltinImages,
    limits: UnpackLimits,
    layers: Layers,
    file: IndexFile,
    cache: Mutex<IndexCache>,
    /// The demo image, once it is made: the running program does not change any more.
    demo: Mutex<Option<DemoImage>>,
}

/// The index as last read, and the file's stamp at that time.
#[derive(Debug, Default)]
struct IndexCache {
    stamp: Option<FileStamp>,
    index: ImageIndex,
}

/// The demo image, and the bytes of its files: to count them takes longer than everything else that
/// a start of a container asks here.
#[derive(Clone, Debug)]
struct DemoImage {
    image: ResolvedImage,
    size_bytes: u64,
}

impl DemoImage {
    /// Nobody has taken its files away.
    fn stands(&self) -> bool {
        self.image.rootfs.lower_dirs.iter().all(|dir| dir.is_dir())
    }
}

/// Held while something is changed; other processes wait.
#[derive(Debug)]
struct StoreLock {
    _file: File,
}

/// Keeps images from being removed; see [`ImageStore::hold`].
#[derive(Debug)]
pub struct ImageHold {
    _lock: StoreLock,
}

impl ImageStore {
    /// Opens the store in `dir`, made when absent, and clears away what a load that was cut short
    /// left behind.
    pub fn open(dir: &Path, builtins: BuiltinImages) -> Result<Self, ImageError> {
        layers::private_folder(dir)?;
        layers::private_folder(&dir.join(BLOBS))?;
        let store = Self {
            dir: dir.to_owned(),
            builtins,
            limits: UnpackLimits::default(),
            layers: Layers::open(dir)?,
            file: IndexFile::new(dir),
            cache: Mutex::new(IndexCache::default()),
            demo: Mutex::new(None),
        };
        // somebody who holds the lock is at work on what looks left behind
        if let Some(lock) = store.lock(FlockOperation::NonBlockingLockExclusive)? {
            store.sweep(&lock)?;
        }
        drop(store.index()?);
        Ok(store)
    }

    /// Finds an image by reference or by id. `Ok(None)`: a good name, but not here.
    pub fn resolve(&self, image: &str) -> Result<Option<ResolvedImage>, ImageError> {
        if let Some(id) = as_image_id(image) {
            if id == builtin::host_id() {
                return builtin::host(&self.builtins).map(Some);
            }
            if let Some(found) = self.index()?.index.images.get(&id) {
                return Ok(Some(self.resolved(&id, found)));
            }
            let demo = self.demo()?.image;
            return Ok((demo.id == id).then_some(demo));
        }
        let reference = ImageReference::parse(image)?;
        match reference.to_string().as_str() {
            builtin::HOST => builtin::host(&self.builtins).map(Some),
            builtin::DEMO => Ok(Some(self.demo()?.image)),
            _ => {
                let cache = self.index()?;
                Ok(cache.index.find(&reference).map(|(id, found)| self.resolved(id, found)))
            }
        }
    }

    /// Brings in all images of an OCI layout (folder or tar) or a docker-archive. Killed at any
    /// moment, it leaves nothing that is seen; all images of the archive appear at once, to be kept
    /// as `retention` says.
    pub fn load(
        &self,
        file: &Path,
        retention: ImageRetention,
    ) -> Result<Vec<LoadedImage>, ImageError> {
        let archive = |problem| ImageError::Archive { file: file.to_owned(), problem };
        let source = ArchiveSource::open(file, &self.dir).map_err(archive)?;
        let plans = plan::plan(&source, &Platform::here(), &stem(file)).map_err(archive)?;
        for reference in plans.iter().flat_map(|plan| &plan.references) {
            if [builtin::HOST, builtin::DEMO].contains(&reference.as_str()) {
                return Err(archive(format!(
                    "{reference} is a built-in image and cannot be replaced"
                )));
            }
        }
        let lock = self.waited_lock()?;
        let loaded =
            self.load_locked(&lock, &source, plans, retention).map_err(|error| match error {
                LayerError::Archive(problem) => archive(problem),
                LayerError::Store(error) => error,
            });
        if loaded.is_err() {
            self.sweep(&lock)?;
        }
        loaded
    }

    fn load_locked(
        &self,
        _: &StoreLock,
        source: &ArchiveSource,
        plans: Vec<ImagePlan>,
        retention: ImageRetention,
    ) -> Result<Vec<LoadedImage>, LayerError> {
        let mut index = self.file.read().map_err(LayerError::Store)?;
        let mut loaded = Vec::new();
        for plan in plans {
            let (stored, notes) = self.bring_in(source, &plan)?;
            loaded.push(LoadedImage {
                id: plan.id.clone(),
                references: stored.references.iter().cloned().collect(),
                size_bytes: stored.size_bytes,
                notes,
            });
            index.insert(&plan.id, stored);
            index.retain(&plan.id, retention);
        }
        if index.images.len() > IMAGES_MAX {
            return Err(LayerError::Archive(format!(
                "the store would have more than {IMAGES_MAX} images"
            )));
        }
        self.file.write(&index).map_err(LayerError::Store)?;
        Ok(loaded)
    }

    /// Everything of one image but its line in the index.
    fn bring_in(
        &self,
        source: &ArchiveSource,
        plan: &ImagePlan,
    ) -> Result<(StoredImage, Vec<String>), LayerError> {
        self.bring_in_layers(plan, &|planned| {
            let blob = source.blob(&planned.blob)?;
            blob.ok_or_else(|| format!("layer {} is not in it", planned.blob))
        })
    }

    /// The same with layers from anywhere; `blob` is asked for those that are not here.
    pub(super) fn bring_in_layers(
        &self,
        plan: &ImagePlan,
        blob: &dyn Fn(&PlannedLayer) -> Result<Blob, String>,
    ) -> Result<(StoredImage, Vec<String>), LayerError> {
        let mut size_bytes = 0;
        let mut notes = Vec::new();
        for planned in &plan.layers {
            let layer = match self.layers.present(&planned.diff_id) {
                Some(layer) => layer,
                None => {
                    let blob = blob(planned).map_err(LayerError::Archive)?;
                    self.layers.unpack(planned, blob, &self.limits)?
                }
            };
            size_bytes += layer.size_bytes;
            if layer.devices_skipped > 0 {
                let count = layer.devices_skipped;
                notes.push(format!(
                    "{count} device nodes left out: containers get their own /dev, and open none elsewhere"
                ));
            }
        }
        let mut layers: Vec<String> =
            plan.layers.iter().map(|layer| layer.diff_id.hex().to_owned()).collect();
        let attributes = self.layers.attributes(layers.iter().map(String::as_str));
        layers.extend(attributes.map_err(LayerError::Store)?);
        let config = self.dir.join(BLOBS).join(plan.id.trim_start_matches("sha256:"));
        layers::write_synced(&config, &plan.config_bytes).map_err(|source| {
            LayerError::Store(ImageError::Store { operation: "write", path: config, source })
        })?;
        let stored = StoredImage {
            config: plan.config.clone(),
            references: plan.references.clone(),
            digests: digest_references(plan),
            layers,
            size_bytes,
            retention: ImageRetention::Evictable,
        };
        Ok((stored, notes))
    }

    /// Everything present, built-in images included, one line per reference; an image without tags
    /// is listed by its digests, and one that lost all its names by id.
    pub fn list(&self) -> Result<Vec<ListedImage>, ImageError> {
        let mut list: Vec<ListedImage> = self
            .builtin_images()?
            .into_iter()
            .map(|(id, name, size_bytes)| ListedImage {
                info: info(id, name, size_bytes),
                retention: ImageRetention::Pinned,
            })
            .collect();
        for (id, image) in &self.index()?.index.images {
            let line = |reference: &String| ListedImage {
                info: info(id.clone(), reference, image.size_bytes),
                retention: image.retention,
            };
            match (image.references.is_empty(), image.digests.is_empty()) {
                (true, true) => list.push(line(id)),
                (true, false) => list.extend(image.digests.iter().map(line)),
                (false, _) => list.extend(image.references.iter().map(line)),
            }
        }
        Ok(list)
    }

    /// Id, name and bytes of those that are part of the program.
    fn builtin_images(&self) -> Result<Vec<(String, &'static str, u64)>, ImageError> {
        let demo = self.demo()?;
        let host = match self.builtins.host_image {
            HostImage::On => Some((builtin::host_id(), builtin::HOST, 0)),
            HostImage::Off => None,
        };
        Ok(host.into_iter().chain([(demo.image.id, builtin::DEMO, demo.size_bytes)]).collect())
    }

    /// Every image once, with what a garbage collector needs to know. `in_use` are the images that
    /// containers were made from.
    pub fn images(&self, in_use: &ImagesInUse) -> Result<Vec<ImageOnDisk>, ImageError> {
        let usage =
            |id: &String, image: &StoredImage| match (in_use.contains_key(id), image.retention) {
                (true, _) => ImageUse::ByContainers,
                (false, ImageRetention::Pinned) => ImageUse::Pinned,
                (false, ImageRetention::Evictable) => ImageUse::Unused,
            };
        let builtin = |(id, name, size_bytes): (String, &str, u64)| ImageOnDisk {
            id,
            names: vec![name.to_owned()],
            size_bytes,
            usage: ImageUse::BuiltIn,
        };
        let mut images: Vec<ImageOnDisk> =
            self.builtin_images()?.into_iter().map(builtin).collect();
        images.extend(self.index()?.index.images.iter().map(|(id, image)| ImageOnDisk {
            id: id.clone(),
            names: image.digests.iter().chain(&image.references).cloned().collect(),
            size_bytes: image.size_bytes,
            usage: usage(id, image),
        }));
        Ok(images)
    }

    /// The file system that the images are on.
    pub fn file_system(&self) -> Result<ImageFileSystem, ImageError> {
        let found = rustix::fs::statvfs(&self.dir).map_err(|errno| ImageError::Store {
            operation: "look at",
            path: self.dir.clone(),
            source: errno.into(),
        })?;
        Ok(ImageFileSystem {
            capacity_bytes: found.f_blocks.saturating_mul(found.f_frsize),
            available_bytes: found.f_bavail.saturating_mul(found.f_frsize),
            used_bytes: found.f_blocks.saturating_sub(found.f_bfree).saturating_mul(found.f_frsize),
            inodes: found.f_files,
            inodes_free: found.f_favail,
        })
    }

    /// What `Runtime::image_status` answers.
    pub fn info(&self, image: &str) -> Result<Option<ImageInfo>, ImageError> {
        let Some(found) = self.resolve(image)? else { return Ok(None) };
        let reference = match as_image_id(image) {
            Some(id) => id,
            None => ImageReference::parse(image)?.to_string(),
        };
        let stored = self.index()?.index.images.get(&found.id).map(|image| image.size_bytes);
        let size_bytes = match stored {
            Some(size_bytes) => size_bytes,
            None if found.id == builtin::host_id() => 0,
            None => self.demo()?.size_bytes,
        };
        Ok(Some(info(found.id, &reference, size_bytes)))
    }

    /// The same for a reference that memory knows: nobody is waited for and nothing is read. `None`
    /// says nothing.
    pub fn info_at_hand(&self, image: &str) -> Option<ImageInfo> {
        let reference = ImageReference::parse(image).ok()?;
        let name = reference.to_string();
        match name.as_str() {
            builtin::HOST => {
                let image = builtin::host(&self.builtins).ok()?;
                Some(info(image.id, &name, 0))
            }
            builtin::DEMO => {
                let made = self.demo.try_lock().ok()?;
                let demo = made.as_ref().filter(|demo| demo.stands())?;
                Some(info(demo.image.id.clone(), &name, demo.size_bytes))
            }
            _ => {
                let cache = self.cache.try_lock().ok()?;
                if self.file.stamp().ok()? != cache.stamp {
                    return None;
                }
                let (id, found) = cache.index.find(&reference)?;
                Some(info(id.to_owned(), &name, found.size_bytes))
            }
        }
    }

    /// No image is removed until the answer is dropped: held from the look at an image until the
    /// container that was made from it stands on disk.
    pub fn hold(&self) -> Result<ImageHold, ImageError> {
        let lock = self.flock(USE, FlockOperation::LockShared)?;
        Ok(ImageHold { _lock: lock.expect("a waiting lock is got or fails") })
    }

    fn resolved(&self, id: &str, image: &StoredImage) -> ResolvedImage {
        let mut seen = BTreeSet::new();
        // overlayfs refuses a layer that is stacked twice; the upper one hides the lower one anyway
        let lower_dirs = image
            .layers
            .iter()
            .rev()
            .filter(|hex| seen.insert(*hex))
            .map(|hex| self.layers.root(hex))
            .collect();
        ResolvedImage {
            id: id.to_owned(),
            config: image.config.clone(),
            rootfs: Rootfs {
                lower_dirs,
                public_dir: None,
                upper: UpperKind::Directory,
                mask: Vec::new(),
            },
        }
    }

    fn demo(&self) -> Result<DemoImage, ImageError> {
        let mut made = self.demo.lock().unwrap_or_else(PoisonError::into_inner);
        match &*made {
            Some(demo) if demo.stands() => Ok(demo.clone()),
            Some(_) | None => {
                let image = demo::resolve(&self.dir)?;
                let size_bytes = demo::size_bytes();
                Ok(made.insert(DemoImage { image, size_bytes }).clone())
            }
        }
    }

    /// The index, read again when its file is another one than before.
    fn index(&self) -> Result<MutexGuard<'_, IndexCache>, ImageError> {
        let mut cache = self.cache.lock().unwrap_or_else(PoisonError::into_inner);
        let stamp = self.file.stamp()?;
        if stamp != cache.stamp {
            *cache = IndexCache { stamp, index: self.file.read()? };
        }
        Ok(cache)
    }

    /// Removes layers and configs that no image has.
    fn sweep(&self, _: &StoreLock) -> Result<(), ImageError> {
        let index = self.file.read()?;
        self.layers.sweep(&index.layers_in_use())?;
        let blobs = self.dir.join(BLOBS);
        let failed = |source| ImageError::Store { operation: "clear", path: blobs.clone(), source };
        for entry in fs::read_dir(&blobs).map_err(failed)? {
            let entry = entry.map_err(failed)?;
            let id = format!("sha256:{}", entry.file_name().to_string_lossy());
            if !index.images.contains_key(&id) {
                fs::remove_file(entry.path()).map_err(failed)?;
            }
        }
        Ok(())
    }

    /// The store's lock; `None` when `operation` does not wait and somebody else has it.
    fn lock(&self, operation: FlockOperation) -> Result<Option<StoreLock>, ImageError> {
        self.flock(LOCK, operation)
    }

    fn flock(
        &self,
        name: &str,
        operation: FlockOperation,
    ) -> Result<Option<StoreLock>, ImageError> {
        let path = self.dir.join(name);
        let failed = |source| ImageError::Store { operation: "lock", path: path.clone(), source };
        let file =
            File::options().create(true).truncate(false).write(true).open(&path).map_err(failed)?;
        loop {
            return match rustix::fs::flock(&file, operation) {
                Ok(()) => Ok(Some(StoreLock { _file: file })),
                Err(rustix::io::Errno::WOULDBLOCK) => Ok(None),
                Err(rustix::io::Errno::INTR) => continue,
                Err(errno) => Err(failed(errno.into())),
            };
        }
    }
}

fn info(id: String, reference: &str, size_bytes: u64) -> ImageInfo {
    let origin = match has_registry(reference) {
        true => ImageOrigin::Registry,
        false => ImageOrigin::ThisMachine,
    };
    ImageInfo { id, reference: reference.to_owned(), size_bytes, origin }
}

fn digest_references(plan: &ImagePlan) -> BTreeSet<String> {
    let mut references = BTreeSet::new();
    for name in &plan.references {
        let name = ImageReference::parse(name).expect("it was parsed when it was planned").name();
        references.extend(plan.digests.iter().map(|digest| format!("{name}@{digest}")));
    }
    references
}

/// What an image is called whose archive gives it only a tag: the file's name, made fit for a
/// repository.
fn stem(file: &Path) -> String {
    let name = file.file_name().and_then(|name| name.to_str()).unwrap_or_default().to_lowercase();
    let base = name.split('.').next().unwrap_or_default();
    let fit: String =
        base.chars().map(|c| if c.is_ascii_alphanumeric() { c } else { '-' }).collect();
    match fit.trim_matches('-') {
        "" => "image".to_owned(),
        fit => fit.to_owned(),
    }
}

#[cfg(test)]
mod tests;
