//! Waiting for something to change in a folder: the kernel tells, nothing polls.

use std::io;
use std::os::fd::OwnedFd;
use std::path::Path;

use rustix::fs::inotify::{self, CreateFlags, WatchFlags};
use rustix::io::Errno;
use tokio::io::unix::AsyncFd;

/// A watch on a folder.
#[derive(Debug)]
pub struct FolderWatch {
    inotify: AsyncFd<OwnedFd>,
}

impl FolderWatch {
    /// Watches for these changes from now on.
    ///
    /// # Errors
    /// When the folder is none, or too many are watched.
    pub fn new(folder: &Path, changes: WatchFlags) -> io::Result<Self> {
        let fd = inotify::init(CreateFlags::NONBLOCK | CreateFlags::CLOEXEC)?;
        inotify::add_watch(&fd, folder, changes | WatchFlags::ONLYDIR | WatchFlags::DONT_FOLLOW)?;
        #[expect(
            deprecated,
            reason = "unsound only for types whose descriptor changes, which an OwnedFd's cannot; the new way is unsafe"
        )]
        let inotify = AsyncFd::new(fd)?;
        Ok(Self { inotify })
    }

    /// Until something in the folder has changed. Cancel-safe.
    ///
    /// # Errors
    /// When the kernel's list cannot be read.
    pub async fn changed(&self) -> io::Result<()> {
        loop {
            let mut ready = self.inotify.readable().await?;
            let mut buffer = [0; 4096];
            match rustix::io::read(self.inotify.get_ref(), &mut buffer) {
                // what exactly has changed is seen by looking
                Ok(_) => return Ok(()),
                Err(Errno::AGAIN) => ready.clear_ready(),
                Err(Errno::INTR) => {}
                Err(error) => return Err(error.into()),
            }
        }
    }
}
