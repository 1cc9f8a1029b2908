//! Requests to the API, and what is noted of its answers.

use std::sync::Arc;

use bytes::Bytes;
use http::{Method, StatusCode};
use k8s_openapi::api::core::v1::Pod;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Status;
use rekindle_api::{ApiAnswer, ApiRequest, RequestOutcome};
use rekindle_controllers::events::EventWrite;
use rekindle_controllers::{
    NamespacedName, ObjectId, ResourceKind, ViewObject, WriteOperation, WriteResult,
};
use rekindle_kinds::identity::ClientIdentity;
use rekindle_reconcile::wire::{
    event_requests, outcome_of_refusal, outcome_of_success, request_for, stored_kind,
};
use rekindle_types::Term;
use serde_json::json;

use super::deletions::{deletes_many, list_of_before};
use super::{MachinePower, SimAnswer, SimServer, SimServerState, below_version};
use crate::kinds;
use crate::known_bugs::KnownBug;

impl SimServer {
    /// One request and its answer.
    pub(crate) fn call(
        &self,
        method: Method,
        path: &str,
        kind: &str,
        body: Vec<u8>,
    ) -> (u16, Bytes) {
        let SimAnswer { code, body, warnings: _ } = self.ask(method, path, kind, body);
        (code, body)
    }

    /// The same, with what the API warns of.
    pub(crate) fn ask(&self, method: Method, path: &str, kind: &str, body: Vec<u8>) -> SimAnswer {
        let (path, query) = path.split_once('?').unwrap_or((path, ""));
        let evicted = path.strip_suffix("/eviction").and_then(|pod| self.pod_at(pod));
        let mut inner = self.inner();
        let request = ApiRequest {
            path: path.to_owned(),
            query: query.to_owned(),
            accept: String::new(),
            user_agent: String::new(),
            content_type: kind.to_owned(),
            body: body.into(),
            identity: ClientIdentity::clone(&self.identity),
            now: inner.now,
            notes: None,
            method,
        };
        if request.method == Method::POST {
            self.entropy.asked(&request.path, &request.body);
        }
        let (request, said) = match inner.bug {
            Some(KnownBug::CollectionHalfDone) => self.but_one(request),
            Some(_) | None => (request, None),
        };
        let answer: Option<ApiAnswer> = match self.api.handle(&request) {
            RequestOutcome::Answer(answer) => Some(answer),
            RequestOutcome::List(list) => Some(list.into_answer()),
            RequestOutcome::Write(mut write) => {
                inner.commit_begins();
                // a commit that fails answers the writes that it was for
                let is_lost = inner.committer.commit_pending().is_err()
                    && inner.power == MachinePower::Failing;
                if is_lost {
                    inner.power = MachinePower::Lost;
                }
                let unsynced = if is_lost { inner.answer_unsynced(&request) } else { None };
                unsynced.or_else(|| write.try_answer())
            }
            RequestOutcome::Watch(_)
            | RequestOutcome::Log(_)
            | RequestOutcome::Stream(_)
            | RequestOutcome::Proxy(_)
            | RequestOutcome::Aggregated(_)
            | RequestOutcome::Node(_)
            | RequestOutcome::ResourceMetrics(_)
            | RequestOutcome::Metrics
            | RequestOutcome::Webhooks(_)
            | RequestOutcome::Backup => None,
        };
        let Some(ApiAnswer { code, body, warnings, .. }) = answer else {
            return SimAnswer { code: 501, body: Bytes::new(), warnings: Vec::new() };
        };
        let code = code.as_u16();
        let body = said.filter(|_| code < 300).unwrap_or(body);
        let is_write = !is_question(&request);
        if code < 300 {
            inner.evicted.extend(evicted);
        }
        match (code < 300 && is_write, request.method == Method::DELETE) {
            (true, true) => self.note_deletion(&mut inner, &body),
            (true, false) => self.note_answer(&mut inner, &body),
            (false, _) => {}
        }
        let figures = &mut inner.figures;
        match (code < 300, is_write) {
            (true, true) => {
                let is_event = is_of_events(&request.path);
                figures.writes += 1;
                figures.events += u64::from(is_event);
                if let Some(written) = inner.written.as_mut().filter(|_| !is_event) {
                    written.note(&request.path, request.now);
                }
            }
            (false, true) => figures.refused += 1,
            (_, false) => {}
        }
        SimAnswer { code, body, warnings }
    }

    /// A write is granted with this answer.
    fn note_answer(&self, inner: &mut SimServerState, body: &Bytes) {
        let Some(told) = &mut inner.told else { return };
        let Some((key, revision)) = self.kinds.place_of(body) else { return };
        let wrong = match self.api.store().get(key.as_str()) {
            Some(_) => told.answered(key, revision, body),
            None => {
                told.answered_of_gone(key, revision, body);
                None
            }
        };
        inner.broken = inner.broken.take().or(wrong);
    }

