//! What validating one value found.

use rekindle_types::validation::{FieldError, field_error::FieldProblem};
use serde_json::Value;

use super::value_path::{ValuePath, field_below};
use crate::{
    error_list::ErrorList,
    shown::{json, shown},
};

/// The errors of a value, and how many checks it went through. Of the alternatives of `anyOf` and
/// `oneOf`, the one with most checks explains the failure, as in kube-openapi.
#[derive(Default)]
pub(super) struct ValueOutcome {
    pub(super) errors: ErrorList,
    pub(super) checks: usize,
}

impl ValueOutcome {
    pub(super) fn is_valid(&self) -> bool {
        self.errors.is_empty()
    }

    /// Adds an error once, up to a limit.
    pub(super) fn add(&mut self, error: FieldError) {
        self.errors.push_new(error);
    }

    pub(super) fn merge(&mut self, other: Self) {
        self.checks += other.checks;
        for error in other.errors.into_vec() {
            self.add(error);
        }
    }
}

/// Builds errors at a path.
pub(super) struct Reporter<'a> {
    /// The field that the validated value is, such as `status`; empty for a whole object.
    pub(super) prefix: &'a str,
}

impl Reporter<'_> {
    fn field(&self, path: &ValuePath<'_>) -> String {
        field_below(self.prefix, &path.text())
    }

    /// A value that breaks a rule; the rule is said of `NAME in body`.
    pub(super) fn broken(&self, path: &ValuePath<'_>, value: &Value, rule: &str) -> FieldError {
        let detail = format!("{} in body {rule}", path.text());
        self.invalid(path, shown(value), detail)
    }

    pub(super) fn invalid(
        &self,
        path: &ValuePath<'_>,
        value: String,
        detail: String,
    ) -> FieldError {
        FieldError { field: self.field(path), problem: FieldProblem::Invalid(value), detail }
    }

    /// A value that is not of a type or format.
    pub(super) fn wrong_type(
        &self,
        path: &ValuePath<'_>,
        expected: &str,
        found: &str,
    ) -> FieldError {
        FieldError {
            field: self.field(path),
            problem: FieldProblem::TypeInvalid(format!("{found:?}")),
            detail: format!("{} in body must be of type {expected}: {found:?}", path.text()),
        }
    }

    /// An error that upstream reports without a field of its own.
    pub(super) fn of_whole(&self, detail: String) -> FieldError {
        self.invalid(&ValuePath::Root, "\"\"".to_owned(), detail)
    }

    pub(super) fn required(&self, path: &ValuePath<'_>) -> FieldError {
        FieldError::required(self.field(path), "")
    }

    pub(super) fn too_long(&self, path: &ValuePath<'_>, max: i64) -> FieldError {
        FieldError::too_long(self.field(path), usize::try_from(max).unwrap_or_default())
    }

    pub(super) fn too_many(&self, path: &ValuePath<'_>, found: usize, max: i64) -> FieldError {
        let max = usize::try_from(max).unwrap_or_default();
        FieldError::too_many_of(self.field(path), found, max)
    }

    pub(super) fn not_supported(
        &self,
        path: &ValuePath<'_>,
        value: &Value,
        allowed: &[Value],
    ) -> FieldError {
        let names: Vec<String> = allowed
            .iter()
            .map(|value| value.as_str().map_or_else(|| json(value), str::to_owned))
            .collect();
        let names: Vec<&str> = names.iter().map(String::as_str).collect();
        FieldError {
            problem: FieldProblem::NotSupported(shown(value)),
            ..FieldError::not_supported(self.field(path), "", &names)
        }
    }
}
