//! Sends the requests of writes and events to the API. What they hold and what their answers mean
//! is decided in [`rekindle_reconcile::wire`].

use http::{Method, Request};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{Status, StatusCause, StatusDetails};
use kube::Client;
use rekindle_controllers::events::EventWrite;
use rekindle_controllers::{WriteOperation, WriteResult};
use rekindle_reconcile::wire::{
    event_requests, is_expected_event_refusal, outcome_of_refusal, outcome_of_success, request_for,
};
use rekindle_types::causes;

use crate::in_term::LeaderTerm;

/// Writes through a client.
#[derive(Clone)]
pub(crate) struct PlanWriter {
    client: Client,
    in_term: Option<LeaderTerm>,
}

impl PlanWriter {
    /// A writer through this client.
    pub(crate) fn new(client: Client) -> Self {
        Self { client, in_term: None }
    }

    /// The same, which writes as long as this term lasts and names it in each write.
    #[must_use]
    pub(crate) fn in_term(mut self, in_term: LeaderTerm) -> Self {
        self.in_term = Some(in_term);
        self
    }

    /// Carries the write out.
    pub(crate) async fn carry_out(&self, write: &WriteOperation) -> WriteResult {
        let request = match request_for(write, self.in_term.as_ref().map(LeaderTerm::term)) {
            Ok(request) => request,
            Err(error) => return error.outcome(),
        };
        if self.is_too_late_for(&request) {
            return WriteResult::Unknown { message: "the term may be over".to_owned() };
        }
        match self.client.request_text(request).await {
            Ok(text) => outcome_of_success(write, text.as_bytes()),
            Err(kube::Error::Api(status)) => outcome_of_refusal(write, api_status(&status)),
            Err(error) => WriteResult::Unknown { message: error.to_string() },
        }
    }

    /// Writes an event. One that cannot be written is lost, and the log says so.
    pub(crate) async fn record(&self, write: EventWrite) {
        let (EventWrite::Create(event) | EventWrite::Repeat(event)) = &write;
        let reason = &event.reason;
        let requests = match event_requests(&write, self.in_term.as_ref().map(LeaderTerm::term)) {
            Ok(requests) => requests,
            Err(error) => {
                tracing::warn!(?reason, error = causes(&error), "failed to write an event");
                return;
            }
        };
        for request in requests {
            // another one leads, or is about to: it records its own events
            if self.is_too_late_for(&request) {
                return;
            }
            match self.client.request_text(request).await {
                Err(kube::Error::Api(status)) if status.code == 404 => {}
                Err(kube::Error::Api(status)) => {
                    if !is_expected_event_refusal(&api_status(&status)) {
                        let error = &status.message;
                        tracing::warn!(?reason, error, "failed to write an event");
                    }
                    return;
                }
                Err(error) => {
                    tracing::warn!(?reason, %error, "failed to write an event");
                    return;
                }
                Ok(_) => return,
            }
        }
    }

    /// True for a request that changes something when the term may be over.
    fn is_too_late_for(&self, request: &Request<Vec<u8>>) -> bool {
        let is_over = || self.in_term.as_ref().is_some_and(|in_term| !in_term.lasts());
        request.method() != Method::GET && is_over()
    }
}

/// What decides in a refusal, as the API's own type.
pub(crate) fn api_status(status: &kube::core::Status) -> Status {
    let listed = status.details.iter().flat_map(|details| &details.causes);
    let causes = listed.map(|cause| StatusCause {
        field: Some(cause.field.clone()),
        message: Some(cause.message.clone()),
        reason: Some(cause.reason.clone()),
    });
    let name = status.details.as_ref().map(|details| details.name.clone());
    let details =
        StatusDetails { name, causes: Some(causes.collect()), ..StatusDetails::default() };
    Status {
        code: Some(status.code.into()),
        details: Some(details),
        message: Some(status.message.clone()),
        reason: Some(status.reason.clone()),
        ..Status::default()
    }
}

#[cfg(test)]
mod tests {
    use std::convert::Infallible;
    use std::sync::atomic::{AtomicBool, Ordering};
    use std::sync::{Arc, Mutex};

    use http::Response;
    use k8s_openapi::api::core::v1::Event;
    use kube::client::Body;
    use rekindle_controllers::{NamespacedName, ObjectId, ResourceKind};
    use rekindle_types::Term;

    use super::*;

    /// An API that does whatever it is asked for, and what it is asked for.
    fn willing_api() -> (Client, Arc<Mutex<Vec<String>>>) {
        let asked: Arc<Mutex<Vec<String>>> = Arc::default();
        let heard = Arc::clone(&asked);
        let service = tower::service_fn(move |request: Request<Body>| {
            heard.lock().unwrap().push(format!("{} {}", request.method(), request.uri()));
            async { Ok::<_, Infallible>(Response::new(Body::from(b"{}".to_vec()))) }
        });
        (Client::new(service, "default"), asked)
    }

    #[tokio::test]
    async fn an_object_is_absent_only_if_the_answer_names_it() {
        for (details, is_absent) in [(r#"{"name": "web", "kind": "pods"}"#, true), ("{}", false)] {
            let status =
                r#""kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure""#;
            let text = format!(
                r#"{{{status}, "message": "not found", "reason": "NotFound", "details": {details}, "code": 404}}"#
            );
            let service = tower::service_fn(move |_: Request<Body>| {
                let answer = Response::builder().status(404);
                let answer = answer.body(Body::from(text.clone().into_bytes())).unwrap();
                async { Ok::<_, Infallible>(answer) }
            });
            let writer = PlanWriter::new(Client::new(service, "default"));
            let id = ObjectId::new(ResourceKind::Pod, NamespacedName::new("shop", "web"));
            let outcome = writer.carry_out(&WriteOperation::CheckAbsent { id, uid: None }).await;
            assert_eq!(outcome == WriteResult::Done, is_absent, "{details}: {outcome:?}");
        }
    }

    #[tokio::test]
    async fn a_write_names_its_term_as_long_as_it_lasts() {
        let (client, asked) = willing_api();
        let lasts = Arc::new(AtomicBool::new(true));
        let term: Term = "ns/lease/uid/2".parse().unwrap();
        let still = Arc::clone(&lasts);
        let in_term = LeaderTerm::new(term, move || still.load(Ordering::Relaxed));
        let writer = PlanWriter::new(client).in_term(in_term);
        let pods = ObjectId::new(ResourceKind::Pod, NamespacedName::new("shop", ""));
        let write = WriteOperation::DeleteAll { of: pods.clone() };
        let mut event = Event::default();
        event.metadata.namespace = Some("shop".to_owned());

        assert_eq!(writer.carry_out(&write).await, WriteResult::Done);
        lasts.store(false, Ordering::Relaxed);
        let outcome = writer.carry_out(&write).await;
        assert!(matches!(outcome, WriteResult::Unknown { .. }), "{outcome:?}");
        writer.record(EventWrite::Create(event.into())).await;
        // a look changes nothing
        assert_eq!(
            writer.carry_out(&WriteOperation::CheckEmpty { of: pods }).await,
            WriteResult::Done
        );

        let path = "/api/v1/namespaces/shop/pods";
        let expected =
            [format!("DELETE {path}?leaderTerm=ns/lease/uid/2"), format!("GET {path}?limit=1")];
        assert_eq!(*asked.lock().unwrap(), expected);
    }
}
