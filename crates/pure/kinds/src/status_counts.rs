//! The counts in the status of a workload: none is below zero, and no part is larger than the
//! whole.

use rekindle_types::validation::field_error::FieldError;

use crate::validation::{Path, numbers};

/// A count that is part of another one.
pub(super) struct PartialCount {
    /// The field of the part.
    pub(super) name: &'static str,
    /// The field of the whole.
    pub(super) of: &'static str,
    /// How the whole is called in the message.
    pub(super) called: &'static str,
}

impl PartialCount {
    /// A part of all replicas.
    pub(super) const fn of_all(name: &'static str) -> Self {
        Self { name, of: "replicas", called: "status.replicas" }
    }
}

/// Everything wrong with these counts, by the names of their fields.
pub(super) fn check(counts: &[(&str, i32)], parts: &[PartialCount]) -> Vec<FieldError> {
    let field = Path::new("status");
    let negative =
        counts.iter().filter_map(|(name, count)| numbers::non_negative(*count, &field.child(name)));
    let count = |wanted: &str| {
        let found = counts.iter().find(|(name, _)| *name == wanted);
        found.map_or(0, |(_, count)| *count)
    };
    let larger = parts.iter().filter(|part| count(part.name) > count(part.of)).map(|part| {
        let detail = format!("cannot be greater than {}", part.called);
        FieldError::invalid(field.child(part.name), count(part.name), detail)
    });
    negative.chain(larger).collect()
}

/// What is wrong with the generation that a status is about.
pub(super) fn check_generation(observed: Option<i64>) -> Option<FieldError> {
    let field = Path::new("status").child("observedGeneration");
    numbers::non_negative(observed.unwrap_or(0), &field)
}
