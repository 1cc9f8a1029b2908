//! The trail of one request: what its events say, as far as it has come.
//!
//! ```text
//!  Unidentified -> Received ----------> Complete    most requests
//!       |             +----> Started -> Complete    watches, logs, streams
//!       +-----------------------------> Complete    failed authentication
//! ```
//!
//! A trail that is dropped before it is complete ends there: the client has left, or a
//! long-running answer is over.

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use http::header::{CONTENT_TYPE, USER_AGENT};
use http::request::Parts;
use http::{HeaderValue, Method, Response};
use k8s_openapi::api::authentication::v1::UserInfo;
use rekindle_api::AuditNotes;
use rekindle_api::auth::AccessAttributes;
use rekindle_api::request::{ApiRequest, RequestLine, attributes};
use rekindle_audit::{
    AuditDecision, AuditEvent, AuditLevel, AuditObjectReference, AuditResponseStatus, AuditStage,
    AuditSubject, recorded_user_agent, source_addresses,
};
use rekindle_kinds::identity::ClientIdentity;
use rekindle_types::Tick;

use super::queue::QueuePermission;
use super::queued_event::{QueuedEvent, RecordedAnswer, RequestBody};
use super::{AUDIT_ID, AuditLog};
use crate::body::FrontBody;
use crate::caller::RequestSource;

/// The trail of a request.
pub(crate) struct AuditTrail {
    log: Arc<AuditLog>,
    audit_id: String,
    waiting: QueuePermission,
    request_uri: String,
    source_ips: Vec<IpAddr>,
    user_agent: String,
    received_at: Tick,
    notes: Arc<AuditNotes>,
    progress: Mutex<TrailProgress>,
}

impl std::fmt::Debug for AuditTrail {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "AuditTrail({})", self.audit_id)
    }
}

struct TrailProgress {
    phase: TrailPhase,
    subject: AuditSubject,
    /// None until it is known who asks.
    decision: Option<AuditDecision>,
    impersonated: Option<UserInfo>,
    request_body: Option<RequestBody>,
    status: Option<AuditResponseStatus>,
    response_body: Option<RecordedAnswer>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum TrailPhase {
    Unidentified,
    Received,
    Started,
    Complete,
}

impl AuditTrail {
    pub(super) fn new(
        log: Arc<AuditLog>,
        (audit_id, waiting): (String, QueuePermission),
        (caller, parts): (&RequestSource, &Parts),
    ) -> Arc<Self> {
        let text =
            |name| parts.headers.get(name).and_then(|value: &HeaderValue| value.to_str().ok());
        let forwarded = parts.headers.get_all("x-forwarded-for").into_iter();
        let forwarded = forwarded.filter_map(|value| value.to_str().ok());
        let peer = match caller {
            RequestSource::InProcess(_) => None,
            RequestSource::Connected(client) => Some(client.seat.address()),
        };
        let uri = &parts.uri;
        Arc::new(Self {
            audit_id,
            waiting,
            request_uri: uri.path_and_query().map_or(uri.path(), |uri| uri.as_str()).to_owned(),
            source_ips: source_addresses(forwarded, text("x-real-ip"), peer),
            user_agent: recorded_user_agent(text(USER_AGENT.as_str()).unwrap_or_default()),
            received_at: (log.clock)(),
            log,
            notes: Arc::default(),
            progress: Mutex::new(TrailProgress::new(subject(parts))),
        })
    }

    /// It is known who asks, so the policy can decide.
    pub(crate) async fn identified(&self, who: &ClientIdentity) {
        let event = {
            let mut progress = self.progress();
            progress.subject.user = Some(who.shown());
            progress.phase = TrailPhase::Received;
            self.decide(&mut progress);
            self.event(&mut progress, AuditStage::RequestReceived)
        };
        self.send(event).await;
    }

