//! Spans of time as a user writes them (`90s`, `10m`, `1h30m`) and as our sentences show them.

use crate::TickDuration;

const MILLISECOND: u64 = 1_000;
const SECOND: u64 = 1_000 * MILLISECOND;
const MINUTE: u64 = 60 * SECOND;
const HOUR: u64 = 60 * MINUTE;

/// A text that is no span of time.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0:?} is not a duration such as 90s, 10m or 1h30m")]
pub struct SpanError(String);

/// Reads one or more of `<whole number><unit>`, units `h`, `m`, `s`, `ms`: the part of Go's
/// `time.ParseDuration` that Kubernetes manifests use.
///
/// # Errors
/// When the text is no such span, or one that is longer than 292 years.
pub fn parse(text: &str) -> Result<TickDuration, SpanError> {
    micros(text).map(TickDuration::from_micros).ok_or_else(|| SpanError(text.to_owned()))
}

fn micros(text: &str) -> Option<u64> {
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
            "ms" => MILLISECOND,
            _ => return None,
        };
        rest = &rest[unit_end..];
        total = total.checked_add(count.checked_mul(unit)?)?;
    }
    (total <= i64::MAX as u64).then_some(total)
}

/// Short, the two largest units: `0s`, `11s`, `2m30s`, `1h5m`. Fractions of a second are dropped.
pub fn show(span: TickDuration) -> String {
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

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

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
            assert_eq!(parse(text), Ok(TickDuration::from_millis(millis)), "{text}");
        }
    }

    #[test]
    fn other_texts_are_refused_and_named() {
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
            assert_eq!(parse(text), Err(SpanError(text.to_owned())), "{text:?}");
        }
        let message = SpanError("soon".to_owned()).to_string();
        assert_eq!(message, "\"soon\" is not a duration such as 90s, 10m or 1h30m");
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
    }

    proptest! {
        #[test]
        fn no_text_panics(text in ".{0,24}") {
            let _ = parse(&text);
        }

        #[test]
        fn what_is_shown_is_read_back_to_its_two_largest_units(secs in 0_u64..3_000_000) {
            let read = parse(&show(TickDuration::from_secs(secs))).expect("a shown span is a span");
            prop_assert!(read.as_secs() <= secs && secs - read.as_secs() < 60);
        }
    }
}
