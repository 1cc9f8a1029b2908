//! Waiting for a log to grow: the kernel tells, nothing polls.

use std::io;
use std::os::fd::OwnedFd;
use std::path::Path;

use rustix::fs::inotify::{self, CreateFlags, WatchFlags};
use rustix::io::Errno;
use tokio::io::unix::AsyncFd;

/// A watch on a folder of logs.
#[derive(Debug)]
pub(super) struct Growth {
    inotify: AsyncFd<OwnedFd>,
}

impl Growth {
    /// Watches from now on.
    pub(super) fn watch(folder: &Path) -> io::Result<Self> {
        let fd = inotify::init(CreateFlags::NONBLOCK | CreateFlags::CLOEXEC)?;
        let changes = WatchFlags::MODIFY
            | WatchFlags::CREATE
            | WatchFlags::MOVED_TO
            | WatchFlags::DELETE_SELF
            | WatchFlags::ONLYDIR
            | WatchFlags::DONT_FOLLOW;
        inotify::add_watch(&fd, folder, changes)?;
        #[expect(
            deprecated,
            reason = "unsound only for types whose descriptor changes, which an OwnedFd's cannot; the new way is unsafe"
        )]
        let inotify = AsyncFd::new(fd)?;
        Ok(Self { inotify })
    }

    /// Until something in the folder has changed. Cancel-safe.
    pub(super) async fn changed(&self) -> io::Result<()> {
        loop {
            let mut ready = self.inotify.readable().await?;
            let mut buffer = [0; 4096];
            match rustix::io::read(self.inotify.get_ref(), &mut buffer) {
                // what exactly has changed is seen by reading on
                Ok(_) => return Ok(()),
                Err(Errno::AGAIN) => ready.clear_ready(),
                Err(Errno::INTR) => {}
                Err(error) => return Err(error.into()),
            }
        }
    }
}
