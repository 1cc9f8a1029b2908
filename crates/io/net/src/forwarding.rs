//! `net.ipv4.ip_forward`: packets between pods of one bridge do not need it, packets that leave the
//! machine do.

use std::io;
use std::path::Path;

use crate::error::NetError;

/// Resolved in the network namespace of the calling thread.
const IP_FORWARD: &str = "/proc/sys/net/ipv4/ip_forward";

/// Whether the kernel forwards packets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum State {
    Off,
    On,
}

pub(crate) fn read() -> Result<State, NetError> {
    let text = std::fs::read_to_string(IP_FORWARD).map_err(|source| failed("read", source))?;
    Ok(if text.trim() == "0" { State::Off } else { State::On })
}

pub(crate) fn write(state: State) -> Result<(), NetError> {
    let text = match state {
        State::Off => "0",
        State::On => "1",
    };
    std::fs::write(IP_FORWARD, text).map_err(|source| failed("write", source))
}

fn failed(operation: &'static str, source: io::Error) -> NetError {
    NetError::Io { operation, path: Path::new(IP_FORWARD).to_owned(), source }
}
