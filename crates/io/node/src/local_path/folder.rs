//! The folders of the class local-path: `<data dir>/local-path/<volume>`. The folder around them is
//! for nobody but the agent.

use std::path::{Component, Path, PathBuf};

use rustix::fs::{CWD, Mode, OFlags, ResolveFlags};
use rustix::io::Errno;

use crate::volumes::{VolumeProblem, is_used, move_to_trash};

/// Everybody may write to a volume, as with rancher's provisioner: whom it is for is not known yet.
const MODE: u32 = 0o777;

/// The folders of one node.
#[derive(Clone, Debug)]
pub(super) struct LocalPathFolders {
    root: PathBuf,
    pods: PathBuf,
    trash: PathBuf,
}

impl LocalPathFolders {
    /// Beneath `root`, which may not be there yet; the others are the agent's own.
    pub(super) fn new(root: PathBuf, pods: PathBuf, trash: PathBuf) -> Self {
        Self { root, pods, trash }
    }

    /// The folder of a volume. `None` for a name that is no file name.
    pub(super) fn path(&self, volume: &str) -> Option<PathBuf> {
        let mut parts = Path::new(volume).components();
        match (parts.next(), parts.next()) {
            (Some(Component::Normal(name)), None) if name == volume => Some(self.root.join(name)),
            _ => None,
        }
    }

    /// Makes the folder of a volume, or finds it as it is. It is on disk when this returns.
    pub(super) fn make(&self, volume: &str) -> Result<PathBuf, VolumeProblem> {
        let path = self
            .path(volume)
            .ok_or_else(|| VolumeProblem::Claim(format!("{volume:?} is no name")))?;
        let failed = |error: Errno| VolumeProblem::io("create volume", &path, error);
        match rustix::fs::mkdirat(CWD, &self.root, Mode::from_raw_mode(0o700)) {
            Ok(()) | Err(Errno::EXIST) => {}
            Err(error) => return Err(failed(error)),
        }
        let flags = OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::RDONLY | OFlags::CLOEXEC;
        let root =
            rustix::fs::openat2(CWD, &self.root, flags, Mode::empty(), ResolveFlags::NO_SYMLINKS);
        let root = root.map_err(failed)?;
        match rustix::fs::mkdirat(&root, volume, Mode::from_raw_mode(MODE)) {
            Ok(()) | Err(Errno::EXIST) => {}
            Err(error) => return Err(failed(error)),
        }
        let beneath = ResolveFlags::BENEATH | ResolveFlags::NO_SYMLINKS;
        let folder = rustix::fs::openat2(&root, volume, flags, Mode::empty(), beneath);
        let folder = folder.map_err(failed)?;
        // mkdir is subject to the umask
        rustix::fs::fchmod(&folder, Mode::from_raw_mode(MODE)).map_err(failed)?;
        rustix::fs::fsync(&folder).map_err(failed)?;
        rustix::fs::fsync(&root).map_err(failed)?;
        Ok(path)
    }

    /// Moves the folder of a volume to the trash, whole; absent is success. Refused while a pod has
    /// it.
    pub(super) fn discard(&self, volume: &str) -> Result<(), VolumeProblem> {
        let Some(path) = self.path(volume) else { return Ok(()) };
        let used = is_used(&self.pods, &path);
        if used.map_err(|error| VolumeProblem::io("look for users of", &path, error))? {
            return Err(VolumeProblem::Claim(format!("a pod still uses volume {volume:?}")));
        }
        move_to_trash(&path, &self.trash)
    }

    /// Where folders wait for deletion.
    pub(super) fn trash(&self) -> &Path {
        &self.trash
    }
}
