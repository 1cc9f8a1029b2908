//! Which log files a container has.

use std::fs::{self, File};
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use rekindle_types::ContainerAttempt;
use rustix::fs::{CWD, Mode, OFlags, ResolveFlags};

use crate::volumes::remove_tree;

/// How often the files of a start are looked at anew because they were rotated meanwhile.
const LOOKS_MAX: usize = 32;

/// One log file that is open, told from others by device and inode: its name changes when it is
/// rotated.
#[derive(Debug)]
pub(super) struct OpenLog {
    pub(super) file: File,
    pub(super) identity: (u64, u64),
}

/// Removes the logs of attempts before the last: the one before `current` stays for
/// `kubectl logs --previous`.
pub fn prune(folder: &Path, current: ContainerAttempt) {
    let oldest = current.0.saturating_sub(1);
    for (attempt, _, path) in all(folder) {
        if attempt.0 < oldest
            && let Err(error) = remove_tree(&path)
        {
            tracing::warn!(path = %path.display(), %error, "failed to remove an old log");
        }
    }
}

/// The starts of which there are logs, oldest first.
pub(super) fn attempts(folder: &Path) -> Vec<ContainerAttempt> {
    let mut found: Vec<ContainerAttempt> =
        all(folder).into_iter().map(|(attempt, _, _)| attempt).collect();
    found.sort_unstable();
    found.dedup();
    found
}

/// The files of one start, oldest first, the one being written last.
fn files_of(folder: &Path, attempt: ContainerAttempt) -> Vec<PathBuf> {
    let mut found: Vec<(u32, PathBuf)> = all(folder)
        .into_iter()
        .filter(|(of, _, _)| *of == attempt)
        .map(|(_, rotation, path)| (rotation, path))
        .collect();
    found.sort_unstable_by(|a, b| b.cmp(a));
    found.into_iter().map(|(_, path)| path).collect()
}

/// The files of one start, open, oldest first, each followed by the next one. A rotation in between
/// gives them other names, so that one would be passed by: it is looked again until the names say
/// what was opened. If they never do, it is the newest file alone.
pub(super) fn open_all(folder: &Path, attempt: ContainerAttempt) -> io::Result<Vec<OpenLog>> {
    let mut opened = Vec::new();
    for _ in 0..LOOKS_MAX {
        opened.clear();
        for path in files_of(folder, attempt) {
            match open(&path) {
                Ok(log) => opened.push(log),
                Err(error) if error.kind() == io::ErrorKind::NotFound => {}
                Err(error) => return Err(error),
            }
        }
        let named = files_of(folder, attempt).into_iter().map(|path| identity(&path));
        if named.eq(opened.iter().map(|log| Some(log.identity))) {
            return Ok(opened);
        }
    }
    Ok(opened.pop().into_iter().collect())
}

/// Whether `log` is the file that is written to: nothing is newer.
pub(super) fn is_newest(folder: &Path, attempt: ContainerAttempt, log: &OpenLog) -> bool {
    identity(&folder.join(format!("{}.log", attempt.0))) == Some(log.identity)
}

/// Every log file: its start, how often it was rotated, its path. Other names are nobody's log.
fn all(folder: &Path) -> Vec<(ContainerAttempt, u32, PathBuf)> {
    let entries = fs::read_dir(folder).into_iter().flatten().flatten();
    entries
        .filter_map(|entry| {
            let name = entry.file_name();
            let (attempt, rest) = name.to_str()?.split_once(".log")?;
            let rotation =
                if rest.is_empty() { 0 } else { rest.strip_prefix('.')?.parse().ok()? };
            Some((ContainerAttempt(attempt.parse().ok()?), rotation, entry.path()))
        })
        .collect()
}

/// Opens a log for reading, or says why it is not one.
pub(super) fn open(path: &Path) -> io::Result<OpenLog> {
    let flags = OFlags::RDONLY | OFlags::NONBLOCK | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let no_links = ResolveFlags::NO_SYMLINKS | ResolveFlags::NO_MAGICLINKS;
    let file = File::from(rustix::fs::openat2(CWD, path, flags, Mode::empty(), no_links)?);
    let metadata = file.metadata()?;
    let own = metadata.uid() == rustix::process::geteuid().as_raw();
    if !metadata.is_file() || metadata.nlink() > 1 || !own {
        return Err(io::Error::new(
            io::ErrorKind::PermissionDenied,
            "not a regular file of the node agent's own",
        ));
    }
    Ok(OpenLog { identity: (metadata.dev(), metadata.ino()), file })
}

/// The identity of what has this name now.
fn identity(path: &Path) -> Option<(u64, u64)> {
    let metadata = fs::symlink_metadata(path).ok()?;
    Some((metadata.dev(), metadata.ino()))
}
