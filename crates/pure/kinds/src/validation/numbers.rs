//! Numbers within bounds.

use rekindle_types::validation::field_error::FieldError;

pub use rekindle_types::validation::numbers::{ID_MAX, in_range};

use super::Path;

/// At least zero.
pub fn non_negative(value: impl Into<i64>, field: &Path) -> Option<FieldError> {
    let value = value.into();
    (value < 0).then(|| FieldError::invalid(field, value, "must be greater than or equal to 0"))
}

/// A user or group id.
pub fn unix_id(id: i64, field: &Path) -> Option<FieldError> {
    in_range(id, 0, ID_MAX, field)
}

/// The mode of a file in a volume.
pub fn file_mode(mode: i32, field: &Path) -> Option<FieldError> {
    (!(0..=0o777).contains(&mode)).then(|| {
        FieldError::invalid(
            field,
            mode,
            "must be a number between 0 and 0777 (octal), both inclusive",
        )
    })
}
