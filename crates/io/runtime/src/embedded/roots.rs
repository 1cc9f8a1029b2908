//! Folders for containers' writable layers, a few of them made ahead: on a disk, three folders take
//! as long as everything else that a container's creation needs there. And what is known of a root
//! that stands in one.

use std::fs;
use std::io;
use std::os::unix::fs::{DirBuilderExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, PoisonError};

use rekindle_shim::protocol::RootAhead;

/// How many are kept ready in a sandbox: a restart of two containers at once finds one for each.
const READY: usize = 2;

/// A root that stands in a shim.
#[derive(Debug)]
pub(crate) struct ReadyRoot {
    pub(crate) plan: RootAhead,
    /// Of its writable layer, when that is on the disk.
    pub(crate) folder: Option<String>,
}

/// The folders of one sandbox, `roots/<number>/{upper,work}`.
#[derive(Debug)]
pub(crate) struct RootFolders {
    dir: PathBuf,
    inner: Mutex<RootStock>,
    /// Held while some are made ahead: two at a time would make too many.
    refilling: Mutex<()>,
}

#[derive(Debug, Default)]
struct RootStock {
    ready: Vec<String>,
    next: u64,
}

impl RootFolders {
    /// In this folder, which need not stand yet.
    pub(crate) fn new(dir: PathBuf) -> Self {
        Self { dir, inner: Mutex::default(), refilling: Mutex::default() }
    }

    fn inner(&self) -> MutexGuard<'_, RootStock> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Where they are.
    pub(crate) fn dir(&self) -> &Path {
        &self.dir
    }

    /// The name of a folder that nobody has had before.
    pub(crate) fn take(&self) -> io::Result<String> {
        let ready = self.inner().ready.pop();
        match ready {
            Some(name) => Ok(name),
            None => self.make(),
        }
    }

    /// Makes what is missing of those kept ready.
    pub(crate) fn refill(&self) -> io::Result<()> {
        let _one_at_a_time = self.refilling.lock().unwrap_or_else(PoisonError::into_inner);
        while self.inner().ready.len() < READY {
            let name = self.make()?;
            self.inner().ready.push(name);
        }
        Ok(())
    }

    fn make(&self) -> io::Result<String> {
        let mut builder = fs::DirBuilder::new();
        builder.mode(0o700);
        let (name, dir) = loop {
            let name = {
                let mut inner = self.inner();
                inner.next += 1;
                inner.next.to_string()
            };
            let dir = self.dir.join(&name);
            match builder.create(&dir) {
                Ok(()) => break (name, dir),
                // of an earlier agent
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
                Err(error) => return Err(error),
            }
        };
        for part in ["upper", "work"] {
            builder.create(dir.join(part))?;
        }
        // It lends its mode to the container's root directory.
        fs::set_permissions(dir.join("upper"), fs::Permissions::from_mode(0o755))?;
        Ok(name)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_folder_is_given_out_twice_also_not_by_a_later_agent() {
        let dir = tempfile::tempdir().unwrap();
        let first = RootFolders::new(dir.path().to_owned());
        first.refill().unwrap();
        let mut names = vec![first.take().unwrap(), first.take().unwrap(), first.take().unwrap()];
        let second = RootFolders::new(dir.path().to_owned());
        names.push(second.take().unwrap());
        second.refill().unwrap();
        names.push(second.take().unwrap());
        let count = names.len();
        names.sort();
        names.dedup();
        assert_eq!(names.len(), count, "{names:?}");
        for name in names {
            let upper = dir.path().join(name).join("upper");
            assert_eq!(fs::metadata(upper).unwrap().permissions().mode() & 0o777, 0o755);
        }
    }
}
