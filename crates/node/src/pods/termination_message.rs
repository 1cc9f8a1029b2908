//! What a container leaves behind as its last words: the file at terminationMessagePath, or the end of its log.
//!
//! Both are written by the container, so neither is trusted: no link is followed and only so many bytes are read.

use std::fs::File;
use std::io::{Read, Seek, SeekFrom};
use std::path::Path;

use k8s_openapi::api::core::v1::{Container, Pod};
use rekindle_types::{ContainerAttempt, Exit};
use rustix::fs::{CWD, Mode, OFlags};

use crate::layout::PodDirs;
use crate::logs::last_lines;

/// Bytes of one container's message at most.
const MESSAGE_MAX: usize = 4096;
/// Bytes of all messages of a pod at most.
const POD_MESSAGES_MAX: usize = 12 * 1024;
/// Lines of the log with FallbackToLogsOnError.
const LOG_LINES: usize = 80;
/// Bytes of the log with FallbackToLogsOnError.
const LOG_BYTES: usize = 2048;

/// Makes the empty file that is mounted at terminationMessagePath; anybody in the container may write to it.
pub(crate) fn create_file(path: &Path) -> std::io::Result<()> {
    let flags =
        OFlags::WRONLY | OFlags::CREATE | OFlags::TRUNC | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let file = rustix::fs::openat(CWD, path, flags, Mode::from_raw_mode(0o666))?;
    rustix::fs::fchmod(&file, Mode::from_raw_mode(0o666))?; // whatever the umask
    Ok(())
}

/// The message of an ended container.
pub(crate) fn read_message(
    pod: &Pod,
    container: &Container,
    dirs: &PodDirs,
    attempt: ContainerAttempt,
    exit: &Exit,
) -> String {
    let limit = message_limit(pod);
    let message = read_file(&dirs.termination_log(&container.name, attempt), limit);
    let falls_back =
        container.termination_message_policy.as_deref() == Some("FallbackToLogsOnError");
    if message.is_empty() && falls_back && !exit.status.is_success() {
        let log = dirs.log(&container.name, attempt);
        return last_lines(&log, LOG_LINES, LOG_BYTES.min(limit));
    }
    message
}

/// Each container's share of what a pod may say, as the kubelet cuts it.
fn message_limit(pod: &Pod) -> usize {
    let spec = pod.spec.as_ref();
    let containers = spec.map_or(0, |spec| {
        spec.containers.len()
            + spec.init_containers.as_ref().map_or(0, Vec::len)
            + spec.ephemeral_containers.as_ref().map_or(0, Vec::len)
    });
    MESSAGE_MAX.min(POD_MESSAGES_MAX / containers.max(1))
}

/// The end of the file, at most `limit` bytes; whatever is wrong with it counts as no message.
fn read_file(path: &Path, limit: usize) -> String {
    let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
    let Ok(file) = rustix::fs::openat(CWD, path, flags, Mode::empty()) else {
        return String::new();
    };
    let mut file = File::from(file);
    let Ok(metadata) = file.metadata() else { return String::new() };
    if !metadata.is_file() {
        return String::new();
    }
    let limit_u64 = u64::try_from(limit).unwrap_or(u64::MAX);
    if metadata.len() > limit_u64 && file.seek(SeekFrom::Start(metadata.len() - limit_u64)).is_err()
    {
        return String::new();
    }
    let mut bytes = Vec::new();
    if file.take(limit_u64).read_to_end(&mut bytes).is_err() {
        return String::new();
    }
    String::from_utf8_lossy(&bytes).into_owned()
}
