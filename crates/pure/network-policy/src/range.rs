//! Ranges of addresses and of ports, and what is left of them without others.

use std::collections::BTreeSet;
use std::net::Ipv4Addr;

/// IPv4 addresses from the first to the last.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct AddressRange {
    /// The lowest.
    pub first: Ipv4Addr,
    /// The highest.
    pub last: Ipv4Addr,
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
    pub(crate) const ALL: Self = Self { first: Ipv4Addr::UNSPECIFIED, last: Ipv4Addr::BROADCAST };

    /// None: not a CIDR of IPv4. Bits beyond the prefix do not count.
    pub(crate) fn parse(cidr: &str) -> Option<Self> {
        const BITS: u32 = 32;
        let (address, prefix) = cidr.split_once('/')?;
        let address: Ipv4Addr = address.parse().ok()?;
        let prefix: u32 = prefix.parse().ok().filter(|prefix| *prefix <= BITS)?;
        let host_bits = u32::MAX.checked_shr(prefix).unwrap_or(0);
        let first = address.to_bits() & !host_bits;
        Some(Self { first: first.into(), last: (first | host_bits).into() })
    }

    /// Whether the address lies in it.
    pub fn contains(self, address: Ipv4Addr) -> bool {
        (self.first..=self.last).contains(&address)
    }

    /// What is left of it without these.
    pub(crate) fn without(self, others: &[Self]) -> Vec<Self> {
        let others: Vec<Span> = others.iter().map(|other| span(*other)).collect();
        let (mut from, last) = span(self);
        let mut left = Vec::new();
        for (first_other, last_other) in joined(others) {
            if first_other > from && from <= last {
                left.push((from, last.min(first_other - 1)));
            }
            from = from.max(last_other + 1);
        }
        if from <= last {
            left.push((from, last));
        }
        left.into_iter().map(address_range).collect()
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

/// First and last, wide enough for the number after the last.
type Span = (u64, u64);

fn span(range: AddressRange) -> Span {
    (range.first.to_bits().into(), range.last.to_bits().into())
}

fn address_range((first, last): Span) -> AddressRange {
    let address = |bits| Ipv4Addr::from(u32::try_from(bits).expect("it came from an address"));
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
            Some((_, end)) if first <= *end + 1 => *end = last.max(*end),
            _ => joined.push((first, last)),
        }
    }
    joined
}

pub(crate) fn joined_addresses(
    ranges: impl IntoIterator<Item = AddressRange>,
) -> Vec<AddressRange> {
    let spans = ranges.into_iter().map(span).collect();
    joined(spans).into_iter().map(address_range).collect()
}

pub(crate) fn joined_ports(ranges: impl IntoIterator<Item = PortRange>) -> Vec<PortRange> {
    let spans = ranges.into_iter().map(|range| (range.first.into(), range.last.into())).collect();
    joined(spans).into_iter().map(port_range).collect()
}

/// The same pairs of address and port in rectangles that do not overlap: the ports are cut wherever
/// some rectangle begins or ends, and put together again where the addresses are the same.
pub(crate) fn disjoint(rectangles: &[(AddressRange, PortRange)]) -> Vec<(AddressRange, PortRange)> {
    let cuts: BTreeSet<u64> = rectangles
        .iter()
        .flat_map(|(_, ports)| [u64::from(ports.first), u64::from(ports.last) + 1])
        .collect();
    let mut strips: Vec<(Vec<AddressRange>, Span)> = Vec::new();
    for (first, next) in cuts.iter().zip(cuts.iter().skip(1)) {
        let covers =
            |ports: PortRange| u64::from(ports.first) <= *first && *first <= u64::from(ports.last);
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
