//! Ranges of addresses that count as one: of clients, and of Services.

use std::fmt;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use rekindle_types::IpFamily;

/// A range of addresses: of clients (`loadBalancerSourceRanges`), of a node's pods, or of Services.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct SourceRange {
    /// The first address.
    pub network: IpAddr,
    /// How many of its first bits count: 32 at most, of IPv6 128.
    pub prefix: u8,
}

impl SourceRange {
    /// From a text such as `192.0.2.0/24`. Bits of the address beyond the prefix do not count.
    pub fn parse(text: &str) -> Option<Self> {
        let (address, prefix) = text.trim().split_once('/')?;
        Self::within(address.parse().ok()?, prefix.parse().ok()?)
    }

    /// The range of this length that an address lies in.
    fn within(address: IpAddr, prefix: u8) -> Option<Self> {
        let network = match (address, Self::netmask(IpFamily::from_address(address), prefix)?) {
            (IpAddr::V4(address), IpAddr::V4(mask)) => (address & mask).into(),
            (IpAddr::V6(address), IpAddr::V6(mask)) => (address & mask).into(),
            (IpAddr::V4(_), IpAddr::V6(_)) | (IpAddr::V6(_), IpAddr::V4(_)) => return None,
        };
        Some(Self { network, prefix })
    }

    /// Of its addresses.
    pub const fn family(&self) -> IpFamily {
        IpFamily::from_address(self.network)
    }

    /// Whether the address is in it.
    pub fn contains(&self, address: IpAddr) -> bool {
        Self::within(address, self.prefix).as_ref() == Some(self)
    }

    /// Whether an address is in both.
    pub fn overlaps(&self, other: &Self) -> bool {
        let prefix = self.prefix.min(other.prefix);
        Self::within(self.network, prefix) == Self::within(other.network, prefix)
    }

    /// The bits that count, as an address; none when there are not so many.
    pub fn netmask(family: IpFamily, prefix: u8) -> Option<IpAddr> {
        let host_bits = u32::from(family.bits().checked_sub(prefix)?);
        Some(match family {
            IpFamily::V4 => {
                Ipv4Addr::from_bits(u32::MAX.checked_shl(host_bits).unwrap_or(0)).into()
            }
            IpFamily::V6 => {
                Ipv6Addr::from_bits(u128::MAX.checked_shl(host_bits).unwrap_or(0)).into()
            }
        })
    }
}

impl fmt::Display for SourceRange {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.network, self.prefix)
    }
}
