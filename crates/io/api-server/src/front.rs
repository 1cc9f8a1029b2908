//! One HTTP request in, one HTTP response out.
//!
//! ```text
//!   who asks? -> a share of the limits -> may they? -> the body -> a seat -> the core -> answer
//!   401, 429     429                      403          413, 429    429       |
//!                                                    heavy: on a pool thread +
//!                                            asks webhooks, and begins again +
//! ```

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http::request::Parts;
use http::{HeaderMap, HeaderName, Method, Response, Version, header};
use http_body::Body;
use hyper::upgrade::OnUpgrade;
use rekindle_api::admission_session::AdmissionSession;
use rekindle_api::outcome::RequestOutcome;
use rekindle_api::request::{ApiRequest, RequestLine};
use rekindle_api::status::ApiError;
use rekindle_api::{Api, ClassifiedRequest, Impersonation};
use rekindle_kinds::identity::ClientIdentity;
use rekindle_metrics::MetricsSource;
use tokio::sync::{Notify, Semaphore, watch};
use tokio::time::Instant;

use super::answer::AnswerContext;
use super::api_servers::ServerDialer;
use super::audit::{AuditLog, AuditTrail};
use super::backup::BACKUPS_MAX;
use super::bad_tokens::BadTokens;
use super::body::{FrontBody, FrontPhase, PhaseSender};
use super::caller::RequestSource;
use super::certificate_gate::CertificateGate;
use super::clock::Clock;
use super::flow_gate::{self, FlowGate};
use super::logs::NodeLogs;
use super::metrics::{FrontMetrics, RequestLabels};
use super::nodes::{NoNodes, NodeQueries};
use super::pki::{CertificateAuthority, PkiError, RevokedCertificates};
use super::pod_dialer::{NoPods, PodDialer};
use super::request_body::{self, BodyError};
use super::response::{respond, respond_and_close, without_body};
use super::shares::{RequestShare, UserShares};
use super::streams::{NoStreams, NodeStreams, StreamServer};
use super::webhooks;
use super::work_pool::WorkPool;

/// How long a request may take with all webhooks that it has to ask; upstream's limit of requests.
const REQUEST_WITHIN: Duration = Duration::from_secs(60);
/// Answers of webhooks up to this size are read where the request is served.
const LIGHT_ANSWER_BYTES: usize = 256 << 10;

/// What a front is made of.
pub struct FrontParts {
    /// The core.
    pub api: Api,
    /// The time.
    pub clock: Clock,
    /// The logs of containers.
    pub logs: Arc<dyn NodeLogs>,
}

/// The front. Cheap to clone; all clones are the same.
#[derive(Clone)]
pub struct Front {
    pub(super) api: Api,
    pub(super) clock: Clock,
    pub(super) logs: Arc<dyn NodeLogs>,
    pub(super) streams: StreamServer,
    pub(super) nodes: Arc<dyn NodeQueries>,
    pub(super) pods: Arc<dyn PodDialer>,
    pub(super) api_servers: ServerDialer,
    pub(super) metrics: Arc<FrontMetrics>,
    pub(super) figures: Vec<Arc<dyn MetricsSource>>,
    pub(super) phase: PhaseSender,
    /// Which client certificates are let in.
    pub(super) certificates: CertificateGate,
    /// One permit for each backup that may be read.
    pub(super) backups: Arc<Semaphore>,
    audit: Option<Arc<AuditLog>>,
    shares: UserShares,
    flow_gate: FlowGate,
    pool: WorkPool,
    bad_tokens: BadTokens,
    bursts: Arc<Notify>,
}

impl Front {
    /// A front.
    pub fn new(parts: FrontParts) -> Self {
        let (phase, _) = watch::channel(FrontPhase::Running);
        let flow_gate = FlowGate::new(Arc::clone(&parts.clock));
        let certificates = CertificateGate::new(Arc::clone(&parts.clock));
        Self {
            api: parts.api,
            clock: parts.clock,
            logs: parts.logs,
            streams: StreamServer::new(Arc::new(NoStreams)),
            nodes: Arc::new(NoNodes),
            pods: Arc::new(NoPods),
            api_servers: ServerDialer::default(),
            metrics: Arc::default(),
            figures: vec![Arc::new(flow_gate.clone())],
            phase: Arc::new(phase),
            certificates,
            backups: Arc::new(Semaphore::new(BACKUPS_MAX)),
            audit: None,
            shares: UserShares::default(),
            flow_gate,
            pool: WorkPool::default(),
            bad_tokens: BadTokens::default(),
            bursts: Arc::default(),
        }
    }

