//! The root file system: an overlay of the image's layers and a writable one.

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::Path;

use rustix::fs::{CWD, Mode, OFlags};
use rustix::io::Errno;
use rustix::mount::{FsMountFlags, FsOpenFlags, MountAttrFlags, MountFlags, MoveMountFlags};

use super::mounts::{self, BindDepth};
use super::public_view;
use crate::paths::{self, LinkPolicy, PathKind};
use crate::problem::FailureContext;
use crate::protocol::{FailureKind, MountAccess, Privilege, RootPlan, ShimFailure, WritableLayer};
use crate::users::UserIdOwner;

/// mount(2) takes one page of options, the closing zero included.
const OPTIONS_BYTES_MAX: usize = 4095;

/// Mounts the root and opens it. Runs in the container's own mount namespace, in which the host's
/// paths still show.
pub(crate) fn mount(
    plan: &RootPlan,
    privilege: Privilege,
    users: &UserIdOwner,
) -> Result<OwnedFd, ShimFailure> {
    let (base, target) = match &plan.upper {
        WritableLayer::Directory { dir } => (dir.clone(), plan.mount_point.clone()),
        WritableLayer::Tmpfs { size_bytes } => {
            mount_upper_tmpfs(&plan.mount_point, *size_bytes)?;
            (plan.mount_point.clone(), format!("{}/rootfs", plan.mount_point))
        }
    };
    let layers = layers(plan, &base, users)?;
    let names = layers.iter().map(|dir| escape(dir)).collect::<Vec<_>>().join(":");
    let options = format!(
        "lowerdir={names},upperdir={},workdir={}",
        escape(&format!("{base}/upper")),
        escape(&format!("{base}/work"))
    );
    // A device node that somebody makes on the root cannot be opened.
    let flags = match privilege {
        Privilege::Confined => MountFlags::NODEV,
        Privilege::Privileged => MountFlags::empty(),
    };
    let mounted = if options.len() + ",volatile".len() <= OPTIONS_BYTES_MAX {
        mount_by_options(&target, &options, flags)
    } else {
        mount_by_layers(&target, &layers, &base, privilege)
    };
    mounted.setup(|| format!("mount the root file system on {target}"))?;
    rustix::fs::open(
        target.as_str(),
        OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC,
        Mode::empty(),
    )
    .setup(|| format!("open {target}"))
}

/// The layers, top first: those of the image, then what is public of a folder of the host.
fn layers(plan: &RootPlan, base: &str, users: &UserIdOwner) -> Result<Vec<String>, ShimFailure> {
    let mut layers = plan.lower_dirs.clone();
    match (&plan.public_dir, &plan.upper) {
        (None, WritableLayer::Directory { .. } | WritableLayer::Tmpfs { .. }) => {}
        (Some(dir), WritableLayer::Tmpfs { .. }) => {
            public_view::make_home(&Path::new(base).join("upper"))?;
            layers.push(public_view::mount(dir, base, users)?);
        }
        (Some(dir), WritableLayer::Directory { .. }) => {
            let problem = format!("the view of {dir} needs a writable layer in memory");
            return Err(ShimFailure::new(FailureKind::Config, problem));
        }
    }
    Ok(layers)
}

/// Makes what the image says must be writable. On a root that is, nothing but the folders: else a
/// mount of the same file system, which stays as it is when the root's becomes read-only, so that
/// the image's files are there and nothing is copied.
pub(crate) fn mount_volumes(root: BorrowedFd<'_>, plan: &RootPlan) -> Result<(), ShimFailure> {
    for volume in &plan.volumes {
        let what = || format!("make the image's volume {volume:?}");
        let path = Path::new(volume);
        let at = paths::find_or_make(root, path, PathKind::Directory, LinkPolicy::InRoot)
            .fail(FailureKind::Config, what)?;
        match plan.access {
            MountAccess::ReadWrite => {}
            MountAccess::ReadOnly => {
                refuse_root(root, at.as_fd(), volume)?;
                mounts::clone_of(at.as_fd(), BindDepth::Mount)
                    .and_then(|mount| mounts::attach(mount.as_fd(), at.as_fd()))
                    .setup(what)?;
            }
        }
    }
    Ok(())
}

/// A link of the image may lead there, and all of it would be writable.
fn refuse_root(root: BorrowedFd<'_>, at: BorrowedFd<'_>, volume: &str) -> Result<(), ShimFailure> {
    let identity = |file| {
        let found = rustix::fs::fstat(file).setup(|| "look at the root".to_owned())?;
        Ok((found.st_dev, found.st_ino))
    };
    if identity(root)? == identity(at)? {
        let problem = format!("the image's volume {volume:?} is its root");
        return Err(ShimFailure::new(FailureKind::Config, problem));
    }
    Ok(())
}

/// Opens the root of the process itself: the container's, once it has changed to it.
pub(super) fn open() -> Result<OwnedFd, ShimFailure> {
    rustix::fs::open("/", OFlags::PATH | OFlags::CLOEXEC, Mode::empty())
        .setup(|| "open the container's root".to_owned())
}

