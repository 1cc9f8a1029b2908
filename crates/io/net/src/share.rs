//! Which of a subnet's addresses are whose, when several node agents have pods on one bridge: pure.
//!
//! ```text
//!  10.88.0.0/16   the subnet that every pod sees as its own; .1 is the bridge
//!  ├── 10.88.0.0/17     the bridge's owner: the lower half
//!  └── 10.88.128.0/24   guest 1      (each guest a part of the upper half)
//!      10.88.129.0/24   guest 2 …
//! ```
//! The parts follow from the subnet and a number alone: nobody has to be asked, also by an agent
//! that comes back alone. A subnet smaller than a /24 is the owner's as a whole.

use ipnet::Ipv4Net;
use serde::{Deserialize, Serialize};

/// The smallest subnet that is shared.
const SHARED_PREFIX_MAX: u8 = 24;
/// A guest's part is not larger than this.
const GUEST_PREFIX_MIN: u8 = 24;
/// How much smaller than the subnet a guest's part is at least: eight of them fill the upper half.
const GUEST_PREFIX_LONGER: u8 = 4;
/// Guests of one bridge at most; two hex digits of an interface's name.
pub const GUESTS_MAX: u8 = 128;

/// An agent's part in a bridge.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum BridgeShare {
    /// It makes the bridge, and takes it away.
    Owner,
    /// It has pods on a bridge that another agent owns; the number is 1 or more, and nobody else's.
    Guest(u8),
}

/// How many guests a bridge with this subnet can have.
pub fn guests_max(subnet: Ipv4Net) -> u8 {
    match guest_prefix(subnet) {
        None => 0,
        Some(prefix) => {
            let parts = 1_u32 << (prefix - subnet.prefix_len() - 1);
            u8::try_from(parts).unwrap_or(GUESTS_MAX).min(GUESTS_MAX)
        }
    }
}

/// The addresses of a share; `None` for a guest that has no room.
pub fn range(subnet: Ipv4Net, share: BridgeShare) -> Option<Ipv4Net> {
    let subnet = subnet.trunc();
    match (share, guest_prefix(subnet)) {
        (BridgeShare::Owner, None) => Some(subnet),
        (BridgeShare::Owner, Some(_)) => subnet.subnets(subnet.prefix_len() + 1).ok()?.next(),
        (BridgeShare::Guest(_), None) => None,
        (BridgeShare::Guest(number), Some(prefix)) => {
            let place = number.checked_sub(1).filter(|place| *place < guests_max(subnet))?;
            let upper = subnet.subnets(subnet.prefix_len() + 1).ok()?.nth(1)?;
            upper.subnets(prefix).ok()?.nth(place.into())
        }
    }
}

fn guest_prefix(subnet: Ipv4Net) -> Option<u8> {
    let length = subnet.prefix_len();
    (length <= SHARED_PREFIX_MAX).then(|| GUEST_PREFIX_MIN.max(length + GUEST_PREFIX_LONGER))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_agent_has_a_part_of_its_own() {
        let cases = [
            ("10.88.0.0/16", "10.88.0.0/17", "10.88.128.0/24", 128),
            ("10.88.0.0/20", "10.88.0.0/21", "10.88.8.0/24", 8),
            ("10.1.2.0/24", "10.1.2.0/25", "10.1.2.128/28", 8),
            ("10.0.0.0/8", "10.0.0.0/9", "10.128.0.0/24", 128),
        ];
        for (subnet, owner, first, guests) in cases {
            let net = subnet.parse().unwrap();
            let part = |share| range(net, share).map(|part| part.to_string());
            assert_eq!(part(BridgeShare::Owner).as_deref(), Some(owner), "{subnet}");
            assert_eq!(part(BridgeShare::Guest(1)).as_deref(), Some(first), "{subnet}");
            assert_eq!(guests_max(net), guests, "{subnet}");
            assert_eq!(part(BridgeShare::Guest(0)), None);
            let all: Vec<Ipv4Net> =
                (1..=guests).filter_map(|number| range(net, BridgeShare::Guest(number))).collect();
            assert_eq!(all.len(), usize::from(guests), "{subnet}");
            let owned = range(net, BridgeShare::Owner).unwrap();
            for (at, one) in all.iter().enumerate() {
                assert!(net.contains(one) && !owned.contains(one), "{one} of {subnet}");
                assert!(!all[..at].contains(one), "{one} is given twice");
            }
        }
        assert_eq!(range("10.1.2.0/24".parse().unwrap(), BridgeShare::Guest(9)), None, "no room");
    }

    #[test]
    fn a_small_subnet_is_its_owners_alone() {
        let small = "10.1.2.0/25".parse().unwrap();
        assert_eq!(range(small, BridgeShare::Owner), Some(small));
        assert_eq!((range(small, BridgeShare::Guest(1)), guests_max(small)), (None, 0));
    }
}
