//! /proc, /sys and /dev of a container, and what of them is hidden.

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::Path;

use rustix::fs::{FileType, Mode, OFlags};
use rustix::io::Errno;
use rustix::mount::MountAttrFlags;

use super::mounts::{self, BindDepth};
use crate::paths::{self, LinkPolicy, PathKind};
use crate::problem::FailureContext;
use crate::protocol::{CgroupView, Confinement, FailureKind, Privilege, ShimFailure, is_of_system};
use crate::sys::MountReach;
use crate::users::UserIdOwner;

const NOTHING_SPECIAL: MountAttrFlags = MountAttrFlags::MOUNT_ATTR_NOSUID
    .union(MountAttrFlags::MOUNT_ATTR_NODEV)
    .union(MountAttrFlags::MOUNT_ATTR_NOEXEC);
const READ_ONLY: MountAttrFlags = NOTHING_SPECIAL.union(MountAttrFlags::MOUNT_ATTR_RDONLY);

/// The group of terminals, which all distributions agree on.
const TTY_GROUP: u32 = 5;

/// Device nodes that every container has: name, major, minor.
const DEVICES: [(&str, u32, u32); 6] = [
    ("null", 1, 3),
    ("zero", 1, 5),
    ("full", 1, 7),
    ("random", 1, 8),
    ("urandom", 1, 9),
    ("tty", 5, 0),
];

const DEV_LINKS: [(&str, &str); 5] = [
    ("fd", "/proc/self/fd"),
    ("stdin", "/proc/self/fd/0"),
    ("stdout", "/proc/self/fd/1"),
    ("stderr", "/proc/self/fd/2"),
    ("ptmx", "pts/ptmx"),
];

/// Mounts those that are the same at each start, as the host's root, but made for the users' own:
/// /sys, /dev, and what is hidden of /sys. `shm` is the sandbox's shared memory, a detached mount.
pub(crate) fn mount_lasting<'m>(
    root: BorrowedFd<'_>,
    privilege: Privilege,
    masked: impl IntoIterator<Item = &'m String>,
    shm: BorrowedFd<'_>,
    users: &UserIdOwner,
) -> Result<(), ShimFailure> {
    let sys = mount_point(root, "/sys")?;
    mount_new("sysfs", &[], sys_attributes(privilege), sys.as_fd(), "/sys")?;
    match privilege {
        Privilege::Confined => mount_dev(root, shm, users)?,
        Privilege::Privileged => mount_host_dev(root, shm)?,
    }
    mask(root, masked, LinkPolicy::Refused)
}

/// Mounts those that belong to the process' own namespaces, /proc and its cgroup, and hides what is
/// left to hide.
pub(crate) fn mount_own(
    root: BorrowedFd<'_>,
    confinement: &Confinement,
    view: CgroupView,
) -> Result<(), ShimFailure> {
    let proc = mount_point(root, "/proc")?;
    mount_new("proc", &[], NOTHING_SPECIAL, proc.as_fd(), "/proc")?;
    mount_cgroup_view(root, view, sys_attributes(confinement.privilege))?;
    hide(root, confinement)
}

fn sys_attributes(privilege: Privilege) -> MountAttrFlags {
    match privilege {
        Privilege::Confined => READ_ONLY,
        Privilege::Privileged => NOTHING_SPECIAL,
    }
}

/// The place of a system mount. An image with a link there is refused: the mount would land
/// elsewhere, and what the engine masks would stay in sight.
fn mount_point(root: BorrowedFd<'_>, path: &str) -> Result<OwnedFd, ShimFailure> {
    let found =
        paths::find_or_make(root, Path::new(path), PathKind::Directory, LinkPolicy::Refused);
    let place = match found {
        Err(Errno::LOOP) => {
            let problem = format!("the image has a symbolic link at {path}: it must be a folder");
            return Err(ShimFailure::new(FailureKind::Config, problem));
        }
        result => result.setup(|| format!("make {path} in the container"))?,
    };
    match paths::kind_of(place.as_fd()).setup(|| format!("look at {path} in the container"))? {
        PathKind::Directory => Ok(place),
        PathKind::File => {
            let problem = format!("the image has a file at {path}: it must be a folder");
            Err(ShimFailure::new(FailureKind::Config, problem))
        }
    }
}

