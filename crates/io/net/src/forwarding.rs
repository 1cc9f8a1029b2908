//! `net.ipv4.ip_forward`: packets between pods of one bridge do not need it, packets that leave the
//! machine do.

use std::io;
use std::path::Path;

use crate::error::NetError;

/// Resolved in the network namespace of the calling thread.
const IP_FORWARD: &str = "/proc/sys/net/ipv4/ip_forward";

/// Whether the kernel forwards packets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ForwardingState {
    Off,
    On,
}

pub(crate) fn read() -> Result<ForwardingState, NetError> {
    let text = std::fs::read_to_string(IP_FORWARD).map_err(|source| failed("read", source))?;
    Ok(if text.trim() == "0" { ForwardingState::Off } else { ForwardingState::On })
}

pub(crate) fn write(state: ForwardingState) -> Result<(), NetError> {
    let text = match state {
        ForwardingState::Off => "0",
        ForwardingState::On => "1",
    };
    std::fs::write(IP_FORWARD, text).map_err(|source| failed("write", source))
}

fn failed(operation: &'static str, source: io::Error) -> NetError {
    NetError::Io { operation, path: Path::new(IP_FORWARD).to_owned(), source }
}
