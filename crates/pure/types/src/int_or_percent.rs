//! Counts that may be percentages of a total (`IntOrString`).

use k8s_openapi::apimachinery::pkg::util::intstr::IntOrString;

/// Which way a percentage that is no whole number goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Rounding {
    /// To the next whole number above.
    Up,
    /// To the next whole number below.
    Down,
}

/// A number as it is, a percentage of `total`. What is neither counts as 0; validation lets none
/// in.
pub fn scaled(value: &IntOrString, total: i32, rounding: Rounding) -> i32 {
    let percent = match value {
        IntOrString::Int(number) => return *number,
        IntOrString::String(text) => text.strip_suffix('%').and_then(|p| p.parse::<i64>().ok()),
    };
    let product = percent.unwrap_or(0).saturating_mul(i64::from(total));
    let rounded = match rounding {
        Rounding::Up => product.saturating_add(99).div_euclid(100),
        Rounding::Down => product.div_euclid(100),
    };
    i32::try_from(rounded).unwrap_or(i32::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_percentage_is_rounded_the_way_that_is_asked_for_and_a_number_stays() {
        for (value, total, up, down) in [
            ("50%", 7, 4, 3),
            ("30%", 7, 3, 2),
            ("100%", 3, 3, 3),
            ("0%", 3, 0, 0),
            ("1%", 1, 1, 0),
            ("75%", 0, 0, 0),
            ("many", 3, 0, 0),
        ] {
            let value = IntOrString::String(value.to_owned());
            assert_eq!(scaled(&value, total, Rounding::Up), up, "{value:?} of {total}");
            assert_eq!(scaled(&value, total, Rounding::Down), down, "{value:?} of {total}");
        }
        assert_eq!(scaled(&IntOrString::Int(5), 3, Rounding::Up), 5);
    }
}
