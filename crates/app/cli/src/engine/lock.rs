//! `engine.lock`: keeps a second engine out of a data directory, and says who holds it.

use std::fs::{File, OpenOptions, TryLockError};
use std::io::{ErrorKind, Read, Seek, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

use anyhow::{Context, bail};

/// The lock's name in a data directory.
pub const LOCK: &str = "engine.lock";

/// The pid of the engine that holds this data directory; `None` when none does.
pub fn holder(path: &Path) -> anyhow::Result<Option<u32>> {
    let mut lock = match File::open(path.join(LOCK)) {
        Ok(lock) => lock,
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(error).with_context(|| format!("open {}", path.display())),
    };
    match lock.try_lock_shared() {
        Ok(()) => Ok(None),
        Err(TryLockError::WouldBlock) => {
            let pid =
                read_pid(&mut lock).context("whoever holds it has not written its pid yet")?;
            Ok(Some(pid.parse().context("engine.lock does not hold a pid")?))
        }
        Err(TryLockError::Error(error)) => Err(error).context("look at engine.lock"),
    }
}

/// Keeps engines out of this data directory while the answer is held, for a look at what lies
/// there. Several may look at a time. Where no engine ever was there is nothing to hold.
///
/// # Errors
/// When an engine holds it.
pub fn keep_engines_out(path: &Path) -> anyhow::Result<Option<File>> {
    let mut lock = match File::open(path.join(LOCK)) {
        Ok(lock) => lock,
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(error).with_context(|| format!("open {}", path.display())),
    };
    match lock.try_lock_shared() {
        Ok(()) => Ok(Some(lock)),
        Err(TryLockError::WouldBlock) => bail!(
            "data directory {} is held by an engine (pid {}): end it with `rekindle down --leave-pods --data-dir {}` first",
            path.display(),
            read_pid(&mut lock).unwrap_or_else(|| "unknown".to_owned()),
            path.display(),
        ),
        Err(TryLockError::Error(error)) => Err(error).context("look at engine.lock"),
    }
}

/// Opens the lock of a data directory, which is made when it is absent.
pub fn open_lock(path: &Path) -> anyhow::Result<File> {
    OpenOptions::new()
        .read(true)
        .write(true)
        .create(true)
        .truncate(false)
        .mode(0o600)
        .open(path.join(LOCK))
        .with_context(|| format!("open the lock of data directory {}", path.display()))
}

/// Writes who holds it. In place, then cut off: so that it works on a full disk, too, where the
/// file has its block already.
pub fn write_pid(lock: &mut File) -> std::io::Result<()> {
    let text = format!("{}\n", std::process::id());
    lock.rewind()?;
    lock.write_all(text.as_bytes())?;
    lock.set_len(text.len() as u64)
}

/// Who holds it, as that has written.
pub fn read_pid(lock: &mut File) -> Option<String> {
    let mut pid = String::new();
    lock.rewind().ok()?;
    lock.take(32).read_to_string(&mut pid).ok()?;
    let pid = pid.trim();
    (!pid.is_empty()).then(|| pid.to_owned())
}
