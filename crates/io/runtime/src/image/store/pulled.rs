//! What a pull does to the store: layers come in one by one as they arrive, the image shows itself
//! at the end. The lock is held for each step only, so that a slow registry stops nobody.

use std::collections::BTreeMap;
use std::fs::File;
use std::path::Path;
use std::sync::Arc;

use rustix::fs::FlockOperation;

use super::{IMAGES_MAX, ImageStore, StoreLock};
use crate::image::archive::Blob;
use crate::image::digest::Sha256Digest;
use crate::image::layers::LayerError;
use crate::image::plan::{ImagePlan, PlannedLayer};
use crate::image::{ImageError, ImageReference};
use crate::runtime::ImageInfo;

/// Packed layers that were fetched, by digest, with their sizes.
pub(in crate::image) type Fetched = BTreeMap<Sha256Digest, (Arc<File>, u64)>;

/// What became of a pull's last step.
#[derive(Debug)]
pub(in crate::image) enum PullCommit {
    Done(ImageInfo),
    /// A layer that was here when the pull began was removed meanwhile, and was not fetched: it
    /// must be.
    LayerGone,
}

impl ImageStore {
    /// Where a pull may keep nameless files: on the same file system.
    pub(in crate::image) fn scratch(&self) -> &Path {
        &self.dir
    }

    /// Whether a layer need not be fetched.
    pub(in crate::image) fn has_layer(&self, planned: &PlannedLayer) -> bool {
        self.layers.present(&planned.diff_id).is_some()
    }

    /// Unpacks a fetched layer, unless it is here. Until an image has it, a sweep may take it away
    /// again.
    pub(in crate::image) fn unpack_fetched(
        &self,
        planned: &PlannedLayer,
        file: &Arc<File>,
        size: u64,
    ) -> Result<(), LayerError> {
        let _lock = self.waited_lock().map_err(LayerError::Store)?;
        if !self.has_layer(planned) {
            self.layers.unpack(planned, Blob::of_file(Arc::clone(file), size), &self.limits)?;
        }
        Ok(())
    }

    /// Shows the image under `reference`.
    pub(in crate::image) fn commit_pull(
        &self,
        reference: &ImageReference,
        plan: &ImagePlan,
        fetched: &Fetched,
    ) -> Result<PullCommit, LayerError> {
        let lock = self.waited_lock().map_err(LayerError::Store)?;
        let digest_of = |planned: &PlannedLayer| planned.digest.clone();
        let missing = |planned: &&PlannedLayer| {
            !self.has_layer(planned)
                && digest_of(planned).is_none_or(|digest| !fetched.contains_key(&digest))
        };
        if plan.layers.iter().any(|planned| missing(&planned)) {
            return Ok(PullCommit::LayerGone);
        }
        let (mut stored, notes) = self.bring_in_layers(plan, &|planned| {
            let found = digest_of(planned).and_then(|digest| fetched.get(&digest));
            let (file, size) = found.ok_or_else(|| format!("layer {} is gone", planned.blob))?;
            Ok(Blob::of_file(Arc::clone(file), *size))
        })?;
        for note in notes {
            tracing::debug!(image = %reference, note, "of a pulled image");
        }
        let name = reference.name();
        stored.digests = plan.digests.iter().map(|digest| format!("{name}@{digest}")).collect();
        let mut index = self.file.read().map_err(LayerError::Store)?;
        index.insert(&plan.id, stored);
        if index.images.len() > IMAGES_MAX {
            let problem = format!("the store would have more than {IMAGES_MAX} images");
            return Err(LayerError::Archive(problem));
        }
        self.file.write(&index).map_err(LayerError::Store)?;
        drop(lock);
        let info = self.info(&reference.to_string()).map_err(LayerError::Store)?;
        Ok(info.map_or(PullCommit::LayerGone, PullCommit::Done))
    }

    /// Gives the image of this digest, when it is here under the same name, the tag of `reference`:
    /// a registry said that the tag stands for it now.
    pub(in crate::image) fn adopt_digest(
        &self,
        reference: &ImageReference,
        digest: &Sha256Digest,
    ) -> Result<Option<ImageInfo>, ImageError> {
        let known = format!("{}@{digest}", reference.name());
        let name = reference.to_string();
        let has_both = |index: &super::ImageIndex| {
            let found = index.images.values().find(|image| image.digests.contains(&known));
            found.map(|image| reference.digest().is_some() || image.references.contains(&name))
        };
        let known_so = has_both(&self.index()?.index); // the guard goes before anything else asks
        match known_so {
            None => return Ok(None),
            Some(true) => return self.info(&name),
            Some(false) => {}
        }
        let _lock = self.waited_lock()?;
        let mut index = self.file.read()?;
        let found = index.images.iter().find(|(_, image)| image.digests.contains(&known));
        let Some((id, mut image)) = found.map(|(id, image)| (id.clone(), image.clone())) else {
            return Ok(None);
        };
        image.references.insert(name.clone());
        index.insert(&id, image);
        self.file.write(&index)?;
        self.info(&name)
    }

    /// After a pull that failed: takes away what no image has.
    pub(in crate::image) fn sweep_after_pull(&self) -> Result<(), ImageError> {
        let lock = self.waited_lock()?;
        self.sweep(&lock)
    }

    pub(super) fn waited_lock(&self) -> Result<StoreLock, ImageError> {
        let lock = self.lock(FlockOperation::LockExclusive)?;
        Ok(lock.expect("a waiting lock is got or fails"))
    }
}