    /// It is known who the request acts as. Gives what its handling writes its notes to, if they
    /// count.
    pub(crate) fn acts_as(
        &self,
        who: &ClientIdentity,
        acts_as: &ClientIdentity,
    ) -> Option<Arc<AuditNotes>> {
        let mut progress = self.progress();
        progress.impersonated = (who != acts_as).then(|| acts_as.shown());
        (progress.level() > AuditLevel::None).then(|| Arc::clone(&self.notes))
    }

    /// The body of the request has been read.
    pub(crate) fn body_read(&self, request: &ApiRequest) {
        let mut progress = self.progress();
        if progress.needs_request_body(&request.method) {
            progress.request_body = Some(RequestBody {
                method: request.method.clone(),
                content_type: request.content_type.clone(),
                bytes: request.body.clone(),
            });
        }
    }

    /// Whether it keeps the body of the request for its event.
    pub(crate) fn holds_body(&self) -> bool {
        self.progress().request_body.is_some()
    }

    /// The answer is ready. Of a long-running request it ends with its body, else here: the client
    /// gets it when its event is on the way.
    pub(crate) async fn answered(
        self: Arc<Self>,
        response: Response<FrontBody>,
    ) -> Response<FrontBody> {
        let mut response = response;
        if let Ok(id) = HeaderValue::from_str(&self.audit_id) {
            response.headers_mut().insert(AUDIT_ID, id);
        }
        let event = {
            let mut progress = self.progress();
            let stage = self.stage_of_answer(&mut progress);
            progress.note_answer(&response);
            self.event(&mut progress, stage)
        };
        self.send(event).await;
        // it is written, or counts in the queue
        response.body_mut().give_request_body_back();
        if self.progress().phase == TrailPhase::Started {
            return response.map(|body| body.ending(self));
        }
        response
    }

    fn stage_of_answer(&self, progress: &mut TrailProgress) -> AuditStage {
        let (phase, stage) = if progress.phase == TrailPhase::Unidentified {
            // as upstream: the only event of such a request
            self.decide(progress);
            (TrailPhase::Complete, AuditStage::ResponseStarted)
        } else if self.notes.has_panicked() {
            (TrailPhase::Complete, AuditStage::Panic)
        } else if progress.subject.is_long_running() {
            (TrailPhase::Started, AuditStage::ResponseStarted)
        } else {
            (TrailPhase::Complete, AuditStage::ResponseComplete)
        };
        progress.phase = phase;
        stage
    }

    fn decide(&self, progress: &mut TrailProgress) {
        let decision = self.log.policy.decide(&progress.subject);
        self.log.figures.decided(decision.level);
        progress.decision = Some(decision);
    }

    /// The event of this stage; none when the policy does not want it.
    fn event(&self, progress: &mut TrailProgress, stage: AuditStage) -> Option<QueuedEvent> {
        let decision = progress.decision?;
        if decision.level == AuditLevel::None || decision.omit_stages.contains(stage) {
            return None;
        }
        let annotations = match stage {
            AuditStage::RequestReceived => BTreeMap::new(),
            AuditStage::ResponseStarted | AuditStage::ResponseComplete | AuditStage::Panic => {
                self.notes.annotations()
            }
        };
        let stage_at = match stage {
            AuditStage::RequestReceived => self.received_at,
            AuditStage::ResponseStarted | AuditStage::ResponseComplete | AuditStage::Panic => {
                (self.log.clock)()
            }
        };
        let event = AuditEvent {
            level: decision.level,
            audit_id: self.audit_id.clone(),
            stage,
            request_uri: self.request_uri.clone(),
            verb: progress.subject.verb.clone(),
            user: progress.subject.user.clone().unwrap_or_default(),
            impersonated_user: progress.impersonated.clone(),
            source_ips: self.source_ips.clone(),
            user_agent: self.user_agent.clone(),
            object_ref: progress.subject.object.clone(),
            response_status: progress.status.clone(),
            request_object: None,
            response_object: None,
            received_at: self.received_at,
            stage_at,
            annotations,
        };
        // a request that was refused without a look at its body shows none
        let request_body = progress.request_body.clone().filter(|_| self.notes.is_allowed());
        let response_body = progress.response_body.clone();
        let managed_fields = decision.managed_fields;
        Some(QueuedEvent { event, request_body, response_body, managed_fields })
    }

