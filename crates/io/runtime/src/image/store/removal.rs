//! How an image goes: not while containers run on it, unless somebody insists, and then without its
//! files.

use rustix::fs::FlockOperation;

use super::{ImageStore, USE};
use crate::image::metadata::ImageRetention;
use crate::image::reference::as_image_id;
use crate::image::{ImageError, ImageReference};
use crate::runtime::ImagesInUse;

/// What is removed although containers were made from it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ImageRemoval {
    /// Nothing: it is refused.
    OfUnused,
    /// Its names. Its files go when no container needs them any more.
    Forced,
}

impl ImageStore {
    /// Takes a reference away, and with the last one the image and the layers that nothing else
    /// uses; by id, the image with all its references. `in_use` answers the images that containers
    /// were made from; it is asked while no container can be made.
    pub fn remove(
        &self,
        image: &str,
        removal: ImageRemoval,
        in_use: impl FnOnce() -> std::io::Result<ImagesInUse>,
    ) -> Result<(), ImageError> {
        let absent = || ImageError::NotFound { image: image.to_owned() };
        let lock = self.waited_lock()?;
        let unused = self.flock(USE, FlockOperation::LockExclusive)?;
        let mut index = self.file.read()?;
        let (id, name) = match as_image_id(image) {
            Some(id) => (id, None),
            None => {
                let reference = ImageReference::parse(image)?;
                let (id, _) = index.find(&reference).ok_or_else(absent)?;
                (id.clone(), reference.digest().is_none().then(|| reference.to_string()))
            }
        };
        let in_use = in_use().map_err(|source| ImageError::Store {
            operation: "look for containers of images in",
            path: self.dir.clone(),
            source,
        })?;
        let pods = in_use.get(&id);
        if let (Some(pods), ImageRemoval::OfUnused) = (pods, removal) {
            let pods = pods.iter().cloned().collect();
            return Err(ImageError::InUse { image: image.to_owned(), pods });
        }
        let stored = index.images.get_mut(&id).ok_or_else(absent)?;
        match name {
            Some(name) => {
                stored.references.remove(&name);
            }
            None => stored.references.clear(),
        }
        if stored.references.is_empty() {
            match pods {
                Some(_) => {
                    stored.digests.clear();
                    stored.retention = ImageRetention::Evictable;
                }
                None => {
                    index.images.remove(&id);
                }
            }
        }
        self.file.write(&index)?;
        drop(unused);
        self.sweep(&lock)
    }
}
