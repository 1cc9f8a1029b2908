//! One small file per container, `<slot>.state`, that says what became of it: written before anybody is told, so that an
//! exit is known even when shim and agent are both gone.
//!
//! Renamed into place but not fsynced: what it guards against is kill -9; a power cut ends the containers themselves.

use std::os::fd::OwnedFd;

use rustix::fs::{AtFlags, Mode, OFlags};
use rustix::io::Errno;

use crate::protocol::Phase;

/// The name of a container's state file in its sandbox's folder.
pub fn name(slot: &str) -> String {
    format!("{slot}.state")
}

/// True for a slot that can be part of a file name.
pub(crate) fn is_valid_slot(slot: &str) -> bool {
    let plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.');
    !slot.is_empty() && slot.len() <= 200 && !slot.starts_with('.') && slot.chars().all(plain)
}

/// Replaces the file in one step.
pub(crate) fn write(dir: &OwnedFd, slot: &str, phase: &Phase) -> Result<(), Errno> {
    let text = serde_json::to_vec(phase).map_err(|_| Errno::INVAL)?;
    let temporary = format!("{slot}.state.new");
    let flags =
        OFlags::WRONLY | OFlags::CREATE | OFlags::TRUNC | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let file = rustix::fs::openat(dir, &temporary, flags, Mode::from_raw_mode(0o600))?;
    let mut rest = text.as_slice();
    while !rest.is_empty() {
        match rustix::io::write(&file, rest) {
            Ok(count) => rest = &rest[count..],
            Err(Errno::INTR) => {}
            Err(errno) => return Err(errno),
        }
    }
    rustix::fs::renameat(dir, &temporary, dir, name(slot))
}

/// Takes the file away; absent is success.
pub(crate) fn remove(dir: &OwnedFd, slot: &str) -> Result<(), Errno> {
    match rustix::fs::unlinkat(dir, name(slot), AtFlags::empty()) {
        Ok(()) | Err(Errno::NOENT) => Ok(()),
        Err(errno) => Err(errno),
    }
}
