//! Counts that may be percentages (`IntOrString`): of pods that may be unavailable, or must be
//! available.

use k8s_openapi::apimachinery::pkg::util::intstr::IntOrString;
use rekindle_types::validation::field_error::FieldError;

use super::{Path, numbers};

/// A count of at least zero, or a percentage.
pub fn check(amount: &IntOrString, field: &Path) -> Option<FieldError> {
    match amount {
        IntOrString::Int(count) => numbers::non_negative(*count, field),
        IntOrString::String(shown) => percent(amount).is_none().then(|| {
            FieldError::invalid(
                field,
                shown,
                "a valid percent string must be a numeric string followed by an ending '%' (e.g. '1%',  or '93%', regex \
                 used for validation is '[0-9]+%')",
            )
        }),
    }
}

/// A percentage of at most a hundred.
pub fn at_most_all(amount: &IntOrString, field: &Path) -> Option<FieldError> {
    percent(amount).filter(|percent| *percent > 100)?;
    Some(FieldError::invalid(field, shown(amount), "must not be greater than 100%"))
}

/// The figure of a percentage; beyond what a number holds, the most it holds. None for a count.
pub fn percent(amount: &IntOrString) -> Option<u32> {
    match amount {
        IntOrString::Int(_) => None,
        IntOrString::String(text) => {
            let digits = text.strip_suffix('%')?;
            let all_digits = !digits.is_empty() && digits.bytes().all(|b| b.is_ascii_digit());
            all_digits.then(|| digits.parse().unwrap_or(u32::MAX))
        }
    }
}

/// True for a count or a percentage of zero.
pub fn is_zero(amount: &IntOrString) -> bool {
    match amount {
        IntOrString::Int(count) => *count == 0,
        IntOrString::String(_) => percent(amount) == Some(0),
    }
}

/// As the user wrote it.
pub fn shown(amount: &IntOrString) -> String {
    match amount {
        IntOrString::Int(count) => count.to_string(),
        IntOrString::String(text) => text.clone(),
    }
}
