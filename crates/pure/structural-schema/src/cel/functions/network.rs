//! IP addresses, networks and URLs.

use std::{
    collections::BTreeMap,
    net::{IpAddr, Ipv4Addr, Ipv6Addr},
};

use super::{
    super::{
        cost,
        eval::{EvalError, EvalResult, Evaluation},
        value::{CelList, CelMap, CelValue},
    },
    charge_text,
};
use crate::formats::StringFormat;

/// An address in its plain form: no leading zeros, no IPv4 address inside an IPv6 one.
fn parse_ip(text: &str) -> Option<IpAddr> {
    let ip: IpAddr = text.parse().ok()?;
    match ip {
        IpAddr::V6(v6) if v6.to_ipv4_mapped().is_some() => None,
        _ => Some(ip),
    }
}

fn parse_cidr(text: &str) -> Option<(IpAddr, u8)> {
    let (address, bits) = text.split_once('/')?;
    let ip = parse_ip(address)?;
    let is_plain =
        bits == "0" || !bits.starts_with('0') && bits.bytes().all(|b| b.is_ascii_digit());
    let bits: u8 = bits.parse().ok()?;
    (is_plain && bits <= width(ip)).then_some((ip, bits))
}

fn width(ip: IpAddr) -> u8 {
    if ip.is_ipv4() { 32 } else { 128 }
}

/// An address with all bits after the first ones cleared.
fn masked(ip: IpAddr, bits: u8) -> IpAddr {
    match ip {
        IpAddr::V4(ip) => {
            let mask = u32::MAX.checked_shl(32 - u32::from(bits)).unwrap_or(0);
            IpAddr::V4(Ipv4Addr::from(u32::from(ip) & mask))
        }
        IpAddr::V6(ip) => {
            let mask = u128::MAX.checked_shl(128 - u32::from(bits)).unwrap_or(0);
            IpAddr::V6(Ipv6Addr::from(u128::from(ip) & mask))
        }
    }
}

fn holds((network, bits): (IpAddr, u8), (ip, ip_bits): (IpAddr, u8)) -> bool {
    network.is_ipv4() == ip.is_ipv4()
        && bits <= ip_bits
        && masked(network, bits) == masked(ip, bits)
}

fn not_an_ip(text: &str) -> EvalError {
    EvalError::new(format!(
        "IP Address {text:?} parse error during conversion from string: ParseAddr({text:?}): unable to parse IP"
    ))
}

fn not_a_cidr(text: &str) -> EvalError {
    EvalError::new(format!(
        "network address parse error during conversion from string: netip.ParsePrefix({text:?})"
    ))
}

pub(super) fn call_global<'a>(
    evaluation: &mut Evaluation<'a>,
    name: &str,
    arguments: &[CelValue<'a>],
) -> Option<EvalResult<'a>> {
    let [value @ CelValue::Text(text)] = arguments else { return None };
    let result = match name {
        "isIP" => Ok(CelValue::Bool(parse_ip(text).is_some())),
        "ip" => parse_ip(text).map(CelValue::Ip).ok_or_else(|| not_an_ip(text)),
        "ip.isCanonical" => parse_ip(text)
            .map(|ip| CelValue::Bool(ip.to_string() == **text))
            .ok_or_else(|| not_an_ip(text)),
        "isCIDR" => Ok(CelValue::Bool(parse_cidr(text).is_some())),
        "cidr" => parse_cidr(text)
            .map(|(ip, bits)| CelValue::Cidr(ip, bits))
            .ok_or_else(|| not_a_cidr(text)),
        "isURL" => Ok(CelValue::Bool(StringFormat::Uri.is_met_by(text))),
        "url" if StringFormat::Uri.is_met_by(text) => Ok(CelValue::Url((&**text).into())),
        "url" => Err(EvalError::new(format!(
            "URL parse error during conversion from string: parse {:?}: invalid URI for request",
            &**text
        ))),
        _ => return None,
    };
    Some(charge_text(evaluation, value).and(result))
}

pub(super) fn call<'a>(
    evaluation: &mut Evaluation<'a>,
    name: &str,
    arguments: &[CelValue<'a>],
) -> Option<EvalResult<'a>> {
    if let [CelValue::Url(url)] = arguments {
        // a query may have as many parts as characters
        let charged = match name {
            "getQuery" => evaluation.charge_text_made(url.len().saturating_mul(4)),
            _ => evaluation.charge_text_read(url),
        };
        if let Err(error) = charged {
            return Some(Err(error));
        }
    }
    let result = match arguments {
        [CelValue::Ip(ip)] => of_ip(name, *ip)?,
        [CelValue::Cidr(ip, bits)] => Ok(match name {
            "ip" => CelValue::Ip(*ip),
            "masked" => CelValue::Cidr(masked(*ip, *bits), *bits),
            "prefixLength" => CelValue::Int((*bits).into()),
            _ => return None,
        }),
        [CelValue::Cidr(ip, bits), other] => contains(name, (*ip, *bits), other)?,
        [CelValue::Url(url)] => Ok(of_url(name, url)?),
        _ => return None,
    };
    let own = match name {
        "containsIP" | "containsCIDR" => {
            let sizes: u64 = arguments.iter().map(CelValue::size).sum();
            cost::traverse(sizes.saturating_mul(2)).saturating_add(1)
        }
        _ => 1,
    };
    Some(evaluation.charge(own).and(result))
}

