//! Bind mounts from the host, and images as volumes: the source is the agent's word, the path
//! inside it and the destination are the pod's.

use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd, RawFd};
use std::path::Path;

use rustix::fs::{AtFlags, CWD, Mode, OFlags, StatxFlags};
use rustix::io::Errno;
use rustix::mount::{MountAttrFlags, UnmountFlags};

use super::mounts::{self, BindDepth};
use super::{rootfs, stage};
use crate::paths::{self, LinkPolicy, PathKind};
use crate::problem::{FailureContext, errno_text};
use crate::protocol::{
    FailureKind, MountAccess, MountFeature, MountPlan, MountPropagation, Privilege, ReadOnlyReach,
    ShimFailure,
};
use crate::sys::{self, MountPropagationChange, MountReach};
use crate::users::UserIdOwner;

/// A volume that is found and cloned, and mounted nowhere yet.
pub(crate) struct ClonedVolume<'p> {
    plan: &'p MountPlan,
    content: VolumeContent,
}

enum VolumeContent {
    /// A clone of the host's mount.
    Bind(OwnedFd),
    /// An image, whose layers are put together when no mount is seen outside any more.
    Layers,
}

impl ClonedVolume<'_> {
    /// What must not be closed meanwhile.
    pub(crate) fn descriptor(&self) -> Option<RawFd> {
        match &self.content {
            VolumeContent::Bind(mount) => Some(mount.as_raw_fd()),
            VolumeContent::Layers => None,
        }
    }
}

/// Finds what is to be mounted. Runs while the mounts of this namespace still have their ties to
/// the host's.
pub(crate) fn open(plan: &MountPlan) -> Result<ClonedVolume<'_>, ShimFailure> {
    if !plan.layers.is_empty() {
        return Ok(ClonedVolume { plan, content: VolumeContent::Layers });
    }
    let source = open_source(plan)?;
    check_ties(plan, source.as_fd())?;
    let mount = mounts::clone_of(source.as_fd(), BindDepth::Tree)
        .setup(|| format!("bind the volume {}", plan.source))?;
    Ok(ClonedVolume { plan, content: VolumeContent::Bind(mount) })
}

/// Mounts one volume. Other containers of the pod may be changing its content at this very moment.
/// `scratch` is an empty folder to mount on in this namespace.
pub(crate) fn attach(
    root: BorrowedFd<'_>,
    opened: &ClonedVolume<'_>,
    privilege: Privilege,
    scratch: &str,
    users: &UserIdOwner,
) -> Result<(), ShimFailure> {
    let plan = opened.plan;
    let image;
    let mount = match &opened.content {
        VolumeContent::Bind(mount) => {
            if let Some(own) = users.own() {
                own.map(mount.as_fd(), || format!("the volume {}", plan.source))?;
            }
            mount.as_fd()
        }
        VolumeContent::Layers => {
            image = mount_image(plan, scratch, users)?;
            image.as_fd()
        }
    };
    let kind = paths::kind_of(mount).setup(|| format!("look at {}", plan.source))?;
    let path = Path::new(&plan.destination);
    let at = paths::find_or_make(root, path, kind, LinkPolicy::InRoot)
        .setup(|| format!("make the mount point {} in the container", plan.destination))?;
    if paths::kind_of(at.as_fd()).setup(|| format!("look at {}", plan.destination))? != kind {
        let (is, shall) = match kind {
            PathKind::Directory => ("a file", "a folder"),
            PathKind::File => ("a folder", "a file"),
        };
        let problem =
            format!("mount {}: {is} stands there, the volume is {shall}", plan.destination);
        return Err(ShimFailure::new(FailureKind::Setup, problem));
    }
    set_attributes(mount, plan, privilege)
        .and_then(|()| mounts::attach(mount, at.as_fd()))
        .setup(|| format!("mount {} on {}", plan.source, plan.destination))
}

/// The image's layers as one, or what is at the subPath in it, mounted nowhere any more.
fn mount_image(
    plan: &MountPlan,
    scratch: &str,
    users: &UserIdOwner,
) -> Result<OwnedFd, ShimFailure> {
    let what = || format!("mount the image {}", plan.source);
    match (plan.layers.as_slice(), users) {
        // there is nothing to lay it over
        ([layer], users) => {
            let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
            let root = rustix::fs::open(layer.as_str(), flags, Mode::empty()).setup(what)?;
            let mount = clone_of_image(plan, root)?;
            if let Some(own) = users.own() {
                own.map(mount.as_fd(), || format!("the image {}", plan.source))?;
            }
            Ok(mount)
        }
        (layers, UserIdOwner::Host) => {
            let mount = clone_of_image(plan, rootfs::mount_layers(layers, scratch)?)?;
            unmount(scratch).setup(what)?;
            Ok(mount)
        }
        (layers, UserIdOwner::Own(own)) => {
            let scratch = stage::scratch(scratch);
            let (layers, together) = stage::volume(layers, &scratch, own)?;
            let mount = clone_of_image(plan, rootfs::mount_layers(&layers, &together)?)?;
            unmount(&scratch).setup(what)?;
            Ok(mount)
        }
    }
}

/// Where the layers were put together is where the root is mounted: it must not stay on top of
/// that.
fn unmount(scratch: &str) -> Result<(), Errno> {
    rustix::mount::unmount(scratch, UnmountFlags::DETACH)
}

