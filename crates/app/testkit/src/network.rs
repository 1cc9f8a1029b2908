//! What a test takes of the machine's network: a bridge and a subnet for its engine, ports for its
//! pods. Each is claimed from other tests, and looked for on the machine: what a VPN or a service
//! has is left alone.

use std::net::{Ipv4Addr, TcpListener};
use std::path::Path;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU16, Ordering};

use crate::claims::{MachineClaim, first_choice};

/// Ports below those that the kernel gives out by itself, and above the well-known ones.
const PORTS: std::ops::Range<u16> = 10_000..30_000;
/// Subnets of a /24 to choose from: 10.192.0.0 to 10.223.255.0 for pods, and as many behind them for
/// Services.
const SUBNETS: u32 = 32 * 256;

/// What makes an engine's network its own.
pub struct EngineNetwork {
    /// The bridge that its pods are plugged into.
    pub bridge: String,
    /// The subnet of its pods, such as `10.201.7.0/24`.
    pub pod_cidr: String,
    /// The range of its Services, such as `10.233.7.0/24`.
    pub service_cidr: String,
    _claim: MachineClaim,
}

impl EngineNetwork {
    /// A bridge, a /24 for pods and one for Services that no other test has, nor anything else on
    /// the machine.
    pub fn unique() -> Self {
        static COUNTER: AtomicU16 = AtomicU16::new(0);
        let first = first_choice(SUBNETS);
        let subnet = |base: u8, number: u32| {
            Ipv4Addr::new(10, base + (number / 256) as u8, (number % 256) as u8, 0)
        };
        let (pods, services, claim) = (0..SUBNETS)
            .map(|step| (first + step) % SUBNETS)
            .map(|number| (subnet(192, number), subnet(224, number)))
            // the routes are read under the claim: what another test has given back is gone by then
            .filter_map(|(pods, services)| {
                Some((pods, services, MachineClaim::try_new(&format!("subnet-{pods}"))?))
            })
            .find(|(pods, services, _)| {
                !routes().iter().any(|route| route.covers(*pods) || route.covers(*services))
            })
            .expect("a subnet of 10.192.0.0/11 that has no route yet");
        let pid = std::process::id();
        let bridge = std::iter::repeat_with(|| COUNTER.fetch_add(1, Ordering::Relaxed))
            .map(|number| format!("rkt{:05x}{number:x}", pid & 0xf_ffff))
            .find(|name| !Path::new("/sys/class/net").join(name).exists())
            .expect("there are more numbers than bridges");
        Self {
            bridge,
            pod_cidr: format!("{pods}/24"),
            service_cidr: format!("{services}/24"),
            _claim: claim,
        }
    }
}

/// A destination of the machine's routing table.
struct Route {
    destination: u32,
    mask: u32,
}

impl Route {
    fn covers(&self, subnet: Ipv4Addr) -> bool {
        let mask = self.mask & 0xffff_ff00;
        u32::from(subnet) & mask == self.destination & mask
    }
}

/// The routes that lead somewhere in particular. Those of more than a /11 would leave nothing to
/// choose from: a test that has one lives with it.
fn routes() -> Vec<Route> {
    let table = std::fs::read_to_string("/proc/net/route").expect("read the routes");
    let hex = |word: &str| u32::from_str_radix(word, 16).ok().map(u32::swap_bytes);
    let route = |line: &str| {
        let words: Vec<&str> = line.split_whitespace().collect();
        Some(Route { destination: hex(words.get(1)?)?, mask: hex(words.get(7)?)? })
    };
    table.lines().skip(1).filter_map(route).filter(|route| route.mask.count_ones() > 11).collect()
}

/// A TCP port of the machine that nothing listens at, and that no other test gets as long as this
/// process is there.
pub fn free_port() -> u16 {
    static CLAIMS: Mutex<Vec<MachineClaim>> = Mutex::new(Vec::new());
    let count = u32::from(PORTS.end - PORTS.start);
    let first = first_choice(count);
    let (port, claim) = (0..count)
        .map(|step| PORTS.start + ((first + step) % count) as u16)
        .filter(|port| TcpListener::bind((Ipv4Addr::UNSPECIFIED, *port)).is_ok())
        .find_map(|port| Some((port, MachineClaim::try_new(&format!("port-{port}"))?)))
        .expect("a free port of the machine");
    CLAIMS.lock().expect("no test panics here").push(claim);
    port
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_two_get_the_same_port_bridge_or_subnet() {
        assert_ne!(free_port(), free_port());
        let (one, other) = (EngineNetwork::unique(), EngineNetwork::unique());
        assert_ne!(one.bridge, other.bridge);
        assert_ne!(one.pod_cidr, other.pod_cidr);
    }
}