    /// The same front with streams into pods from here.
    pub fn with_streams(mut self, node: Arc<dyn NodeStreams>) -> Self {
        self.streams = StreamServer::new(node);
        self
    }

    /// The same front with figures of nodes from here.
    pub fn with_nodes(mut self, nodes: Arc<dyn NodeQueries>) -> Self {
        self.nodes = nodes;
        self
    }

    /// The same front whose proxies reach pods by these connections.
    pub fn with_pods(mut self, pods: Arc<dyn PodDialer>) -> Self {
        self.pods = pods;
        self
    }

    /// The same front that shows certificates of this authority to other API servers.
    ///
    /// # Errors
    /// When none can be issued.
    pub fn with_front_proxy(mut self, authority: CertificateAuthority) -> Result<Self, PkiError> {
        self.api_servers = ServerDialer::new(authority, Arc::clone(&self.clock))?;
        Ok(self)
    }

    /// The same front whose `/metrics` tells these figures, too.
    pub fn with_figures(mut self, figures: Arc<dyn MetricsSource>) -> Self {
        self.figures.push(figures);
        self
    }

    /// The same front with its requests in this log, and the log's figures in `/metrics`.
    pub fn with_audit_log(self, log: Arc<AuditLog>) -> Self {
        Self { audit: Some(Arc::clone(&log)), ..self.with_figures(log) }
    }

    /// The core behind it.
    pub fn api(&self) -> &Api {
        &self.api
    }

    /// The time as the front sees it.
    pub fn now(&self) -> rekindle_types::Tick {
        (self.clock)()
    }

    /// Resolves when clients have made it take much memory that is free soon, since it resolved
    /// last.
    pub async fn burst(&self) {
        self.bursts.notified().await;
    }

    pub(super) fn tell_of_burst(&self) {
        self.bursts.notify_one();
    }

    /// Lets FlowSchemas and levels act that have changed, on requests that wait already.
    pub(super) fn refresh_flow_control(&self) {
        self.flow_gate.refresh(&self.api);
    }

    /// From now on these client certificates are void, and no others. Answers how many open
    /// connections end.
    pub fn revoke_certificates(&self, revoked: RevokedCertificates) -> usize {
        self.certificates.revoke(revoked)
    }

    /// Ends every watch, after what is there was sent.
    pub fn end_watches(&self) {
        self.phase.send_replace(FrontPhase::Stopping);
    }

    /// Answers one request, and records it in the audit log if there is one.
    pub(super) async fn serve<B>(
        &self,
        caller: &RequestSource,
        request: http::Request<B>,
    ) -> Response<FrontBody>
    where
        B: Body,
        B::Error: Into<BodyError>,
    {
        let (parts, body) = request.into_parts();
        let trail = self.audit.as_ref().map(|log| log.trail(caller, &parts));
        let mut class = None;
        let response = self.serve_request(caller, (parts, body), trail.as_ref(), &mut class).await;
        let response = flow_gate::with_uids(response, class.as_ref());
        match trail {
            Some(trail) => trail.answered(response).await,
            None => response,
        }
    }

    /// Answers one request. Who asks, and whether they may, is settled before the body is read.
    async fn serve_request<B>(
        &self,
        caller: &RequestSource,
        (mut parts, body): (Parts, B),
        trail: Option<&Arc<AuditTrail>>,
        class: &mut Option<ClassifiedRequest>,
    ) -> Response<FrontBody>
    where
        B: Body,
        B::Error: Into<BodyError>,
    {
        let upgrade = parts.extensions.remove::<OnUpgrade>();
        let has_body = !body.is_end_stream();
        let mut received = match self.receive(caller, &parts, (body, trail), class).await {
            Ok(received) => received,
            // HTTP/2 ends the one stream by itself
            Err(error) if has_body && parts.version <= Version::HTTP_11 => {
                return respond_and_close(error.into());
            }
            Err(error) => return respond(error.into()),
        };
        let labels = RequestLabels::new(&self.api, &received.request);
        let _open = self.metrics.begun(&labels);
        let begun = received.request.now;
        let seat = self.flow_gate.admit(class.as_ref()).await;
        // it may have waited
        received.request.now = self.now();
        let handled = match &seat {
            Ok(_) => self.handle(caller, received).await,
            Err(error) => received.refused(error),
        };
        let HandledRequest { outcome, user, mut share } = handled;
        // a body that the audit log still needs counts until its event is on the way
        if !trail.is_some_and(|trail| trail.holds_body()) {
            share.give_body_back();
        }
        let client = match caller {
            RequestSource::InProcess(_) => None,
            RequestSource::Connected(client) => Some(client.seat.address()),
        };
        let asked = AnswerContext { labels: &labels, parts: &parts, user: &user, client, trail };
        let response = self.answer(outcome, asked, upgrade).await;
        drop(seat);
        let took = (self.clock)().since(begun);
        self.metrics.answered(&labels, response.status().as_u16(), took);
        let response = if parts.method == Method::HEAD { without_body(response) } else { response };
        match caller {
            RequestSource::InProcess(_) => response,
            RequestSource::Connected(_) => hold(share, response),
        }
    }

