//! The ranges that cluster IPs come from.

use std::fmt;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::ops::RangeInclusive;
use std::str::FromStr;

/// The range of an engine that is told no other.
const DEFAULT: (Ipv4Addr, u8) = (Ipv4Addr::new(10, 96, 0, 0), 16);
/// The shortest prefixes, IPv4 and IPv6: upstream's largest ranges.
const PREFIX_MIN: [u8; 2] = [8, 64];
/// The port of the Service `kubernetes`.
const API_SERVICE_PORT: u16 = 443;
/// Bits of an address that a range leaves open at least: upstream wants eight addresses.
const OPEN_BITS_MIN: u8 = 3;

/// The range that cluster IPs of one IP family come from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ServiceRange {
    network: IpAddr,
    prefix: u8,
}

/// Why a text is no range for Services.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ServiceRangeError {
    /// It is no address with the length of its prefix.
    #[error("give a range such as 10.96.0.0/16")]
    Unreadable,
    /// Bits behind the prefix are set.
    #[error("the range is {0}: give it so")]
    NotANetwork(ServiceRange),
    /// It has too few or too many addresses.
    #[error("the prefix must be /{0} to /{1}")]
    Size(u8, u8),
}

impl ServiceRange {
    /// A range by its network and the length of its prefix.
    ///
    /// # Errors
    /// When the network is none, or has too few or too many addresses.
    pub fn new(network: IpAddr, prefix: u8) -> Result<Self, ServiceRangeError> {
        let (bits, shortest) = match network {
            IpAddr::V4(_) => (32, PREFIX_MIN[0]),
            IpAddr::V6(_) => (128, PREFIX_MIN[1]),
        };
        let longest = bits - OPEN_BITS_MIN;
        if !(shortest..=longest).contains(&prefix) {
            return Err(ServiceRangeError::Size(shortest, longest));
        }
        let open = bits - prefix;
        let masked = address(network, number(network) >> open << open);
        let range = Self { network: masked, prefix };
        if masked == network { Ok(range) } else { Err(ServiceRangeError::NotANetwork(range)) }
    }

    /// The address of the network.
    pub const fn network(&self) -> IpAddr {
        self.network
    }

    /// The length of the prefix.
    pub const fn prefix(&self) -> u8 {
        self.prefix
    }

    /// The first address that a Service can have: that of the Service `kubernetes`.
    pub fn first(&self) -> IpAddr {
        self.address(*self.assignable().start())
    }

    /// Where the Service `kubernetes` is.
    pub fn api_service(&self) -> SocketAddr {
        (self.first(), API_SERVICE_PORT).into()
    }

    /// Whether an address lies in it.
    pub fn contains(&self, other: IpAddr) -> bool {
        let is_same_family = self.network.is_ipv4() == other.is_ipv4();
        is_same_family && self.all().contains(&number(other))
    }

    /// Whether both have an address in common.
    pub fn overlaps(&self, network: IpAddr, prefix: u8) -> bool {
        let other = Self { network, prefix };
        let is_same_family = self.network.is_ipv4() == network.is_ipv4();
        let (mine, others) = (self.all(), other.all());
        is_same_family && mine.start() <= others.end() && others.start() <= mine.end()
    }

    /// The addresses that a Service can have, as numbers: not that of the network, and of IPv4 not
    /// that of the broadcast.
    pub fn assignable(&self) -> RangeInclusive<u128> {
        let all = self.all();
        let last = if self.network.is_ipv4() { all.end() - 1 } else { *all.end() };
        all.start() + 1..=last
    }

    /// An address of this family from its number.
    pub fn address(&self, number: u128) -> IpAddr {
        address(self.network, number)
    }

    /// How many addresses the network has.
    pub fn size(&self) -> u128 {
        let all = self.all();
        (all.end() - all.start()).saturating_add(1)
    }

    fn all(&self) -> RangeInclusive<u128> {
        let bits = if self.network.is_ipv4() { 32 } else { 128 };
        let first = number(self.network);
        let others =
            1_u128.checked_shl(u32::from(bits - self.prefix)).map_or(u128::MAX, |all| all - 1);
        first..=first.saturating_add(others)
    }
}

