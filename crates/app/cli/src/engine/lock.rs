//! `engine.lock`: keeps a second engine out of a data directory, and says who holds it.

use std::fs::{File, OpenOptions, TryLockError};
use std::io::{ErrorKind, Read, Seek, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

use anyhow::{Context, anyhow, bail};

/// The lock's name in a data directory.
pub const LOCK: &str = "engine.lock";

/// The pid of the engine that holds this data directory; `None` when none does. Those that only
/// read it, see [`keep_engines_out`], do not count.
pub fn holder(path: &Path) -> anyhow::Result<Option<u32>> {
    let Some(mut lock) = open_to_read(path)? else { return Ok(None) };
    match lock.try_lock_shared() {
        Ok(()) => Ok(None),
        Err(TryLockError::WouldBlock) => {
            let pid = read_pid(&mut lock).context("its holder has not written its pid yet")?;
            Ok(Some(pid.parse().context("engine.lock does not hold a pid")?))
        }
        Err(TryLockError::Error(error)) => Err(error).context("look at engine.lock"),
    }
}

/// Keeps engines out of this data directory until the returned lock is dropped, while a command
/// reads what lies there. Several commands may read at a time. `None` when no engine ever ran
/// there: then there is nothing to lock.
///
/// # Errors
/// When an engine holds it.
pub fn keep_engines_out(path: &Path) -> anyhow::Result<Option<File>> {
    let Some(mut lock) = open_to_read(path)? else { return Ok(None) };
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

/// Why a lock that is not free cannot be held: another process holds the data directory, or some
/// only read it.
pub fn refusal(lock: &mut File, path: &Path) -> anyhow::Error {
    let path = path.display();
    // a reader shares the lock, an engine does not
    if lock.try_lock_shared().is_ok() {
        return anyhow!(
            "data directory {path} is being read by `rekindle backup` or `rekindle store check`: try again when that has ended"
        );
    }
    anyhow!(
        "data directory {path} is held by another engine (pid {}): end it with `rekindle down --data-dir {path}`, or give \
         this one its own --data-dir",
        read_pid(lock).unwrap_or_else(|| "unknown".to_owned()),
    )
}

/// The lock of a data directory; `None` when no engine has made one.
fn open_to_read(path: &Path) -> anyhow::Result<Option<File>> {
    match File::open(path.join(LOCK)) {
        Ok(lock) => Ok(Some(lock)),
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(None),
        Err(error) => Err(error)
            .with_context(|| format!("open the lock of data directory {}", path.display())),
    }
}

/// Opens the lock of a data directory, and creates it when it is absent.
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

/// Writes this process's pid. The file is overwritten in place and then truncated: this works on a
/// full disk, too, because the file has its block already.
pub fn write_pid(lock: &mut File) -> std::io::Result<()> {
    let text = format!("{}\n", std::process::id());
    lock.rewind()?;
    lock.write_all(text.as_bytes())?;
    lock.set_len(text.len() as u64)
}

/// The pid that the holder has written.
pub fn read_pid(lock: &mut File) -> Option<String> {
    let mut pid = String::new();
    lock.rewind().ok()?;
    lock.take(32).read_to_string(&mut pid).ok()?;
    let pid = pid.trim();
    (!pid.is_empty()).then(|| pid.to_owned())
}
