//! Kubernetes quantities: `100m`, `0.5`, `10k`, `1e3`, `1Ei`.
//!
//! Source: the grammar in the API reference of `resource.Quantity`. A value is held exactly, in
//! billionths; more precise input is rounded away from zero, as upstream does.

use std::str::FromStr;

/// One unit is this many billionths.
const NANO: i128 = 1_000_000_000;

/// An exact amount of something: bytes, CPUs, pods.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Quantity {
    nanos: i128,
    format: QuantityFormat,
}

/// How the amount was written, kept so that it is written again in the same family of suffixes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
enum QuantityFormat {
    #[default]
    DecimalSi,
    BinarySi,
    DecimalExponent,
}

/// Why a text is not a quantity.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum QuantityError {
    /// It does not follow the grammar. The text is Kubernetes' own.
    #[error(
        "quantities must match the regular expression '^([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)$'"
    )]
    Format,
    /// It is beyond ±(2^63 - 1).
    #[error("unable to represent the quantity: it is larger than 2^63-1")]
    Range,
}

impl Quantity {
    /// So many whole units.
    pub const fn from_units(units: i64) -> Self {
        Self { nanos: units as i128 * NANO, format: QuantityFormat::DecimalSi }
    }

    /// So many thousandths.
    pub const fn from_millis(millis: i64) -> Self {
        Self { nanos: millis as i128 * (NANO / 1000), format: QuantityFormat::DecimalSi }
    }

    /// So many bytes, written with binary suffixes.
    pub const fn from_bytes(bytes: i64) -> Self {
        Self { nanos: bytes as i128 * NANO, format: QuantityFormat::BinarySi }
    }

    /// Whole units, rounded up (as `Quantity.Value()` upstream).
    pub fn units(self) -> i64 {
        clamp(div_ceil(self.nanos, NANO))
    }

    /// Thousandths, rounded up (as `Quantity.MilliValue()` upstream): millicores for CPU.
    pub fn millis(self) -> i64 {
        clamp(div_ceil(self.nanos, NANO / 1000))
    }

    /// How many times as much as another it is; without end where that is zero.
    pub fn ratio_to(self, other: Self) -> f64 {
        self.nanos as f64 / other.nanos as f64
    }

    /// True below zero.
    pub const fn is_negative(self) -> bool {
        self.nanos < 0
    }

    /// True at zero.
    pub const fn is_zero(self) -> bool {
        self.nanos == 0
    }

    /// True when it is a whole number of units.
    pub const fn is_whole(self) -> bool {
        self.nanos % NANO == 0
    }

    /// True when it is a whole number of thousandths: CPU cannot be finer than `1m`.
    pub const fn is_whole_millis(self) -> bool {
        self.nanos % (NANO / 1000) == 0
    }

    /// True when it is more than another one, however the two are written.
    pub const fn exceeds(self, other: Self) -> bool {
        self.nanos > other.nanos
    }

    /// The sum as upstream writes it: in the format of `self`, unless that is zero.
    pub const fn plus(self, other: Self) -> Self {
        if self.is_zero() { other } else { self.saturating_add(other) }
    }

    /// The next whole number of units, in the same format; itself when it is whole.
    pub fn rounded_up(self) -> Self {
        Self { nanos: div_ceil(self.nanos, NANO) * NANO, format: self.format }
    }

    /// The sum, in the format of `self`.
    pub const fn saturating_add(self, other: Self) -> Self {
        Self { nanos: self.nanos.saturating_add(other.nanos), format: self.format }
    }

    /// The difference, in the format of `self`.
    pub const fn saturating_sub(self, other: Self) -> Self {
        Self { nanos: self.nanos.saturating_sub(other.nanos), format: self.format }
    }
}

fn clamp(value: i128) -> i64 {
    i64::try_from(value).unwrap_or(if value < 0 { i64::MIN } else { i64::MAX })
}

fn div_ceil(value: i128, by: i128) -> i128 {
    let quotient = value.div_euclid(by);
    if value.rem_euclid(by) == 0 { quotient } else { quotient + 1 }
}

impl FromStr for Quantity {
    type Err = QuantityError;

