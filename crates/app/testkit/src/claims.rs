//! What only one test of the machine may have at a time: a subnet, a port, addresses of the
//! loopback. The runner gives each test a process of its own, so that a counter in memory tells no
//! two tests apart.
//!
//! A claim is a socket with a name in the kernel's abstract namespace. Binding it is atomic. The
//! kernel frees it with the process, however that ends. Nothing is left on the disk.

use std::net::Ipv4Addr;
use std::os::linux::net::SocketAddrExt;
use std::os::unix::net::{SocketAddr, UnixListener};
use std::sync::OnceLock;

/// Something that no other test has as long as this value is there.
pub(crate) struct MachineClaim {
    _held: UnixListener,
}

impl MachineClaim {
    /// `None` when another test has it.
    pub(crate) fn try_new(what: &str) -> Option<Self> {
        let name = format!("rekindle-test/{what}");
        let address = SocketAddr::from_abstract_name(name).expect("a short name");
        match UnixListener::bind_addr(&address) {
            Ok(held) => Some(Self { _held: held }),
            Err(error) if error.kind() == std::io::ErrorKind::AddrInUse => None,
            Err(error) => panic!("claim {what}: {error}"),
        }
    }
}

/// A number below `count` to look at first: it differs between tests that begin at the same time.
pub(crate) fn first_choice(count: u32) -> u32 {
    // neighbouring pids are far apart, so that they do not walk over each other's choices
    std::process::id().wrapping_mul(2_654_435_761) % count
}

/// An address of the loopback. Each number below 255 gives another one, and no other process of
/// tests gets any of them.
pub fn loopback_address(number: u8) -> Ipv4Addr {
    static OWN: OnceLock<(MachineClaim, [u8; 2])> = OnceLock::new();
    // 127.64.0.0/10: programs of the machine use the first addresses of 127.0.0.0/8
    const NETWORKS: u32 = 64 * 256;
    let (_, [high, low]) = OWN.get_or_init(|| {
        let first = first_choice(NETWORKS);
        (0..NETWORKS)
            .map(|step| (first + step) % NETWORKS)
            .map(|network| [64 + (network / 256) as u8, (network % 256) as u8])
            .find_map(|[high, low]| {
                Some((MachineClaim::try_new(&format!("loopback-127.{high}.{low}"))?, [high, low]))
            })
            .expect("addresses of the loopback that no other test has")
    });
    Ipv4Addr::new(127, *high, *low, number)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_claimed_is_given_again_when_its_owner_is_gone() {
        let what = format!("for-a-test-{}", std::process::id());
        let claim = MachineClaim::try_new(&what).expect("free");
        assert!(MachineClaim::try_new(&what).is_none());
        drop(claim);
        assert!(MachineClaim::try_new(&what).is_some());
    }
}
