//! Field rules that several kinds share: names, labels, quantities. Wording is upstream's, so that people and
//! tools recognise it.

pub mod amounts;
pub mod labels;
pub mod names;
pub mod numbers;
pub mod object_meta;
pub mod path;
pub mod ports;
pub mod quantities;
pub mod selector;

pub use path::Path;

use crate::registry::field_error::FieldError;

/// One `Invalid value` error for each message of a name rule.
pub(crate) fn invalid_each<'a>(
    field: &'a Path,
    value: &'a str,
    messages: Vec<String>,
) -> impl Iterator<Item = FieldError> + 'a {
    messages.into_iter().map(move |message| FieldError::invalid(field, value, message))
}

/// The text, or the empty text: an absent string and an empty one mean the same in the Kubernetes API.
pub(crate) fn text(value: Option<&String>) -> &str {
    value.map_or("", String::as_str)
}

/// The entries of a list that may be absent.
pub(crate) fn items<T>(list: Option<&Vec<T>>) -> &[T] {
    list.map_or(&[], Vec::as_slice)
}
