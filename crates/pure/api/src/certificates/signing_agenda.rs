//! When to look at CertificateSigningRequests again: when they go by themselves, by the times of
//! upstream's `pkg/controller/certificates/cleaner`, and after a write that failed.

use std::sync::Arc;

use k8s_openapi::api::certificates::v1::CertificateSigningRequest;
use rekindle_kinds::certificate_signing_request::{APPROVED, DENIED, FAILED, is_issued};
use rekindle_kinds::validation::{items, text};
use rekindle_types::{Tick, TickDuration};

use crate::due_times::DueTimes;
use crate::object_meta::is_being_deleted;

/// After a decision that is carried out.
const AFTER_DECISION: TickDuration = TickDuration::from_secs(60 * 60);
/// While something is still to be done.
const AFTER_WAITING: TickDuration = TickDuration::from_secs(24 * 60 * 60);
/// After a write that failed.
const AFTER_FAILURE: TickDuration = TickDuration::from_secs(30);

/// The names of requests, by the time at which they are looked at again.
#[derive(Debug, Default)]
pub struct SigningAgenda {
    due: DueTimes,
}

impl SigningAgenda {
    /// Remembers when a request goes. One that should be gone by now is looked at again soon, and
    /// not at once.
    pub fn note(&mut self, request: &CertificateSigningRequest, now: Tick) {
        let name = name(request);
        match goes_at(request) {
            Some(due) if due > now => self.due.set(name, due),
            Some(_) => self.due.set(name, now + AFTER_FAILURE),
            None => self.due.forget(name),
        }
    }

    /// Remembers that a write failed.
    pub fn note_failure(&mut self, request: &CertificateSigningRequest, now: Tick) {
        self.due.set(name(request), now + AFTER_FAILURE);
    }

    /// A request is gone.
    pub fn forget(&mut self, name: &str) {
        self.due.forget(name);
    }

    /// When the next request is to be looked at.
    pub fn next(&self) -> Option<Tick> {
        self.due.next()
    }

    /// Takes the name of a request that is to be looked at now.
    pub fn take_due(&mut self, now: Tick) -> Option<Arc<str>> {
        let name = self.due.first_due(now)?;
        self.due.forget(&name);
        Some(name)
    }
}

fn name(request: &CertificateSigningRequest) -> &str {
    text(request.metadata.name.as_ref())
}

/// When a request goes; none when nothing says how old it is.
pub(super) fn goes_at(request: &CertificateSigningRequest) -> Option<Tick> {
    if is_being_deleted(&request.metadata) {
        return None;
    }
    let conditions = request.status.as_ref().map(|status| items(status.conditions.as_ref()));
    let conditions = conditions.unwrap_or_default();
    if conditions.is_empty() {
        let created = request.metadata.creation_timestamp.as_ref()?;
        return Some(Tick::from(created) + AFTER_WAITING);
    }
    let due = conditions.iter().filter_map(|condition| {
        let after = match condition.type_.as_str() {
            APPROVED if !is_issued(request) => AFTER_WAITING,
            APPROVED | DENIED | FAILED => AFTER_DECISION,
            _ => return None,
        };
        Some(Tick::from(condition.last_update_time.as_ref()?) + after)
    });
    due.min()
}
