//! Quantities of Kubernetes, such as `100m` and `1.5Gi`, exact to a billionth.

use std::fmt;

const NANOS: i128 = 1_000_000_000;

/// A quantity in billionths.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct CelQuantity(i128);

impl CelQuantity {
    /// Reads a quantity. What is smaller than a billionth is rounded away from zero.
    pub(super) fn parse(text: &str) -> Option<Self> {
        let (is_negative, rest) = match text.strip_prefix('-') {
            Some(rest) => (true, rest),
            None => (false, text.strip_prefix('+').unwrap_or(text)),
        };
        let end = rest.find(|sign: char| !sign.is_ascii_digit() && sign != '.');
        let (number, suffix) = rest.split_at(end.unwrap_or(rest.len()));
        let (whole, fraction) = number.split_once('.').unwrap_or((number, ""));
        if whole.is_empty() && fraction.is_empty() || fraction.contains('.') {
            return None;
        }
        let (base, exponent): (i128, i32) = match suffix {
            "" => (10, 0),
            "n" => (10, -9),
            "u" => (10, -6),
            "m" => (10, -3),
            "k" => (10, 3),
            "M" => (10, 6),
            "G" => (10, 9),
            "T" => (10, 12),
            "P" => (10, 15),
            "E" => (10, 18),
            "Ki" => (1024, 1),
            "Mi" => (1024, 2),
            "Gi" => (1024, 3),
            "Ti" => (1024, 4),
            "Pi" => (1024, 5),
            "Ei" => (1024, 6),
            _ => (10, suffix.strip_prefix(['e', 'E'])?.parse().ok()?),
        };
        let digits: i128 = format!("0{whole}{fraction}").parse().ok()?;
        let (up, down) = match u32::try_from(exponent) {
            Ok(up) => (base.checked_pow(up)?.checked_mul(NANOS)?, 1),
            Err(_) => (NANOS, base.checked_pow(exponent.unsigned_abs())?),
        };
        let down = down.checked_mul(10_i128.checked_pow(u32::try_from(fraction.len()).ok()?)?)?;
        let scaled = digits.checked_mul(up)?;
        let nanos = scaled / down + i128::from(scaled % down != 0);
        Some(Self(if is_negative { -nanos } else { nanos }))
    }

    pub(super) fn from_int(int: i64) -> Self {
        Self(i128::from(int) * NANOS)
    }

    pub(super) fn as_int(self) -> Option<i64> {
        (self.0 % NANOS == 0).then(|| i64::try_from(self.0 / NANOS).ok()).flatten()
    }

    pub(super) fn as_f64(self) -> f64 {
        self.0 as f64 / NANOS as f64
    }

    pub(super) fn sign(self) -> i64 {
        self.0.signum() as i64
    }

    pub(super) fn add(self, other: Self) -> Option<Self> {
        self.0.checked_add(other.0).map(Self)
    }

    pub(super) fn sub(self, other: Self) -> Option<Self> {
        self.0.checked_sub(other.0).map(Self)
    }
}

impl fmt::Display for CelQuantity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.as_int() {
            Some(int) => write!(f, "{int}"),
            None if self.0 % 1_000_000 == 0 => write!(f, "{}m", self.0 / 1_000_000),
            None if self.0 % 1_000 == 0 => write!(f, "{}u", self.0 / 1_000),
            None => write!(f, "{}n", self.0),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quantities_are_read_and_compared_by_value() {
        let parse = |text| CelQuantity::parse(text).unwrap();
        assert_eq!(parse("1.5Gi"), parse("1536Mi"));
        assert_eq!(parse("1e3"), parse("1k"));
        assert_eq!(parse("-100m").as_int(), None);
        assert!(parse("999m") < parse("1"));
        assert_eq!(parse("0.1n"), parse("1n"), "rounded up");
        for bad in ["", "1.2.3", "1X", "Gi", "--1", "1e99"] {
            assert_eq!(CelQuantity::parse(bad), None, "{bad}");
        }
    }
}