    /// The pod of a path such as `/api/v1/namespaces/default/pods/web-0`.
    fn pod_at(&self, path: &str) -> Option<Arc<Pod>> {
        let (namespace, name) = path.strip_prefix("/api/v1/namespaces/")?.split_once("/pods/")?;
        self.pod(&NamespacedName::new(namespace, name))
    }

    fn carry(&self, request: http::Request<Vec<u8>>) -> (u16, Bytes) {
        let (parts, body) = request.into_parts();
        let kind = parts.headers.get("content-type").and_then(|kind| kind.to_str().ok());
        self.call(parts.method, &parts.uri.to_string(), kind.unwrap_or_default(), body)
    }

    /// The object of an answer as the API holds it: its text is the very one that is stored.
    fn answered(&self, kind: ResourceKind, body: &Bytes) -> Option<ViewObject> {
        let name = kinds::name_of(body)?;
        let stored = self.api.store().get(&self.kinds.key(&ObjectId::new(kind, name))?)?;
        if stored.value.as_ptr() != body.as_ptr() {
            return None;
        }
        self.read(&stored)
    }
}

impl SimServerState {
    /// What an API answers that does not wait for the disk; only the bugs
    /// [`KnownBug::AnsweredUnsynced`], [`KnownBug::DeletedUnsynced`] and
    /// [`KnownBug::CollectionUnsynced`] do that.
    fn answer_unsynced(&self, request: &ApiRequest) -> Option<ApiAnswer> {
        let mut rows = self.disk.under_way()?.rows.into_iter();
        match self.bug {
            Some(KnownBug::AnsweredUnsynced) => {
                let written = rows.find_map(|row| row.after)?;
                Some(ApiAnswer::json(StatusCode::OK, written.value.clone()))
            }
            Some(KnownBug::DeletedUnsynced) => {
                let gone = rows.find(|row| row.after.is_none())?.before?;
                let uid = kinds::uid_of(&gone.value)?;
                let status =
                    json!({"kind": "Status", "status": "Success", "details": {"uid": uid}});
                Some(ApiAnswer::json(StatusCode::OK, status.to_string()))
            }
            Some(KnownBug::CollectionUnsynced) if deletes_many(request) => {
                Some(ApiAnswer::json(StatusCode::OK, list_of_before(&self.disk.under_way()?)))
            }
            Some(_) | None => None,
        }
    }

    /// The commit is told when it is the one in which power is lost.
    fn commit_begins(&mut self) {
        match self.power_fails.take() {
            Some((0, sync)) if self.power == MachinePower::On => {
                self.disk.lose_power(sync);
                self.power = MachinePower::Failing;
            }
            Some((left, sync)) => self.power_fails = Some((left.saturating_sub(1), sync)),
            None => {}
        }
    }
}

impl SimServer {
    /// Carries a controller's write out, in the term of a leader if it has one.
    pub(crate) fn carry_out(&self, write: &WriteOperation, term: Option<&Term>) -> WriteResult {
        let request = match request_for(write, term) {
            Ok(request) => request,
            Err(error) => return error.outcome(),
        };
        let (code, body) = self.carry(request);
        if code >= 300 {
            return match serde_json::from_slice::<Status>(&body) {
                Ok(status) => outcome_of_refusal(write, status),
                Err(error) => WriteResult::Unknown { message: format!("answer {code}: {error}") },
            };
        }
        match stored_kind(write).and_then(|kind| self.answered(kind, &body)) {
            Some(object) => WriteResult::Stored(object),
            None => outcome_of_success(write, &body),
        }
    }

    /// Writes an event; one that cannot be written is lost.
    pub(crate) fn record(&self, event: &EventWrite) {
        for request in event_requests(event, None).into_iter().flatten() {
            if self.carry(request).0 != 404 {
                return;
            }
        }
    }
}

/// A request that changes nothing, whatever is answered.
fn is_question(request: &ApiRequest) -> bool {
    let is_tried = request.query.split('&').any(|option| option == "dryRun=All");
    request.method == Method::GET || is_tried
}

/// Whether a path is one of Events: its resource says so, and not a name that begins in the same
/// way.
fn is_of_events(path: &str) -> bool {
    matches!(below_version(path).as_slice(), ["namespaces", _, "events", ..] | ["events", ..])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn events_are_told_by_the_resource_and_not_by_a_name() {
        let cases = [
            ("/api/v1/namespaces/default/events", true),
            ("/api/v1/namespaces/default/events/web.17", true),
            ("/apis/events.k8s.io/v1/namespaces/default/events/web.17", true),
            ("/api/v1/events", true),
            ("/api/v1/namespaces/default/pods/events-0", false),
            ("/api/v1/namespaces/default/pods/events/status", false),
            ("/apis/apps/v1/namespaces/events/deployments/events", false),
            ("/api/v1/namespaces/events", false),
            ("/api/v1/nodes/events-1", false),
            ("/healthz", false),
        ];
        for (path, expected) in cases {
            assert_eq!(is_of_events(path), expected, "{path}");
        }
    }
}