/// An address as a number.
pub fn number(address: IpAddr) -> u128 {
    match address {
        IpAddr::V4(address) => u32::from(address).into(),
        IpAddr::V6(address) => address.into(),
    }
}

/// An address of the same family from its number.
fn address(family: IpAddr, number: u128) -> IpAddr {
    match family {
        IpAddr::V4(_) => Ipv4Addr::from(u32::try_from(number).unwrap_or(u32::MAX)).into(),
        IpAddr::V6(_) => Ipv6Addr::from(number).into(),
    }
}

impl fmt::Display for ServiceRange {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.network, self.prefix)
    }
}

impl FromStr for ServiceRange {
    type Err = ServiceRangeError;

    fn from_str(text: &str) -> Result<Self, ServiceRangeError> {
        let unreadable = ServiceRangeError::Unreadable;
        let (network, prefix) = text.split_once('/').ok_or_else(|| unreadable.clone())?;
        let network = network.parse().map_err(|_| unreadable.clone())?;
        Self::new(network, prefix.parse().map_err(|_| unreadable)?)
    }
}

/// The ranges of an engine: of one IP family, or of both.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ServiceRanges {
    primary: ServiceRange,
    secondary: Option<ServiceRange>,
}

impl ServiceRanges {
    /// Services have addresses of this range.
    pub const fn single(primary: ServiceRange) -> Self {
        Self { primary, secondary: None }
    }

    /// Services may have an address of each of these ranges, which are of two IP families.
    pub const fn dual(primary: ServiceRange, secondary: ServiceRange) -> Self {
        Self { primary, secondary: Some(secondary) }
    }

    /// The range of Services that name no IP family.
    pub const fn primary(&self) -> ServiceRange {
        self.primary
    }

    /// All of them, the primary one first.
    pub fn all(&self) -> impl Iterator<Item = ServiceRange> {
        std::iter::once(self.primary).chain(self.secondary)
    }

    /// Whether there is one of each IP family.
    pub const fn is_dual_stack(&self) -> bool {
        self.secondary.is_some()
    }

    /// The range of an IP family, as the API writes that.
    pub fn of_family(&self, family: &str) -> Option<ServiceRange> {
        self.all().find(|range| crate::service::family_of(range.network) == family)
    }
}

impl Default for ServiceRanges {
    fn default() -> Self {
        let (network, prefix) = DEFAULT;
        Self::single(ServiceRange { network: network.into(), prefix })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranges_are_read_and_refused() {
        let cases = [
            ("10.96.0.0/16", Ok("10.96.0.0/16 from 10.96.0.1")),
            ("10.96.0.8/29", Ok("10.96.0.8/29 from 10.96.0.9")),
            ("fd00:1::/112", Ok("fd00:1::/112 from fd00:1::1")),
            ("10.96.0.1/16", Err("the range is 10.96.0.0/16: give it so")),
            ("10.96.0.0/30", Err("the prefix must be /8 to /29")),
            ("fd00::/48", Err("the prefix must be /64 to /125")),
            ("10.96.0.0", Err("give a range such as 10.96.0.0/16")),
        ];
        for (text, expected) in cases {
            let read = text.parse::<ServiceRange>();
            let read = read.map(|range| format!("{range} from {}", range.first()));
            let read = read.map_err(|error| error.to_string());
            assert_eq!(read.as_deref().map_err(String::as_str), expected, "{text}");
        }
    }

    #[test]
    fn overlaps_are_of_one_family_and_seen_from_both_sides() {
        let range: ServiceRange = "10.96.0.0/16".parse().unwrap();
        for (network, prefix, expected) in [
            ("10.96.7.0", 24, true),
            ("10.0.0.0", 8, true),
            ("10.97.0.0", 16, false),
            ("0.0.0.0", 0, true),
            ("::", 0, false),
        ] {
            assert_eq!(range.overlaps(network.parse().unwrap(), prefix), expected, "{network}");
        }
    }
}
