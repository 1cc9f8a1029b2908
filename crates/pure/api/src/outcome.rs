//! What becomes of a request: an answer at once, an answer when a write is durable, a watch, or
//! what a pod's node has to say.

use std::collections::BTreeSet;
use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll};

use bytes::Bytes;
use http::StatusCode;
use rekindle_store::{DurableWrite, PendingWrite, StoreError};

use crate::admission_session::WebhookQuestion;
use crate::aggregated_request::AggregatedRequest;
use crate::discovery::aggregated;
use crate::event_stream::EventStream;
use crate::node_query::{LogQuery, MetricsQuery, NodeGet, StreamQuery};
use crate::proxy_request::ProxyRequest;
use crate::represent::ListPieces;
use crate::request::AnswerEncoding;
use crate::status::{ApiError, Status};
use crate::{protobuf, yaml};

/// What becomes of a request.
pub enum RequestOutcome {
    /// It is answered.
    Answer(ApiAnswer),
    /// It is answered with a list.
    List(Box<ListAnswer>),
    /// It is answered when its write is durable.
    Write(WriteInFlight),
    /// It is a watch.
    Watch(Box<WatchAnswer>),
    /// The node has the answer.
    Log(LogQuery),
    /// The node has streams, when the client upgrades its connection.
    Stream(StreamQuery),
    /// A pod has the answer.
    Proxy(Box<ProxyRequest>),
    /// Another API server has the answer.
    Aggregated(Box<AggregatedRequest>),
    /// The node has the answer.
    Node(NodeGet),
    /// The nodes have the figures.
    ResourceMetrics(MetricsQuery),
    /// The front has the answer: its own figures.
    Metrics,
    /// These have to be asked first; then the request is handled again.
    Webhooks(Vec<WebhookQuestion>),
    /// The front has the answer: all that is stored, as it is at one revision.
    Backup,
}

impl RequestOutcome {
    /// The same with its objects written so, where their kinds have that form.
    pub(crate) fn encoded(self, encoding: AnswerEncoding) -> Self {
        if encoding == AnswerEncoding::Json {
            return self;
        }
        match self {
            Self::Answer(answer) => Self::Answer(answer.encoded(encoding)),
            Self::List(list) if list.head.content_type == AnswerEncoding::JSON => {
                Self::Answer(list.into_answer().encoded(encoding))
            }
            Self::List(list) => Self::List(list),
            Self::Write(write) => Self::Write(write.then(move |answer| answer.encoded(encoding))),
            Self::Watch(mut watch) => {
                // a watch in YAML was refused
                if encoding == AnswerEncoding::Protobuf {
                    watch.stream.write_protobuf();
                }
                Self::Watch(watch)
            }
            other @ (Self::Log(_)
            | Self::Stream(_)
            | Self::Proxy(_)
            | Self::Aggregated(_)
            | Self::Node(_)
            | Self::ResourceMetrics(_)
            | Self::Metrics
            | Self::Webhooks(_)
            | Self::Backup) => other,
        }
    }
}

/// What an answer of ours in protobuf is in JSON, whatever its size; none when it is no object.
pub fn json_of_protobuf(body: &[u8]) -> Option<serde_json::Value> {
    protobuf::read(body).ok()
}

/// The same of one in YAML.
pub fn json_of_yaml(body: &[u8]) -> Option<serde_json::Value> {
    yaml::read(body).ok()
}

/// An answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ApiAnswer {
    /// The HTTP status code.
    pub code: StatusCode,
    /// The media type of the body.
    pub content_type: &'static str,
    /// For Warning headers, each once.
    pub warnings: Vec<String>,
    /// Headers beside these.
    pub headers: Vec<(http::HeaderName, String)>,
    /// The body.
    pub body: Bytes,
}

/// A list, whose text is made as the client takes it.
pub struct ListAnswer {
    /// The answer without its body.
    head: ApiAnswer,
    pieces: ListPieces,
}

impl ListAnswer {
    pub(crate) fn json(pieces: ListPieces) -> Self {
        Self { head: ApiAnswer::json(StatusCode::OK, Bytes::new()), pieces }
    }

    pub(crate) fn protobuf(pieces: ListPieces) -> Self {
        let head = ApiAnswer::new(StatusCode::OK, protobuf::MEDIA_TYPE, Bytes::new());
        Self { head, pieces }
    }

    pub(crate) fn with_warnings(self, warnings: Vec<String>) -> Self {
        Self { head: self.head.with_warnings(warnings), ..self }
    }

    /// The same, with a warning before all others.
    pub(crate) fn with_first_warning(self, warning: String) -> Self {
        Self { head: self.head.with_first_warning(warning), ..self }
    }

    /// The answer without its body, and that.
    pub fn into_parts(self) -> (ApiAnswer, ListPieces) {
        (self.head, self.pieces)
    }

    /// The same with its text made.
    pub fn into_answer(self) -> ApiAnswer {
        ApiAnswer { body: self.pieces.into_bytes(), ..self.head }
    }
}

/// A watch that was accepted.
pub struct WatchAnswer {
    /// Its events.
    pub stream: EventStream,
    /// After so many seconds the server ends it; the client resumes.
    pub timeout_seconds: u64,
}

const TEXT: &str = "text/plain; charset=utf-8";

impl ApiAnswer {
    /// With a body of this media type.
    pub(crate) fn new(
        code: StatusCode,
        content_type: &'static str,
        body: impl Into<Bytes>,
    ) -> Self {
        Self { code, content_type, warnings: Vec::new(), headers: Vec::new(), body: body.into() }
    }

