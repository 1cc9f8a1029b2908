//! IPv6 is off wherever pods' packets come by: pods have no IPv6 address, so what arrives by it is
//! forged or goes around IPv4 rules (router advertisements: CVE-2020-10749). The loopback of a
//! sandbox keeps `::1`, which apps bind to.

use std::io::ErrorKind;
use std::path::PathBuf;
use std::sync::Once;

use crate::error::NetError;

/// Resolved in the network namespace of the calling thread. Absent from a kernel without IPv6.
const INTERFACES: &str = "/proc/sys/net/ipv6/conf";
/// Stands for all interfaces that are still to come.
const DEFAULT: &str = "default";

/// Whether the log says that settings cannot be written here.
static READ_ONLY_TOLD: Once = Once::new();

/// Switches IPv6 off on an interface of the calling thread's namespace, and takes away what it has
/// configured there. An interface that does not exist is success, and so is a kernel without IPv6.
/// Where settings cannot be written, the log says so once: pods' frames are filtered all the same.
pub(crate) fn disable_on(interface: &str) -> Result<(), NetError> {
    let path = PathBuf::from(format!("{INTERFACES}/{interface}/disable_ipv6"));
    let Err(source) = std::fs::write(&path, "1") else { return Ok(()) };
    match source.kind() {
        ErrorKind::NotFound => Ok(()),
        ErrorKind::ReadOnlyFilesystem | ErrorKind::PermissionDenied => {
            READ_ONLY_TOLD.call_once(|| {
                let (path, error) = (path.display(), &source);
                tracing::warn!(%path, %error, "failed to switch off IPv6 on interfaces of pods");
            });
            Ok(())
        }
        _ => Err(NetError::Io { operation: "switch off IPv6 by", path, source }),
    }
}

/// The same on every interface that the calling thread's namespace gets from now on.
pub(crate) fn disable_on_new_interfaces() -> Result<(), NetError> {
    disable_on(DEFAULT)
}
