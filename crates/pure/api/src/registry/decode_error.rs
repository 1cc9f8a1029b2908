//! Why an object could not be read.

/// A field whose value has the wrong type.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{path}: {problem}")]
pub struct DecodeError {
    /// The path, for example `spec.replicas`; `.` for the object itself.
    pub path: String,
    /// What was found and what was expected.
    pub problem: String,
}