fn mount_new(
    kind: &str,
    options: &[(&str, Option<&str>)],
    attributes: MountAttrFlags,
    on: BorrowedFd<'_>,
    path: &str,
) -> Result<(), ShimFailure> {
    mounts::new_filesystem(kind, options, attributes)
        .and_then(|mount| mounts::attach(mount.as_fd(), on))
        .setup(|| format!("mount {kind} on {path} of the container"))
}

fn mount_cgroup_view(
    root: BorrowedFd<'_>,
    view: CgroupView,
    attributes: MountAttrFlags,
) -> Result<(), ShimFailure> {
    match view {
        CgroupView::Hidden => Ok(()), // a new sysfs has an empty folder there
        CgroupView::Unified => {
            let path = "/sys/fs/cgroup";
            let place = mount_point(root, path)?;
            mount_new("cgroup2", &[], attributes, place.as_fd(), path)
        }
    }
}

/// A /dev of the container's own. Device nodes work only where they are bound: the tmpfs itself
/// allows none, so root in the container gains nothing by mknod, here or elsewhere.
fn mount_dev(
    root: BorrowedFd<'_>,
    shm: BorrowedFd<'_>,
    users: &UserIdOwner,
) -> Result<(), ShimFailure> {
    let place = mount_point(root, "/dev")?;
    let options = [("mode", Some("755")), ("size", Some("65536k"))];
    let attributes = MountAttrFlags::MOUNT_ATTR_NOSUID | MountAttrFlags::MOUNT_ATTR_NOEXEC;
    mount_new("tmpfs", &options, attributes, place.as_fd(), "/dev")?;
    let dev = mount_point(root, "/dev")?;
    fill_dev(dev.as_fd()).setup(|| "make the device nodes in /dev of the container".to_owned())?;
    mount_pts(root, users)?;
    mount_shm_and_queues(root, shm)
}

fn fill_dev(dev: BorrowedFd<'_>) -> Result<(), Errno> {
    let mut nodes = Vec::with_capacity(DEVICES.len());
    for (name, major, minor) in DEVICES {
        let mode = Mode::from_raw_mode(0o666);
        let device = rustix::fs::makedev(major, minor);
        rustix::fs::mknodat(dev, name, FileType::CharacterDevice, mode, device)?;
        let node = rustix::fs::openat(dev, name, OFlags::PATH | OFlags::CLOEXEC, Mode::empty())?;
        let mount = mounts::clone_of(node.as_fd(), BindDepth::Mount)?;
        nodes.push((node, mount));
    }
    // The clones were made before, so they keep allowing devices.
    mounts::add_attributes(dev, MountAttrFlags::MOUNT_ATTR_NODEV, MountReach::Mount)?;
    for (node, mount) in &nodes {
        mounts::attach(mount.as_fd(), node.as_fd())?;
    }
    for (name, target) in DEV_LINKS {
        rustix::fs::symlinkat(target, dev, name)?;
    }
    Ok(())
}

fn mount_pts(root: BorrowedFd<'_>, users: &UserIdOwner) -> Result<(), ShimFailure> {
    let path = "/dev/pts";
    let place = mount_point(root, path)?;
    let group = users.outside(TTY_GROUP).to_string();
    let options = [
        ("newinstance", None),
        ("ptmxmode", Some("0666")),
        ("mode", Some("0620")),
        ("gid", Some(&group)),
    ];
    let attributes = MountAttrFlags::MOUNT_ATTR_NOSUID | MountAttrFlags::MOUNT_ATTR_NOEXEC;
    mount_new("devpts", &options, attributes, place.as_fd(), path)
}

fn mount_shm_and_queues(root: BorrowedFd<'_>, shm: BorrowedFd<'_>) -> Result<(), ShimFailure> {
    let place = mount_point(root, "/dev/shm")?;
    mounts::attach(shm, place.as_fd())
        .setup(|| "mount the sandbox's shared memory on /dev/shm".to_owned())?;
    let place = mount_point(root, "/dev/mqueue")?;
    mount_new("mqueue", &[], NOTHING_SPECIAL, place.as_fd(), "/dev/mqueue")
}

