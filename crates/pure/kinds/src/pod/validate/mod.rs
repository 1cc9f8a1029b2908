//! What makes the spec of a Pod (or of a template) valid, in upstream's words
//! (`pkg/apis/core/validation`). Defaults have been filled before.

mod affinity;
use rekindle_types::validation::field_error::FieldError;

mod checked_pod;
mod claims;
mod container;
mod containers;
mod env;
pub(crate) mod ephemeral;
mod gated;
mod handlers;
mod mounts;
mod own_fields;
mod placement;
mod projected;
mod resources;
mod security;
mod spec;
mod status;
mod update;
mod volume;
pub(crate) mod volume_claims;
mod volume_files;
mod windows;

pub(crate) use projected::tokens_of_nobody;
pub(crate) use spec::pod_spec;
pub(crate) use status::pod_status;
pub(crate) use update::pod_update;

use crate::validation::Path;

/// What holds the spec.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum SpecHolder {
    /// A Pod.
    Pod,
    /// The template of a workload.
    Template,
}

/// A field that upstream has and that this version cannot carry out, where going on without it
/// would do something else than the user asked for.
fn unsupported(field: Path, why: &str) -> FieldError {
    FieldError::forbidden(field, format!("not supported by this version of Rekindle: {why}"))
}

/// A text out of a fixed set; absent is missing, since a default should have filled it.
fn one_of(value: Option<&String>, allowed: &[&str], field: Path) -> Option<FieldError> {
    match value.map_or("", String::as_str) {
        "" => Some(FieldError::required(field, "")),
        value if allowed.contains(&value) => None,
        value => Some(FieldError::not_supported(field, value, allowed)),
    }
}

/// The same for a text that may be absent.
fn one_of_if_set(value: Option<&String>, allowed: &[&str], field: Path) -> Option<FieldError> {
    value.and_then(|_| one_of(value, allowed, field))
}
