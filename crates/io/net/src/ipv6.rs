//! IPv6 where pods' packets come by. Without second addresses it is off there: what arrives by it
//! is forged or goes around IPv4 rules (router advertisements: CVE-2020-10749). The loopback of a
//! sandbox keeps `::1`, which apps bind to.
//!
//! With second addresses it is on at the bridge and at pods' `eth0`, and nothing configures itself:
//! no link-local address, no router advertisement, no redirect, no test for duplicates. Neighbours
//! are set by the agent, as for IPv4.

use std::io::ErrorKind;

use rtnetlink::AddressAddRequest;
use rtnetlink::packet_route::address::AddressHeaderFlags;

use crate::error::NetError;
use crate::sysctl;

/// What an interface with second addresses does not do by itself.
const QUIET: [(&str, &str); 6] = [
    ("accept_ra", "0"),
    ("accept_redirects", "0"),
    ("addr_gen_mode", "1"),
    ("accept_dad", "0"),
    ("dad_transmits", "0"),
    ("router_solicitations", "0"),
];

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

/// Switches it on for addresses that the agent gives. An interface that does not exist is success.
pub(crate) fn enable_on(interface: &str) -> Result<(), NetError> {
    let settings = QUIET.into_iter().chain([("disable_ipv6", "0")]);
    for (setting, value) in settings {
        match sysctl::set(&format!("ipv6/conf/{interface}/{setting}"), value) {
            Err(NetError::Io { source, .. }) if source.kind() == ErrorKind::NotFound => {}
            Ok(()) => {}
            Err(error) => return Err(error),
        }
    }
    Ok(())
}

/// The same on every interface that the calling thread's namespace gets from now on.
pub(crate) fn enable_on_new_interfaces() -> Result<(), NetError> {
    enable_on("default")
}

/// Adds the address without duplicate address detection, so that sockets can bind to it at once.
/// `accept_dad` alone does not do that: the address stays tentative until a kernel worker runs, and
/// bind fails with EADDRNOTAVAIL.
pub(crate) fn without_duplicate_detection(mut request: AddressAddRequest) -> AddressAddRequest {
    request.message_mut().header.flags |= AddressHeaderFlags::Nodad;
    request
}

/// Refuses a machine on which pods cannot have second addresses.
pub(crate) fn check_machine() -> Result<(), NetError> {
    let problem = match sysctl::get("ipv6/conf/all/disable_ipv6") {
        Ok(value) if value == "0" => return Ok(()),
        Ok(_) => "IPv6 is switched off on this machine (net.ipv6.conf.all.disable_ipv6)",
        Err(_) => "this machine's kernel has no IPv6",
    };
    let remedy = "switch it on, or start without dual stack";
    Err(NetError::Config { problem: format!("dual stack: {problem}; {remedy}") })
}
