//! A folder of one test.

use std::path::PathBuf;

use rustix::mount::UnmountFlags;

/// A temporary folder; what is mounted beneath it is unmounted before it is removed.
pub(crate) struct TestFolder(tempfile::TempDir);

impl TestFolder {
    pub(crate) fn new() -> Self {
        Self(tempfile::tempdir().unwrap())
    }

    pub(crate) fn join(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    /// What is mounted beneath the folder.
    pub(crate) fn mounts(&self) -> Vec<PathBuf> {
        let text = std::fs::read_to_string("/proc/self/mounts").unwrap();
        let points = text.lines().filter_map(|line| line.split(' ').nth(1)).map(PathBuf::from);
        points.filter(|point| point.starts_with(self.0.path())).collect()
    }
}

impl Drop for TestFolder {
    fn drop(&mut self) {
        for point in self.mounts().iter().rev() {
            let flags = UnmountFlags::DETACH | UnmountFlags::NOFOLLOW;
            if let Err(error) = rustix::mount::unmount(point, flags) {
                eprintln!("cannot unmount {}: {error}", point.display());
            }
        }
    }
}