fn clone_of_image(plan: &MountPlan, root: OwnedFd) -> Result<OwnedFd, ShimFailure> {
    let at = match &plan.sub_path {
        None => root,
        Some(sub_path) => paths::find(root.as_fd(), Path::new(sub_path), LinkPolicy::Beneath)
            .map_err(|errno| {
                let of = &plan.source;
                let problem =
                    format!("open subPath {sub_path:?} of image {of}: {}", errno_text(errno));
                ShimFailure::new(FailureKind::Setup, problem)
            })?,
    };
    mounts::clone_of(at.as_fd(), BindDepth::Mount)
        .setup(|| format!("mount the image {}", plan.source))
}

/// No devices and no ties beyond those asked for, all the way down; what the volume's own mount
/// cannot do; whether it and what is beneath it may be written.
fn set_attributes(
    mount: BorrowedFd<'_>,
    plan: &MountPlan,
    privilege: Privilege,
) -> Result<(), Errno> {
    let devices = match privilege {
        Privilege::Confined => MountAttrFlags::MOUNT_ATTR_NODEV,
        Privilege::Privileged => MountAttrFlags::empty(),
    };
    let ties = match plan.options.propagation {
        MountPropagation::Private => MountPropagationChange::Private,
        MountPropagation::HostToContainer => MountPropagationChange::Slave,
        MountPropagation::Bidirectional => MountPropagationChange::Kept,
    };
    sys::mount_setattr(mount, devices, ties, MountReach::Tree)?;
    let without = plan.options.without.iter().map(|feature| match feature {
        MountFeature::Exec => MountAttrFlags::MOUNT_ATTR_NOEXEC,
        MountFeature::Devices => MountAttrFlags::MOUNT_ATTR_NODEV,
        MountFeature::SetUid => MountAttrFlags::MOUNT_ATTR_NOSUID,
    });
    let without = without.fold(MountAttrFlags::empty(), |all, one| all | one);
    sys::mount_setattr(mount, without, MountPropagationChange::Kept, MountReach::Mount)?;
    let reach = match (plan.access, plan.options.read_only) {
        (MountAccess::ReadWrite, _) => return Ok(()),
        (MountAccess::ReadOnly, ReadOnlyReach::Mount) => MountReach::Mount,
        (MountAccess::ReadOnly, ReadOnlyReach::Tree) => MountReach::Tree,
    };
    sys::mount_setattr(
        mount,
        MountAttrFlags::MOUNT_ATTR_RDONLY,
        MountPropagationChange::Kept,
        reach,
    )
}

/// A mount that has no ties could not pass anything on: refused, as container engines do, rather
/// than ignored.
fn check_ties(plan: &MountPlan, source: BorrowedFd<'_>) -> Result<(), ShimFailure> {
    let (accepted, expected): (&[&str], _) = match plan.options.propagation {
        MountPropagation::Private => return Ok(()),
        MountPropagation::HostToContainer => (&["shared:", "master:"], "a shared or slave mount"),
        MountPropagation::Bidirectional => (&["shared:"], "a shared mount"),
    };
    let what = || format!("look at the mount of {}", plan.source);
    let id = rustix::fs::statx(source, "", AtFlags::EMPTY_PATH, StatxFlags::MNT_ID)
        .setup(what)?
        .stx_mnt_id
        .to_string();
    let mounts = std::fs::read_to_string("/proc/self/mountinfo")
        .map_err(|e| Errno::from_io_error(&e).unwrap_or(Errno::IO))
        .setup(what)?;
    let fields = mounts.lines().map(|line| line.split(' ').collect::<Vec<_>>());
    // proc(5): the number, …, the mount point, its options, its ties up to a dash
    let found = fields.into_iter().find(|fields| fields.first() == Some(&id.as_str()));
    let found = found.unwrap_or_default();
    let mut ties = found.iter().skip(6).take_while(|field| **field != "-");
    if ties.any(|tie| accepted.iter().any(|prefix| tie.starts_with(prefix))) {
        return Ok(());
    }
    let on = found.get(4).copied().unwrap_or("?");
    let problem = format!("path {:?} is mounted on {on:?} but it is not {expected}", plan.source);
    Err(ShimFailure::new(FailureKind::Setup, problem))
}

fn open_source(plan: &MountPlan) -> Result<OwnedFd, ShimFailure> {
    let flags = OFlags::PATH | OFlags::CLOEXEC;
    let source = rustix::fs::openat(CWD, plan.source.as_str(), flags, Mode::empty())
        .setup(|| format!("open the volume {}", plan.source))?;
    let Some(sub_path) = &plan.sub_path else { return Ok(source) };
    let path = Path::new(sub_path);
    match paths::find_or_make(source.as_fd(), path, PathKind::Directory, LinkPolicy::Beneath) {
        Ok(fd) => Ok(fd),
        Err(Errno::XDEV | Errno::LOOP) => {
            let problem = format!("subPath {sub_path:?} leads out of its volume");
            Err(ShimFailure::new(FailureKind::Setup, problem))
        }
        Err(errno) => {
            let problem = format!("open subPath {sub_path:?}: {}", errno_text(errno));
            Err(ShimFailure::new(FailureKind::Setup, problem))
        }
    }
}
