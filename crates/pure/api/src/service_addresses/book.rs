//! The book of addresses: which cluster IPs and ports of the nodes are held, and which is given
//! next. Pure: it knows no objects and no store.
//!
//! A range has two bands (KEP-3070, KEP-3668). What users choose themselves is mostly taken from
//! the lower band, so the book gives from the upper one while that has something left.

use std::net::IpAddr;
use std::ops::RangeInclusive;

use rekindle_kinds::service_range::{ServiceRange, ServiceRanges, number};

use super::holders::{HolderCounts, ServiceHoldings, choose_number};

/// Upstream's `--service-node-port-range`.
const NODE_PORTS: RangeInclusive<u16> = 30_000..=32_767;
/// The size of the lower band: this part of the range, within bounds.
const PORT_BAND: BandSize = BandSize { part: 32, min: 16, max: 128 };
const ADDRESS_BAND: BandSize = BandSize { part: 16, min: 16, max: 256 };

/// Why a number is not given. The words are upstream's.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(super) enum AllocationRefusal {
    #[error("range is full")]
    Full,
    #[error("provided IP is already allocated")]
    AddressHeld,
    #[error("the provided network does not match the current range")]
    OtherNetwork,
    #[error(
        "the provided IP ({address}) is not in the valid range. The range of valid IPs is {range}"
    )]
    OutsideOfRange { address: IpAddr, range: ServiceRange },
    #[error("provided port is already allocated")]
    PortHeld,
    #[error(
        "provided port is not in the valid range. The range of valid ports is {}-{}",
        NODE_PORTS.start(),
        NODE_PORTS.end()
    )]
    OutsideOfPorts,
}

/// How large the lower band of a range is.
#[derive(Clone, Copy, Debug)]
struct BandSize {
    part: u128,
    min: u128,
    max: u128,
}

impl BandSize {
    /// The band to give from, and the one for users.
    fn bands(self, all: &RangeInclusive<u128>, size: u128) -> Vec<RangeInclusive<u128>> {
        let lower = if size < self.min { 0 } else { (size / self.part).clamp(self.min, self.max) };
        let upper_first = all.start().saturating_add(lower);
        if lower == 0 || upper_first > *all.end() {
            return vec![all.clone()];
        }
        vec![upper_first..=*all.end(), *all.start()..=upper_first - 1]
    }
}

/// Which numbers are held.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct AddressBook {
    pub(super) ranges: ServiceRanges,
    addresses: HolderCounts<IpAddr>,
    ports: HolderCounts<u16>,
}

impl AddressBook {
    /// One in which nothing is held.
    pub(super) fn new(ranges: ServiceRanges) -> Self {
        Self { ranges, ..Self::default() }
    }

    /// Notes what a Service holds.
    pub(super) fn hold(&mut self, holdings: &ServiceHoldings) {
        holdings.addresses.iter().for_each(|address| self.addresses.hold(*address));
        holdings.ports.iter().for_each(|port| self.ports.hold(*port));
    }

    /// Notes that a Service holds this no longer.
    pub(super) fn release(&mut self, holdings: &ServiceHoldings) {
        holdings.addresses.iter().for_each(|address| self.addresses.release(*address));
        holdings.ports.iter().for_each(|port| self.ports.release(*port));
    }

    /// Whether a Service holds this address.
    pub(super) fn is_held(&self, address: IpAddr) -> bool {
        self.addresses.is_held(address)
    }

    /// All addresses that Services hold.
    pub(super) fn held_addresses(&self) -> impl Iterator<Item = IpAddr> + '_ {
        self.addresses.held()
    }

    /// Whether this address is kept for the Service `kubernetes`.
    pub(super) fn is_reserved(&self, address: IpAddr) -> bool {
        self.ranges.all().any(|range| range.first() == address)
    }

    /// Whether a user may have this address, of the engine's ranges or of `further` ones. Where one
    /// range lies in another, the address may be the edge of the smaller one.
    pub(super) fn check_address(
        &self,
        address: IpAddr,
        further: &[ServiceRange],
    ) -> Result<(), AllocationRefusal> {
        let all = self.ranges.all().chain(further.iter().copied());
        let mut of_address = all.filter(|range| range.contains(address)).peekable();
        let range = *of_address.peek().ok_or(AllocationRefusal::OtherNetwork)?;
        if !of_address.any(|range| range.assignable().contains(&number(address))) {
            return Err(AllocationRefusal::OutsideOfRange { address, range });
        }
        if self.is_held(address) {
            return Err(AllocationRefusal::AddressHeld);
        }
        Ok(())
    }

    /// An address of a range for a Service. `is_taken` knows of more than the book.
    pub(super) fn choose_address(
        &self,
        range: ServiceRange,
        seed: u128,
        is_taken: impl Fn(IpAddr) -> bool,
    ) -> Result<IpAddr, AllocationRefusal> {
        let all = range.assignable();
        let bands = ADDRESS_BAND.bands(&all, range.size());
        let chosen = choose_number(bands, seed, |number| {
            let address = range.address(number);
            self.is_held(address) || self.is_reserved(address) || is_taken(address)
        });
        chosen.map(|number| range.address(number)).ok_or(AllocationRefusal::Full)
    }

    /// Whether a user may have this port.
    pub(super) fn check_port(&self, port: i32) -> Result<u16, AllocationRefusal> {
        let port = u16::try_from(port).ok().filter(|port| NODE_PORTS.contains(port));
        let port = port.ok_or(AllocationRefusal::OutsideOfPorts)?;
        if self.ports.is_held(port) { Err(AllocationRefusal::PortHeld) } else { Ok(port) }
    }

    /// A port for a Service. `is_taken` knows of more than the book.
    pub(super) fn choose_port(
        &self,
        seed: u128,
        is_taken: impl Fn(u16) -> bool,
    ) -> Result<u16, AllocationRefusal> {
        let all = u128::from(*NODE_PORTS.start())..=u128::from(*NODE_PORTS.end());
        let bands = PORT_BAND.bands(&all, all.end() - all.start() + 1);
        let port = |number: u128| u16::try_from(number).unwrap_or(u16::MAX);
        let chosen = choose_number(bands, seed, |number| {
            self.ports.is_held(port(number)) || is_taken(port(number))
        });
        chosen.map(port).ok_or(AllocationRefusal::Full)
    }
}

#[cfg(test)]
mod tests;
