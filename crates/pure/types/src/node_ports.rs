//! Ports of a node that pods ask for (`hostPort`, and every port of a pod on the node's network):
//! words that scheduler, node and controllers share. Source: scheduler, `plugins/nodeports`;
//! kubelet, `pkg/kubelet/lifecycle/predicate.go`.

use std::net::IpAddr;

/// What is said of nodes where that is so.
pub const NO_FREE_PORT: &str = "node(s) didn't have free ports for the requested pod ports";

/// Whether two ports of one number are in each other's way at these addresses (`hostIP`). No
/// address, 0.0.0.0 and `::` stand for all of the node. Upstream compares the texts and knows
/// 0.0.0.0 only. Here `::` opens the port at each address of the node, so it counts as well.
pub fn collide(one: &str, other: &str) -> bool {
    let address = |text: &str| text.parse().ok().map(|address: IpAddr| address.to_canonical());
    let is_all =
        |text: &str| text.is_empty() || address(text).is_some_and(|it| it.is_unspecified());
    let is_same = one == other || (address(one).is_some() && address(one) == address(other));
    is_same || is_all(one) || is_all(other)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ports_collide_where_a_packet_may_be_for_both() {
        for (one, other, expected) in [
            ("", "", true),
            ("", "fd00::7", true),
            ("0.0.0.0", "fd00::7", true),
            ("::", "127.0.0.1", true),
            ("::", "fd00::7", true),
            ("127.0.0.1", "127.0.0.1", true),
            ("127.0.0.1", "127.0.0.2", false),
            ("::ffff:127.0.0.1", "127.0.0.1", true),
            ("fd00:0::7", "FD00::7", true),
            ("fd00::7", "fd00::8", false),
            ("fd00::7", "127.0.0.1", false),
        ] {
            assert_eq!(collide(one, other), expected, "{one} {other}");
            assert_eq!(collide(other, one), expected, "{other} {one}");
        }
    }
}
