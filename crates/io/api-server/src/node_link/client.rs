//! The API server's end of the line.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use futures::future::BoxFuture;
use futures::{FutureExt, StreamExt};
use rekindle_api::node_query::{AttachQuery, ExecQuery, LogQuery, NodeGet, PodOnNode};
use rekindle_api::outcome::ApiAnswer;
use rekindle_api::resource_metrics::NodeFigures;
use rekindle_metrics as metrics;
use tokio::net::UnixStream;
use tokio::time::timeout;

use super::frame::{self, FrameKind, LinkFrame, broken};
use super::question::{AnswerHead, LinkQuestion};
use super::session;
use crate::LogStream;
use crate::logs::{LogRequestError, NodeLogs};
use crate::nodes::{NodeQueries, NodeUnavailable};
use crate::streams::{NodeStreamError, NodeStreams, PortConnection, ProcessSession};

/// How long a node may take to begin its answer. One that is stopped takes connections and never
/// answers.
const ANSWER_TIME: Duration = Duration::from_secs(10);

/// A node agent in another process. Cheap to clone; nothing is connected before something is asked.
#[derive(Clone, Debug)]
pub struct FarNode {
    name: Arc<str>,
    socket: Arc<Path>,
}

/// Why a node did not begin an answer.
#[derive(Debug, thiserror::Error)]
enum LineError {
    #[error("node {node:?} does not run: connect to {}", socket.display())]
    Connect {
        node: String,
        socket: PathBuf,
        #[source]
        source: io::Error,
    },
    #[error("ask node {node:?}: {source}")]
    Ask { node: String, source: io::Error },
    #[error("node {node:?} does not answer")]
    Silent { node: String },
}

impl FarNode {
    /// The node of this name, whose agent listens on this socket when it runs.
    pub fn new(name: &str, socket: &Path) -> Self {
        Self { name: name.into(), socket: socket.into() }
    }

    async fn ask(&self, question: LinkQuestion) -> Result<(UnixStream, AnswerHead), LineError> {
        let node = || self.name.as_ref().to_owned();
        let asked = async {
            let mut stream = UnixStream::connect(&self.socket).await.map_err(|source| {
                LineError::Connect { node: node(), socket: self.socket.to_path_buf(), source }
            })?;
            let head = exchange(&mut stream, &question).await;
            let head = head.map_err(|source| LineError::Ask { node: node(), source })?;
            Ok((stream, head))
        };
        timeout(ANSWER_TIME, asked).await.map_err(|_| LineError::Silent { node: node() })?
    }

    async fn session(self, question: LinkQuestion) -> Result<ProcessSession, NodeStreamError> {
        let failed = |error: LineError| NodeStreamError(error.to_string());
        match self.ask(question).await.map_err(failed)? {
            (stream, AnswerHead::Session(open)) => {
                Ok(session::open(stream, open, &self.name).await)
            }
            (_, AnswerHead::Refused(refusal)) => Err(NodeStreamError(refusal.text())),
            (_, other) => Err(NodeStreamError(unexpected(&other))),
        }
    }
}

async fn exchange(stream: &mut UnixStream, question: &LinkQuestion) -> io::Result<AnswerHead> {
    frame::write(stream, &LinkFrame::json(FrameKind::Question, question)?).await?;
    match frame::read(stream).await? {
        Some(frame) if frame.kind == FrameKind::Head => frame.value(),
        Some(frame) => Err(broken(format!("{:?} instead of an answer", frame.kind))),
        None => Err(io::ErrorKind::UnexpectedEof.into()),
    }
}

fn unexpected(head: &AnswerHead) -> String {
    let kind = match head {
        AnswerHead::Log => "a log",
        AnswerHead::Session(_) => "a session",
        AnswerHead::Connected => "a connection",
        AnswerHead::Answer { .. } => "an answer",
        AnswerHead::Figures(_) => "figures",
        AnswerHead::Refused(_) => "a refusal",
    };
    format!("the node answered with {kind}, which was not asked for")
}

impl NodeLogs for FarNode {
    fn read(&self, query: LogQuery) -> BoxFuture<'static, Result<LogStream, LogRequestError>> {
        let node = self.clone();
        async move {
            match node.ask(LinkQuestion::Log(query)).await {
                Ok((stream, AnswerHead::Log)) => Ok(log(stream)),
                Ok((_, AnswerHead::Refused(refusal))) => Err(refusal.into()),
                Ok((_, other)) => Err(LogRequestError::Failed(unexpected(&other))),
                Err(error) => Err(LogRequestError::NoNode(error.to_string())),
            }
        }
        .boxed()
    }
}

