//! Settings of the kernel below /proc/sys, resolved in the network namespace of the calling thread.

use std::io::ErrorKind;
use std::path::PathBuf;
use std::sync::Once;

use crate::error::NetError;

const ROOT: &str = "/proc/sys/net";

/// Whether the log says that settings cannot be written here.
static READ_ONLY_TOLD: Once = Once::new();

/// What `setting` is, such as `ipv4/ip_forward`.
pub(crate) fn get(setting: &str) -> Result<String, NetError> {
    let path = path(setting);
    match std::fs::read_to_string(&path) {
        Ok(text) => Ok(text.trim().to_owned()),
        Err(source) => Err(NetError::Io { operation: "read", path, source }),
    }
}

/// Gives `setting` this value. Where it has it already, nothing has to be writable.
pub(crate) fn set(setting: &str, value: &str) -> Result<(), NetError> {
    if get(setting).is_ok_and(|now| now == value) {
        return Ok(());
    }
    let path = path(setting);
    std::fs::write(&path, value).map_err(|source| NetError::Io { operation: "write", path, source })
}

/// The same for a setting that one can do without: one that this kernel does not have is success,
/// and where settings cannot be written the log says so once.
pub(crate) fn set_if_possible(setting: &str, value: &str) -> Result<(), NetError> {
    let path = path(setting);
    let Err(source) = std::fs::write(&path, value) else { return Ok(()) };
    match source.kind() {
        ErrorKind::NotFound => Ok(()),
        ErrorKind::ReadOnlyFilesystem | ErrorKind::PermissionDenied => {
            READ_ONLY_TOLD.call_once(|| {
                let (path, error) = (path.display(), &source);
                tracing::warn!(%path, value, %error, "failed to set what guards interfaces of pods");
            });
            Ok(())
        }
        _ => Err(NetError::Io { operation: "write", path, source }),
    }
}

fn path(setting: &str) -> PathBuf {
    PathBuf::from(format!("{ROOT}/{setting}"))
}
