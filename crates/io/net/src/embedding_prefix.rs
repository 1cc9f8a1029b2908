//! The second address of a pod follows from its first one: the IPv4 address is embedded in an IPv6
//! prefix of 96 bits (RFC 6052). So one lease is both, and no two pods share either: pure.

use std::net::{Ipv4Addr, Ipv6Addr};

use ipnet::{Ipv4Net, Ipv6Net};
use serde::{Deserialize, Serialize};

/// Bits of a prefix.
const PREFIX_BITS: u8 = 96;

/// Where the second addresses of pods come from.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct EmbeddingPrefix(Ipv6Addr);

impl EmbeddingPrefix {
    /// The first 96 bits of this address.
    pub const fn new(address: Ipv6Addr) -> Self {
        Self(Ipv6Addr::from_bits(address.to_bits() >> 32 << 32))
    }

    /// The second address of a pod with this first one.
    pub fn address(self, first: Ipv4Addr) -> Ipv6Addr {
        Ipv6Addr::from_bits(self.0.to_bits() | u128::from(first.to_bits()))
    }

    /// The first address of the pod with this second one, if that is of this prefix.
    pub fn first_address(self, second: Ipv6Addr) -> Option<Ipv4Addr> {
        let [.., a, b, c, d] = second.octets();
        let first = Ipv4Addr::new(a, b, c, d);
        (self.address(first) == second).then_some(first)
    }

    /// The second addresses of this subnet.
    pub fn subnet(self, first: Ipv4Net) -> Ipv6Net {
        Ipv6Net::new_assert(self.address(first.network()), PREFIX_BITS + first.prefix_len())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_second_address_follows_from_the_first_and_stays_in_its_subnet() {
        let prefix = EmbeddingPrefix::new("fd12:3456:789a::1".parse().unwrap());
        let first: Ipv4Net = "10.88.0.0/16".parse().unwrap();
        let subnet = prefix.subnet(first);
        assert_eq!(subnet.to_string(), "fd12:3456:789a::a58:0/112");
        let pod = prefix.address(Ipv4Addr::new(10, 88, 1, 2));
        assert_eq!(pod.to_string(), "fd12:3456:789a::a58:102");
        assert!(subnet.contains(&pod));
        assert_eq!(prefix.first_address(pod), Some(Ipv4Addr::new(10, 88, 1, 2)));
        assert_eq!(prefix.first_address("fd12:3456:789b::a58:102".parse().unwrap()), None);
        assert!(!subnet.contains(&prefix.address(Ipv4Addr::new(10, 89, 1, 2))));
    }
}
