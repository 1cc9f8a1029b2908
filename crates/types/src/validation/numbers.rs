//! Numbers within bounds.

use std::fmt;

use super::{FieldError, Path};

/// Inside a range, both ends included.
pub fn in_range<N>(value: N, min: N, max: N, field: &Path) -> Option<FieldError>
where
    N: Copy + PartialOrd + fmt::Display + fmt::Debug,
{
    (value < min || value > max).then(|| {
        FieldError::invalid(field, value, format!("must be between {min} and {max}, inclusive"))
    })
}
