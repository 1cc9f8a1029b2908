//! Ranges of addresses and of ports, and what is left of them without others.

use std::collections::BTreeSet;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use rekindle_types::IpFamily;

/// Addresses of one family from the first to the last.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct AddressRange {
    /// The lowest.
    pub first: IpAddr,
    /// The highest.
    pub last: IpAddr,
}

/// Ports from the first to the last.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct PortRange {
    /// The lowest.
    pub first: u16,
    /// The highest.
    pub last: u16,
}

impl AddressRange {
    /// Every address of a family.
    pub(crate) const fn all(family: IpFamily) -> Self {
        let last = match family {
            IpFamily::V4 => IpAddr::V4(Ipv4Addr::BROADCAST),
            IpFamily::V6 => IpAddr::V6(Ipv6Addr::from_bits(u128::MAX)),
        };
        Self { first: family.unspecified(), last }
    }

    /// None: not a CIDR. Bits beyond the prefix do not count.
    pub(crate) fn parse(cidr: &str) -> Option<Self> {
        let (address, prefix) = cidr.split_once('/')?;
        let address: IpAddr = address.parse().ok()?;
        let family = IpFamily::from_address(address);
        let prefix: u8 = prefix.parse().ok()?;
        let host_bits = u32::from(family.bits().checked_sub(prefix)?);
        let host_bits = u128::MAX.checked_shr(128 - host_bits).unwrap_or(0);
        let first = bits(address) & !host_bits;
        Some(address_range(family, (first, first | host_bits)))
    }

    /// The family of its addresses.
    pub const fn family(self) -> IpFamily {
        IpFamily::from_address(self.first)
    }

    /// Whether the address lies in it.
    pub fn contains(self, address: IpAddr) -> bool {
        (self.first..=self.last).contains(&address)
    }

    /// What is left of it without these.
    pub(crate) fn without(self, others: &[Self]) -> Vec<Self> {
        let family = self.family();
        let others = others.iter().filter(|other| other.family() == family);
        let (mut from, last) = span(self);
        let mut left = Vec::new();
        for (first_other, last_other) in joined(others.map(|other| span(*other)).collect()) {
            if first_other > from && from <= last {
                left.push((from, last.min(first_other - 1)));
            }
            from = match last_other.checked_add(1) {
                Some(next) => from.max(next),
                // there is no address after it
                None => return left.into_iter().map(|it| address_range(family, it)).collect(),
            };
        }
        if from <= last {
            left.push((from, last));
        }
        left.into_iter().map(|span| address_range(family, span)).collect()
    }
}

impl PortRange {
    pub(crate) const ALL: Self = Self { first: 0, last: u16::MAX };

    pub(crate) const fn one(port: u16) -> Self {
        Self { first: port, last: port }
    }

    /// Whether the port lies in it.
    pub fn contains(self, port: u16) -> bool {
        (self.first..=self.last).contains(&port)
    }
}

/// First and last number.
type Span = (u128, u128);

fn bits(address: IpAddr) -> u128 {
    match address {
        IpAddr::V4(address) => address.to_bits().into(),
        IpAddr::V6(address) => address.to_bits(),
    }
}

fn span(range: AddressRange) -> Span {
    (bits(range.first), bits(range.last))
}

fn address_range(family: IpFamily, (first, last): Span) -> AddressRange {
    let address = |bits| match family {
        IpFamily::V4 => {
            let bits = u32::try_from(bits).expect("it came from an address");
            IpAddr::V4(Ipv4Addr::from_bits(bits))
        }
        IpFamily::V6 => IpAddr::V6(Ipv6Addr::from_bits(bits)),
    };
    AddressRange { first: address(first), last: address(last) }
}

fn port_range((first, last): Span) -> PortRange {
    let port = |number| u16::try_from(number).expect("it came from a port");
    PortRange { first: port(first), last: port(last) }
}

/// The same numbers in as few ranges as can be, which neither overlap nor touch, in order.
fn joined(mut spans: Vec<Span>) -> Vec<Span> {
    spans.sort_unstable();
    let mut joined: Vec<Span> = Vec::with_capacity(spans.len());
    for (first, last) in spans {
        match joined.last_mut() {
            Some((_, end)) if first <= end.saturating_add(1) => *end = last.max(*end),
            _ => joined.push((first, last)),
        }
    }
    joined
}

pub(crate) fn joined_addresses(
    ranges: impl IntoIterator<Item = AddressRange>,
) -> Vec<AddressRange> {
    let ranges: Vec<AddressRange> = ranges.into_iter().collect();
    let of_family = |family: &IpFamily| {
        let ranges = ranges.iter().filter(|range| range.family() == *family);
        let joined = joined(ranges.map(|range| span(*range)).collect());
        joined.into_iter().map(|span| address_range(*family, span)).collect::<Vec<_>>()
    };
    IpFamily::ALL.iter().flat_map(of_family).collect()
}

pub(crate) fn joined_ports(ranges: impl IntoIterator<Item = PortRange>) -> Vec<PortRange> {
    let spans = ranges.into_iter().map(|range| (range.first.into(), range.last.into())).collect();
    joined(spans).into_iter().map(port_range).collect()
}

/// The same pairs of address and port in rectangles that do not overlap: the ports are cut wherever
/// some rectangle begins or ends, and put together again where the addresses are the same.
pub(crate) fn disjoint(rectangles: &[(AddressRange, PortRange)]) -> Vec<(AddressRange, PortRange)> {
    let cuts: BTreeSet<u128> = rectangles
        .iter()
        .flat_map(|(_, ports)| [u128::from(ports.first), u128::from(ports.last) + 1])
        .collect();
    let mut strips: Vec<(Vec<AddressRange>, Span)> = Vec::new();
    for (first, next) in cuts.iter().zip(cuts.iter().skip(1)) {
        let covers = |ports: PortRange| {
            u128::from(ports.first) <= *first && *first <= u128::from(ports.last)
        };
        let here = rectangles.iter().filter(|(_, ports)| covers(*ports));
        let addresses = joined_addresses(here.map(|(addresses, _)| *addresses));
        match strips.last_mut() {
            Some((before, (_, end))) if *before == addresses && *end + 1 == *first => {
                *end = next - 1;
            }
            _ => strips.push((addresses, (*first, next - 1))),
        }
    }
    let rectangles_of = |(addresses, ports): (Vec<AddressRange>, Span)| {
        addresses.into_iter().map(move |address| (address, port_range(ports)))
    };
    strips.into_iter().flat_map(rectangles_of).collect()
}
