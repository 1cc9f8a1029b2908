//! The formats of texts that upstream checks (kube-openapi `strfmt`). It ignores any other format.

mod address;
mod digits;
mod mail;
mod time;

use std::sync::LazyLock;

use regex::Regex;

pub use time::parse_go_duration;
pub(crate) use time::{is_in_range, parse_date, parse_date_time, parse_duration};

/// A format of `type: string`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum StringFormat {
    BsonObjectId,
    Byte,
    Cidr,
    CreditCard,
    Date,
    DateTime,
    Duration,
    Email,
    HexColor,
    Hostname,
    Ipv4,
    Ipv6,
    Isbn,
    Isbn10,
    Isbn13,
    LongName,
    Mac,
    Password,
    RgbColor,
    ShortName,
    Ssn,
    Uri,
    Uuid,
    Uuid3,
    Uuid4,
    Uuid5,
}

impl StringFormat {
    /// The format of a name; dashes do not count.
    pub(crate) fn parse(name: &str) -> Option<Self> {
        let bare = name.replace('-', "");
        Some(match bare.as_str() {
            "bsonobjectid" => Self::BsonObjectId,
            "byte" => Self::Byte,
            "cidr" => Self::Cidr,
            "creditcard" => Self::CreditCard,
            "date" => Self::Date,
            "datetime" => Self::DateTime,
            "duration" => Self::Duration,
            "email" => Self::Email,
            "hexcolor" => Self::HexColor,
            "hostname" => Self::Hostname,
            "ipv4" => Self::Ipv4,
            "ipv6" => Self::Ipv6,
            "isbn" => Self::Isbn,
            "isbn10" => Self::Isbn10,
            "isbn13" => Self::Isbn13,
            "k8slongname" => Self::LongName,
            "mac" => Self::Mac,
            "password" => Self::Password,
            "rgbcolor" => Self::RgbColor,
            "k8sshortname" => Self::ShortName,
            "ssn" => Self::Ssn,
            "uri" => Self::Uri,
            "uuid" => Self::Uuid,
            "uuid3" => Self::Uuid3,
            "uuid4" => Self::Uuid4,
            "uuid5" => Self::Uuid5,
            _ => return None,
        })
    }

    /// Whether a text has the format.
    pub(crate) fn is_met_by(self, text: &str) -> bool {
        match self {
            Self::BsonObjectId => text.len() == 24 && text.bytes().all(|b| b.is_ascii_hexdigit()),
            Self::Byte => is_base64(text),
            Self::Cidr => address::is_cidr(text),
            Self::CreditCard => digits::is_credit_card(text),
            Self::Date => parse_date(text).is_some(),
            Self::DateTime => time::is_date_time(text),
            Self::Duration => parse_duration(text).is_some(),
            Self::Email => mail::is_address(text),
            Self::HexColor => is_hex_color(text),
            Self::Hostname => is_hostname(text),
            Self::Ipv4 => text.contains('.') && address::parse_ip(text).is_some(),
            Self::Ipv6 => text.contains(':') && text.parse::<std::net::Ipv6Addr>().is_ok(),
            Self::Isbn => digits::is_isbn10(text) || digits::is_isbn13(text),
            Self::Isbn10 => digits::is_isbn10(text),
            Self::Isbn13 => digits::is_isbn13(text),
            Self::LongName => text.len() <= 253 && text.split('.').all(is_short_name),
            Self::Mac => address::is_mac(text),
            Self::Password => true,
            Self::RgbColor => RGB_COLOR.is_match(text),
            Self::ShortName => text.len() <= 63 && is_short_name(text),
            Self::Ssn => SSN.is_match(text),
            Self::Uri => address::is_request_uri(text),
            Self::Uuid => is_uuid(text, None),
            Self::Uuid3 => is_uuid(text, Some('3')),
            Self::Uuid4 => is_uuid(text, Some('4')) && has_variant(text),
            Self::Uuid5 => is_uuid(text, Some('5')) && has_variant(text),
        }
    }
}

fn regex(pattern: &str) -> Regex {
    Regex::new(pattern).expect("the expression is a constant that a test compiles")
}

static HOSTNAME: LazyLock<Regex> = LazyLock::new(|| {
    let sign = r"[a-zA-Z0-9\p{S}\p{L}]";
    let inner = r"[a-zA-Z0-9\-\p{S}\p{L}]{0,61}";
    regex(&format!(
        r"^({sign}((-?{sign}{{0,62}})?)|({sign}(({inner}{sign})?)(\.)){{1,}}([a-zA-Z\p{{L}}]){{2,63}})$"
    ))
});
static SSN: LazyLock<Regex> = LazyLock::new(|| regex("^[0-9]{3}[- ]?[0-9]{2}[- ]?[0-9]{4}$"));
static RGB_COLOR: LazyLock<Regex> = LazyLock::new(|| {
    let part = r"(0|[1-9][0-9]?|1[0-9][0-9]?|2[0-4][0-9]|25[0-5])";
    regex(&format!(r"^rgb\(\s*{part}\s*,\s*{part}\s*,\s*{part}\s*\)$"))
});

