//! Which subnet the pods live in, when the user names none: the first of a few that meets nothing
//! on this machine.

use ipnet::Ipv4Net;

use crate::error::NetError;

/// The second number of the default subnets 10.88.0.0/16, 10.89.0.0/16, … in the order of trial.
/// 10.88 is what podman and CRI-O examples use, so whoever sees it knows what it is.
const SECOND_NUMBERS: std::ops::RangeInclusive<u8> = 88..=127;

/// The first default subnet that overlaps with none of `taken` (the machine's addresses and
/// routes).
pub(crate) fn choose_default(taken: &[Ipv4Net]) -> Result<Ipv4Net, NetError> {
    SECOND_NUMBERS
        .map(|second| Ipv4Net::new_assert([10, second, 0, 0].into(), 16))
        .find(|candidate| overlapping(*candidate, taken).is_none())
        .ok_or(NetError::NoDefaultSubnet)
}

/// What of `taken` overlaps with `subnet`.
pub(crate) fn overlapping(subnet: Ipv4Net, taken: &[Ipv4Net]) -> Option<Ipv4Net> {
    taken
        .iter()
        .copied()
        .find(|net| net.contains(&subnet.network()) || subnet.contains(&net.network()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn nets(list: &[&str]) -> Vec<Ipv4Net> {
        list.iter().map(|net| net.parse().unwrap()).collect()
    }

    #[test]
    fn the_first_default_that_meets_nothing_is_taken() {
        let cases: [(&[&str], &str); 4] = [
            (&[], "10.88.0.0/16"),
            (&["192.0.2.0/24"], "10.88.0.0/16"),
            (&["10.88.7.0/24", "10.89.0.1/32"], "10.90.0.0/16"),
            (&["10.0.0.0/10"], "10.88.0.0/16"),
        ];
        for (taken, expected) in cases {
            assert_eq!(choose_default(&nets(taken)).unwrap().to_string(), expected, "{taken:?}");
        }
    }

    #[test]
    fn a_machine_that_uses_all_of_them_is_told_so() {
        assert!(matches!(choose_default(&nets(&["10.0.0.0/8"])), Err(NetError::NoDefaultSubnet)));
    }
}
