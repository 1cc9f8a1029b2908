//! The API server's end of the line.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use futures::future::BoxFuture;
use futures::{FutureExt, StreamExt};
use rekindle_api::node_query::{AttachQuery, ExecQuery, LogQuery, NodeGet, PodOnNode};
use rekindle_api::outcome::Answer;
use rekindle_api::resource_metrics::NodeFigures;
use rekindle_metrics as metrics;
use tokio::net::UnixStream;
use tokio::time::timeout;

use super::frame::{self, Frame, Kind, broken};
use super::question::{Head, Question};
use super::session;
use crate::LogStream;
use crate::logs::{LogError, NodeLogs};
use crate::nodes::{NodeUnavailable, Nodes};
use crate::streams::{Connection, NodeStreams, Session, StreamError};

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

    async fn ask(&self, question: Question) -> Result<(UnixStream, Head), LineError> {
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

    async fn session(self, question: Question) -> Result<Session, StreamError> {
        let failed = |error: LineError| StreamError(error.to_string());
        match self.ask(question).await.map_err(failed)? {
            (stream, Head::Session(open)) => Ok(session::open(stream, open, &self.name).await),
            (_, Head::Refused(refusal)) => Err(StreamError(refusal.text())),
            (_, other) => Err(StreamError(unexpected(&other))),
        }
    }
}

async fn exchange(stream: &mut UnixStream, question: &Question) -> io::Result<Head> {
    frame::write(stream, &Frame::json(Kind::Question, question)?).await?;
    match frame::read(stream).await? {
        Some(frame) if frame.kind == Kind::Head => frame.value(),
        Some(frame) => Err(broken(format!("{:?} instead of an answer", frame.kind))),
        None => Err(io::ErrorKind::UnexpectedEof.into()),
    }
}

fn unexpected(head: &Head) -> String {
    let kind = match head {
        Head::Log => "a log",
        Head::Session(_) => "a session",
        Head::Connected => "a connection",
        Head::Answer { .. } => "an answer",
        Head::Figures(_) => "figures",
        Head::Refused(_) => "a refusal",
    };
    format!("the node answered with {kind}, which was not asked for")
}

impl NodeLogs for FarNode {
    fn read(&self, query: LogQuery) -> BoxFuture<'static, Result<LogStream, LogError>> {
        let node = self.clone();
        async move {
            match node.ask(Question::Log(query)).await {
                Ok((stream, Head::Log)) => Ok(log(stream)),
                Ok((_, Head::Refused(refusal))) => Err(refusal.into()),
                Ok((_, other)) => Err(LogError::Failed(unexpected(&other))),
                Err(error) => Err(LogError::NoNode(error.to_string())),
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
            Ok(Some(Frame { kind: Kind::Data, bytes })) => Some((Ok(bytes), Some(stream))),
            Ok(Some(Frame { kind: Kind::End, .. })) => None,
            Ok(Some(Frame { kind: Kind::Failed, bytes })) => {
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
    fn exec(&self, query: ExecQuery) -> BoxFuture<'static, Result<Session, StreamError>> {
        self.clone().session(Question::Exec(query)).boxed()
    }

    fn attach(&self, query: AttachQuery) -> BoxFuture<'static, Result<Session, StreamError>> {
        self.clone().session(Question::Attach(query)).boxed()
    }

    fn connect(
        &self,
        pod: PodOnNode,
        port: u16,
    ) -> BoxFuture<'static, Result<Connection, StreamError>> {
        let node = self.clone();
        async move {
            match node.ask(Question::Connect { pod, port }).await {
                Ok((stream, Head::Connected)) => {
                    let (reader, writer) = stream.into_split();
                    Ok(Connection { reader: Box::pin(reader), writer: Box::pin(writer) })
                }
                Ok((_, Head::Refused(refusal))) => Err(StreamError(refusal.text())),
                Ok((_, other)) => Err(StreamError(unexpected(&other))),
                Err(error) => Err(StreamError(error.to_string())),
            }
        }
        .boxed()
    }
}

impl Nodes for FarNode {
    fn get(&self, question: NodeGet) -> BoxFuture<'static, Result<Answer, NodeUnavailable>> {
        let node = self.clone();
        async move {
            let failed = |text: String| NodeUnavailable(text);
            let asked = node.ask(Question::Get(question)).await;
            match asked.map_err(|error| failed(error.to_string()))? {
                (mut stream, Head::Answer { code, content_type }) => {
                    let body = frame::read(&mut stream).await.map_err(|e| failed(e.to_string()))?;
                    let body = body.map(|frame| frame.bytes).unwrap_or_default();
                    Ok(Answer::relayed(code, known(&content_type), body))
                }
                (_, Head::Refused(refusal)) => Err(failed(refusal.text())),
                (_, other) => Err(failed(unexpected(&other))),
            }
        }
        .boxed()
    }

    fn figures(&self) -> BoxFuture<'static, Result<Vec<NodeFigures>, NodeUnavailable>> {
        let node = self.clone();
        async move {
            match node.ask(Question::Figures).await {
                Ok((_, Head::Figures(figures))) => Ok(figures),
                Ok((_, Head::Refused(refusal))) => Err(NodeUnavailable(refusal.text())),
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