    /// Who asks, whether they may, and then the body. Notes where a client's request belongs.
    async fn receive<B>(
        &self,
        caller: &RequestSource,
        parts: &Parts,
        (body, trail): (B, Option<&Arc<AuditTrail>>),
        class: &mut Option<ClassifiedRequest>,
    ) -> Result<ReceivedRequest, ApiError>
    where
        B: Body,
        B::Error: Into<BodyError>,
    {
        let who = self.identify(caller, &parts.headers)?;
        // both count while the audit log waits for its disk
        let seat = identify_seat(caller, &who);
        let share = seat.and_then(|()| self.shares.begin(&who));
        if let Some(trail) = trail {
            trail.identified(&who).await;
        }
        let mut share = share?;
        let acts_as = self.acting_identity(&who, &parts.headers)?;
        let notes = trail.and_then(|trail| trail.acts_as(&who, &acts_as));
        let (path, query) = (parts.uri.path(), parts.uri.query().unwrap_or_default());
        let line = RequestLine { method: &parts.method, path, query };
        if let RequestSource::Connected(_) = caller {
            *class = self.flow_gate.classify(&self.api, &acts_as, &line);
        }
        if !body.is_end_stream() {
            self.api.authorize(&acts_as, &line, notes.as_deref())?;
        }
        let body = match who {
            ClientIdentity::Anonymous => Bytes::new(),
            ClientIdentity::User(_) => request_body::read(&parts.headers, body, &mut share).await?,
        };
        let text = |name: HeaderName| {
            let values = parts.headers.get_all(name).iter().filter_map(|value| value.to_str().ok());
            values.collect::<Vec<_>>().join(",")
        };
        let request = ApiRequest {
            method: parts.method.clone(),
            path: path.to_owned(),
            query: query.to_owned(),
            accept: text(header::ACCEPT),
            user_agent: text(header::USER_AGENT),
            content_type: text(header::CONTENT_TYPE),
            body,
            identity: acts_as,
            now: (self.clock)(),
            notes,
        };
        if let Some(trail) = trail {
            trail.body_read(&request);
        }
        Ok(ReceivedRequest { request, who, share })
    }

    /// Who asks: the connection's own identity, else that of a bearer token.
    fn identify(
        &self,
        caller: &RequestSource,
        headers: &HeaderMap,
    ) -> Result<ClientIdentity, ApiError> {
        let now = self.now();
        Ok(match (caller.identity(), bearer_token(headers)) {
            (ClientIdentity::Anonymous, Some(token)) => {
                let check = || self.api.authenticate(token, now);
                match caller {
                    RequestSource::InProcess(_) => check(),
                    RequestSource::Connected(client) => {
                        self.bad_tokens.check((client.seat.source(), token), now, check)
                    }
                }?
            }
            (identity, _) => identity.clone(),
        })
    }

    /// Who the request acts as.
    fn acting_identity(
        &self,
        who: &ClientIdentity,
        headers: &HeaderMap,
    ) -> Result<ClientIdentity, ApiError> {
        match Impersonation::from_headers(headers)? {
            Some(wanted) => self.api.impersonate(who.clone(), &wanted),
            None => Ok(who.clone()),
        }
    }

