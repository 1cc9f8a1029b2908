//! Addresses: IP, CIDR, MAC and URI.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// An IP address. Parts of IPv4 may have leading zeros, as old clients write them.
pub(crate) fn parse_ip(text: &str) -> Option<IpAddr> {
    if text.contains(':') {
        return text.parse::<Ipv6Addr>().ok().map(IpAddr::V6);
    }
    let mut parts = [0_u8; 4];
    let mut found = text.split('.');
    for part in &mut parts {
        let digits = found.next()?;
        if digits.is_empty() || !digits.bytes().all(|sign| sign.is_ascii_digit()) {
            return None;
        }
        *part = digits.parse().ok()?;
    }
    found.next().is_none().then_some(IpAddr::V4(Ipv4Addr::from(parts)))
}

pub(super) fn is_cidr(text: &str) -> bool {
    let Some((address, bits)) = text.split_once('/') else { return false };
    let is_number = !bits.is_empty() && bits.bytes().all(|sign| sign.is_ascii_digit());
    let max = match parse_ip(address) {
        Some(IpAddr::V4(_)) => 32,
        Some(IpAddr::V6(_)) => 128,
        None => return false,
    };
    is_number && bits.parse::<u32>().is_ok_and(|bits| bits <= max)
}

/// A MAC-48, EUI-64 or InfiniBand address, with colons, dashes or dots.
pub(super) fn is_mac(text: &str) -> bool {
    let is_hex = |part: &str, len: usize| {
        part.len() == len && part.bytes().all(|sign| sign.is_ascii_hexdigit())
    };
    [(':', 2), ('-', 2), ('.', 4)].into_iter().any(|(separator, len)| {
        let parts: Vec<&str> = text.split(separator).collect();
        let bytes = parts.len() * len / 2;
        matches!(bytes, 6 | 8 | 20) && parts.iter().all(|part| is_hex(part, len))
    })
}

/// What a request may name: an absolute URI, or an absolute path.
pub(super) fn is_request_uri(text: &str) -> bool {
    if text.is_empty() || text.chars().any(|sign| sign.is_ascii_control()) {
        return false;
    }
    if text == "*" {
        return true;
    }
    let rest = match scheme_of(text) {
        Some(scheme) => &text[scheme.len() + 1..],
        None if text.starts_with('/') => text,
        None => return false,
    };
    let (before_query, _) = rest.split_once('?').unwrap_or((rest, ""));
    let Some(hierarchy) =
        before_query.strip_prefix("//").filter(|_| !before_query.starts_with("///"))
    else {
        // what follows a scheme without a slash is opaque
        return !before_query.starts_with('/') || has_good_escapes(before_query);
    };
    let (authority, path) = match hierarchy.find('/') {
        Some(at) => hierarchy.split_at(at),
        None => (hierarchy, ""),
    };
    is_authority(authority) && has_good_escapes(path)
}

fn scheme_of(text: &str) -> Option<&str> {
    let (scheme, _) = text.split_once(':')?;
    let is_scheme = scheme.bytes().enumerate().all(|(at, sign)| {
        sign.is_ascii_alphabetic()
            || at > 0 && (sign.is_ascii_digit() || matches!(sign, b'+' | b'-' | b'.'))
    });
    (is_scheme && !scheme.is_empty()).then_some(scheme)
}

fn is_authority(authority: &str) -> bool {
    let host = authority.rsplit_once('@').map_or(authority, |(_, host)| host);
    let (host, port) = match host.strip_prefix('[') {
        Some(bracketed) => match bracketed.split_once(']') {
            Some((_, rest)) => ("", rest.strip_prefix(':').unwrap_or(rest)),
            None => return false,
        },
        None => host.split_once(':').unwrap_or((host, "")),
    };
    let is_port = port.bytes().all(|sign| sign.is_ascii_digit());
    let is_host = host.chars().all(|sign| {
        sign.is_ascii_alphanumeric() || !sign.is_ascii() || "-._~%!$&'()*+,;=\"<>".contains(sign)
    });
    is_port && is_host && has_good_escapes(host)
}

/// Each `%` is followed by two hexadecimal digits.
fn has_good_escapes(text: &str) -> bool {
    let mut parts = text.split('%');
    parts.next();
    parts.all(|part| {
        part.as_bytes().get(..2).is_some_and(|hex| hex.iter().all(u8::is_ascii_hexdigit))
    })
}
