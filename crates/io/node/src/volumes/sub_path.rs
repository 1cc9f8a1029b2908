//! A subPath that does not exist yet becomes a folder, as with the kubelet. The volume's content is
//! the pod's, so every step is resolved beneath the volume's root.

use std::io;
use std::path::{Component, Path, PathBuf};

use rustix::fs::{CWD, Mode, OFlags, ResolveFlags};
use rustix::io::Errno;

/// Makes the folders of `sub_path` beneath `volume` that are missing, with the volume's own
/// permissions. A link inside the volume is followed as long as it stays inside. `volume` itself is
/// the agent's or, of a hostPath, the administrator's: it may lead through links.
pub(crate) fn ensure_sub_path(volume: &Path, sub_path: &Path) -> io::Result<()> {
    let flags = OFlags::PATH | OFlags::CLOEXEC;
    let root = rustix::fs::openat(CWD, volume, flags, Mode::empty())?;
    let permissions = Mode::from_raw_mode(rustix::fs::fstat(&root)?.st_mode & 0o7777);
    let mut reached = PathBuf::new();
    let mut parent = root.try_clone()?;
    for part in sub_path.components() {
        let Component::Normal(name) = part else { continue };
        reached.push(name);
        let open =
            || rustix::fs::openat2(&root, &reached, flags, Mode::empty(), ResolveFlags::BENEATH);
        parent = match open() {
            Ok(found) => found,
            Err(Errno::NOENT) => {
                match rustix::fs::mkdirat(&parent, name, permissions) {
                    Ok(()) | Err(Errno::EXIST) => {}
                    Err(error) => return Err(error.into()),
                }
                // mkdir is subject to the umask; nobody else may be in this new folder yet
                let made = rustix::fs::openat(
                    &parent,
                    name,
                    OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::RDONLY | OFlags::CLOEXEC,
                    Mode::empty(),
                )?;
                rustix::fs::fchmod(&made, permissions)?;
                open()?
            }
            Err(error) => return Err(error.into()),
        };
    }
    Ok(())
}
