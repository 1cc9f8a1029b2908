//! The images of an engine: one store in its data directory, for all its nodes.

use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use anyhow::Context;
use rekindle_runtime::ImagesInUse;
use rekindle_runtime::embedded::{ImageUsers, images_in_use, join_in_use};
use rekindle_runtime::image::{BuiltinImages, HostImage, ImageStore};

use super::data_dir::RUN_ROOT;

/// Bytes that a container of `localhost/host` may write at most.
const HOST_IMAGE_WRITES_MAX_BYTES: u64 = 256 * 1024 * 1024;

/// The data directory of an engine, held or not: a client command may open its images beside a
/// running engine.
#[derive(Clone, Debug)]
pub struct EngineDir(PathBuf);

impl EngineDir {
    /// The folder, which exists or not.
    pub fn new(path: &Path) -> Self {
        Self(path.to_owned())
    }

    /// The folder.
    pub fn path(&self) -> &Path {
        &self.0
    }

    /// The folder of the engine's further nodes.
    pub fn nodes(&self) -> PathBuf {
        self.0.join("nodes")
    }

    /// The image store, for containers: `localhost/host` does not show them what is the engine's.
    pub fn open_images(&self, host_image: HostImage) -> anyhow::Result<ImageStore> {
        self.open(vec![self.0.clone(), RUN_ROOT.into()], host_image)
    }

    /// The image store, for looking after it.
    pub fn images(&self) -> anyhow::Result<ImageStore> {
        self.open(Vec::new(), HostImage::On)
    }

    fn open(&self, engine_dirs: Vec<PathBuf>, host_image: HostImage) -> anyhow::Result<ImageStore> {
        let host_write_limit_bytes = HOST_IMAGE_WRITES_MAX_BYTES;
        let builtins = BuiltinImages { engine_dirs, host_write_limit_bytes, host_image };
        ImageStore::open(&self.0.join("images"), builtins).context("open the image store")
    }

    /// The images that containers of any node were made from.
    pub fn images_in_use(&self) -> std::io::Result<ImagesInUse> {
        in_use(self.runtimes()?)
    }

    /// Which images runtimes other than this one use: of nodes that stand when it is asked.
    pub fn users_beside(&self, runtime: &Path) -> ImageUsers {
        let (engine, own) = (self.clone(), runtime.to_owned());
        Arc::new(move || in_use(engine.runtimes()?.into_iter().filter(|folder| *folder != own)))
    }

    /// The folders of all nodes' runtimes.
    fn runtimes(&self) -> std::io::Result<Vec<PathBuf>> {
        let mut folders = vec![runtime_dir(&self.0)];
        match std::fs::read_dir(self.nodes()) {
            Ok(nodes) => {
                for node in nodes {
                    let path = node?.path();
                    // beside them lies what they have in common
                    if path.is_dir() {
                        folders.push(runtime_dir(&path));
                    }
                }
            }
            Err(error) if error.kind() == ErrorKind::NotFound => {}
            Err(error) => return Err(error),
        }
        Ok(folders)
    }
}

fn in_use(runtimes: impl IntoIterator<Item = PathBuf>) -> std::io::Result<ImagesInUse> {
    let mut found = ImagesInUse::new();
    for runtime in runtimes {
        join_in_use(&mut found, images_in_use(&runtime)?);
    }
    Ok(found)
}

/// The container runtime's folder in a node's data directory.
pub fn runtime_dir(data_dir: &Path) -> PathBuf {
    data_dir.join("runtime")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_runtimes_of_all_nodes_are_known() {
        let dir = tempfile::tempdir().unwrap();
        let engine = EngineDir::new(dir.path());
        assert_eq!(engine.runtimes().unwrap(), [dir.path().join("runtime")]);
        std::fs::create_dir_all(dir.path().join("nodes/a-2")).unwrap();
        std::fs::write(dir.path().join("nodes/common.json"), "{}").unwrap();
        let further = dir.path().join("nodes/a-2/runtime");
        assert_eq!(engine.runtimes().unwrap(), [dir.path().join("runtime"), further.clone()]);
        assert!(engine.images_in_use().unwrap().is_empty(), "none of them has run anything");
        assert!((engine.users_beside(&further))().unwrap().is_empty());
    }
}
