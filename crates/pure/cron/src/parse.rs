//! Reading schedules.

use super::field::{self, FieldChoice};
use super::{DayMatching, ScheduleFields, SchedulePattern};
use rekindle_types::TickDuration;

/// What is wrong with a schedule, in the words of robfig/cron.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct ParseError(String);

impl ParseError {
    pub(super) const fn new(text: String) -> Self {
        Self(text)
    }
}

const DESCRIPTORS: &[(&str, &str)] = &[
    ("@yearly", "0 0 1 1 *"),
    ("@annually", "0 0 1 1 *"),
    ("@monthly", "0 0 1 * *"),
    ("@weekly", "0 0 * * 0"),
    ("@daily", "0 0 * * *"),
    ("@midnight", "0 0 * * *"),
    ("@hourly", "0 * * * *"),
];

/// Nanoseconds of Go's units of time.
const UNITS: &[(&str, f64)] = &[
    ("ns", 1.0),
    ("us", 1e3),
    ("µs", 1e3),
    ("μs", 1e3),
    ("ms", 1e6),
    ("s", 1e9),
    ("m", 60e9),
    ("h", 3600e9),
];

pub(super) fn pattern(text: &str) -> Result<SchedulePattern, ParseError> {
    if text.is_empty() {
        return Err(ParseError::new("empty spec string".to_owned()));
    }
    if !text.starts_with('@') {
        return fields(text).map(SchedulePattern::Fields);
    }
    if let Some(span) = text.strip_prefix("@every ") {
        return every(span)
            .map(SchedulePattern::Every)
            .map_err(|error| ParseError::new(format!("failed to parse duration {text}: {error}")));
    }
    match DESCRIPTORS.iter().find(|(name, _)| *name == text) {
        Some((_, meaning)) => fields(meaning).map(SchedulePattern::Fields),
        None => Err(ParseError::new(format!("unrecognized descriptor: {text}"))),
    }
}

fn fields(text: &str) -> Result<ScheduleFields, ParseError> {
    let parts: Vec<&str> = text.split_whitespace().collect();
    let [minute, hour, day_of_month, month, day_of_week] = parts[..] else {
        let (count, shown) = (parts.len(), parts.join(" "));
        let text = format!("expected exactly 5 fields, found {count}: [{shown}]");
        return Err(ParseError::new(text));
    };
    let (minute, _) = field::parse(minute, &field::MINUTES)?;
    let (hour, _) = field::parse(hour, &field::HOURS)?;
    let (day_of_month, month_choice) = field::parse(day_of_month, &field::DAYS_OF_MONTH)?;
    let (month, _) = field::parse(month, &field::MONTHS)?;
    let (day_of_week, week_choice) = field::parse(day_of_week, &field::DAYS_OF_WEEK)?;
    let days = match (month_choice, week_choice) {
        (FieldChoice::Named, FieldChoice::Named) => DayMatching::Either,
        (FieldChoice::Open, _) | (_, FieldChoice::Open) => DayMatching::Both,
    };
    Ok(ScheduleFields { minute, hour, day_of_month, month, day_of_week, days })
}

/// A span as Go's `time.ParseDuration` reads it, in whole seconds and at least one.
fn every(text: &str) -> Result<TickDuration, String> {
    let (sign, unsigned) = match text.strip_prefix(['-', '+']) {
        Some(rest) if text.starts_with('-') => (-1.0, rest),
        Some(rest) => (1.0, rest),
        None => (1.0, text),
    };
    let mut rest = unsigned;
    if rest.is_empty() {
        return Err(format!("time: invalid duration {text:?}"));
    }
    let mut nanos = 0.0;
    while rest != "0" && !rest.is_empty() {
        let digits = rest.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(rest.len());
        let (amount, after) = rest.split_at(digits);
        let amount: f64 = amount.parse().map_err(|_| format!("time: invalid duration {text:?}"))?;
        let end = after.find(|c: char| c.is_ascii_digit() || c == '.').unwrap_or(after.len());
        let (unit, left) = after.split_at(end);
        if unit.is_empty() {
            return Err(format!("time: missing unit in duration {text:?}"));
        }
        let scale = UNITS.iter().find(|(name, _)| *name == unit).map(|(_, scale)| scale);
        let scale =
            scale.ok_or_else(|| format!("time: unknown unit {unit:?} in duration {text:?}"))?;
        nanos += amount * scale;
        rest = left;
    }
    if nanos > 9.2e18 {
        return Err(format!("time: invalid duration {text:?}"));
    }
    let seconds = (sign * nanos / 1e9).floor().max(1.0);
    // Below 2^63 ns, so below 10^10 s.
    #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "checked above")]
    Ok(TickDuration::from_secs(seconds as u64))
}
