//! Field rules that several kinds share: names, labels, quantities. Wording is upstream's, so that people and
//! tools recognise it. What is also asked for outside the API stands in [`rekindle_types::validation`].

pub mod amounts;
pub mod labels;
pub mod names;
pub mod numbers;
pub mod object_meta;
pub mod ports;
pub mod quantities;
pub mod selector;

pub use rekindle_types::validation::Path;
pub(crate) use rekindle_types::validation::{invalid_each, items};

/// The text, or the empty text: an absent string and an empty one mean the same in the Kubernetes API.
pub(crate) fn text(value: Option<&String>) -> &str {
    value.map_or("", String::as_str)
}
