//! How long ago something was, in few characters: `5s`, `3m12s`, `5h6m`, `2d`.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use rekindle_types::{Tick, TickDuration};

/// What a table shows where there is no time.
const UNKNOWN: &str = "<unknown>";

/// A span as apimachinery's `duration.HumanDuration` writes it: two to three figures that matter.
pub fn human(span: TickDuration) -> String {
    let seconds = span.as_secs();
    let minutes = seconds / 60;
    let hours = minutes / 60;
    let days = hours / 24;
    let two = |big: u64, unit: char, small: u64, small_unit: char| {
        if small == 0 { format!("{big}{unit}") } else { format!("{big}{unit}{small}{small_unit}") }
    };
    if seconds < 120 {
        format!("{seconds}s")
    } else if minutes < 10 {
        two(minutes, 'm', seconds % 60, 's')
    } else if minutes < 180 {
        format!("{minutes}m")
    } else if hours < 8 {
        two(hours, 'h', minutes % 60, 'm')
    } else if hours < 48 {
        format!("{hours}h")
    } else if hours < 192 {
        two(days, 'd', hours % 24, 'h')
    } else if hours < 24 * 365 * 2 {
        format!("{days}d")
    } else if hours < 24 * 365 * 8 {
        two(days / 365, 'y', days % 365, 'd')
    } else {
        format!("{}y", days / 365)
    }
}

/// When an object was made, for tables that show no age.
pub fn created_at(created: Option<&Time>) -> String {
    created.map_or_else(|| UNKNOWN.to_owned(), |time| Tick::from(time).to_time().0.to_string())
}

/// The age of an object, by its creation time.
pub fn age(created: Option<&Time>, now: Tick) -> String {
    created.map_or_else(|| UNKNOWN.to_owned(), |time| human(now.since(Tick::from(time))))
}

/// How long ago a tick was.
pub fn translate(then: Option<Tick>, now: Tick) -> String {
    then.map_or_else(|| UNKNOWN.to_owned(), |then| human(now.since(then)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn spans_read_as_upstream_writes_them() {
        // from the cases of apimachinery's duration_test.go
        const MINUTE: u64 = 60;
        const HOUR: u64 = 60 * MINUTE;
        const DAY: u64 = 24 * HOUR;
        const YEAR: u64 = 365 * DAY;
        for (seconds, text) in [
            (0, "0s"),
            (1, "1s"),
            (70, "70s"),
            (119, "119s"),
            (2 * MINUTE, "2m"),
            (190, "3m10s"),
            (10 * MINUTE + 9, "10m"),
            (70 * MINUTE, "70m"),
            (179 * MINUTE, "179m"),
            (3 * HOUR, "3h"),
            (3 * HOUR + 5 * MINUTE, "3h5m"),
            (8 * HOUR + 5 * MINUTE, "8h"),
            (47 * HOUR, "47h"),
            (2 * DAY, "2d"),
            (2 * DAY + 3 * HOUR, "2d3h"),
            (7 * DAY + 23 * HOUR, "7d23h"),
            (8 * DAY + 2 * HOUR, "8d"),
            (729 * DAY, "729d"),
            (2 * YEAR, "2y"),
            (3 * YEAR + DAY, "3y1d"),
            (8 * YEAR + 3 * DAY, "8y"),
        ] {
            assert_eq!(human(TickDuration::from_secs(seconds)), text, "{seconds} s");
        }
    }

    #[test]
    fn a_missing_time_is_unknown_and_a_future_one_is_now() {
        assert_eq!(age(None, Tick::from_secs(5)), "<unknown>");
        assert_eq!(age(Some(&Tick::from_secs(9).to_time()), Tick::from_secs(5)), "0s");
    }
}
