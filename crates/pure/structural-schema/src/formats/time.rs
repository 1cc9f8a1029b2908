//! Dates, times and durations.

use std::sync::LazyLock;

use jiff::{Timestamp, civil::Date};
use regex::Regex;

/// A full date of RFC 3339.
pub(crate) fn parse_date(text: &str) -> Option<Date> {
    let bytes = text.as_bytes();
    let is_date = bytes.len() == 10
        && bytes.iter().enumerate().all(|(at, sign)| match at {
            4 | 7 => *sign == b'-',
            _ => sign.is_ascii_digit(),
        });
    if !is_date {
        return None;
    }
    let number = |from: usize, to: usize| text[from..to].parse::<i16>().ok();
    let day = |value: i16| i8::try_from(value).ok();
    Date::new(number(0, 4)?, day(number(5, 7)?)?, day(number(8, 10)?)?).ok()
}

static TIME: LazyLock<Regex> = LazyLock::new(|| {
    super::regex(r"^([0-9]{2}):([0-9]{2}):([0-9]{2})(.[0-9]+)?(z|([+-][0-9]{2}:[0-9]{2}))$")
});

/// Whether a text is a date-time of RFC 3339.
pub(super) fn is_date_time(text: &str) -> bool {
    let lower = text.to_lowercase();
    let Some((date, rest)) = lower.split_once('t') else { return false };
    let time = rest.split('t').next().unwrap_or_default();
    let Some(parts) = TIME.captures(time) else { return false };
    parse_date(date).is_some() && &parts[1] <= "23" && &parts[2] <= "59" && &parts[3] <= "59"
}

/// The moment that a date-time names.
pub(crate) fn parse_date_time(text: &str) -> Option<Timestamp> {
    if !is_date_time(text) {
        return None;
    }
    text.to_uppercase().parse().ok()
}

/// The beginning of the year 1, in nanoseconds since 1970: rules know no moment before it.
const FIRST_NANOSECOND: i128 = -62_135_596_800_000_000_000;

/// Whether rules know a moment. The library ends the year 9999 a day before upstream does.
pub(crate) fn is_in_range(moment: &Timestamp) -> bool {
    moment.as_nanosecond() >= FIRST_NANOSECOND
}

const NANOS: [(&str, i128); 8] = [
    ("ns", 1),
    ("us", 1_000),
    ("µs", 1_000),
    ("μs", 1_000),
    ("ms", 1_000_000),
    ("s", 1_000_000_000),
    ("m", 60_000_000_000),
    ("h", 3_600_000_000_000),
];

/// A duration in nanoseconds: as Go writes it, or with units in words such as `2 days`.
pub(crate) fn parse_duration(text: &str) -> Option<i64> {
    parse_go_duration(text).or_else(|| parse_worded_duration(text))
}

/// A duration as Go writes it, such as `-1.5h`, in nanoseconds.
pub fn parse_go_duration(text: &str) -> Option<i64> {
    let (is_negative, mut rest) = match text.strip_prefix('-') {
        Some(rest) => (true, rest),
        None => (false, text.strip_prefix('+').unwrap_or(text)),
    };
    if rest == "0" {
        return Some(0);
    }
    if rest.is_empty() {
        return None;
    }
    let mut sum: i128 = 0;
    while !rest.is_empty() {
        let number_len = rest.find(|sign: char| !sign.is_ascii_digit() && sign != '.');
        let (number, after) = rest.split_at(number_len?);
        let unit_len = after.find(|sign: char| sign.is_ascii_digit() || sign == '.');
        let (unit, next) = after.split_at(unit_len.unwrap_or(after.len()));
        let (_, nanos) = NANOS.iter().find(|(name, _)| *name == unit)?;
        let (whole, fraction) = number.split_once('.').unwrap_or((number, ""));
        if whole.is_empty() && fraction.is_empty() || fraction.contains('.') {
            return None;
        }
        // more than 64 bits is no duration: so all sums fit 128
        let whole: u64 = if whole.is_empty() { 0 } else { whole.parse().ok()? };
        sum += i128::from(whole) * nanos;
        let mut scale = *nanos;
        for digit in fraction.bytes().take(18) {
            scale /= 10;
            sum += i128::from(digit - b'0') * scale;
        }
        if sum > i128::from(i64::MAX) + 1 {
            return None;
        }
        rest = next;
    }
    i64::try_from(if is_negative { -sum } else { sum }).ok()
}

static WORDED: LazyLock<Regex> =
    LazyLock::new(|| super::regex("([0-9]+)[\t\n\x0c\r ]*([A-Za-zµ]+)"));

/// Names of units. The last of each is a prefix: `nano` stands for `nanoseconds`.
const WORDS: [(&[&str], i64); 8] = [
    (&["ns", "nano"], 1),
    (&["us", "µs", "micro"], 1_000),
    (&["ms", "milli"], 1_000_000),
    (&["s", "sec"], 1_000_000_000),
    (&["m", "min"], 60_000_000_000),
    (&["h", "hr", "hour"], 3_600_000_000_000),
    (&["d", "day"], 86_400_000_000_000),
    (&["w", "wk", "week"], 604_800_000_000_000),
];

fn parse_worded_duration(text: &str) -> Option<i64> {
    let mut sum: Option<i64> = None;
    for parts in WORDED.captures_iter(text) {
        let count: i64 = parts[1].parse().ok()?;
        let unit = parts[2].to_lowercase();
        for (names, nanos) in WORDS {
            let is_unit = names.contains(&unit.as_str())
                || names.last().is_some_and(|stem| unit.starts_with(stem));
            if is_unit {
                let span = count.wrapping_mul(nanos);
                sum = Some(sum.unwrap_or_default().wrapping_add(span));
            }
        }
    }
    sum
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_are_read_as_go_reads_them() {
        for (text, nanos) in [
            ("1h30m", Some(5_400_000_000_000)),
            ("-1.5s", Some(-1_500_000_000)),
            ("0", Some(0)),
            (".5ms", Some(500_000)),
            ("3 weeks", Some(3 * 604_800_000_000_000)),
            ("1 day 2 hours", Some(93_600_000_000_000)),
            ("", None),
            ("h", None),
            ("1", None),
        ] {
            assert_eq!(parse_duration(text), nanos, "{text}");
        }
        for (text, nanos) in [
            ("9223372036854775807ns", Some(i64::MAX)),
            ("-9223372036854775808ns", Some(i64::MIN)),
            ("9223372036854775808ns", None),
            ("9223372036854775807.9us", None),
            ("2562047h2562047h", None),
            ("170141183460469231731687303715884105.9us", None),
            ("18446744073709551615.999999999999999999h", None),
        ] {
            assert_eq!(parse_go_duration(text), nanos, "{text}");
        }
    }
}
