//! The second range of an engine with dual stack: unique local addresses (RFC 4193) that follow
//! from the engine's id, which is random. So nothing has to be kept, and Services find their
//! addresses again.
//!
//! ```text
//!  fd52:<id>::/48 ─┬─ …:0::/96    pods: each IPv4 address is embedded in it
//!                  └─ …:1::/112   Services
//! ```

use std::net::Ipv6Addr;

use anyhow::{Context, bail};
use rekindle_kinds::service_range::ServiceRange;
use rekindle_net::{EmbeddingPrefix, Ipv6Net, routed_ipv6_subnets};

/// How each range begins: `fd` for local addresses, and a byte of ours.
const LOCAL_ADDRESSES: u128 = 0xfd52;
/// Bits of the range.
const BITS: u8 = 48;
/// Bits of the Services' part.
const SERVICE_BITS: u8 = 112;
/// What tells the Services' part from the pods'.
const SERVICES: u128 = 1 << 64;

/// See the module.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ipv6Range(Ipv6Net);

impl Ipv6Range {
    /// That of the engine with this id.
    pub fn of_engine(engine_id: &str) -> anyhow::Result<Self> {
        let id = u32::from_str_radix(engine_id, 16);
        let id = id.with_context(|| format!("read the engine's id {engine_id:?}"))?;
        let network = LOCAL_ADDRESSES << 112 | u128::from(id) << 80;
        Ok(Self(Ipv6Net::new(Ipv6Addr::from_bits(network), BITS)?))
    }

    /// Where pods have their second addresses.
    pub fn pods(self) -> EmbeddingPrefix {
        EmbeddingPrefix::new(self.0.network())
    }

    /// Where Services have theirs.
    pub fn services(self) -> anyhow::Result<ServiceRange> {
        let network = Ipv6Addr::from_bits(self.0.network().to_bits() | SERVICES);
        ServiceRange::new(network.into(), SERVICE_BITS).context("derive the second range")
    }

    /// Refuses it when the machine has a route there, other than through the device `bridge`.
    pub async fn check_routes(self, bridge: &str) -> anyhow::Result<()> {
        let routes = routed_ipv6_subnets(bridge).await;
        self.check_apart(&routes.context("read the IPv6 routes of this machine")?)
    }

    fn check_apart(self, routes: &[Ipv6Net]) -> anyhow::Result<()> {
        let overlaps = |route: &&Ipv6Net| {
            route.contains(&self.0.network()) || self.0.contains(&route.network())
        };
        if let Some(route) = routes.iter().find(overlaps) {
            bail!(
                "--dual-stack: the engine's range {} overlaps with the route {route} of this machine: remove the route, or start without --dual-stack",
                self.0
            );
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_engine_has_a_range_of_its_own_for_pods_and_services() {
        let range = Ipv6Range::of_engine("0a1b2c3d").unwrap();
        assert_eq!(range.0.to_string(), "fd52:a1b:2c3d::/48");
        assert_ne!(range, Ipv6Range::of_engine("0a1b2c3e").unwrap());
        let services = range.services().unwrap();
        assert_eq!(services.to_string(), "fd52:a1b:2c3d:1::/112");
        let pods = range.pods().subnet("10.88.0.0/16".parse().unwrap());
        assert!(range.0.contains(&pods) && range.0.network().is_unique_local());
        assert!(!services.overlaps(pods.network().into(), pods.prefix_len()));
    }

    #[test]
    fn a_range_that_meets_a_route_is_refused() {
        let range = Ipv6Range::of_engine("0a1b2c3d").unwrap();
        let inside = Ipv6Net::new_assert(range.0.network(), 64);
        for (routes, expected) in [(vec![], true), (vec![inside], false), (vec![range.0], false)] {
            let checked = range.check_apart(&routes);
            assert_eq!(checked.is_ok(), expected, "{routes:?}");
        }
        let other = "2001:db8::/32".parse().unwrap();
        range.check_apart(&[other]).unwrap();
        let error = range.check_apart(&[inside]).unwrap_err().to_string();
        assert!(error.contains("--dual-stack") && error.contains(&inside.to_string()), "{error}");
    }
}