    async fn send(&self, event: Option<QueuedEvent>) {
        let Some(event) = event else { return };
        match self.waiting {
            QueuePermission::MayWait => self.log.outlets.deliver(event).await,
            QueuePermission::MayNotWait => self.log.outlets.offer(event),
        }
    }

    fn progress(&self) -> MutexGuard<'_, TrailProgress> {
        self.progress.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for AuditTrail {
    fn drop(&mut self) {
        let event = {
            let mut progress = self.progress();
            let is_known = progress.decision.is_some();
            if progress.phase == TrailPhase::Complete || !is_known {
                return;
            }
            progress.phase = TrailPhase::Complete;
            if std::thread::panicking() {
                progress.status = Some(AuditResponseStatus::from_code(500));
                self.event(&mut progress, AuditStage::Panic)
            } else {
                progress.status.get_or_insert_with(AuditResponseStatus::closed_early);
                self.event(&mut progress, AuditStage::ResponseComplete)
            }
        };
        if let Some(event) = event {
            self.log.outlets.offer(event);
        }
    }
}

impl TrailProgress {
    fn new(subject: AuditSubject) -> Self {
        Self {
            phase: TrailPhase::Unidentified,
            subject,
            decision: None,
            impersonated: None,
            request_body: None,
            status: None,
            response_body: None,
        }
    }

    fn level(&self) -> AuditLevel {
        self.decision.map_or(AuditLevel::None, |decision| decision.level)
    }

    /// Whether an event shows the body of the request, or takes the name of the object from it. A
    /// patch names none, as upstream sees it.
    fn needs_request_body(&self, method: &Method) -> bool {
        let is_needed = match self.level() {
            AuditLevel::None => false,
            AuditLevel::Metadata => *method != Method::PATCH,
            AuditLevel::Request | AuditLevel::RequestResponse => true,
        };
        is_needed && self.subject.object.is_some() && !self.subject.is_long_running()
    }

    fn note_answer(&mut self, response: &Response<FrontBody>) {
        let mut status = AuditResponseStatus::from_code(response.status().as_u16());
        let content_type =
            response.headers().get(CONTENT_TYPE).map_or(&[][..], |kind| kind.as_bytes());
        let body = response.body().full_bytes();
        let body = body.and_then(|bytes| RecordedAnswer::read(content_type, bytes));
        let (body, said) = body.unzip();
        if let Some(said) = said.flatten() {
            status.status = said.status;
            status.message = said.message;
            status.reason = said.reason;
            status.details = said.details.and_then(|details| serde_json::to_value(details).ok());
        }
        self.status = Some(status);
        if self.level() >= AuditLevel::RequestResponse && self.subject.object.is_some() {
            self.response_body = body;
        }
    }
}

/// What a request is about, as far as its first line says it.
fn subject(parts: &Parts) -> AuditSubject {
    let (path, query) = (parts.uri.path(), parts.uri.query().unwrap_or_default());
    let line = RequestLine { method: &parts.method, path, query };
    attributes::of_request(&line, |what, version| match what {
        AccessAttributes::Path { verb, path } => AuditSubject {
            verb: (*verb).to_owned(),
            path: (*path).to_owned(),
            ..AuditSubject::default()
        },
        AccessAttributes::Resource { verb, group, resource, subresource, namespace, name } => {
            let object = AuditObjectReference {
                resource: (*resource).to_owned(),
                namespace: (*namespace).to_owned(),
                name: (*name).to_owned(),
                api_group: (*group).to_owned(),
                api_version: version.to_owned(),
                subresource: (*subresource).to_owned(),
                ..AuditObjectReference::default()
            };
            let (verb, path) = ((*verb).to_owned(), path.to_owned());
            AuditSubject { user: None, verb, path, object: Some(object) }
        }
    })
}
