//! Where a request comes from, as its headers and its connection say.

use std::net::IpAddr;

/// Addresses that an event takes from the headers of its request: the nearest ones. Clients write
/// the first ones themselves, each proxy appends one.
const FORWARDED_ADDRESSES_MAX: usize = 16;
/// Bytes of a user agent that an event shows, as upstream.
const USER_AGENT_BYTES_MAX: usize = 1024;
/// What follows a user agent that was cut, as upstream.
const CUT: &str = "...TRUNCATED";
/// Bytes of the ID that a client may give its request.
const AUDIT_ID_BYTES_MAX: usize = 128;

/// The addresses that a request came along, the nearest last. Only the nearest is certain: the
/// client writes the headers `X-Forwarded-For` and `X-Real-Ip` itself.
pub fn source_addresses<'h>(
    forwarded_for: impl DoubleEndedIterator<Item = &'h str>,
    real_ip: Option<&str>,
    peer: Option<IpAddr>,
) -> Vec<IpAddr> {
    let parsed = |text: &str| text.trim().parse::<IpAddr>().ok();
    let forwarded = forwarded_for.flat_map(|header| header.split(',')).filter_map(parsed);
    let mut addresses: Vec<IpAddr> = forwarded.rev().take(FORWARDED_ADDRESSES_MAX).collect();
    addresses.reverse();
    let real = real_ip.and_then(parsed);
    addresses.extend(real.filter(|real| !addresses.contains(real)));
    addresses.extend(peer.filter(|peer| addresses.last() != Some(peer)));
    addresses
}

/// A user agent as an event shows it.
pub fn recorded_user_agent(given: &str) -> String {
    if given.len() <= USER_AGENT_BYTES_MAX {
        return given.to_owned();
    }
    let end = given.floor_char_boundary(USER_AGENT_BYTES_MAX);
    [&given[..end], CUT].concat()
}

/// Whether a client's `Audit-ID` can be the ID of its request: visible ASCII of a bounded length.
pub fn is_usable_audit_id(given: &str) -> bool {
    (1..=AUDIT_ID_BYTES_MAX).contains(&given.len())
        && given.bytes().all(|byte| byte.is_ascii_graphic())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_are_listed_as_upstream_lists_them() {
        let peer = Some(IpAddr::from([10, 0, 0, 9]));
        for (forwarded, real, expected) in [
            (vec![], None, vec!["10.0.0.9"]),
            (vec!["1.2.3.4, x, 5.6.7.8"], None, vec!["1.2.3.4", "5.6.7.8", "10.0.0.9"]),
            (vec!["1.2.3.4", "fd00::1"], Some("1.2.3.4"), vec!["1.2.3.4", "fd00::1", "10.0.0.9"]),
            (vec!["1.2.3.4"], Some("5.6.7.8"), vec!["1.2.3.4", "5.6.7.8", "10.0.0.9"]),
            (vec!["10.0.0.9"], None, vec!["10.0.0.9"]),
        ] {
            let found = source_addresses(forwarded.clone().into_iter(), real, peer);
            let found: Vec<String> = found.iter().map(ToString::to_string).collect();
            assert_eq!(found, expected, "{forwarded:?} {real:?}");
        }
        let many = vec!["1.2.3.4"; 1000].join(",");
        assert_eq!(source_addresses([many.as_str()].into_iter(), None, peer).len(), 17);
        let forged = format!("{},1.2.3.4", vec!["6.6.6.6"; 16].join(","));
        let found = source_addresses([forged.as_str()].into_iter(), None, peer);
        assert_eq!(found.len(), 17);
        assert_eq!(found[15], IpAddr::from([1, 2, 3, 4]), "a proxy nearby has written it");
        assert!(source_addresses([].into_iter(), None, None).is_empty());
    }

    #[test]
    fn a_long_user_agent_is_cut() {
        assert_eq!(recorded_user_agent("kubectl/v1.37"), "kubectl/v1.37");
        let cut = recorded_user_agent(&"ä".repeat(600));
        assert_eq!(cut, ["ä".repeat(512).as_str(), "...TRUNCATED"].concat());
    }

    #[test]
    fn an_id_from_outside_is_bounded_and_cannot_split_lines() {
        for (id, usable) in
            [("my-id:1", true), ("", false), ("a b", false), ("a\nb", false), ("ä", false)]
        {
            assert_eq!(is_usable_audit_id(id), usable, "{id:?}");
        }
        assert!(is_usable_audit_id(&"x".repeat(128)));
        assert!(!is_usable_audit_id(&"x".repeat(129)));
    }
}
