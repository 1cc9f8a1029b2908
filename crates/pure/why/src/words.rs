//! Numbers, times and foreign text as an account shows them.

use std::ops::Range;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use rekindle_types::{Tick, TickDuration, span};

pub(crate) use rekindle_diagnosis::message_line as line;

const DAY_SECONDS: u64 = 86_400;

/// The two largest units: `45s`, `5m`, `1h5m`, `20d15h`.
pub(crate) fn show_span(length: TickDuration) -> String {
    let (days, hours) = (length.as_secs() / DAY_SECONDS, length.as_secs() % DAY_SECONDS / 3600);
    match (days, hours) {
        (0, _) => span::show(length),
        (days, 0) => format!("{days}d"),
        (days, hours) => format!("{days}d{hours}h"),
    }
}

/// `2026-11-21 11:07:48Z`.
pub(crate) fn show_time(time: &Time) -> String {
    Tick::from(time).to_time().0.to_string().replacen('T', " ", 1)
}

/// `once`, `twice`, `5,941 times`.
pub(crate) fn times(count: u32) -> String {
    match count {
        1 => "once".to_owned(),
        2 => "twice".to_owned(),
        count => format!("{} times", grouped(count)),
    }
}

/// ` and 37 more`, and nothing for none.
pub(crate) fn and_more(more: usize) -> String {
    if more == 0 { String::new() } else { format!(" and {more} more") }
}

/// `64Mi`, `63.9Mi`, `512 bytes`.
pub(crate) fn show_bytes(bytes: u64) -> String {
    const UNITS: [(&str, u32); 4] = [("Ti", 40), ("Gi", 30), ("Mi", 20), ("Ki", 10)];
    let Some((unit, shift)) = UNITS.into_iter().find(|(_, shift)| bytes >> shift > 0) else {
        return format!("{bytes} bytes");
    };
    let (whole, rest) = (bytes >> shift, bytes & ((1 << shift) - 1));
    match (rest * 10) >> shift {
        0 => format!("{whole}{unit}"),
        tenths => format!("{whole}.{tenths}{unit}"),
    }
}

fn grouped(number: u32) -> String {
    let digits = number.to_string();
    let mut text = String::new();
    for (place, digit) in digits.chars().enumerate() {
        if place > 0 && (digits.len() - place).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

/// What makes the digits after it a name, up to the next quote.
const NAMES: [&str; 2] = ["container \"", "node \""];
/// What makes the number after it a code that means something.
const CODES: [&str; 2] = ["exited with ", "exit code "];

/// Two texts that differ in numbers only have the same shape. The names of containers and nodes,
/// and exit codes, are no such numbers.
pub(crate) fn shape(text: &str) -> String {
    let mut shape = String::new();
    let mut rest = text;
    while let Some(end) = next_exact(rest) {
        strip_numbers(&rest[..end.start], &mut shape);
        shape.push_str(&rest[end.clone()]);
        rest = &rest[end.end..];
    }
    strip_numbers(rest, &mut shape);
    shape
}

/// Where the next name or code stands, with what makes it one.
fn next_exact(text: &str) -> Option<Range<usize>> {
    let name = |mark: &&str| {
        let start = text.find(mark)?;
        let name = &text[start + mark.len()..];
        Some(start..start + mark.len() + name.find('"').unwrap_or(name.len()))
    };
    let code = |mark: &&str| {
        let start = text.find(mark)?;
        let code = &text[start + mark.len()..];
        let is_over = |c: char| !c.is_ascii_digit();
        Some(start..start + mark.len() + code.find(is_over).unwrap_or(code.len()))
    };
    let all = NAMES.iter().filter_map(name).chain(CODES.iter().filter_map(code));
    all.min_by_key(|exact| exact.start)
}

fn strip_numbers(text: &str, shape: &mut String) {
    for c in text.chars() {
        match c {
            '0'..='9' if shape.ends_with('#') => {}
            '0'..='9' => shape.push('#'),
            c => shape.push(c),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_and_spans_read_easily() {
        assert_eq!([times(1), times(2), times(3)], ["once", "twice", "3 times"]);
        assert_eq!([times(5941), times(1_000_000)], ["5,941 times", "1,000,000 times"]);
        for (secs, text) in [(45, "45s"), (300, "5m"), (86_400, "1d"), (1_782_000, "20d15h")] {
            assert_eq!(show_span(TickDuration::from_secs(secs)), text);
        }
    }

    #[test]
    fn bytes_read_as_manifests_write_them() {
        for (bytes, text) in [
            (0, "0 bytes"),
            (1023, "1023 bytes"),
            (64 << 20, "64Mi"),
            ((64 << 20) - 4096, "63.9Mi"),
            (3 << 29, "1.5Gi"),
            (u64::MAX, "16777215.9Ti"),
        ] {
            assert_eq!(show_bytes(bytes), text);
        }
    }

    #[test]
    fn texts_that_differ_in_numbers_have_one_shape() {
        assert_eq!(shape("failed 3 times in 11s"), shape("failed 1541 times in 2s"));
        assert_ne!(shape("exited with 1"), shape("exited with 1 again"));
    }

    #[test]
    fn names_and_exit_codes_are_no_numbers_that_texts_may_differ_in() {
        for (one, other, alike) in [
            ("container \"worker1\" ended", "container \"worker2\" ended", false),
            ("container \"a1\" ended 3 times", "container \"a1\" ended 12 times", true),
            ("1 x: exited with 1 (2 of 9)", "7 x: exited with 1 (3 of 9)", true),
            ("exited with 1 twice", "exited with 78 twice", false),
            ("killed (exit code 137) in 2s", "killed (exit code 137) in 30s", true),
            ("its node \"n-2\" is gone", "its node \"n-3\" is gone", false),
            ("container \"a1", "container \"a2", false),
        ] {
            assert_eq!(shape(one) == shape(other), alike, "{one} | {other}");
        }
    }
}
