//! What a test takes of the machine's network: a bridge and a subnet for its engine, ports for its
//! pods. Each is asked for before it is used, so that what somebody else has (another test, a VPN,
//! a service of the machine) is left alone.

use std::net::{Ipv4Addr, TcpListener};
use std::path::Path;
use std::sync::atomic::{AtomicU16, Ordering};

/// Ports below those that the kernel gives out by itself, and above the well-known ones.
const PORTS: std::ops::Range<u16> = 10_000..30_000;
/// Subnets of a /24 to choose from: 10.192.0.0 to 10.223.255.0.
const SUBNETS: u32 = 32 * 256;

/// What makes an engine's network its own.
pub struct Network {
    pub bridge: String,
    pub pod_cidr: String,
}

impl Network {
    /// A bridge and a /24 that no other test has: where to look first is made from the pid and a
    /// counter.
    pub fn unique() -> Self {
        static COUNTER: AtomicU16 = AtomicU16::new(0);
        let number = u32::from(COUNTER.fetch_add(1, Ordering::Relaxed));
        let pid = std::process::id();
        let routed = routes();
        let subnet = (0..SUBNETS)
            .map(|step| (pid + number * 61 * 32 + step * 7) % SUBNETS)
            .map(|number| Ipv4Addr::new(10, 192 + (number % 32) as u8, (number / 32) as u8, 0))
            .find(|subnet| !routed.iter().any(|route| route.covers(*subnet)))
            .expect("a subnet of 10.192.0.0/11 that has no route yet");
        let bridge = (number..)
            .map(|number| format!("rkt{:05x}{number:x}", pid & 0xf_ffff))
            .find(|name| !Path::new("/sys/class/net").join(name).exists())
            .expect("there are more numbers than bridges");
        Self { bridge, pod_cidr: format!("{subnet}/24") }
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
/// choose from: whoever has one lives with it.
fn routes() -> Vec<Route> {
    let table = std::fs::read_to_string("/proc/net/route").expect("read the routes");
    let hex = |word: &str| u32::from_str_radix(word, 16).ok().map(u32::swap_bytes);
    let route = |line: &str| {
        let words: Vec<&str> = line.split_whitespace().collect();
        Some(Route { destination: hex(words.get(1)?)?, mask: hex(words.get(7)?)? })
    };
    table.lines().skip(1).filter_map(route).filter(|route| route.mask.count_ones() > 11).collect()
}

/// A TCP port of the machine that nobody listens at, and that this process has not asked for
/// before.
pub fn free_port() -> u16 {
    static TAKEN: AtomicU16 = AtomicU16::new(0);
    let count = PORTS.end - PORTS.start;
    let first = (std::process::id() % u32::from(count)) as u16;
    (0..count)
        .map(|_| PORTS.start + (first + TAKEN.fetch_add(1, Ordering::Relaxed)) % count)
        .find(|port| TcpListener::bind((Ipv4Addr::UNSPECIFIED, *port)).is_ok())
        .expect("a free port of the machine")
}
