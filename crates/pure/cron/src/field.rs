//! One field of a schedule: `*`, `5`, `mon-fri`, `0-30/10`, `*/15`, and lists of these.

use super::ParseError;

/// Numbers from 0 to 59.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct FieldValues(u64);

/// The numbers that a field may hold.
pub(super) struct FieldBounds {
    min: u32,
    max: u32,
    /// Names of the numbers from `min` on.
    names: &'static [&'static str],
}

pub(super) const MINUTES: FieldBounds = FieldBounds { min: 0, max: 59, names: &[] };
pub(super) const HOURS: FieldBounds = FieldBounds { min: 0, max: 23, names: &[] };
pub(super) const DAYS_OF_MONTH: FieldBounds = FieldBounds { min: 1, max: 31, names: &[] };
pub(super) const MONTHS: FieldBounds = FieldBounds {
    min: 1,
    max: 12,
    names: &["jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec"],
};
pub(super) const DAYS_OF_WEEK: FieldBounds =
    FieldBounds { min: 0, max: 6, names: &["sun", "mon", "tue", "wed", "thu", "fri", "sat"] };

/// Whether a field leaves everything open.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum FieldChoice {
    /// A `*` (or `?`) without a step stands in it.
    Open,
    /// It names numbers.
    Named,
}

impl FieldValues {
    pub(super) const fn is_empty(self) -> bool {
        self.0 == 0
    }

    /// Whether it holds a number; one beyond 63 it does not.
    pub(super) fn has(self, number: i8) -> bool {
        u32::try_from(number)
            .ok()
            .and_then(|number| 1u64.checked_shl(number))
            .is_some_and(|bit| self.0 & bit != 0)
    }

    fn insert(&mut self, number: u32) {
        self.0 |= 1 << number;
    }
}

/// Reads a field: ranges with commas between.
pub(super) fn parse(
    text: &str,
    bounds: &FieldBounds,
) -> Result<(FieldValues, FieldChoice), ParseError> {
    let mut values = FieldValues::default();
    let mut choice = FieldChoice::Named;
    for part in text.split(',').filter(|part| !part.is_empty()) {
        let range = range(part, bounds)?;
        let mut number = range.first;
        while number <= range.last {
            values.insert(number);
            number = number.saturating_add(range.step);
        }
        if range.choice == FieldChoice::Open {
            choice = FieldChoice::Open;
        }
    }
    Ok((values, choice))
}

struct FieldRange {
    first: u32,
    last: u32,
    step: u32,
    choice: FieldChoice,
}

fn range(text: &str, bounds: &FieldBounds) -> Result<FieldRange, ParseError> {
    let (span, step) = match text.split('/').collect::<Vec<_>>()[..] {
        [span] => (span, None),
        [span, step] => (span, Some(number(step)?)),
        _ => return Err(ParseError::new(format!("too many slashes: {text}"))),
    };
    let (first, last, mut choice) = match span.split('-').collect::<Vec<_>>()[..] {
        ["*" | "?", ..] => (bounds.min, bounds.max, FieldChoice::Open),
        [first] => {
            let first = number_or_name(first, bounds)?;
            // "N/step" runs to the end.
            (first, if step.is_some() { bounds.max } else { first }, FieldChoice::Named)
        }
        [first, last] => {
            (number_or_name(first, bounds)?, number_or_name(last, bounds)?, FieldChoice::Named)
        }
        _ => return Err(ParseError::new(format!("too many hyphens: {text}"))),
    };
    if step.is_some_and(|step| step > 1) {
        choice = FieldChoice::Named;
    }
    let range = FieldRange { first, last, step: step.unwrap_or(1), choice };
    check(&range, bounds, text)?;
    Ok(range)
}

fn check(range: &FieldRange, bounds: &FieldBounds, text: &str) -> Result<(), ParseError> {
    let FieldRange { first, last, step, .. } = *range;
    let FieldBounds { min, max, .. } = *bounds;
    let wrong = if first < min {
        format!("beginning of range ({first}) below minimum ({min}): {text}")
    } else if last > max {
        format!("end of range ({last}) above maximum ({max}): {text}")
    } else if first > last {
        format!("beginning of range ({first}) beyond end of range ({last}): {text}")
    } else if step == 0 {
        format!("step of range should be a positive number: {text}")
    } else {
        return Ok(());
    };
    Err(ParseError::new(wrong))
}

fn number_or_name(text: &str, bounds: &FieldBounds) -> Result<u32, ParseError> {
    let lower = text.to_ascii_lowercase();
    match (bounds.min..).zip(bounds.names).find(|(_, name)| **name == lower) {
        Some((value, _)) => Ok(value),
        None => number(text),
    }
}

fn number(text: &str) -> Result<u32, ParseError> {
    match text.parse::<i64>() {
        Ok(value) if value < 0 => {
            Err(ParseError::new(format!("negative number ({value}) not allowed: {text}")))
        }
        // Whatever does not fit is beyond every maximum.
        Ok(value) => Ok(u32::try_from(value).unwrap_or(u32::MAX)),
        Err(_) => Err(ParseError::new(format!(
            "failed to parse int from {text}: strconv.Atoi: parsing {text:?}: invalid syntax"
        ))),
    }
}
