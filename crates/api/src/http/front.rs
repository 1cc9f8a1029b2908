//! One HTTP request in, one HTTP response out: reads the body within bounds, asks the core, waits for durability.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::time::Duration;

use bytes::{Buf, Bytes};
use http::header::{CACHE_CONTROL, CONTENT_TYPE, HeaderValue, WARNING};
use http::{HeaderMap, Method, Response, StatusCode, header};
use http_body::Body;
use http_body_util::{BodyExt, LengthLimitError, Limited};
use hyper::upgrade::OnUpgrade;
use rekindle_types::metrics::Source;
use tokio::sync::watch;
use tokio::time::timeout;

use super::body::{FrontBody, Phase, PhaseSender};
use super::clock::Clock;
use super::impersonate;
use super::logs::{LogError, NodeLogs};
use super::metrics::{FrontMetrics, Labels};
use super::nodes::{NoNodes, Nodes};
use super::streams::{NoStreams, NodeStreams, Streams};
use crate::api::Api;
use crate::auth::Identity;
use crate::decode::BODY_BYTES_MAX;
use crate::node_query::MetricsQuery;
use crate::node_query::{LogQuery, NodeGet, StreamQuery};
use crate::outcome::{Answer, Outcome};
use crate::request::Request;
use crate::status::ApiError;

/// How long a client may take to send a body.
const BODY_TIMEOUT: Duration = Duration::from_secs(30);

/// Warnings are cut off beyond this, all together, as upstream.
const WARNINGS_BYTES_MAX: usize = 4096;

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
    api: Api,
    clock: Clock,
    logs: Arc<dyn NodeLogs>,
    streams: Streams,
    nodes: Arc<dyn Nodes>,
    metrics: Arc<FrontMetrics>,
    figures: Vec<Arc<dyn Source>>,
    phase: PhaseSender,
}

type BoxError = Box<dyn std::error::Error + Send + Sync>;

impl Front {
    /// A front.
    pub fn new(parts: FrontParts) -> Self {
        let (phase, _) = watch::channel(Phase::Running);
        Self {
            api: parts.api,
            clock: parts.clock,
            logs: parts.logs,
            streams: Streams::new(Arc::new(NoStreams)),
            nodes: Arc::new(NoNodes),
            metrics: Arc::default(),
            figures: Vec::new(),
            phase: Arc::new(phase),
        }
    }

    /// The same front with streams into pods from here.
    pub fn with_streams(mut self, node: Arc<dyn NodeStreams>) -> Self {
        self.streams = Streams::new(node);
        self
    }

    /// The same front with figures of nodes from here.
    pub fn with_nodes(mut self, nodes: Arc<dyn Nodes>) -> Self {
        self.nodes = nodes;
        self
    }

    /// The same front whose `/metrics` tells these figures, too.
    pub fn with_figures(mut self, figures: Arc<dyn Source>) -> Self {
        self.figures.push(figures);
        self
    }

    /// The core behind it.
    pub fn api(&self) -> &Api {
        &self.api
    }

    /// The time as the front sees it.
    pub fn now(&self) -> rekindle_types::Tick {
        (self.clock)()
    }

    /// Ends every watch, after what is there was sent.
    pub fn end_watches(&self) {
        self.phase.send_replace(Phase::Stopping);
    }

    /// Answers one request of `identity`.
    pub async fn serve<B>(
        &self,
        identity: Identity,
        request: http::Request<B>,
    ) -> Response<FrontBody>
    where
        B: Body,
        B::Error: Into<BoxError>,
    {
        let (mut parts, body) = request.into_parts();
        let upgrade = parts.extensions.remove::<OnUpgrade>();
        let body = match read_body(&parts.headers, body).await {
            Ok(body) => body,
            Err(error) => return respond_and_close(error.into()),
        };
        let identity = match self.identify(identity, &parts.headers) {
            Ok(identity) => identity,
            Err(error) => return respond(error.into()),
        };
        let text = |name: header::HeaderName| {
            let values = parts.headers.get_all(name).iter().filter_map(|value| value.to_str().ok());
            values.collect::<Vec<_>>().join(",")
        };
        let request = Request {
            method: parts.method.clone(),
            path: parts.uri.path().to_owned(),
            query: parts.uri.query().unwrap_or_default().to_owned(),
            accept: text(header::ACCEPT),
            content_type: text(CONTENT_TYPE),
            body,
            identity,
            now: (self.clock)(),
        };
        let labels = Labels::of(&self.api, &request);
        let _open = self.metrics.begun(&labels);
        let response = self.answer(&request, &labels, &parts.headers, upgrade).await;
        let took = (self.clock)().since(request.now);
        self.metrics.answered(&labels, response.status().as_u16(), took);
        if parts.method == Method::HEAD { without_body(response) } else { response }
    }

