//! Addresses and ranges of them (`10.9.8.0/24`) in fields that are older than upstream's strict
//! rules.
//!
//! Source: upstream's `IsValidIPForLegacyField` and `IsValidCIDRForLegacyField`, with the gate
//! `StrictIPCIDRValidation` on.

use std::net::IpAddr;

use rekindle_types::validation::field_error::FieldError;

use super::Path;

/// What is said of a text that is no range.
pub(crate) const NOT_A_RANGE: &str =
    "must be a valid CIDR value, (e.g. 10.9.8.0/24 or 2001:db8::/64)";

/// What is said of a text that is no address.
pub(crate) const NOT_AN_ADDRESS: &str =
    "must be a valid IP address, (e.g. 10.9.8.7 or 2001:db8::ffff)";

/// What is wrong with an address.
pub(crate) fn address_error(address: &str, field: &Path) -> Option<FieldError> {
    let why = match address.parse::<IpAddr>() {
        Ok(IpAddr::V6(ip)) if ip.to_ipv4_mapped().is_some() => {
            "must not be an IPv4-mapped IPv6 address"
        }
        Ok(_) => return None,
        Err(_) if without_zeros(address).is_some() => "must not have leading 0s",
        Err(_) => NOT_AN_ADDRESS,
    };
    Some(FieldError::invalid(field, address, why))
}

/// The address that a text names, also when its numbers begin with zeros.
pub(crate) fn readable_address(address: &str) -> Option<IpAddr> {
    address.parse().ok().or_else(|| without_zeros(address))
}

/// Whether a text is an address and the length of its prefix.
pub(crate) fn is_range(text: &str) -> bool {
    let Some((address, prefix)) = text.split_once('/') else { return false };
    let bits = match address.parse::<IpAddr>() {
        Ok(IpAddr::V4(_)) => 32,
        Ok(IpAddr::V6(_)) => 128,
        Err(_) => return false,
    };
    let is_number = !prefix.is_empty() && prefix.bytes().all(|byte| byte.is_ascii_digit());
    is_number && prefix.parse::<u8>().is_ok_and(|prefix| prefix <= bits)
}

/// What is wrong with a range.
pub(crate) fn range_error(range: &str, field: &Path) -> Option<FieldError> {
    let why = if is_readable(range) { not_strict(range)? } else { NOT_A_RANGE };
    Some(FieldError::invalid(field, range, why))
}

/// What is wrong with a list that may have one range of each IP family.
pub(crate) fn family_error(ranges: &[String], field: &Path) -> Option<FieldError> {
    let is_v6 = |range: &String| range.contains(':');
    let are_different = match ranges {
        [] | [_] => true,
        [first, second] => is_v6(first) != is_v6(second),
        [..] => false,
    };
    let why = "may specify no more than one CIDR for each IP family";
    (!are_different).then(|| FieldError::invalid_json(field, &ranges, why))
}

/// Whether it is an address and the length of its prefix, where numbers may begin with zeros.
fn is_readable(range: &str) -> bool {
    let Some((address, prefix)) = range.split_once('/') else { return false };
    let bits = if address.contains(':') { 128 } else { 32 };
    let has_address = readable_address(address).is_some();
    let is_number = !prefix.is_empty() && prefix.bytes().all(|byte| byte.is_ascii_digit());
    has_address && is_number && prefix.parse::<u32>().is_ok_and(|prefix| prefix <= bits)
}

/// The address in four numbers that may begin with zeros.
fn without_zeros(address: &str) -> Option<IpAddr> {
    let numbers: Vec<&str> = address
        .split('.')
        .map(|number| match number.trim_start_matches('0') {
            "" if !number.is_empty() => "0",
            number => number,
        })
        .collect();
    numbers.join(".").parse().ok()
}

/// Why a range that can be read is refused.
fn not_strict(range: &str) -> Option<&'static str> {
    const ZEROS: &str = "must not have leading 0s in IP or prefix length";
    let (address, prefix) = range.split_once('/')?;
    let Ok(address) = address.parse::<IpAddr>() else { return Some(ZEROS) };
    if prefix.len() > 1 && prefix.starts_with('0') {
        return Some(ZEROS);
    }
    let prefix: u32 = prefix.parse().ok()?;
    let has_more_bits = match address {
        IpAddr::V4(address) => address.to_bits().checked_shl(prefix).is_some_and(|rest| rest != 0),
        IpAddr::V6(address) if address.to_ipv4_mapped().is_some() => {
            return Some("must not have an IPv4-mapped IPv6 address");
        }
        IpAddr::V6(address) => address.to_bits().checked_shl(prefix).is_some_and(|rest| rest != 0),
    };
    has_more_bits.then_some("must not have bits set beyond the prefix length")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_range_says_the_same_to_whoever_reads_it() {
        let why = |range: &str| {
            let error = range_error(range, &Path::new("spec.cidr"));
            error.map(|error| error.detail.split(',').next().unwrap_or_default().to_owned())
        };
        for range in ["10.9.8.0/24", "0.0.0.0/0", "10.0.0.1/32", "2001:db8::/64", "::/0", "::1/128"]
        {
            assert_eq!(why(range), None, "{range}");
        }
        let invalid = "must be a valid CIDR value";
        let zeros = "must not have leading 0s in IP or prefix length";
        let bits = "must not have bits set beyond the prefix length";
        for (range, expected) in [
            ("", invalid),
            ("10.0.0.0", invalid),
            ("10.0.0.0/33", invalid),
            ("10.0.0.0/+8", invalid),
            ("10..0.0/8", invalid),
            ("x/8", invalid),
            ("::/129", invalid),
            ("010.0.0.0/8", zeros),
            ("10.0.0.0/08", zeros),
            ("::ffff:10.0.0.0/104", "must not have an IPv4-mapped IPv6 address"),
            ("10.0.0.1/24", bits),
            ("2001:db8::1/64", bits),
        ] {
            assert_eq!(why(range).as_deref(), Some(expected), "{range}");
        }
    }

    #[test]
    fn an_address_says_the_same_to_whoever_reads_it() {
        let why = |address: &str| {
            let error = address_error(address, &Path::new("ip"));
            error.map(|error| error.detail.split(',').next().unwrap_or_default().to_owned())
        };
        for address in ["10.9.8.7", "0.0.0.0", "2001:db8::ffff", "::"] {
            assert_eq!(why(address), None, "{address}");
        }
        for (address, expected) in [
            ("", "must be a valid IP address"),
            ("10.9.8", "must be a valid IP address"),
            ("10.9.8.07", "must not have leading 0s"),
            ("10.00.8.7", "must not have leading 0s"),
            ("::ffff:10.9.8.7", "must not be an IPv4-mapped IPv6 address"),
        ] {
            assert_eq!(why(address).as_deref(), Some(expected), "{address}");
        }
    }

    #[test]
    fn a_list_has_one_range_of_each_family() {
        let is_wrong = |ranges: &[&str]| {
            let ranges: Vec<String> = ranges.iter().map(|range| (*range).to_owned()).collect();
            family_error(&ranges, &Path::new("spec.podCIDRs")).is_some()
        };
        assert!(!is_wrong(&["10.0.0.0/24"]));
        assert!(!is_wrong(&["10.0.0.0/24", "fd00::/64"]));
        assert!(is_wrong(&["10.0.0.0/24", "10.0.1.0/24"]));
        assert!(is_wrong(&["10.0.0.0/24", "fd00::/64", "10.0.1.0/24"]));
    }
}
