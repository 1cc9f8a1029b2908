//! Spans of time as a user writes them (`90s`, `10m`, `1h30m`) and as our sentences show them.

use rekindle_types::{Tick, TickDuration};

const SECOND: u64 = 1_000_000;
const MINUTE: u64 = 60 * SECOND;
const HOUR: u64 = 60 * MINUTE;

/// Reads one or more of `<whole number><unit>`, units `h`, `m`, `s`, `ms`: the part of Go's `time.ParseDuration` that Kubernetes
/// manifests use. None when the text is no such span or does not fit.
pub(crate) fn parse(text: &str) -> Option<TickDuration> {
    let mut rest = text;
    let mut total: u64 = 0;
    if rest.is_empty() {
        return None;
    }
    while !rest.is_empty() {
        let digits = rest.find(|c: char| !c.is_ascii_digit())?;
        let count: u64 = rest[..digits].parse().ok()?;
        rest = &rest[digits..];
        let unit_end = rest.find(|c: char| c.is_ascii_digit()).unwrap_or(rest.len());
        let unit = match &rest[..unit_end] {
            "h" => HOUR,
            "m" => MINUTE,
            "s" => SECOND,
            "ms" => 1_000,
            _ => return None,
        };
        rest = &rest[unit_end..];
        total = total.checked_add(count.checked_mul(unit)?)?;
    }
    Some(TickDuration::from_micros(total)).filter(|span| span.as_micros() <= i64::MAX as u64)
}

/// Short, the two largest units: `0s`, `11s`, `2m30s`, `1h5m`. Fractions of a second are dropped.
pub(crate) fn show(span: TickDuration) -> String {
    let secs = span.as_secs();
    let (hours, minutes, seconds) = (secs / 3600, secs / 60 % 60, secs % 60);
    match (hours, minutes, seconds) {
        (0, 0, s) => format!("{s}s"),
        (0, m, 0) => format!("{m}m"),
        (0, m, s) => format!("{m}m{s}s"),
        (h, 0, _) => format!("{h}h"),
        (h, m, _) => format!("{h}h{m}m"),
    }
}

/// The time of day: `04:11:02 UTC`.
pub(crate) fn clock(at: Tick) -> String {
    let secs = at.as_micros() / SECOND % 86_400;
    format!("{:02}:{:02}:{:02} UTC", secs / 3600, secs / 60 % 60, secs % 60)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn spans_are_read_as_go_reads_them() {
        for (text, millis) in [
            ("90s", 90_000),
            ("10m", 600_000),
            ("1h30m", 5_400_000),
            ("0s", 0),
            ("1m500ms", 60_500),
            ("2m40s", 160_000),
        ] {
            assert_eq!(parse(text), Some(TickDuration::from_millis(millis)), "{text}");
        }
    }

    #[test]
    fn other_texts_are_no_spans() {
        for text in [
            "",
            "10",
            "m",
            "-1s",
            "1.5h",
            "1 m",
            "1d",
            "9999999999h",
            "1é",
            "99999999999999999999s",
        ] {
            assert_eq!(parse(text), None, "{text:?}");
        }
    }

    #[test]
    fn spans_are_shown_short() {
        for (secs, text) in [
            (0, "0s"),
            (11, "11s"),
            (60, "1m"),
            (150, "2m30s"),
            (3600, "1h"),
            (3905, "1h5m"),
            (3601, "1h"),
        ] {
            assert_eq!(show(TickDuration::from_secs(secs)), text);
        }
        assert_eq!(clock(Tick::from_secs(86_400 * 20_000 + 15_062)), "04:11:02 UTC");
    }
}
