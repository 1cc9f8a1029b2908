//! Numbers within bounds.

use std::fmt;

use super::{FieldError, Path};

/// The highest user or group id (upstream: `IsValidUserID`). The highest u32 would leave a process
/// the id that it has: root's.
pub const ID_MAX: i64 = i32::MAX as i64;

/// Inside a range, both ends included.
pub fn in_range<N>(value: N, min: N, max: N, field: &Path) -> Option<FieldError>
where
    N: Copy + PartialOrd + fmt::Display + fmt::Debug,
{
    (value < min || value > max).then(|| {
        FieldError::invalid(field, value, format!("must be between {min} and {max}, inclusive"))
    })
}
