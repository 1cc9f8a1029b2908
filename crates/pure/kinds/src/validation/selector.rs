//! Label selectors inside objects.

pub use rekindle_types::labels::{is_empty, matches};
pub use rekindle_types::validation::selector::{
    TERMS_MAX, check, check_requirements, format, values_mismatch,
};
