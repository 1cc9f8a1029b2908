//! A folder of the host as a user without any rights sees it: what is open to everybody, and
//! nothing else.
//!
//! ```text
//! the host's folder ─▶ clone, for users of its own with ids mapped ─▶ read-only overlay, mounted by a stranger ─▶ the root's overlay
//! ```
//! Overlayfs checks each access twice: the process against the file that it sees, then the mounter
//! against the real file. The stranger owns no file, is in no group and has no capability that
//! passes over permissions. So a container reads what the last three bits of the modes on its way
//! allow, whatever its own capabilities are, and also of files that are made later.

use std::path::Path;

use rustix::fs::{CWD, Mode, XattrFlags};
use rustix::io::Errno;
use rustix::mount::MountFlags;
use rustix::thread::{CapabilitySet, CapabilitySets};

use super::stage;
use crate::problem::FailureContext;
use crate::protocol::ShimFailure;
use crate::sys;
use crate::users::UserIdOwner;

/// Id of a user and a group that own nothing: the last one there is. Services may run as `nobody`
/// and have files.
const STRANGER: u32 = u32::MAX - 1;

/// Folders beside those of the writable layer. Overlayfs takes no single read-only layer, so one is
/// empty.
const EMPTY: &str = "empty";
const HOST: &str = "host";
const VIEW: &str = "view";

/// The home of root: the machine's own is closed to the stranger, and programs write there.
const HOME: &str = "root";

/// Mounts the view of `dir` beneath `base`, a tmpfs, and answers where.
pub(super) fn mount(dir: &str, base: &str, users: &UserIdOwner) -> Result<String, ShimFailure> {
    for name in [EMPTY, HOST, VIEW] {
        make_dir(&Path::new(base).join(name), 0o755)?;
    }
    stage::layer(dir, &format!("{base}/{HOST}"), users.own())?;
    // The stranger cannot search the folders on the way to `base`.
    rustix::process::chdir(base).setup(|| format!("change to {base}"))?;
    as_stranger(users, || {
        let flags = MountFlags::RDONLY | MountFlags::NODEV | MountFlags::NOSUID;
        let options = c"lowerdir=empty:host";
        rustix::mount::mount("overlay", VIEW, "overlay", flags, options)
    })
    .setup(|| format!("mount what is public of the host's {dir}"))?;
    rustix::process::chdir("/").setup(|| "change to /".to_owned())?;
    Ok(format!("{base}/{VIEW}"))
}

/// Gives root an empty home in the writable layer `upper`, in place of the machine's.
pub(super) fn make_home(upper: &Path) -> Result<(), ShimFailure> {
    let home = upper.join(HOME);
    make_dir(&home, 0o700)?;
    match rustix::fs::setxattr(&home, "trusted.overlay.opaque", b"y", XattrFlags::empty()) {
        // A kernel whose tmpfs has no attributes: root goes without.
        Err(Errno::NOTSUP) => rustix::fs::rmdir(&home),
        result => result,
    }
    .setup(|| format!("make {}", home.display()))
}

fn make_dir(path: &Path, mode: u32) -> Result<(), ShimFailure> {
    rustix::fs::mkdirat(CWD, path, Mode::from_raw_mode(mode))
        .setup(|| format!("make {}", path.display()))
}

/// Runs `act` as the stranger, who may mount. The groups of the process are gone for good. After an
/// error the process is the stranger still: it has to end.
fn as_stranger<T>(users: &UserIdOwner, act: impl FnOnce() -> Result<T, Errno>) -> Result<T, Errno> {
    let before = rustix::thread::capabilities(None)?;
    rustix::thread::set_thread_groups(&[])?;
    sys::set_file_owner(STRANGER)?;
    let mounting = CapabilitySets { effective: CapabilitySet::SYS_ADMIN, ..before };
    rustix::thread::set_capabilities(None, mounting)?;
    let done = act()?;
    rustix::thread::set_capabilities(None, before)?;
    sys::set_file_owner(users.outside(0))?;
    rustix::thread::set_capabilities(None, before)?;
    Ok(done)
}
