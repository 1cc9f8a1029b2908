//! The folders of emptyDir volumes below the kubelet's: `UID/volumes/kubernetes.io~empty-dir/NAME`
//! (`pkg/kubelet/kubelet_getters.go`). What is in a volume is the pod's and may be hostile. What
//! leads to it is the kubelet's.

use std::io;
use std::os::fd::OwnedFd;
use std::path::PathBuf;

use rekindle_cri_restart::EmptyDirVolume;
use rekindle_node::empty_folder;
use rustix::fs::{Mode, OFlags, ResolveFlags};

/// The folder of a pod's emptyDir volumes.
const EMPTY_DIRS: &str = "volumes/kubernetes.io~empty-dir";

/// The folder `pods` of a kubelet.
#[derive(Clone, Debug)]
pub struct KubeletFolders {
    pods: PathBuf,
}

impl KubeletFolders {
    /// This one.
    pub fn new(pods: PathBuf) -> Self {
        Self { pods }
    }

    /// Empties volumes of a pod; their folders stay, with owner and mode.
    pub(crate) fn empty(&self, pod_uid: &str, volumes: &[EmptyDirVolume]) -> io::Result<()> {
        for volume in volumes {
            let emptied = self.open(pod_uid, volume).and_then(empty_folder);
            emptied.map_err(|error| {
                io::Error::new(error.kind(), format!("volume {}: {error}", volume.name))
            })?;
        }
        Ok(())
    }

    fn open(&self, pod_uid: &str, volume: &EmptyDirVolume) -> io::Result<OwnedFd> {
        let folder = OFlags::DIRECTORY | OFlags::CLOEXEC;
        let path = folder | OFlags::PATH;
        let no_links =
            ResolveFlags::BENEATH | ResolveFlags::NO_SYMLINKS | ResolveFlags::NO_MAGICLINKS;
        let pods = rustix::fs::open(&self.pods, path, Mode::empty())?;
        let of_pod = rustix::fs::openat2(&pods, pod_uid, path, Mode::empty(), no_links)?;
        let all = rustix::fs::openat2(&of_pod, EMPTY_DIRS, path, Mode::empty(), no_links)?;
        let mounts = if volume.is_mount { ResolveFlags::empty() } else { ResolveFlags::NO_XDEV };
        let opened = rustix::fs::openat2(
            &all,
            volume.name.as_str(),
            folder | OFlags::NOFOLLOW | OFlags::RDONLY,
            Mode::empty(),
            no_links | mounts,
        )?;
        let device = |folder: &OwnedFd| rustix::fs::fstat(folder).map(|stat| stat.st_dev);
        // a mount that does not reach the agent would be emptied only in appearance
        if volume.is_mount && device(&opened)? == device(&all)? {
            return Err(io::Error::new(
                io::ErrorKind::NotFound,
                "the agent does not see what is mounted there",
            ));
        }
        Ok(opened)
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a test says by failing what it expected")]
mod tests {
    use std::fs;
    use std::os::unix::fs::{PermissionsExt, symlink};
    use std::path::Path;

    use super::*;

    fn volume(name: &str) -> EmptyDirVolume {
        EmptyDirVolume { name: name.to_owned(), is_mount: false }
    }

    /// Folders of a kubelet with this volume of pod `u1`.
    fn folders(name: &str) -> (tempfile::TempDir, KubeletFolders, PathBuf) {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("u1").join(EMPTY_DIRS).join(name);
        fs::create_dir_all(&path).unwrap();
        let folders = KubeletFolders::new(dir.path().to_owned());
        (dir, folders, path)
    }

    fn count(path: &Path) -> usize {
        fs::read_dir(path).unwrap().count()
    }

    #[test]
    fn what_a_pod_has_written_goes_and_the_folder_stays_as_it_is() {
        let (_dir, folders, path) = folders("scratch");
        let outside = tempfile::tempdir().unwrap();
        fs::write(outside.path().join("kept"), "").unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(0o2770)).unwrap();
        fs::create_dir_all(path.join("deep/er")).unwrap();
        fs::write(path.join("deep/er/file"), "poison").unwrap();
        symlink(outside.path(), path.join("deep/link")).unwrap();
        symlink("/", path.join("root")).unwrap();
        folders.empty("u1", &[volume("scratch")]).unwrap();
        assert_eq!(count(&path), 0);
        assert_eq!(count(outside.path()), 1, "no link is followed");
        assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o7777, 0o2770);
    }

    #[test]
    fn a_folder_that_is_a_link_or_missing_is_an_error_that_names_the_volume() {
        let (dir, folders, path) = folders("scratch");
        let outside = tempfile::tempdir().unwrap();
        fs::write(outside.path().join("kept"), "").unwrap();
        symlink(outside.path(), path.parent().unwrap().join("link")).unwrap();
        symlink(outside.path(), dir.path().join("u2")).unwrap();
        for (uid, name) in [("u1", "link"), ("u1", "gone"), ("u2", "x"), ("..", "x"), ("", "x")] {
            let error = folders.empty(uid, &[volume(name)]).unwrap_err().to_string();
            assert!(error.starts_with(&format!("volume {name}: ")), "{uid} {name}: {error}");
        }
        assert_eq!(count(outside.path()), 1);
    }

    #[test]
    fn a_volume_in_memory_whose_mount_is_not_seen_is_not_taken_for_empty() {
        let (_dir, folders, path) = folders("fast");
        fs::write(path.join("file"), "").unwrap();
        let in_memory = EmptyDirVolume { name: "fast".to_owned(), is_mount: true };
        let error = folders.empty("u1", &[in_memory]).unwrap_err().to_string();
        assert!(error.contains("does not see what is mounted there"), "{error}");
        assert_eq!(count(&path), 1);
    }
}
