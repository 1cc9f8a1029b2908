//! Terms of leaders: a write that names the term it is made in (`?leaderTerm=`,
//! [`rekindle_types::Term`]) is refused when that term is over, or the API takes no more of them.
//!
//! ```text
//!   lease: term 3 ─── write of term 3: yes ─── lease: term 4 ─── write of term 3: no (409) ─── write of term 4: yes
//! ```
//!
//! What Kubernetes has instead is the resourceVersion of the object that is written: it protects
//! against writes over changes that the old leader did not see, not against what it creates or
//! deletes. This protects against all of its writes, wherever it paused (docs/adr/0030).
//!
//! That a term is looked up and the write queued is one step with regard to changes of Leases: they
//! wait for each other, and what is queued first is written first.

use std::sync::{PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard};

use k8s_openapi::api::coordination::v1::Lease;
use rekindle_types::term::LEADER_TERM;
use rekindle_types::{ObjectJson, Term};

use crate::keys;
use crate::request::{RequestOptions, RequestVerb, ResourcePath};
use crate::status::ApiError;
use crate::stored::StoredState;

/// Group, version and plural of what leaders hold.
const LEASES: (&str, &str, &str) = ("coordination.k8s.io", "v1", "leases");

/// The longest body of a write to a Lease. All writes of leaders wait for it, so it must not take
/// long.
const LEASE_BYTES_MAX: usize = 64 * 1024;

/// Decides about writes that name a term.
#[derive(Debug, Default)]
pub(crate) struct TermGuard {
    gate: RwLock<TermGate>,
}

/// Whether writes with a term are taken at all.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum TermGate {
    /// They are.
    #[default]
    Open,
    /// Not any more.
    Closed,
}

/// Held until the write is queued.
#[must_use = "the term may end before the write is queued"]
pub(crate) enum TermAdmission<'a> {
    /// It has nothing to do with terms.
    Freely,
    /// In its term.
    InTerm { _gate: RwLockReadGuard<'a, TermGate> },
    /// It may begin a term; it names none, or the one that is.
    Alone { _gate: RwLockWriteGuard<'a, TermGate> },
}

impl TermGuard {
    /// From now on no write with a term is taken: the API ends, and what ends with it must not be
    /// made again.
    pub(crate) fn close(&self) {
        *self.gate.write().unwrap_or_else(PoisonError::into_inner) = TermGate::Closed;
    }

    /// Admits a request to this resource.
    pub(crate) fn admit(
        &self,
        state: StoredState<'_>,
        verb: RequestVerb,
        path: &ResourcePath,
        (options, body): (&RequestOptions, &[u8]),
    ) -> Result<TermAdmission<'_>, ApiError> {
        match verb {
            RequestVerb::Get | RequestVerb::List | RequestVerb::Watch => {
                return Ok(TermAdmission::Freely);
            }
            RequestVerb::Create
            | RequestVerb::Update
            | RequestVerb::Patch
            | RequestVerb::Delete
            | RequestVerb::DeleteCollection => {}
        }
        let term: Option<Term> = options
            .get(LEADER_TERM)
            .map(str::parse)
            .transpose()
            .map_err(|error| ApiError::bad_request(format!("{LEADER_TERM}: {error}")))?;
        if (path.group.as_str(), path.resource.as_str()) == (LEASES.0, LEASES.2) {
            if body.len() > LEASE_BYTES_MAX {
                return Err(ApiError::too_large(LEASE_BYTES_MAX));
            }
            let gate = self.gate.write().unwrap_or_else(PoisonError::into_inner);
            term.map_or(Ok(()), |term| gate.check(state, &term))?;
            return Ok(TermAdmission::Alone { _gate: gate });
        }
        let Some(term) = term else { return Ok(TermAdmission::Freely) };
        let gate = self.gate.read().unwrap_or_else(PoisonError::into_inner);
        gate.check(state, &term)?;
        Ok(TermAdmission::InTerm { _gate: gate })
    }
}

impl TermGate {
    /// Whether a write of this term is taken.
    fn check(self, state: StoredState<'_>, term: &Term) -> Result<(), ApiError> {
        match self {
            Self::Open => compare(state, term),
            Self::Closed => {
                Err(ApiError::term_over("the API ends, and takes no writes of leaders"))
            }
        }
    }
}

/// Compares the term with the Lease as it is, writes on their way to the disk included.
fn compare(state: StoredState<'_>, term: &Term) -> Result<(), ApiError> {
    let Term { namespace, lease, .. } = term;
    let over = |why: &str| Err(ApiError::term_over(&format!("term {term} is over: {why}")));
    let (group, version, plural) = LEASES;
    let entry = state
        .registry
        .find(group, version, plural)
        .ok_or_else(|| ApiError::internal("no Leases are served".to_owned()))?;
    let newest = state.store.newest(&keys::object(entry, namespace, lease));
    let Some(stored) = newest else { return over("its lease is gone") };
    let stored = Lease::from_json(&stored.value)
        .map_err(|error| ApiError::internal(format!("read lease {namespace}/{lease}: {error}")))?;
    match Term::from_lease(&stored) {
        Some(newest) if newest == *term => Ok(()),
        Some(newest) => over(&format!("its lease is in term {newest}")),
        None => over("its lease has no UID"),
    }
}