    /// A JSON answer.
    pub fn json(code: StatusCode, body: impl Into<Bytes>) -> Self {
        Self::new(code, AnswerEncoding::JSON, body)
    }

    /// A plain text.
    pub fn text(code: StatusCode, body: impl Into<Bytes>) -> Self {
        Self::new(code, TEXT, body)
    }

    /// What another server has answered.
    pub fn relayed(code: u16, content_type: &'static str, body: impl Into<Bytes>) -> Self {
        Self::new(status_code(code), content_type, body)
    }

    /// A `Status`.
    pub fn status(status: &Status) -> Self {
        Self::json(status_code(status.code), status.to_json())
    }

    /// The same in another encoding, if it is an object in JSON of a kind with that form.
    pub(crate) fn encoded(self, encoding: AnswerEncoding) -> Self {
        let to_yaml = || yaml::of_json(&self.body).ok().map(String::into_bytes);
        let (content_type, body) = match (encoding, self.content_type) {
            (AnswerEncoding::Protobuf, AnswerEncoding::JSON) => {
                (protobuf::MEDIA_TYPE, protobuf::object(&self.body).ok())
            }
            (AnswerEncoding::Yaml, AnswerEncoding::JSON) => (AnswerEncoding::YAML, to_yaml()),
            (AnswerEncoding::Yaml, aggregated::MEDIA_TYPE) => {
                (aggregated::YAML_MEDIA_TYPE, to_yaml())
            }
            (AnswerEncoding::Json | AnswerEncoding::Protobuf | AnswerEncoding::Yaml, _) => {
                return self;
            }
        };
        match body {
            Some(body) => Self { content_type, body: body.into(), ..self },
            None => self,
        }
    }

    /// The same, with a warning before all others.
    pub fn with_first_warning(mut self, warning: String) -> Self {
        self.warnings.retain(|known| *known != warning);
        self.warnings.insert(0, warning);
        self
    }

    /// The same, with warnings.
    pub fn with_warnings(mut self, warnings: Vec<String>) -> Self {
        let mut known: BTreeSet<String> = self.warnings.iter().cloned().collect();
        self.warnings.extend(warnings.into_iter().filter(|warning| known.insert(warning.clone())));
        self
    }
}

/// A code that HTTP does not have is 500.
fn status_code(code: u16) -> StatusCode {
    StatusCode::from_u16(code).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR)
}

impl From<ApiError> for ApiAnswer {
    fn from(error: ApiError) -> Self {
        let mut answer = Self::status(error.status()).with_warnings(error.warnings().to_vec());
        let retry_after = error.status().details.as_ref().and_then(|d| d.retry_after_seconds);
        if let Some(seconds) = retry_after {
            answer.headers.push((http::header::RETRY_AFTER, seconds.to_string()));
        }
        answer
    }
}

impl From<ApiAnswer> for RequestOutcome {
    fn from(answer: ApiAnswer) -> Self {
        Self::Answer(answer)
    }
}

type Finish = Box<dyn FnOnce(Vec<DurableWrite>) -> ApiAnswer + Send>;

/// One or more writes on their way to the disk. Resolves to the answer when all are durable, or to
/// the error when one failed. The writes go on if this is dropped.
pub struct WriteInFlight {
    waiting: Vec<PendingWrite>,
    results: Vec<Option<Result<DurableWrite, StoreError>>>,
    finish: Option<Finish>,
}

impl WriteInFlight {
    /// `finish` makes the answer, given the writes in the same order.
    pub(crate) fn new(
        waiting: Vec<PendingWrite>,
        finish: impl FnOnce(Vec<DurableWrite>) -> ApiAnswer + Send + 'static,
    ) -> Self {
        let results = waiting.iter().map(|_| None).collect();
        Self { waiting, results, finish: Some(Box::new(finish)) }
    }

    /// The same writes, their answer changed by `convert`.
    pub(crate) fn then(
        mut self,
        convert: impl FnOnce(ApiAnswer) -> ApiAnswer + Send + 'static,
    ) -> Self {
        self.finish = self.finish.take().map(|finish| {
            let converted: Finish = Box::new(move |written| convert(finish(written)));
            converted
        });
        self
    }

    /// The answer, if all writes are durable already.
    pub fn try_answer(&mut self) -> Option<ApiAnswer> {
        for (pending, result) in self.waiting.iter().zip(&mut self.results) {
            if result.is_none() {
                *result = pending.try_get();
            }
        }
        self.answer_if_complete()
    }

    /// Blocks until the writes are durable. Not for async code.
    pub fn wait(mut self) -> ApiAnswer {
        for (pending, result) in
            std::mem::take(&mut self.waiting).into_iter().zip(&mut self.results)
        {
            *result = Some(pending.wait());
        }
        self.answer_if_complete().expect("every write has its result now")
    }

    fn answer_if_complete(&mut self) -> Option<ApiAnswer> {
        if self.results.iter().any(Option::is_none) {
            return None;
        }
        let finish = self.finish.take()?;
        let written: Result<Vec<DurableWrite>, StoreError> =
            std::mem::take(&mut self.results).into_iter().flatten().collect();
        Some(match written {
            Ok(written) => finish(written),
            Err(error) => ApiError::from(error).into(),
        })
    }
}

impl Future for WriteInFlight {
    type Output = ApiAnswer;

    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<ApiAnswer> {
        let this = self.get_mut();
        for (pending, result) in this.waiting.iter_mut().zip(&mut this.results) {
            if result.is_none()
                && let Poll::Ready(ready) = Pin::new(pending).poll(context)
            {
                *result = Some(ready);
            }
        }
        this.answer_if_complete().map_or(Poll::Pending, Poll::Ready)
    }
}
