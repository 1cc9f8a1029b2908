//! Errors as one line for people: `mount /proc: permission denied`.

use rustix::io::Errno;

use crate::protocol::{FailureKind, ShimFailure};

/// What is told of a process that died and could not say why, before it ran the command that it was
/// made for.
pub(crate) const KILLED_UNREADY: &str = "it was killed while it was being prepared";

/// The kernel's word for an error, in lower case and without its number.
pub(crate) fn errno_text(errno: Errno) -> String {
    let text = std::io::Error::from(errno).to_string();
    let text = text.split(" (os error").next().unwrap_or_default();
    let mut chars = text.chars();
    match chars.next() {
        Some(first) => first.to_lowercase().chain(chars).collect(),
        None => String::new(),
    }
}

/// What is told of a fork that failed so.
pub(crate) fn no_fork(errno: Errno) -> ShimFailure {
    ShimFailure::new(FailureKind::Setup, format!("fork: {}", errno_text(errno)))
}

/// Gives a failed system call its operation and object.
pub(crate) trait FailureContext<T> {
    /// As a failure of the surroundings.
    fn setup(self, what: impl FnOnce() -> String) -> Result<T, ShimFailure>;
    /// As a failure of this kind.
    fn fail(self, kind: FailureKind, what: impl FnOnce() -> String) -> Result<T, ShimFailure>;
}

impl<T> FailureContext<T> for Result<T, Errno> {
    fn setup(self, what: impl FnOnce() -> String) -> Result<T, ShimFailure> {
        self.fail(FailureKind::Setup, what)
    }

    fn fail(self, kind: FailureKind, what: impl FnOnce() -> String) -> Result<T, ShimFailure> {
        self.map_err(|errno| ShimFailure::new(kind, format!("{}: {}", what(), errno_text(errno))))
    }
}