fn contains<'a>(name: &str, network: (IpAddr, u8), other: &CelValue<'a>) -> Option<EvalResult<'a>> {
    let other = match (name, other) {
        ("containsIP", CelValue::Ip(ip)) => Ok((*ip, width(*ip))),
        ("containsIP", CelValue::Text(text)) => {
            parse_ip(text).map(|ip| (ip, width(ip))).ok_or_else(|| not_an_ip(text))
        }
        ("containsCIDR", CelValue::Cidr(ip, bits)) => Ok((*ip, *bits)),
        ("containsCIDR", CelValue::Text(text)) => parse_cidr(text).ok_or_else(|| not_a_cidr(text)),
        _ => return None,
    };
    Some(other.map(|other| CelValue::Bool(holds(network, other))))
}

fn of_ip<'a>(name: &str, ip: IpAddr) -> Option<EvalResult<'a>> {
    let is_link_local = match ip {
        IpAddr::V4(ip) => ip.is_link_local(),
        IpAddr::V6(ip) => ip.is_unicast_link_local(),
    };
    let is_link_local_multicast = match ip {
        IpAddr::V4(ip) => ip.octets()[..3] == [224, 0, 0],
        IpAddr::V6(ip) => ip.segments()[0] & 0xff0f == 0xff02,
    };
    let is_broadcast = ip == IpAddr::V4(Ipv4Addr::BROADCAST);
    Some(Ok(match name {
        "family" => CelValue::Int(if ip.is_ipv4() { 4 } else { 6 }),
        "isUnspecified" => CelValue::Bool(ip.is_unspecified()),
        "isLoopback" => CelValue::Bool(ip.is_loopback()),
        "isLinkLocalMulticast" => CelValue::Bool(is_link_local_multicast),
        "isLinkLocalUnicast" => CelValue::Bool(is_link_local),
        "isGlobalUnicast" => {
            let is_special = ip.is_unspecified() || ip.is_loopback() || ip.is_multicast();
            CelValue::Bool(!(is_special || is_link_local || is_broadcast))
        }
        _ => return None,
    }))
}

fn of_url<'a>(name: &str, url: &str) -> Option<CelValue<'a>> {
    let (scheme, rest) = match url.split_once(':') {
        Some((scheme, rest)) if !url.starts_with('/') => (scheme, rest),
        _ => ("", url),
    };
    let (before, query) = rest.split_once('?').unwrap_or((rest, ""));
    let (authority, path) = match before.strip_prefix("//") {
        Some(hierarchy) => hierarchy.split_at(hierarchy.find('/').unwrap_or(hierarchy.len())),
        None => ("", before),
    };
    let host = authority.rsplit_once('@').map_or(authority, |(_, host)| host);
    let (hostname, port) = match host.strip_prefix('[').and_then(|host| host.split_once(']')) {
        Some((inner, port)) => (inner, port.strip_prefix(':').unwrap_or_default()),
        None => host.split_once(':').unwrap_or((host, "")),
    };
    Some(CelValue::text(match name {
        "getScheme" => scheme,
        "getHost" => host,
        "getHostname" => hostname,
        "getPort" => port,
        "getEscapedPath" if path.starts_with('/') => path,
        "getEscapedPath" => "",
        "getQuery" => return Some(parse_query(query)),
        _ => return None,
    }))
}

fn parse_query<'a>(query: &str) -> CelValue<'a> {
    let mut found: BTreeMap<String, Vec<CelValue<'a>>> = BTreeMap::new();
    for pair in query.split('&').filter(|pair| !pair.is_empty()) {
        let (name, value) = pair.split_once('=').unwrap_or((pair, ""));
        found.entry(unescape(name)).or_default().push(CelValue::text(unescape(value)));
    }
    let entries = found
        .into_iter()
        .map(|(name, values)| (CelValue::text(name), CelValue::List(CelList::made(values))));
    CelValue::Map(CelMap::made(entries.collect()))
}

/// Resolves `+` and `%41`.
fn unescape(text: &str) -> String {
    let bytes = text.as_bytes();
    let mut out = Vec::with_capacity(bytes.len());
    let mut at = 0;
    while let Some(byte) = bytes.get(at) {
        let escaped = bytes.get(at + 1..at + 3).and_then(|hex| std::str::from_utf8(hex).ok());
        let escaped = escaped.and_then(|hex| u8::from_str_radix(hex, 16).ok());
        match (byte, escaped) {
            (b'%', Some(byte)) => {
                out.push(byte);
                at += 2;
            }
            (b'+', _) => out.push(b' '),
            (byte, _) => out.push(*byte),
        }
        at += 1;
    }
    String::from_utf8_lossy(&out).into_owned()
}