    /// Who asks: the connection's own identity, else that of a bearer token; or somebody whom they act as.
    fn identify(&self, connection: Identity, headers: &HeaderMap) -> Result<Identity, ApiError> {
        let identity = match (connection, bearer_token(headers)) {
            (Identity::Anonymous, Some(token)) => self.api.authenticate(token, self.now())?,
            (connection, _) => connection,
        };
        match impersonate::wanted(headers)? {
            Some(wanted) => self.api.impersonate(identity, &wanted),
            None => Ok(identity),
        }
    }

    async fn answer(
        &self,
        request: &Request,
        labels: &Labels,
        headers: &HeaderMap,
        upgrade: Option<OnUpgrade>,
    ) -> Response<FrontBody> {
        // A bug in one request's handling must not take others with it; locks inside survive a panic.
        let outcome = catch_unwind(AssertUnwindSafe(|| self.api.handle(request)));
        match outcome {
            Ok(Outcome::Answer(answer)) => respond(answer),
            Ok(Outcome::Write(write)) => respond(write.await),
            Ok(Outcome::Watch(watch)) => {
                let timeout = Duration::from_secs(watch.timeout_seconds);
                let clock = Arc::clone(&self.clock);
                let open = self.metrics.watch_begun(labels);
                let phase = self.phase.subscribe();
                let body = FrontBody::watch(watch.stream, timeout, clock, phase, open);
                stream(body, "application/json;stream=watch")
            }
            Ok(Outcome::Log(query)) => self.log(query).await,
            Ok(Outcome::Stream(query)) => self.stream(query, headers, request, upgrade),
            Ok(Outcome::Node(question)) => self.node(question).await,
            Ok(Outcome::ResourceMetrics(query)) => self.resource_metrics(&query).await,
            Ok(Outcome::Metrics) => self.own_metrics().await,
            Err(_) => {
                tracing::error!(method = %request.method, path = %request.path, "failed to handle a request: the handler panicked");
                respond(
                    ApiError::internal(
                        "the handling of the request panicked; see the engine's log",
                    )
                    .into(),
                )
            }
        }
    }

    fn stream(
        &self,
        query: StreamQuery,
        headers: &HeaderMap,
        request: &Request,
        upgrade: Option<OnUpgrade>,
    ) -> Response<FrontBody> {
        let user = request.identity.name();
        let accepted = match self.streams.accept(user, query, headers, &request.method) {
            Ok(accepted) => accepted,
            Err(error) => return respond(error.into()),
        };
        let Some(upgrade) = upgrade else {
            let problem = "this connection cannot be upgraded: use HTTP/1.1 over TLS";
            return respond(ApiError::bad_request(problem).into());
        };
        let mut response = Response::new(FrontBody::full(Bytes::new()));
        *response.status_mut() = StatusCode::SWITCHING_PROTOCOLS;
        *response.headers_mut() = self.streams.serve(accepted, upgrade, self.phase.subscribe());
        response
    }

    async fn node(&self, question: NodeGet) -> Response<FrontBody> {
        match self.nodes.get(question).await {
            Ok(answer) => respond(answer),
            Err(error) => respond(ApiError::unavailable(error.to_string()).into()),
        }
    }

    async fn resource_metrics(&self, query: &MetricsQuery) -> Response<FrontBody> {
        match self.nodes.figures().await {
            Ok(nodes) => respond(query.answer(&nodes, |node| self.api.node_labels(node))),
            Err(error) => respond(ApiError::unavailable(error.to_string()).into()),
        }
    }

    async fn own_metrics(&self) -> Response<FrontBody> {
        let (metrics, api) = (Arc::clone(&self.metrics), self.api.clone());
        let figures = self.figures.clone();
        match tokio::task::spawn_blocking(move || metrics.text(&api, &figures)).await {
            Ok(text) => respond(Answer {
                content_type: rekindle_types::metrics::CONTENT_TYPE,
                ..Answer::text(StatusCode::OK, text)
            }),
            Err(error) => respond(ApiError::internal(error).into()),
        }
    }