/// The pieces of a log, to its end. Dropping it closes the line.
fn log(stream: UnixStream) -> LogStream {
    let pieces = futures::stream::unfold(Some(stream), |stream| async {
        let mut stream = stream?;
        match frame::read(&mut stream).await {
            Ok(Some(LinkFrame { kind: FrameKind::Data, bytes })) => Some((Ok(bytes), Some(stream))),
            Ok(Some(LinkFrame { kind: FrameKind::End, .. })) => None,
            Ok(Some(LinkFrame { kind: FrameKind::Failed, bytes })) => {
                let why = String::from_utf8_lossy(&bytes).into_owned();
                Some((Err(io::Error::other(why)), None))
            }
            Ok(Some(frame)) => Some((Err(broken(format!("{:?} in a log", frame.kind))), None)),
            Ok(None) => Some((Err(io::ErrorKind::UnexpectedEof.into()), None)),
            Err(error) => Some((Err(error), None)),
        }
    });
    pieces.boxed()
}

impl NodeStreams for FarNode {
    fn exec(
        &self,
        query: ExecQuery,
    ) -> BoxFuture<'static, Result<ProcessSession, NodeStreamError>> {
        self.clone().session(LinkQuestion::Exec(query)).boxed()
    }

    fn attach(
        &self,
        query: AttachQuery,
    ) -> BoxFuture<'static, Result<ProcessSession, NodeStreamError>> {
        self.clone().session(LinkQuestion::Attach(query)).boxed()
    }

    fn connect(
        &self,
        pod: PodOnNode,
        port: u16,
    ) -> BoxFuture<'static, Result<PortConnection, NodeStreamError>> {
        let node = self.clone();
        async move {
            match node.ask(LinkQuestion::Connect { pod, port }).await {
                Ok((stream, AnswerHead::Connected)) => {
                    let (reader, writer) = stream.into_split();
                    Ok(PortConnection { reader: Box::pin(reader), writer: Box::pin(writer) })
                }
                Ok((_, AnswerHead::Refused(refusal))) => Err(NodeStreamError(refusal.text())),
                Ok((_, other)) => Err(NodeStreamError(unexpected(&other))),
                Err(error) => Err(NodeStreamError(error.to_string())),
            }
        }
        .boxed()
    }
}

impl NodeQueries for FarNode {
    fn get(&self, question: NodeGet) -> BoxFuture<'static, Result<ApiAnswer, NodeUnavailable>> {
        let node = self.clone();
        async move {
            let failed = |text: String| NodeUnavailable(text);
            let asked = node.ask(LinkQuestion::Get(question)).await;
            match asked.map_err(|error| failed(error.to_string()))? {
                (mut stream, AnswerHead::Answer { code, content_type }) => {
                    let body = frame::read(&mut stream).await.map_err(|e| failed(e.to_string()))?;
                    let body = body.map(|frame| frame.bytes).unwrap_or_default();
                    Ok(ApiAnswer::relayed(code, known(&content_type), body))
                }
                (_, AnswerHead::Refused(refusal)) => Err(failed(refusal.text())),
                (_, other) => Err(failed(unexpected(&other))),
            }
        }
        .boxed()
    }

    fn figures(&self) -> BoxFuture<'static, Result<Vec<NodeFigures>, NodeUnavailable>> {
        let node = self.clone();
        async move {
            match node.ask(LinkQuestion::Figures).await {
                Ok((_, AnswerHead::Figures(figures))) => Ok(figures),
                Ok((_, AnswerHead::Refused(refusal))) => Err(NodeUnavailable(refusal.text())),
                Ok((_, other)) => Err(NodeUnavailable(unexpected(&other))),
                Err(error) => Err(NodeUnavailable(error.to_string())),
            }
        }
        .boxed()
    }
}

/// The media types that a node answers with.
fn known(content_type: &str) -> &'static str {
    const TEXT: &str = "text/plain; charset=utf-8";
    let known = ["application/json", metrics::CONTENT_TYPE];
    known.into_iter().find(|known| *known == content_type).unwrap_or(TEXT)
}
