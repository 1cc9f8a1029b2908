//! The time of day as log lines show it. A date library would be larger than the rest of the shim.

use rustix::time::{ClockId, Timespec, clock_gettime};

/// The wall clock.
pub(crate) fn now() -> Timespec {
    clock_gettime(ClockId::Realtime)
}

/// The wall clock in microseconds since the Unix epoch.
pub fn now_us() -> u64 {
    let now = now();
    let secs = u64::try_from(now.tv_sec).unwrap_or(0);
    let nanos = u64::try_from(now.tv_nsec).unwrap_or(0);
    secs * 1_000_000 + nanos / 1_000
}

/// Appends `2016-10-06T00:17:09.669794202Z`.
pub(crate) fn write_rfc3339(time: Timespec, out: &mut Vec<u8>) {
    let secs = time.tv_sec.max(0);
    let (days, second_of_day) = (secs / 86_400, secs % 86_400);
    let (year, month, day) = civil_from_days(days);
    let (hour, minute, second) =
        (second_of_day / 3600, second_of_day / 60 % 60, second_of_day % 60);
    let parts: [(i64, usize, u8); 7] = [
        (year, 4, b'-'),
        (month, 2, b'-'),
        (day, 2, b'T'),
        (hour, 2, b':'),
        (minute, 2, b':'),
        (second, 2, b'.'),
        (time.tv_nsec, 9, b'Z'),
    ];
    for (value, width, separator) in parts {
        write_padded(value, width, out);
        out.push(separator);
    }
}

fn write_padded(mut value: i64, width: usize, out: &mut Vec<u8>) {
    let start = out.len();
    out.resize(start + width, b'0');
    for digit in out[start..].iter_mut().rev() {
        *digit = b'0' + u8::try_from(value % 10).unwrap_or(0);
        value /= 10;
    }
}

/// Year, month and day of the proleptic Gregorian calendar. Works in 400-year cycles of years that
/// begin in March, so that the leap day is a year's last.
fn civil_from_days(days_since_epoch: i64) -> (i64, i64, i64) {
    const DAYS_FROM_0000_03_01: i64 = 719_468;
    const DAYS_PER_CYCLE: i64 = 146_097;
    let days = days_since_epoch + DAYS_FROM_0000_03_01;
    let (cycle, day) = (days.div_euclid(DAYS_PER_CYCLE), days.rem_euclid(DAYS_PER_CYCLE));
    let year = (day - day / 1460 + day / 36_524 - day / 146_096) / 365;
    let day_of_year = day - (365 * year + year / 4 - year / 100);
    let month = (5 * day_of_year + 2) / 153;
    let day_of_month = day_of_year - (153 * month + 2) / 5 + 1;
    let (month, next_year) = if month < 10 { (month + 3, 0) } else { (month - 9, 1) };
    (cycle * 400 + year + next_year, month, day_of_month)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn text(secs: i64, nanos: i64) -> String {
        let mut out = Vec::new();
        write_rfc3339(Timespec { tv_sec: secs, tv_nsec: nanos }, &mut out);
        String::from_utf8(out).unwrap()
    }

    #[test]
    fn times_are_written_as_cri_logs_have_them() {
        // checked against date(1)
        for (secs, nanos, expected) in [
            (0, 0, "1970-01-01T00:00:00.000000000Z"),
            (951_782_399, 999_999_999, "2000-02-28T23:59:59.999999999Z"),
            (951_782_400, 1, "2000-02-29T00:00:00.000000001Z"),
            (951_868_800, 0, "2000-03-01T00:00:00.000000000Z"),
            (1_475_713_029, 669_794_202, "2016-10-06T00:17:09.669794202Z"),
            (4_107_542_400, 0, "2100-03-01T00:00:00.000000000Z"),
        ] {
            assert_eq!(text(secs, nanos), expected);
        }
    }
}