    async fn log(&self, query: LogQuery) -> Response<FrontBody> {
        match self.logs.read(query).await {
            Ok(log) => stream(FrontBody::log(log), "text/plain"),
            Err(LogError::NotThere(why)) => respond(ApiError::bad_request(why).into()),
            Err(LogError::NoNode(why)) => respond(ApiError::unavailable(why).into()),
            Err(LogError::Failed(why)) => respond(ApiError::internal(why).into()),
        }
    }
}

/// `Authorization: Bearer <token>`.
fn bearer_token(headers: &HeaderMap) -> Option<&str> {
    let (scheme, token) = headers.get(header::AUTHORIZATION)?.to_str().ok()?.split_once(' ')?;
    let token = token.trim();
    (scheme.eq_ignore_ascii_case("bearer") && !token.is_empty()).then_some(token)
}

/// The body, unless it is too long or too slow. A body that announces too much is not read at all.
async fn read_body<B>(headers: &HeaderMap, body: B) -> Result<Bytes, ApiError>
where
    B: Body,
    B::Error: Into<BoxError>,
{
    let announced = headers.get(header::CONTENT_LENGTH);
    let announced = announced.and_then(|value| value.to_str().ok()?.parse::<u64>().ok());
    if announced.is_some_and(|bytes| bytes > BODY_BYTES_MAX as u64) {
        return Err(ApiError::too_large(BODY_BYTES_MAX));
    }
    let collected = timeout(BODY_TIMEOUT, Limited::new(body, BODY_BYTES_MAX).collect()).await;
    match collected {
        Err(_) => Err(ApiError::bad_request(format!(
            "the request's body did not arrive within {} seconds",
            BODY_TIMEOUT.as_secs()
        ))),
        Ok(Err(error)) if error.is::<LengthLimitError>() => {
            Err(ApiError::too_large(BODY_BYTES_MAX))
        }
        Ok(Err(error)) => Err(ApiError::bad_request(format!("read the request's body: {error}"))),
        Ok(Ok(collected)) => {
            let mut body = collected.aggregate();
            Ok(body.copy_to_bytes(body.remaining()))
        }
    }
}

fn respond(answer: Answer) -> Response<FrontBody> {
    let mut response = Response::new(FrontBody::full(answer.body));
    *response.status_mut() = answer.code;
    let headers = response.headers_mut();
    headers.insert(CONTENT_TYPE, HeaderValue::from_static(answer.content_type));
    headers.insert(CACHE_CONTROL, HeaderValue::from_static("no-cache, private"));
    for (name, value) in answer.headers {
        if let Ok(value) = HeaderValue::from_str(&value) {
            headers.insert(name, value);
        }
    }
    let mut bytes = 0;
    for warning in &answer.warnings {
        let value = warning_header(warning);
        bytes += value.len();
        if bytes > WARNINGS_BYTES_MAX {
            break;
        }
        headers.append(WARNING, value);
    }
    response
}

/// For a request whose body was not read to its end: the connection cannot go on.
fn respond_and_close(answer: Answer) -> Response<FrontBody> {
    let mut response = respond(answer);
    response.headers_mut().insert(header::CONNECTION, HeaderValue::from_static("close"));
    response
}

fn stream(body: FrontBody, content_type: &'static str) -> Response<FrontBody> {
    let mut response = Response::new(body);
    *response.status_mut() = StatusCode::OK;
    let headers = response.headers_mut();
    headers.insert(CONTENT_TYPE, HeaderValue::from_static(content_type));
    headers.insert(CACHE_CONTROL, HeaderValue::from_static("no-cache, private"));
    response
}

fn without_body(response: Response<FrontBody>) -> Response<FrontBody> {
    response.map(|_| FrontBody::full(Bytes::new()))
}

/// `299 - "text"`, as kubectl and client-go print it.
fn warning_header(text: &str) -> HeaderValue {
    let mut quoted = String::from("299 - \"");
    for char in text.chars() {
        match char {
            '"' | '\\' => {
                quoted.push('\\');
                quoted.push(char);
            }
            control if control.is_control() => quoted.push(' '),
            other => quoted.push(other),
        }
    }
    quoted.push('"');
    HeaderValue::from_bytes(quoted.as_bytes())
        .unwrap_or_else(|_| HeaderValue::from_static("299 - \"the warning cannot be shown\""))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn warnings_are_quoted_and_cannot_split_headers() {
        let value = warning_header("unknown field \"spec.a\"\r\nX: y\\");
        assert_eq!(value.to_str().unwrap(), r#"299 - "unknown field \"spec.a\"  X: y\\""#);
    }
}
