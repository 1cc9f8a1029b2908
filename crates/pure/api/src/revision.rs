//! `resourceVersion` as clients write it.

use rekindle_store::Revision;

use crate::status::ApiError;

/// Reads a `resourceVersion`; empty is none. What cannot be read is answered with 500, as
/// upstream.
pub(crate) fn parse(text: &str) -> Result<Option<Revision>, ApiError> {
    if text.is_empty() {
        return Ok(None);
    }
    let number = text.parse().map_err(|_| {
        ApiError::failure(format!("invalid resource version {text:?}: it must be a whole number"))
    })?;
    Ok(Some(Revision(number)))
}

/// Refuses a revision that the store has not reached: the client saw it elsewhere, or before the
/// data was replaced.
pub(crate) fn check_reached(newest: Revision, asked: &str) -> Result<Option<Revision>, ApiError> {
    let asked = parse(asked)?;
    match asked {
        Some(revision) if revision > newest => {
            Err(ApiError::too_large_revision(revision.0, newest.0))
        }
        other => Ok(other),
    }
}
