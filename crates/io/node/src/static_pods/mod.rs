//! Static pods: pods that no API object asks for, but a manifest in a folder of this node. Each is
//! shown in the API by a mirror pod, which can be looked at and not changed: one that is deleted
//! comes back, and what it shows is the node's.
//!
//! ```text
//!  folder (inotify) ─► Folder: reads, has the API default and validate ─► Listing ─┐
//!                                                                                   ├► StaticPods ─► Manager: one Worker a pod
//!  API watch ─────────────────────────────────────────────────── mirror pods ──────┘                   │ status
//!       ▲                                                                                               ▼
//!       └────────────────────────────── create, status, delete ◄──────────────────────── MirrorKeeper (one task a pod)
//! ```
//!
//! As the kubelet does it (`pkg/kubelet/config/file.go`, `pkg/kubelet/pod/mirror_client.go`); what
//! differs stands in docs/compatibility.md.

mod folder;
mod manifest;
mod mirror;
mod set;
#[cfg(test)]
mod tests;

pub(crate) use folder::ManifestFolder;
pub(crate) use manifest::{disown, hash_of_mirror, is_static};
pub(crate) use mirror::MirrorKeeper;
pub(crate) use set::{Listing, MirrorView, StaticPods};