/// A privileged container has the host's devices; its shared memory and queues are the sandbox's
/// all the same.
fn mount_host_dev(root: BorrowedFd<'_>, shm: BorrowedFd<'_>) -> Result<(), ShimFailure> {
    let place = mount_point(root, "/dev")?;
    let flags = OFlags::PATH | OFlags::CLOEXEC;
    rustix::fs::open("/dev", flags, Mode::empty())
        .and_then(|host| {
            mounts::bind(host.as_fd(), place.as_fd(), BindDepth::Tree, MountAttrFlags::empty())
        })
        .setup(|| "mount the host's /dev in the container".to_owned())?;
    // Only where the host has the folders: nothing is made in its /dev.
    for path in ["/dev/shm", "/dev/mqueue"] {
        let Ok(place) = paths::find(root, Path::new(path), LinkPolicy::Refused) else { continue };
        let attached = match path {
            "/dev/shm" => mounts::attach(shm, place.as_fd()),
            _ => mounts::new_filesystem("mqueue", &[], NOTHING_SPECIAL)
                .and_then(|mount| mounts::attach(mount.as_fd(), place.as_fd())),
        };
        attached.setup(|| format!("mount {path} of the sandbox"))?;
    }
    Ok(())
}

/// Hides and write-protects what the plan names, but for what [`mount_lasting`] has hidden. Nothing
/// runs in the container yet, and /proc and /sys are the kernel's own, so nobody can swap a link
/// in.
fn hide(root: BorrowedFd<'_>, confinement: &Confinement) -> Result<(), ShimFailure> {
    let masked = confinement.masked_paths.iter().filter(|path| !is_of_system(path));
    mask(root, masked, LinkPolicy::Refused)?;
    for path in &confinement.read_only_paths {
        match paths::find(root, Path::new(path), LinkPolicy::Refused) {
            Err(Errno::NOENT | Errno::NOTDIR) => {}
            result => result
                .and_then(|at| mounts::bind(at.as_fd(), at.as_fd(), BindDepth::Tree, READ_ONLY))
                .setup(|| format!("make {path} read-only"))?,
        }
    }
    Ok(())
}

/// Puts an empty folder over folders and an empty device over files.
pub(crate) fn mask<'m>(
    root: BorrowedFd<'_>,
    masked: impl IntoIterator<Item = &'m String>,
    links: LinkPolicy,
) -> Result<(), ShimFailure> {
    let mut empty: Option<OwnedFd> = None;
    for path in masked {
        let at = match paths::find(root, Path::new(path), links) {
            Err(Errno::NOENT | Errno::NOTDIR) => continue,
            result => result.setup(|| format!("look at {path} in the container"))?,
        };
        let covered = match paths::kind_of(at.as_fd()) {
            Ok(PathKind::Directory) => cover_folder(&mut empty, at.as_fd()),
            Ok(PathKind::File) => cover_file(root, at.as_fd()),
            Err(errno) => Err(errno),
        };
        covered.setup(|| format!("mask {path}"))?;
    }
    Ok(())
}

fn cover_folder(empty: &mut Option<OwnedFd>, at: BorrowedFd<'_>) -> Result<(), Errno> {
    // One empty tmpfs serves all: it was attached before, so it can be cloned.
    if let Some(first) = empty {
        return mounts::bind(first.as_fd(), at, BindDepth::Mount, READ_ONLY);
    }
    let mount = mounts::new_filesystem("tmpfs", &[("size", Some("0"))], READ_ONLY)?;
    mounts::attach(mount.as_fd(), at)?;
    *empty = Some(mount);
    Ok(())
}

fn cover_file(root: BorrowedFd<'_>, at: BorrowedFd<'_>) -> Result<(), Errno> {
    let null = paths::find(root, Path::new("/dev/null"), LinkPolicy::Refused)?;
    mounts::bind(null.as_fd(), at, BindDepth::Mount, MountAttrFlags::MOUNT_ATTR_RDONLY)
}
