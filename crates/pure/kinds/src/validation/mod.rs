//! Field rules that several kinds share: names, labels, quantities. Wording is upstream's, so that
//! people and tools recognise it. What is also asked for outside the API stands in
//! [`rekindle_types::validation`].

pub(crate) mod addresses;
pub mod amounts;
pub(crate) mod conditions;
pub mod driver_name;
pub mod labels;
pub(crate) mod list_keys;
pub mod names;
pub mod node_selector;
pub mod numbers;
pub mod paths;
pub mod ports;
pub mod quantities;
pub(crate) mod resource_names;
pub mod selector;
pub(crate) mod signer_name;
pub mod tolerations;
pub mod webhook_client;

use rekindle_types::validation::field_error::{FieldError, FieldProblem};

pub use list_keys::ListKeys;
pub use rekindle_types::validation::{MISTAKES_MAX, Path, invalid_each, items};

/// What is wrong now and was not before, which is only asked when something is. An object may be
/// older than a rule; it must still be possible to label it, and to take its finalizers.
pub fn new_mistakes(
    now: Vec<FieldError>,
    before: impl FnOnce() -> Vec<FieldError>,
) -> Vec<FieldError> {
    if now.is_empty() {
        return now;
    }
    let known: ListKeys<FieldError> = before().into_iter().collect();
    now.into_iter().filter(|error| !known.has(error)).collect()
}

/// As much of a text as an error shows, where many errors show the same one: a name that is too
/// long would else be written down for each entry of a list.
pub(crate) fn shortened(text: &str) -> &str {
    const BYTES_MAX: usize = 256;
    &text[..text.floor_char_boundary(BYTES_MAX)]
}

/// The error of a field that never changes.
pub fn fixed(field: &Path, value: &impl serde::Serialize) -> FieldError {
    FieldError {
        field: field.into(),
        problem: FieldProblem::Invalid(json(value)),
        detail: "field is immutable".to_owned(),
    }
}

/// A value as an error shows it.
pub fn json<T: serde::Serialize>(value: &T) -> String {
    serde_json::to_string(value)
        .expect("labels, selectors and templates have text keys, so JSON can hold them")
}

/// The text, or the empty text: an absent string and an empty one mean the same in the Kubernetes
/// API.
pub fn text(value: Option<&String>) -> &str {
    value.map_or("", String::as_str)
}
