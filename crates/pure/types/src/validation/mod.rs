//! Field rules that several kinds share: names, labels, selectors, numbers. Whoever reads an object
//! can say by them what is wrong with it, be it the API or, on a cluster whose API checks less, who
//! acts on it. Wording is upstream's, so that people and tools recognise it.

pub mod field_error;
pub mod labels;
pub mod names;
pub mod numbers;
pub mod path;
mod quoted;
pub mod selector;

pub use field_error::FieldError;
pub use path::Path;
pub use quoted::{is_printable, quoted};

/// After so many mistakes the rest of a long list is not looked at. Each takes more memory than the
/// entry that it is about.
pub const MISTAKES_MAX: usize = 1_000;

/// One `Invalid value` error for each message of a name rule.
pub fn invalid_each<'a>(
    field: &'a Path,
    value: &'a str,
    messages: Vec<String>,
) -> impl Iterator<Item = FieldError> + 'a {
    messages.into_iter().map(move |message| FieldError::invalid(field, value, message))
}

/// The entries of a list that may be absent.
pub fn items<T>(list: Option<&Vec<T>>) -> &[T] {
    list.map_or(&[], Vec::as_slice)
}