    fn from_str(text: &str) -> Result<Self, QuantityError> {
        let unsigned = text.strip_prefix(['+', '-']).unwrap_or(text);
        let negative = text.starts_with('-');
        let digits_end =
            unsigned.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(unsigned.len());
        let (number, suffix) = unsigned.split_at(digits_end);
        let (whole, fraction) = number.split_once('.').unwrap_or((number, ""));
        if (whole.is_empty() && fraction.is_empty()) || fraction.contains('.') {
            return Err(QuantityError::Format);
        }
        let (scale, format) = parse_suffix(suffix)?;
        let nanos = scaled(whole, fraction, scale)?;
        if nanos > i128::from(i64::MAX) * NANO {
            return Err(QuantityError::Range);
        }
        Ok(Self { nanos: if negative { -nanos } else { nanos }, format })
    }
}

/// What a suffix multiplies by.
#[derive(Clone, Copy)]
enum SuffixScale {
    PowerOfTen(i32),
    PowerOfTwo(u32),
}

fn parse_suffix(suffix: &str) -> Result<(SuffixScale, QuantityFormat), QuantityError> {
    let si = |power| Ok((SuffixScale::PowerOfTen(power), QuantityFormat::DecimalSi));
    let binary = |power| Ok((SuffixScale::PowerOfTwo(power), QuantityFormat::BinarySi));
    match suffix {
        "n" => si(-9),
        "u" => si(-6),
        "m" => si(-3),
        "" => si(0),
        "k" => si(3),
        "M" => si(6),
        "G" => si(9),
        "T" => si(12),
        "P" => si(15),
        "E" => si(18),
        "Ki" => binary(10),
        "Mi" => binary(20),
        "Gi" => binary(30),
        "Ti" => binary(40),
        "Pi" => binary(50),
        "Ei" => binary(60),
        exponent => {
            let digits = exponent.strip_prefix(['e', 'E']).ok_or(QuantityError::Format)?;
            let power: i32 = digits.parse().map_err(|_| QuantityError::Format)?;
            Ok((SuffixScale::PowerOfTen(power), QuantityFormat::DecimalExponent))
        }
    }
}

/// `whole.fraction × scale` in billionths, rounded up.
fn scaled(whole: &str, fraction: &str, scale: SuffixScale) -> Result<i128, QuantityError> {
    let fraction = fraction.trim_end_matches('0');
    let digits = format!("{whole}{fraction}");
    let digits = digits.trim_start_matches('0');
    if digits.is_empty() {
        return Ok(0);
    }
    // Nothing with more digits than this fits the range, unless its tail is far below a billionth.
    if digits.len() > 38 {
        return Err(QuantityError::Range);
    }
    let mantissa: i128 = digits.parse().map_err(|_| QuantityError::Range)?;
    let (power_of_ten, factor) = match scale {
        SuffixScale::PowerOfTen(power) => (power, 1),
        SuffixScale::PowerOfTwo(power) => (0, 1i128 << power),
    };
    let fraction_digits = i32::try_from(fraction.len()).map_err(|_| QuantityError::Range)?;
    let power = power_of_ten.saturating_add(9).saturating_sub(fraction_digits);
    let mantissa = mantissa.checked_mul(factor).ok_or(QuantityError::Range)?;
    if power >= 0 {
        let factor = 10i128.checked_pow(power.unsigned_abs()).ok_or(QuantityError::Range)?;
        mantissa.checked_mul(factor).ok_or(QuantityError::Range)
    } else {
        match 10i128.checked_pow(power.unsigned_abs()) {
            Some(divisor) => Ok(div_ceil(mantissa, divisor)),
            None => Ok(1), // smaller than a billionth: rounded up
        }
    }
}