    /// Asks the core, and webhooks as long as it has questions to them.
    async fn handle(&self, caller: &RequestSource, received: ReceivedRequest) -> HandledRequest {
        let ReceivedRequest { request, who, share } = received;
        let user = request.identity.name().to_owned();
        let request = Arc::new(request);
        let mut session = AdmissionSession::default();
        let mut answers = Vec::new();
        let deadline = Instant::now() + REQUEST_WITHIN;
        let outcome = loop {
            let handled;
            (handled, session) =
                self.handle_once(caller, (&request, &who), (session, answers)).await;
            let RequestOutcome::Webhooks(questions) = handled else { break handled };
            answers = webhooks::ask_all(&self.pods, questions, deadline).await;
            // what was cut off is no answer, also where a webhook may fail
            if Instant::now() >= deadline {
                let message = "request did not complete within the allotted timeout";
                break RequestOutcome::Answer(ApiError::timed_out(message).into());
            }
        };
        HandledRequest { outcome, user, share }
    }

    /// Asks the core: here, or on a thread of the pool when a client's request is heavy, or what
    /// webhooks have answered is long. That is read in the same place.
    async fn handle_once(
        &self,
        caller: &RequestSource,
        (request, who): (&Arc<ApiRequest>, &ClientIdentity),
        (mut session, answers): (AdmissionSession, Vec<Result<Bytes, String>>),
    ) -> (RequestOutcome, AdmissionSession) {
        let answered_bytes: usize = answers.iter().flatten().map(Bytes::len).sum();
        let is_heavy = || answered_bytes > LIGHT_ANSWER_BYTES || self.api.is_heavy(request);
        match (caller, who) {
            (RequestSource::Connected(_), ClientIdentity::User(user)) if is_heavy() => {
                let (api, request) = (self.api.clone(), Arc::clone(request));
                let work = move || {
                    session.answer(answers);
                    (handle(&api, &request, &session), session)
                };
                let handled = self.pool.run(user, work).await;
                self.tell_of_burst();
                handled.unwrap_or_else(|error| {
                    (RequestOutcome::Answer(error.into()), AdmissionSession::default())
                })
            }
            (
                RequestSource::Connected(_) | RequestSource::InProcess(_),
                ClientIdentity::User(_) | ClientIdentity::Anonymous,
            ) => {
                session.answer(answers);
                (handle(&self.api, request, &session), session)
            }
        }
    }
}

/// The connection of a user counts as theirs from its first request on.
fn identify_seat(caller: &RequestSource, who: &ClientIdentity) -> Result<(), ApiError> {
    match (caller, who) {
        (RequestSource::Connected(client), ClientIdentity::User(user)) => {
            client.seat.identify(user)
        }
        (RequestSource::Connected(_) | RequestSource::InProcess(_), _) => Ok(()),
    }
}

/// A request whose body has been read.
struct ReceivedRequest {
    request: ApiRequest,
    /// Who sent it, whoever it acts as.
    who: ClientIdentity,
    share: RequestShare,
}

impl ReceivedRequest {
    /// What becomes of it when it does not run.
    fn refused(self, error: &ApiError) -> HandledRequest {
        let Self { request, who: _, share } = self;
        let user = request.identity.name().to_owned();
        HandledRequest { outcome: RequestOutcome::Answer(error.clone().into()), user, share }
    }
}

/// What has become of it. Its body is gone, unless the audit log holds it.
struct HandledRequest {
    outcome: RequestOutcome,
    /// The name of the user that it acts as.
    user: String,
    share: RequestShare,
}

/// A bug in one request's handling must not take others with it; locks inside survive a panic.
fn handle(api: &Api, request: &ApiRequest, session: &AdmissionSession) -> RequestOutcome {
    let handled = catch_unwind(AssertUnwindSafe(|| api.handle_in(request, session)));
    handled.unwrap_or_else(|_| {
        if let Some(notes) = &request.notes {
            notes.panicked();
        }
        tracing::error!(method = %request.method, path = %request.path, "failed to handle a request: the handler panicked");
        let problem = "the handling of the request panicked; see the engine's log";
        RequestOutcome::Answer(ApiError::internal(problem).into())
    })
}

/// Counts the answer as its user's until the client has taken it.
fn hold(mut share: RequestShare, response: Response<FrontBody>) -> Response<FrontBody> {
    if response.body().is_long_running()
        && let Err(error) = share.go_on_for_long()
    {
        return respond(error.into());
    }
    share.hold_answer(response.body().held_bytes());
    response.map(|body| body.holding(share))
}

/// `Authorization: Bearer <token>`.
fn bearer_token(headers: &HeaderMap) -> Option<&str> {
    let (scheme, token) = headers.get(header::AUTHORIZATION)?.to_str().ok()?.split_once(' ')?;
    let token = token.trim();
    (scheme.eq_ignore_ascii_case("bearer") && !token.is_empty()).then_some(token)
}
