//! Durations as a report tells them.

use rekindle_types::TickDuration;

/// A duration for people: its two largest units.
pub(crate) fn spoken(duration: TickDuration) -> String {
    let micros = duration.as_micros();
    let units = [
        (86_400_000_000, "d"),
        (3_600_000_000, "h"),
        (60_000_000, "m"),
        (1_000_000, "s"),
        (1_000, "ms"),
    ];
    let Some(first) = units.iter().position(|(size, _)| micros >= *size) else {
        return "0s".to_owned();
    };
    let (size, name) = units[first];
    let mut text = format!("{}{name}", micros / size);
    if let Some((smaller, name)) = units.get(first + 1).filter(|_| first < 3) {
        let rest = micros % size / smaller;
        if rest > 0 {
            text.push_str(&format!("{rest}{name}"));
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_are_told_by_their_two_largest_units() {
        let cases = [
            (0, "0s"),
            (40_500, "40ms"),
            (1_500_000, "1s"),
            (61_000_000, "1m1s"),
            (3_600_000_000, "1h"),
            (90_000_000_000, "1d1h"),
        ];
        for (micros, expected) in cases {
            assert_eq!(spoken(TickDuration::from_micros(micros)), expected);
        }
    }
}
