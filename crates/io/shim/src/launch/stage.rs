//! Layers of an image as the users of a sandbox see them: each is mounted by itself, with its ids
//! mapped, where overlayfs can be told to find it. (Overlayfs takes layers with mapped ids, and
//! cannot be mapped itself.)
//!
//! What is staged lies on a small tmpfs over an empty folder in the container's mounts as long as
//! they are made, and goes away with the pivot; layers that are mounted stay.

use std::os::fd::AsFd;
use std::path::Path;

use rustix::fs::{CWD, Gid, Mode, OFlags, Uid};
use rustix::mount::{MountFlags, MoveMountFlags};

use super::mounts::{self, BindDepth};
use crate::problem::FailureContext;
use crate::protocol::{RootPlan, ShimFailure, WritableLayer};
use crate::users::UserNamespace;

/// Where a root file system is mounted, and where volumes are put together, beside its layers.
const ROOT: &str = "root";
const SCRATCH: &str = "scratch";

/// The plan of a root file system, with its layers mapped. A writable layer on the disk is not:
/// what is written to it belongs to ids of the host that are nobody's, and it is thrown away with
/// the container.
pub(super) fn root(plan: &RootPlan, own: &UserNamespace) -> Result<RootPlan, ShimFailure> {
    let base = &plan.mount_point;
    mount_stage(base)?;
    for name in [ROOT, SCRATCH] {
        make_dir(&format!("{base}/{name}"))?;
    }
    if let WritableLayer::Directory { dir } = &plan.upper {
        // Its owner is the root folder's.
        let upper = format!("{dir}/upper");
        let (uid, gid) = (Uid::from_raw(own.first), Gid::from_raw(own.first));
        rustix::fs::chown(upper.as_str(), Some(uid), Some(gid))
            .setup(|| format!("give {upper} to the pod's root"))?;
    }
    Ok(RootPlan {
        lower_dirs: layers(&plan.lower_dirs, base, own)?,
        mount_point: format!("{base}/{ROOT}"),
        ..plan.clone()
    })
}

/// A folder beside the root's layers in which others can be staged.
pub(super) fn scratch(base: &str) -> String {
    format!("{base}/{SCRATCH}")
}

/// The layers of an image volume, mapped, and a folder to mount them together on. Everything is on
/// one tmpfs over `scratch`.
pub(super) fn volume(
    dirs: &[String],
    scratch: &str,
    own: &UserNamespace,
) -> Result<(Vec<String>, String), ShimFailure> {
    mount_stage(scratch)?;
    let together = format!("{scratch}/{ROOT}");
    make_dir(&together)?;
    Ok((layers(dirs, scratch, own)?, together))
}

fn layers(dirs: &[String], base: &str, own: &UserNamespace) -> Result<Vec<String>, ShimFailure> {
    let staged = dirs.iter().enumerate().map(|(number, dir)| {
        let at = format!("{base}/{number}");
        make_dir(&at)?;
        layer(dir, &at, Some(own)).map(|()| at)
    });
    staged.collect()
}

/// Mounts a layer on `at`, with ids mapped for `own`. What is mounted beneath it is not taken
/// along: overlayfs does not cross into it either.
pub(super) fn layer(dir: &str, at: &str, own: Option<&UserNamespace>) -> Result<(), ShimFailure> {
    let what = || format!("the layer {dir}");
    let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
    let source =
        rustix::fs::open(dir, flags, Mode::empty()).setup(|| format!("open {}", what()))?;
    let mount =
        mounts::clone_of(source.as_fd(), BindDepth::Mount).setup(|| format!("bind {}", what()))?;
    if let Some(own) = own {
        own.map(mount.as_fd(), what)?;
    }
    let flags = MoveMountFlags::MOVE_MOUNT_F_EMPTY_PATH;
    rustix::mount::move_mount(mount.as_fd(), c"", CWD, at, flags)
        .setup(|| format!("mount {} on {at}", what()))
}

fn mount_stage(base: &str) -> Result<(), ShimFailure> {
    let flags = MountFlags::NODEV | MountFlags::NOSUID | MountFlags::NOEXEC;
    rustix::mount::mount("stage", base, "tmpfs", flags, c"size=1m,mode=700")
        .setup(|| format!("mount a tmpfs on {base}"))
}

fn make_dir(path: &str) -> Result<(), ShimFailure> {
    rustix::fs::mkdirat(CWD, Path::new(path), Mode::from_raw_mode(0o755))
        .setup(|| format!("make {path}"))
}