/// Mounts layers (two at least) as one, read-only, and opens them: nothing is written to them and
/// nothing in between.
pub(crate) fn mount_layers(layers: &[String], target: &str) -> Result<OwnedFd, ShimFailure> {
    let names = layers.iter().map(|dir| escape(dir)).collect::<Vec<_>>().join(":");
    let options = format!("lowerdir={names}");
    let flags = MountFlags::RDONLY | MountFlags::NODEV | MountFlags::NOSUID;
    let mounted = if options.len() <= OPTIONS_BYTES_MAX {
        std::ffi::CString::new(options).map_err(|_| Errno::INVAL).and_then(|options| {
            rustix::mount::mount("overlay", target, "overlay", flags, options.as_c_str())
        })
    } else {
        mount_long(layers, target)
    };
    mounted.setup(|| format!("mount an image on {target}"))?;
    let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
    rustix::fs::open(target, flags, Mode::empty()).setup(|| format!("open {target}"))
}

/// As [`mount_by_layers`], with nothing to write to.
fn mount_long(layers: &[String], target: &str) -> Result<(), Errno> {
    let context = rustix::mount::fsopen("overlay", FsOpenFlags::FSOPEN_CLOEXEC)?;
    for dir in layers {
        rustix::mount::fsconfig_set_string(&context, "lowerdir+", dir.as_str())?;
    }
    rustix::mount::fsconfig_create(&context)?;
    let attributes = MountAttrFlags::MOUNT_ATTR_RDONLY
        | MountAttrFlags::MOUNT_ATTR_NODEV
        | MountAttrFlags::MOUNT_ATTR_NOSUID;
    let mount = rustix::mount::fsmount(&context, FsMountFlags::FSMOUNT_CLOEXEC, attributes)?;
    let flags = MoveMountFlags::MOVE_MOUNT_F_EMPTY_PATH;
    rustix::mount::move_mount(mount.as_fd(), c"", CWD, target, flags)
}

/// Without `volatile`, unmounting syncs the whole file system beneath: it has to wait for every
/// other writer's data, and nobody reads this layer again.
fn mount_by_options(target: &str, options: &str, flags: MountFlags) -> Result<(), Errno> {
    let try_with = |options: &str| {
        let options = std::ffi::CString::new(options).map_err(|_| Errno::INVAL)?;
        rustix::mount::mount("overlay", target, "overlay", flags, options.as_c_str())
    };
    match try_with(&format!("{options},volatile")) {
        Err(Errno::INVAL) => try_with(options), // Linux before 5.10
        result => result,
    }
}

/// More layers than a page of options can name: one by one (Linux 6.7 and later).
fn mount_by_layers(
    target: &str,
    layers: &[String],
    base: &str,
    privilege: Privilege,
) -> Result<(), Errno> {
    let context = rustix::mount::fsopen("overlay", FsOpenFlags::FSOPEN_CLOEXEC)?;
    for dir in layers {
        rustix::mount::fsconfig_set_string(&context, "lowerdir+", dir.as_str())?;
    }
    rustix::mount::fsconfig_set_string(&context, "upperdir", format!("{base}/upper"))?;
    rustix::mount::fsconfig_set_string(&context, "workdir", format!("{base}/work"))?;
    rustix::mount::fsconfig_set_flag(&context, "volatile")?;
    rustix::mount::fsconfig_create(&context)?;
    let attributes = match privilege {
        Privilege::Confined => MountAttrFlags::MOUNT_ATTR_NODEV,
        Privilege::Privileged => MountAttrFlags::empty(),
    };
    let mount = rustix::mount::fsmount(&context, FsMountFlags::FSMOUNT_CLOEXEC, attributes)?;
    let flags = MoveMountFlags::MOVE_MOUNT_F_EMPTY_PATH;
    rustix::mount::move_mount(mount.as_fd(), c"", CWD, target, flags)
}

/// A tmpfs with folders for the writable layer, and one to mount the root on.
fn mount_upper_tmpfs(base: &str, size_bytes: u64) -> Result<(), ShimFailure> {
    let options = std::ffi::CString::new(format!("size={size_bytes},mode=755"))
        .expect("a number holds no zero byte");
    rustix::mount::mount("tmpfs", base, "tmpfs", MountFlags::NODEV, options.as_c_str())
        .setup(|| format!("mount a tmpfs on {base}"))?;
    for name in ["upper", "work", "rootfs"] {
        let path = Path::new(base).join(name);
        rustix::fs::mkdirat(CWD, &path, Mode::from_raw_mode(0o755))
            .setup(|| format!("make {}", path.display()))?;
    }
    Ok(())
}

/// Overlayfs splits its options at `,` and its layers at `:`.
fn escape(path: &str) -> String {
    let mut escaped = String::with_capacity(path.len());
    for c in path.chars() {
        if matches!(c, ',' | ':' | '\\') {
            escaped.push('\\');
        }
        escaped.push(c);
    }
    escaped
}
