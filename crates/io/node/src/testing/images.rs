//! The images of the machine that only remembers, and its one registry, `r.test`.

use std::collections::BTreeMap;

use rekindle_runtime::image::ImageReference;
use rekindle_runtime::{ImageFileSystem, ImageInfo, ImageOnDisk, ImageOrigin, ImagePull, ImageUse};

/// What is here, and what was asked of the registry.
#[derive(Debug)]
pub(crate) struct Images {
    /// By id, which is the name.
    pub(crate) here: BTreeMap<String, ImageOnDisk>,
    /// Image and number of logins of each pull that was begun.
    pub(crate) pulls: Vec<(String, usize)>,
    /// While it is true, no pull ends.
    pub(crate) held: bool,
    /// Pulls that have not ended.
    pub(crate) under_way: usize,
    pub(crate) most_under_way: usize,
    pub(crate) disk: ImageFileSystem,
}

impl Default for Images {
    fn default() -> Self {
        Self {
            here: BTreeMap::new(),
            pulls: Vec::new(),
            held: false,
            under_way: 0,
            most_under_way: 0,
            disk: ImageFileSystem {
                capacity_bytes: 1000,
                available_bytes: 500,
                used_bytes: 500,
                inodes: 100,
                inodes_free: 90,
            },
        }
    }
}

impl Images {
    pub(crate) fn add(&mut self, name: &str, size_bytes: u64, usage: ImageUse) {
        let image =
            ImageOnDisk { id: name.to_owned(), names: vec![name.to_owned()], size_bytes, usage };
        self.here.insert(name.to_owned(), image);
    }

    /// Takes an image away; the disk has what it took.
    pub(super) fn remove(&mut self, id: &str) {
        let freed = self.here.remove(id).map_or(0, |image| image.size_bytes);
        let available = self.disk.available_bytes.saturating_add(freed);
        self.disk.available_bytes = available.min(self.disk.capacity_bytes);
    }

    /// Images of `r.test` are here once they are fetched; all others but `absent` are of the
    /// machine.
    pub(crate) fn status(&self, image: &str) -> Option<ImageInfo> {
        let of_registry = image.starts_with("r.test/");
        let origin = if of_registry { ImageOrigin::Registry } else { ImageOrigin::ThisMachine };
        let is_here = if of_registry { self.here.contains_key(image) } else { image != "absent" };
        let id = if of_registry { image } else { "sha256:img" }.to_owned();
        is_here.then(|| ImageInfo { id, reference: image.to_owned(), size_bytes: 1, origin })
    }

    pub(crate) fn begin_pull(&mut self, request: &ImagePull) {
        let reference = ImageReference::parse(&request.image).unwrap();
        self.pulls.push((request.image.clone(), request.keyring.lookup(&reference).len()));
        self.under_way += 1;
        self.most_under_way = self.most_under_way.max(self.under_way);
    }

    /// The registry has everything but `r.test/unknown`.
    pub(crate) fn fetch(&mut self, image: &str) -> Option<ImageInfo> {
        let name = ImageReference::parse(image).unwrap().name();
        if name.starts_with("r.test/") && name != "r.test/unknown" {
            self.add(image, 1, ImageUse::Unused);
        }
        self.status(image)
    }
}
