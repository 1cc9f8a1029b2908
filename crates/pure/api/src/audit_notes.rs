//! What the handling of a request has to say to the audit log: annotations of its event.

use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

use crate::status::ApiError;

const DECISION: &str = "authorization.k8s.io/decision";
const REASON: &str = "authorization.k8s.io/reason";

/// The notes of one request. Only that of a request that is recorded has any.
#[derive(Debug, Default)]
pub struct AuditNotes(Mutex<NotesTaken>);

#[derive(Debug, Default)]
struct NotesTaken {
    annotations: BTreeMap<String, String>,
    has_panicked: bool,
}

impl AuditNotes {
    /// A run of the request begins, after webhooks were asked: what the one before has noted does
    /// not count.
    pub(crate) fn begin_run(&self) {
        self.taken().annotations.clear();
    }

    /// Adds an annotation. The first value of a key stays, as upstream.
    pub(crate) fn annotate(&self, key: impl Into<String>, value: impl Into<String>) {
        self.taken().annotations.entry(key.into()).or_insert_with(|| value.into());
    }

    /// Notes what authorization has decided: why the request is allowed, or that it is not.
    pub(crate) fn authorized(&self, decided: &Result<String, ApiError>) {
        let (decision, reason) = match decided {
            Ok(reason) => ("allow", reason.as_str()),
            Err(error) if matches!(error.code().as_u16(), 401 | 403) => ("forbid", ""),
            Err(_) => return self.annotate(REASON, "internal error"),
        };
        self.annotate(DECISION, decision);
        self.annotate(REASON, reason);
    }

    /// Notes that the handling of the request has panicked.
    pub fn panicked(&self) {
        self.taken().has_panicked = true;
    }

    /// Whether authorization has let the request pass.
    pub fn is_allowed(&self) -> bool {
        self.taken().annotations.get(DECISION).is_some_and(|decision| decision == "allow")
    }

    /// Whether the handling of the request has panicked.
    pub fn has_panicked(&self) -> bool {
        self.taken().has_panicked
    }

    /// The annotations so far.
    pub fn annotations(&self) -> BTreeMap<String, String> {
        self.taken().annotations.clone()
    }

    fn taken(&self) -> MutexGuard<'_, NotesTaken> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_decision_is_noted_once_with_its_reason() {
        let notes = |decided: &[Result<String, ApiError>]| {
            let notes = AuditNotes::default();
            decided.iter().for_each(|decided| notes.authorized(decided));
            (notes.is_allowed(), notes.annotations().into_iter().collect::<Vec<_>>())
        };
        let pair = |key: &str, value: &str| (key.to_owned(), value.to_owned());
        let why = "RBAC: allowed by x".to_owned();
        for (decided, allowed, annotations) in [
            (vec![], false, vec![]),
            (vec![Ok(why.clone())], true, vec![pair(DECISION, "allow"), pair(REASON, &why)]),
            (
                vec![Err(ApiError::unauthorized()), Ok(why.clone())],
                false,
                vec![pair(DECISION, "forbid"), pair(REASON, "")],
            ),
            (vec![Err(ApiError::internal("x"))], false, vec![pair(REASON, "internal error")]),
        ] {
            assert_eq!(notes(&decided), (allowed, annotations), "{decided:?}");
        }
    }
}
