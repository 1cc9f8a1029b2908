//! IPv6 is off wherever pods' packets come by: pods have no IPv6 address, so what arrives by it is
//! forged or goes around IPv4 rules (router advertisements: CVE-2020-10749). The loopback of a
//! sandbox keeps `::1`, which apps bind to.

use crate::error::NetError;
use crate::sysctl;

/// Switches IPv6 off on an interface of the calling thread's namespace, and takes away what it has
/// configured there. An interface that does not exist is success, and so is a kernel without IPv6.
/// Where settings cannot be written, pods' frames are filtered all the same.
pub(crate) fn disable_on(interface: &str) -> Result<(), NetError> {
    sysctl::set_if_possible(&format!("ipv6/conf/{interface}/disable_ipv6"), "1")
}

/// The same on every interface that the calling thread's namespace gets from now on.
pub(crate) fn disable_on_new_interfaces() -> Result<(), NetError> {
    disable_on("default")
}
