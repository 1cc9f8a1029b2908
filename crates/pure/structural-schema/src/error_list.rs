//! Errors of an object or a schema, up to limits.

use rekindle_types::validation::{FieldError, MISTAKES_MAX, field_error::FieldProblem};

/// How long all errors together may be: each may show a value, or the whole of a rule.
const ERROR_BYTES_MAX: usize = 1 << 20;

/// The errors so far. Once it is full, nothing more should be looked for.
#[derive(Debug, Default)]
pub(crate) struct ErrorList {
    errors: Vec<FieldError>,
    bytes: usize,
}

impl ErrorList {
    pub(crate) fn is_empty(&self) -> bool {
        self.errors.is_empty()
    }

    pub(crate) fn is_full(&self) -> bool {
        self.errors.len() >= MISTAKES_MAX || self.bytes >= ERROR_BYTES_MAX
    }

    pub(crate) fn len(&self) -> usize {
        self.errors.len()
    }

    pub(crate) fn push(&mut self, error: FieldError) {
        if !self.is_full() {
            self.bytes += bytes_of(&error);
            self.errors.push(error);
        }
    }

    /// Adds an error that is not among them.
    pub(crate) fn push_new(&mut self, error: FieldError) {
        if !self.is_full() && !self.errors.contains(&error) {
            self.push(error);
        }
    }

    pub(crate) fn extend(&mut self, errors: impl IntoIterator<Item = FieldError>) {
        errors.into_iter().for_each(|error| self.push(error));
    }

    pub(crate) fn as_slice(&self) -> &[FieldError] {
        &self.errors
    }

    pub(crate) fn into_vec(self) -> Vec<FieldError> {
        self.errors
    }
}

fn bytes_of(error: &FieldError) -> usize {
    let shown = match &error.problem {
        FieldProblem::Invalid(value)
        | FieldProblem::Duplicate(value)
        | FieldProblem::NotFound(value)
        | FieldProblem::NotSupported(value)
        | FieldProblem::TypeInvalid(value) => value.len(),
        FieldProblem::Required
        | FieldProblem::Forbidden
        | FieldProblem::Internal
        | FieldProblem::TooLong(_)
        | FieldProblem::TooMany { .. } => 0,
    };
    error.field.len() + error.detail.len() + shown
}
