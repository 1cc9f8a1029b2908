//! Folders on their way out: they have left their place, and are deleted without keeping anybody
//! waiting.

use std::fs;
use std::io;
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};

use super::layout::Layout;

/// Moves a folder out of its place in one step; absent is success.
pub(crate) fn take(layout: &Layout, path: &Path) -> io::Result<()> {
    static NUMBER: AtomicU64 = AtomicU64::new(0);
    loop {
        let number = NUMBER.fetch_add(1, Ordering::Relaxed);
        let name = format!("{}-{number}", std::process::id());
        match fs::rename(path, layout.trash().join(name)) {
            Err(e) if e.kind() == io::ErrorKind::NotFound => return Ok(()),
            // A name from an agent before with the same process number.
            Err(e) if e.kind() == io::ErrorKind::DirectoryNotEmpty => {}
            result => return result,
        }
    }
}

/// Deletes what is in the trash. The standard library deletes by directory descriptors and follows
/// no link, and nothing is mounted there: containers' mounts are in their own namespaces.
pub(crate) fn empty(layout: &Layout) {
    let Ok(entries) = fs::read_dir(layout.trash()) else { return };
    for entry in entries.filter_map(Result::ok) {
        match fs::remove_dir_all(entry.path()) {
            Ok(()) => {}
            // Another thread is at it, too.
            Err(e) if e.kind() == io::ErrorKind::NotFound => {}
            Err(error) => {
                tracing::warn!(%error, path = %entry.path().display(), "failed to delete trash");
            }
        }
    }
}
