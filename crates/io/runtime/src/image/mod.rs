//! Images: pulling them from registries, loading them from archives and layouts, and resolving a
//! reference to the layers and the config of a container.
//!
//! Loading checks every digest, unpacks each layer once beneath its own directory file descriptor,
//! and shows nothing until it is whole: `archive → manifest → config + layers → images.json`. The
//! two built-in images need no archive.
//!
//! On disk, all beneath the store's folder (mode 0700, so that nobody on the host runs an image's
//! setuid programs): `images.json` (what is there), `blobs/sha256/` (manifests and configs),
//! `layers/<diff id>/fs` (unpacked layers in overlayfs' form, and those of [`attributes`]), `demo/`
//! (the built-in demo image), `lock` (held while something is changed).

mod archive;
mod attributes;
mod builtin;
mod decompress;
mod demo;
mod digest;
mod document;
mod error;
mod layers;
mod metadata;
mod plan;
mod reference;
pub mod registry;
mod store;
mod tar_stream;
mod unpack;

use std::path::PathBuf;

use serde::{Deserialize, Serialize};

pub(crate) use registry::has_registry;

pub use error::ImageError;
pub use metadata::ImageRetention;
pub use reference::ImageReference;
pub use store::{BuiltinImages, HostImage, ImageRemoval, ImageStore, ListedImage, LoadedImage};

/// An image that is present, ready to become a container's root.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ResolvedImage {
    /// `sha256:…` of its config.
    pub id: String,
    /// What it says about the process.
    pub config: ImageConfig,
    /// What its root file system is made of.
    pub rootfs: Rootfs,
}

/// What an image says about the process, for whatever the container's spec leaves open.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ImageConfig {
    /// Put before `cmd`; empty when the image has none.
    pub entrypoint: Vec<String>,
    /// The default command, or the default arguments of the entrypoint.
    pub cmd: Vec<String>,
    /// In the image's order.
    pub env: Vec<(String, String)>,
    /// Where the process starts; `/` when the image says nothing.
    pub working_dir: String,
    /// `user`, `uid`, `user:group` or `uid:gid`; empty is root.
    pub user: String,
    /// As the image spells it: `SIGQUIT`, `QUIT` or `3`.
    pub stop_signal: Option<String>,
    /// Folders that its containers write to, whatever else of their root they may; as the image
    /// spells them.
    #[serde(default)]
    pub volumes: Vec<String>,
}

/// What a container's root file system is made of.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Rootfs {
    /// The read-only layers, top first, as overlayfs wants them. Empty only with `public_dir`. An
    /// image of many layers needs more than a page of mount options: give them one by one
    /// (`fsconfig` `lowerdir+`).
    pub lower_dirs: Vec<PathBuf>,
    /// A folder of the host beneath them, of which the container sees what anybody on the host may
    /// read, and no more.
    pub public_dir: Option<PathBuf>,
    /// Where the container's own writes go.
    pub upper: UpperKind,
    /// Absolute paths inside the root that the container must not see: folders and files, some of
    /// which may be absent.
    pub mask: Vec<PathBuf>,
}

/// Where a container's own writes go.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum UpperKind {
    /// A folder of the runtime.
    Directory,
    /// A tmpfs of this size: needed where the lower layer is the host's own root, which the
    /// runtime's folders lie in.
    Tmpfs {
        /// Its limit.
        size_bytes: u64,
    },
}