fn is_hostname(text: &str) -> bool {
    text.len() <= 255 && text.split('.').all(|label| label.len() <= 63) && HOSTNAME.is_match(text)
}

fn is_short_name(text: &str) -> bool {
    let is_plain = |sign: u8| sign.is_ascii_lowercase() || sign.is_ascii_digit();
    let bytes = text.as_bytes();
    bytes.first().is_some_and(|sign| is_plain(*sign))
        && bytes.last().is_some_and(|sign| is_plain(*sign))
        && bytes.iter().all(|sign| is_plain(*sign) || *sign == b'-')
}

fn is_hex_color(text: &str) -> bool {
    let digits = text.strip_prefix('#').unwrap_or(text);
    matches!(digits.len(), 3 | 6) && digits.bytes().all(|sign| sign.is_ascii_hexdigit())
}

/// Padded base64 of the standard alphabet, not empty.
fn is_base64(text: &str) -> bool {
    let signs = text.trim_end_matches('=');
    let padding = text.len() - signs.len();
    !signs.is_empty()
        && padding <= 2
        && text.len().is_multiple_of(4)
        && signs.bytes().all(|sign| sign.is_ascii_alphanumeric() || sign == b'+' || sign == b'/')
}

/// Whether a text is a UUID, of a version if one is asked for. Each dash may be left out.
fn is_uuid(text: &str, version: Option<char>) -> bool {
    let mut rest = text;
    for (at, len) in [8, 4, 4, 4, 12].into_iter().enumerate() {
        if at > 0 {
            rest = rest.strip_prefix('-').unwrap_or(rest);
        }
        let Some((part, after)) = rest.split_at_checked(len) else { return false };
        if !part.bytes().all(|sign| sign.is_ascii_hexdigit()) {
            return false;
        }
        if at == 2 && version.is_some_and(|version| !part.starts_with(version)) {
            return false;
        }
        rest = after;
    }
    rest.is_empty()
}

/// Whether the fourth part of a UUID begins as RFC 4122 wants.
fn has_variant(uuid: &str) -> bool {
    let sign = uuid.chars().filter(|sign| *sign != '-').nth(16);
    sign.is_some_and(|sign| matches!(sign, '8' | '9' | 'a' | 'b' | 'A' | 'B'))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_format_takes_what_upstream_takes() {
        for (format, good, bad) in [
            ("bsonobjectid", "507f1f77bcf86cd799439011", "507f1f77"),
            ("byte", "aGk=", "%%"),
            ("byte", "aGVsbG8h", ""),
            ("cidr", "10.0.0.0/8", "10.0.0.0"),
            ("cidr", "fd00::/64", "fd00::/129"),
            ("creditcard", "4111 1111 1111 1111", "4111 1111 1111 1112"),
            ("date", "2026-02-28", "2026-02-30"),
            ("date-time", "2026-01-02T03:04:05Z", "yesterday"),
            ("date-time", "2026-01-02t03:04:05.123+01:00", "2026-01-02T24:00:00Z"),
            ("duration", "1h30m", "1 fortnight"),
            ("duration", "2 days", "h"),
            ("email", "a@example.org", "a@"),
            ("email", "Ann <a@example.org>", "Ann a@example.org"),
            ("hexcolor", "#fFf", "#ffff"),
            ("hostname", "www.example.org", "-a.example.org"),
            ("ipv4", "10.0.0.1", "300.1.1.1"),
            ("ipv4", "010.0.0.1", "10.0.0"),
            ("ipv6", "::1", "10.0.0.1"),
            ("isbn", "0321751043", "0321751044"),
            ("isbn13", "978-0321751041", "978-0321751042"),
            ("mac", "00:1b:44:11:3a:b7", "00:1b:44"),
            ("password", "", "\u{0}none"),
            ("rgbcolor", "rgb(0, 100, 255)", "rgb(0,0,256)"),
            ("ssn", "123-45-6789", "123-45-678"),
            ("uri", "https://example.org/a?b=c", "a/b"),
            ("uri", "/only/a/path", "http://a b/"),
            ("uuid", "0C4FFFD7-1111-2222-3333-444444444444", "x"),
            (
                "uuid4",
                "0c4fffd7-1111-4222-8333-444444444444",
                "0c4fffd7-1111-1222-8333-444444444444",
            ),
            ("k8s-short-name", "a-1", "a-"),
            ("k8s-long-name", "a.b-c", "a..b"),
        ] {
            let parsed = StringFormat::parse(format).expect(format);
            assert!(parsed.is_met_by(good), "{format} takes {good}");
            assert!(parsed == StringFormat::Password || !parsed.is_met_by(bad), "{format}: {bad}");
        }
        assert_eq!(StringFormat::parse("sundial"), None);
    }
}
