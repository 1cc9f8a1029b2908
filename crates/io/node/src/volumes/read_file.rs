//! Reading a file that a pod wrote into one of its volumes.

use std::fs::File;
use std::io::{self, Read as _};
use std::os::fd::{AsFd as _, AsRawFd as _};
use std::path::Path;

use rustix::fs::{CWD, FileType, Mode, OFlags, ResolveFlags};

/// The content of a regular file in `volume`, which is the agent's own folder. Links are followed
/// as if the volume were all there is, so none leads out of it, and neither does a mount in it;
/// what is no regular file is not opened at all, as that alone could block or do something. A file
/// of more than `limit` bytes is an error.
pub(crate) fn read_file_beneath(volume: &Path, file: &Path, limit: u64) -> io::Result<Vec<u8>> {
    let look = OFlags::PATH | OFlags::CLOEXEC;
    let folder = look | OFlags::DIRECTORY | OFlags::NOFOLLOW;
    let root = rustix::fs::openat(CWD, volume, folder, Mode::empty())?;
    let resolve = ResolveFlags::IN_ROOT | ResolveFlags::NO_MAGICLINKS | ResolveFlags::NO_XDEV;
    let found = rustix::fs::openat2(&root, file, look, Mode::empty(), resolve)?;
    let kind = FileType::from_raw_mode(rustix::fs::fstat(&found)?.st_mode);
    if kind != FileType::RegularFile {
        return Err(io::Error::new(io::ErrorKind::InvalidInput, "it is not a regular file"));
    }
    // the very file that was looked at, whatever its path leads to by now
    let itself = format!("/proc/self/fd/{}", found.as_fd().as_raw_fd());
    let mut content = Vec::new();
    File::open(itself)?.take(limit.saturating_add(1)).read_to_end(&mut content)?;
    if u64::try_from(content.len()).is_ok_and(|length| length > limit) {
        let message = format!("it has more than {limit} bytes");
        return Err(io::Error::new(io::ErrorKind::FileTooLarge, message));
    }
    Ok(content)
}
