//! Spans of time as a user writes them in our own kinds: `90s`, `10m`, `1h30m`.

use rekindle_types::TickDuration;

/// Reads a duration: one or more of `<whole number><unit>`, units `h`, `m`, `s`, `ms`. The grammar is the part of Go's
/// `time.ParseDuration` that Kubernetes manifests use.
///
/// # Errors
/// A message for people, when the text is no such duration or is longer than 292 years.
pub fn parse(text: &str) -> Result<TickDuration, String> {
    let wrong = || format!("{text:?} is not a duration such as 90s, 10m or 1h30m");
    let mut rest = text;
    let mut total_micros: u64 = 0;
    if rest.is_empty() {
        return Err(wrong());
    }
    while !rest.is_empty() {
        let digits = rest.find(|c: char| !c.is_ascii_digit()).ok_or_else(wrong)?;
        let count: u64 = rest[..digits].parse().map_err(|_| wrong())?;
        rest = &rest[digits..];
        let unit_end = rest.find(|c: char| c.is_ascii_digit()).unwrap_or(rest.len());
        let unit_micros: u64 = match &rest[..unit_end] {
            "h" => 3_600_000_000,
            "m" => 60_000_000,
            "s" => 1_000_000,
            "ms" => 1_000,
            _ => return Err(wrong()),
        };
        rest = &rest[unit_end..];
        total_micros = count
            .checked_mul(unit_micros)
            .and_then(|micros| total_micros.checked_add(micros))
            .filter(|micros| *micros <= i64::MAX as u64)
            .ok_or_else(wrong)?;
    }
    Ok(TickDuration::from_micros(total_micros))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn durations_are_read() {
        for (text, millis) in [
            ("90s", 90_000),
            ("10m", 600_000),
            ("1h30m", 5_400_000),
            ("0s", 0),
            ("1m500ms", 60_500),
        ] {
            assert_eq!(parse(text), Ok(TickDuration::from_millis(millis)), "{text}");
        }
    }

    #[test]
    fn other_texts_are_refused() {
        for text in [
            "",
            "10",
            "m",
            "-1s",
            "1.5h",
            "1 m",
            "1d",
            "99999999999999999999s",
            "9999999999h",
            "1é",
        ] {
            assert!(parse(text).is_err(), "{text:?}");
        }
    }

    proptest! {
        #[test]
        fn no_text_panics(text in ".{0,24}") {
            let _ = parse(&text);
        }
    }
}
