//! Pulls from registries that behave, and from registries that do not. Each test has a store and a
//! registry of its own.
#![allow(clippy::disallowed_methods, reason = "it drives sockets and files")]
#![allow(clippy::unwrap_used, reason = "a test that cannot go on has failed")]
#![allow(missing_docs, unreachable_pub, dead_code, reason = "each test uses a part of it")]

mod access;
mod content;
mod fake;
mod faults;
mod images;
mod sharing;

use std::fs;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use rekindle_runtime::ImageInfo;
use rekindle_runtime::image::registry::{Keyring, Login, Puller, RegistrySettings};
use rekindle_runtime::image::{BuiltinImages, HostImage, ImageError, ImageStore};

/// A store with a puller.
pub struct World {
    dir: tempfile::TempDir,
    pub store: Arc<ImageStore>,
    pub puller: Puller,
}

impl Default for World {
    fn default() -> Self {
        Self::new()
    }
}

impl World {
    pub fn new() -> Self {
        Self::with(|_| {})
    }

    pub fn with(change: impl FnOnce(&mut RegistrySettings)) -> Self {
        let dir = tempfile::tempdir().unwrap();
        let builtins = BuiltinImages {
            engine_dirs: Vec::new(),
            host_write_limit_bytes: 1 << 20,
            host_image: HostImage::On,
        };
        let store = Arc::new(ImageStore::open(dir.path(), builtins).unwrap());
        let mut settings =
            RegistrySettings { first_pause: Duration::from_millis(1), ..Default::default() };
        change(&mut settings);
        let puller = Puller::new(store.clone(), settings);
        Self { dir, store, puller }
    }

    pub async fn pull(&self, image: &str) -> Result<ImageInfo, Arc<ImageError>> {
        self.puller.pull(image, &Keyring::new()).await
    }

    /// The error's whole text.
    pub async fn fails(&self, image: &str) -> String {
        match self.pull(image).await {
            Ok(info) => panic!("{info:?} was pulled"),
            Err(error) => error.to_runtime(image).to_string(),
        }
    }

    /// The text of a file in the image's lowest layer that has it.
    pub fn file(&self, image: &str, name: &str) -> Option<String> {
        let image = self.store.resolve(image).unwrap()?;
        image.rootfs.lower_dirs.iter().find_map(|dir| fs::read_to_string(dir.join(name)).ok())
    }

    pub fn names_in(&self, folder: &str) -> Vec<String> {
        let entries = fs::read_dir(self.dir.path().join(folder)).unwrap();
        let mut names: Vec<String> =
            entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
        names.sort();
        names
    }

    pub fn path(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    /// Nothing of a failed pull is left, seen or unseen.
    pub fn assert_empty(&self) {
        assert_eq!(self.names_in("layers"), Vec::<String>::new());
        assert_eq!(self.names_in("blobs/sha256"), Vec::<String>::new());
        let list = self.store.list().unwrap();
        assert!(
            list.iter().all(|image| image.info.reference.starts_with("localhost/")),
            "{list:?}"
        );
        let others: Vec<String> = self
            .names_in("")
            .into_iter()
            .filter(|name| {
                !["blobs", "layers", "demo", "lock", "use", "images.json"].contains(&name.as_str())
            })
            .collect();
        assert_eq!(others, Vec::<String>::new());
    }
}

pub fn password(username: &str, password: &str) -> Login {
    Login::Password { username: username.to_owned(), password: password.to_owned() }
}