impl std::fmt::Display for Quantity {
    /// The canonical form: no fraction, and the largest suffix of the family that keeps the value
    /// exact.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        const SI: [(i128, &str, &str); 10] = [
            (1_000_000_000_000_000_000 * NANO, "E", "e18"),
            (1_000_000_000_000_000 * NANO, "P", "e15"),
            (1_000_000_000_000 * NANO, "T", "e12"),
            (1_000_000_000 * NANO, "G", "e9"),
            (1_000_000 * NANO, "M", "e6"),
            (1_000 * NANO, "k", "e3"),
            (NANO, "", ""),
            (NANO / 1_000, "m", "e-3"),
            (NANO / 1_000_000, "u", "e-6"),
            (1, "n", "e-9"),
        ];
        const BINARY: [&str; 7] = ["", "Ki", "Mi", "Gi", "Ti", "Pi", "Ei"];
        if self.nanos == 0 {
            return f.write_str("0");
        }
        // Upstream writes small and fractional binary values with decimal suffixes.
        if self.format == QuantityFormat::BinarySi
            && self.is_whole()
            && self.nanos.abs() >= 1024 * NANO
        {
            let mut value = self.nanos / NANO;
            let mut step = 0;
            while value % 1024 == 0 && step + 1 < BINARY.len() {
                value /= 1024;
                step += 1;
            }
            return write!(f, "{value}{}", BINARY[step]);
        }
        for (unit, suffix, exponent) in SI {
            if self.nanos % unit == 0 {
                let suffix = match self.format {
                    QuantityFormat::DecimalExponent => exponent,
                    QuantityFormat::DecimalSi | QuantityFormat::BinarySi => suffix,
                };
                return write!(f, "{}{suffix}", self.nanos / unit);
            }
        }
        unreachable!("every value is a whole number of billionths")
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn texts_are_read_and_written_as_kubernetes_does() {
        // (text, milli value, canonical form); forms from the API reference and
        // resource/quantity_test.go's cases
        for (text, millis, canonical) in [
            ("10k", 10_000_000, "10k"),
            ("1e3", 1_000_000, "1e3"),
            ("1E3", 1_000_000, "1e3"),
            ("0.5", 500, "500m"),
            ("100m", 100, "100m"),
            ("1000m", 1000, "1"),
            ("1.5Gi", 1_610_612_736_000, "1536Mi"),
            ("1Ki", 1_024_000, "1Ki"),
            ("512", 512_000, "512"),
            ("+1", 1000, "1"),
            ("-1", -1000, "-1"),
            (".5", 500, "500m"),
            ("5.", 5000, "5"),
            ("0", 0, "0"),
            ("1n", 1, "1n"),
            ("1u", 1, "1u"),
            ("1000Mi", 1_048_576_000_000, "1000Mi"),
            ("1024Mi", 1_073_741_824_000, "1Gi"),
            ("123456", 123_456_000, "123456"),
            ("1e-3", 1, "1e-3"),
            ("0.1Ki", 102_400, "102400m"),
        ] {
            let quantity: Quantity = text.parse().expect(text);
            assert_eq!(quantity.millis(), millis, "{text}");
            assert_eq!(quantity.to_string(), canonical, "{text}");
        }
        assert_eq!("1Ei".parse::<Quantity>().unwrap().units(), 1 << 60);
    }

    #[test]
    fn other_texts_are_refused() {
        for text in ["", " 1", "1 ", "1KB", "1kk", "--1", "1.2.3", ".", "e3", "1e", "1ki", "0x10"] {
            assert_eq!(text.parse::<Quantity>(), Err(QuantityError::Format), "{text:?}");
        }
        for text in ["10E", "9223372036854775808", "1e99", "8Ei"] {
            assert_eq!(text.parse::<Quantity>(), Err(QuantityError::Range), "{text:?}");
        }
    }

    proptest! {
        #[test]
        fn what_is_written_is_read_again(nanos in -1_000_000_000_000i64..1_000_000_000_000, format in 0..3) {
            let format = [QuantityFormat::DecimalSi, QuantityFormat::BinarySi, QuantityFormat::DecimalExponent][format as usize];
            let quantity = Quantity { nanos: i128::from(nanos) * 1000, format };
            let again: Quantity = quantity.to_string().parse().unwrap();
            prop_assert_eq!(again.nanos, quantity.nanos);
        }

        #[test]
        fn no_text_panics(text in "[-+]?[0-9.]{0,45}[eEinumkKMGTP]{0,3}[-+]?[0-9]{0,12}") {
            let _ = text.parse::<Quantity>();
        }
    }
}
