//! Whether the kernel forwards packets: of the whole machine, and of one interface.
//!
//! What a pod sends comes in by the bridge, so the bridge's own setting is enough for packets
//! between pods. What leaves the machine has answers that come in elsewhere: it needs the machine's.

use crate::error::NetError;
use crate::sysctl;

const MACHINE: &str = "ipv4/ip_forward";

/// Whether the kernel forwards packets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ForwardingState {
    Off,
    On,
}

/// What the whole machine does.
pub(crate) fn read() -> Result<ForwardingState, NetError> {
    let is_off = sysctl::get(MACHINE)? == "0";
    Ok(if is_off { ForwardingState::Off } else { ForwardingState::On })
}

/// Sets it for all interfaces of the machine.
pub(crate) fn write(state: ForwardingState) -> Result<(), NetError> {
    match state {
        ForwardingState::Off => sysctl::set(MACHINE, "0"),
        ForwardingState::On => sysctl::set(MACHINE, "1"),
    }
}

/// Lets what comes in by this interface go on to others.
pub(crate) fn turn_on_for(interface: &str) -> Result<(), NetError> {
    sysctl::set(&format!("ipv4/conf/{interface}/forwarding"), "1")
}

/// Interfaces that the calling thread's namespace gets from now on take no ICMP redirect. The node
/// forwards from its bridge to its bridge, and tells each pod of a shorter way: that one goes around
/// the node's rules.
pub(crate) fn refuse_redirects_on_new_interfaces() -> Result<(), NetError> {
    sysctl::set_if_possible("ipv4/conf/all/accept_redirects", "0")?;
    sysctl::set_if_possible("ipv4/conf/default/accept_redirects", "0")
}
