//! Unix sockets that only the owner of the process may use.

use std::io::ErrorKind;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use anyhow::Context;
use tokio::net::UnixListener;

/// Listens there, also when a process that died has left its socket. The folder is to be closed
/// to others: the mode is set a moment later.
pub fn listen(path: &Path) -> anyhow::Result<UnixListener> {
    remove(path)?;
    let listener =
        UnixListener::bind(path).with_context(|| format!("listen on {}", path.display()))?;
    std::fs::set_permissions(path, std::fs::Permissions::from_mode(0o600))
        .with_context(|| format!("close {} to others", path.display()))?;
    Ok(listener)
}

/// Takes the socket away, which a process that was killed leaves behind. Absent is success.
pub fn remove(path: &Path) -> anyhow::Result<()> {
    match std::fs::remove_file(path) {
        Err(error) if error.kind() != ErrorKind::NotFound => {
            Err(error).with_context(|| format!("remove {}", path.display()))
        }
        Ok(()) | Err(_) => Ok(()),
    }
}
