//! IPv4 and IPv6 as the API names them.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// The family of an IP address.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum IpFamily {
    /// IPv4, the first family of an engine.
    V4,
    /// IPv6.
    V6,
}

impl IpFamily {
    /// Both.
    pub const ALL: [Self; 2] = [Self::V4, Self::V6];

    /// That of an address.
    pub const fn from_address(address: IpAddr) -> Self {
        match address {
            IpAddr::V4(_) => Self::V4,
            IpAddr::V6(_) => Self::V6,
        }
    }

    /// As `ipFamilies` of a Service and `addressType` of an EndpointSlice spell it.
    pub const fn name(self) -> &'static str {
        match self {
            Self::V4 => "IPv4",
            Self::V6 => "IPv6",
        }
    }

    /// 0.0.0.0 or `::`: any address of the machine.
    pub const fn unspecified(self) -> IpAddr {
        match self {
            Self::V4 => IpAddr::V4(Ipv4Addr::UNSPECIFIED),
            Self::V6 => IpAddr::V6(Ipv6Addr::UNSPECIFIED),
        }
    }

    /// How many bits an address has.
    pub const fn bits(self) -> u8 {
        match self {
            Self::V4 => 32,
            Self::V6 => 128,
        }
    }
}

/// Which families an engine gives its pods and Services.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum IpStack {
    /// IPv4 only.
    #[default]
    Single,
    /// Both: each pod has an address of each.
    Dual,
}

impl IpStack {
    /// They, the first one first.
    pub const fn families(self) -> &'static [IpFamily] {
        match self {
            Self::Single => &[IpFamily::V4],
            Self::Dual => &IpFamily::ALL,
        }
    }

    /// Whether this one is among them.
    pub fn has(self, family: IpFamily) -> bool {
        self.families().contains(&family)
    }
}
