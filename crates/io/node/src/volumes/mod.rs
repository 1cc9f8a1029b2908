//! Volumes: emptyDir, configMap, secret, projected, downwardAPI, hostPath, image, nfs, and those
//! behind claims.
//!
//! | kind | stands on | refresh | update |
//! |---|---|---|---|
//! | emptyDir | a folder, or a tmpfs (`medium: Memory`) | moved aside and made anew | – |
//! | configMap | a folder | stays | swapped atomically when the object changes |
//! | secret, projected, downwardAPI | a tmpfs | stays | the same |
//! | hostPath | the host's own path | never touched | – |
//! | image | the layers in the image store, mounted by the runtime | fetched again as its policy says | – |
//! | nfs | a mount of the share | never touched | – |
//! | persistentVolumeClaim, ephemeral | a link to the volume, or a mount of it | never touched | – |
//!
//! Nothing here follows a link that a pod may have made.

mod atomic_writer;
mod claims;
mod empty_dir;
mod error;
mod host_path;
mod mount;
mod nfs;
mod ownership;
mod payload;
mod read_file;
mod remove;
mod sub_path;
#[cfg(test)]
mod tests;
mod tmpfs;
mod trust_anchors;

pub(crate) use claims::{is_used, link_claims, linked, look_up, shares};
pub(crate) use empty_dir::move_to_trash;
pub(crate) use error::{VolumeError, VolumeProblem};
pub(crate) use mount::{
    EmptyDirContents, VolumeInputs, mount_volumes, refresh_empty_dirs, unmount_volumes,
    update_payloads, volume_paths,
};
pub(crate) use nfs::{mount_shares, of_pod as shares_of_pod};
pub(crate) use read_file::read_file_beneath;
pub use remove::empty_folder;
pub(crate) use remove::{remove_tree, sweep};
pub(crate) use sub_path::ensure_sub_path;
pub(crate) use tmpfs::{FILES_TMPFS, ensure_tmpfs, make_folder, unmount_tmpfs};
