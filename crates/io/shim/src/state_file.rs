//! One small file per container, `<slot>.state`, that says what became of it: written before
//! anybody is told, so that an exit is known even when shim and agent are both gone.
//!
//! Each change is a line of its own behind the others, and the last whole one counts: a file that
//! is open and grows costs a fiftieth of one that is made anew and renamed. Not fsynced: what it
//! guards against is kill -9; a power cut ends the containers themselves.

use std::os::fd::OwnedFd;

use rustix::fs::{AtFlags, Mode, OFlags};
use rustix::io::Errno;

use crate::protocol::ContainerPhase;

/// The name of a container's state file in its sandbox's folder.
pub fn name(slot: &str) -> String {
    format!("{slot}.state")
}

/// What the file's content says; `None` when nothing whole is in it.
pub fn read(content: &[u8]) -> Option<ContainerPhase> {
    content.rsplit(|byte| *byte == b'\n').find_map(|line| serde_json::from_slice(line).ok())
}

/// True for a slot that can be part of a file name.
pub(crate) fn is_valid_slot(slot: &str) -> bool {
    let plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.');
    !slot.is_empty() && slot.len() <= 200 && !slot.starts_with('.') && slot.chars().all(plain)
}

/// A state file that is open.
pub(crate) struct StateFile {
    file: OwnedFd,
}

impl StateFile {
    /// An empty one, in place of what an attempt that was undone has left.
    pub(crate) fn create(dir: &OwnedFd, slot: &str) -> Result<Self, Errno> {
        let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::TRUNC | OFlags::APPEND;
        let flags = flags | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let file = rustix::fs::openat(dir, name(slot), flags, Mode::from_raw_mode(0o600))?;
        Ok(Self { file })
    }

    /// Adds what became of the container.
    pub(crate) fn write(&self, phase: &ContainerPhase) -> Result<(), Errno> {
        // the newline in front ends a line that a full disk has cut
        let mut line = vec![b'\n'];
        serde_json::to_writer(&mut line, phase).map_err(|_| Errno::INVAL)?;
        line.push(b'\n');
        let mut rest = line.as_slice();
        while !rest.is_empty() {
            match rustix::io::write(&self.file, rest) {
                Ok(count) => rest = &rest[count..],
                Err(Errno::INTR) => {}
                Err(errno) => return Err(errno),
            }
        }
        Ok(())
    }
}

/// Takes the file away; absent is success.
pub(crate) fn remove(dir: &OwnedFd, slot: &str) -> Result<(), Errno> {
    match rustix::fs::unlinkat(dir, name(slot), AtFlags::empty()) {
        Ok(()) | Err(Errno::NOENT) => Ok(()),
        Err(errno) => Err(errno),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::protocol::SignalNotice;

    #[test]
    fn the_last_whole_line_counts() {
        let dir = tempfile::tempdir().unwrap();
        let folder: OwnedFd = std::fs::File::open(dir.path()).unwrap().into();
        let path = dir.path().join(name("web-0"));
        let content = || std::fs::read(&path).unwrap();
        let file = StateFile::create(&folder, "web-0").unwrap();
        assert_eq!(read(&content()), None);
        file.write(&ContainerPhase::Created).unwrap();
        let of = |pid, started_at_us| ContainerPhase::Running {
            pid,
            started_at_us,
            notice: SignalNotice::NotGiven,
        };
        let running = of(7, 1);
        file.write(&running).unwrap();
        assert_eq!(read(&content()), Some(running.clone()));
        rustix::io::write(&file.file, b"\n{\"Exited\":{\"pid\":7,\"ex").unwrap();
        assert_eq!(read(&content()), Some(running), "the disk was full");
        let next = of(8, 2);
        file.write(&next).unwrap();
        assert_eq!(read(&content()), Some(next));
        let file = StateFile::create(&folder, "web-0").unwrap();
        assert_eq!(read(&content()), None, "another attempt to make it starts afresh");
        drop(file);
        remove(&folder, "web-0").unwrap();
        assert!(!path.exists());
    }
}
