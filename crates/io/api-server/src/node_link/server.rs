//! The node's end of the line.

use std::io;
use std::sync::Arc;
use std::time::Duration;

use futures::StreamExt;
use serde::Serialize;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{UnixListener, UnixStream};
use tokio::sync::Semaphore;
use tokio::task::JoinSet;
use tokio::time::timeout;

use super::frame::{self, FrameKind, LinkFrame, PIECE_BYTES, broken};
use super::question::{AnswerHead, LinkQuestion, LinkRefusal, OpenFiles};
use super::session;
use crate::LogStream;
use crate::logs::NodeLogs;
use crate::nodes::NodeQueries;
use crate::streams::{NodeStreams, PortConnection, ProcessSession};

/// Connections at a time.
const CONNECTIONS_MAX: usize = 1024;
/// How long who connects may take to ask.
const QUESTION_TIME: Duration = Duration::from_secs(10);

/// What answers: the node of this process.
#[derive(Clone)]
pub struct NodeParts {
    /// Logs of containers.
    pub logs: Arc<dyn NodeLogs>,
    /// Commands, and connections to ports.
    pub streams: Arc<dyn NodeStreams>,
    /// What the node tells of itself.
    pub nodes: Arc<dyn NodeQueries>,
}

/// Answers until it is dropped. Who may connect is decided by the socket's file and its folder.
///
/// # Errors
/// When the listener fails for good.
pub async fn serve(listener: UnixListener, node: NodeParts) -> io::Result<()> {
    let slots = Arc::new(Semaphore::new(CONNECTIONS_MAX));
    let mut connections = JoinSet::new();
    loop {
        let slot = Arc::clone(&slots).acquire_owned().await.map_err(io::Error::other)?;
        let (stream, _) = listener.accept().await?;
        let node = node.clone();
        connections.spawn(async move {
            let _slot = slot;
            // that the API server has closed the line is how most of them end
            if let Err(error) = answer(stream, node).await {
                tracing::debug!(%error, "a question of the API server");
            }
        });
        while connections.try_join_next().is_some() {}
    }
}

async fn answer(mut stream: UnixStream, node: NodeParts) -> io::Result<()> {
    let asked = timeout(QUESTION_TIME, frame::read(&mut stream)).await??;
    let Some(asked) = asked else { return Ok(()) };
    if asked.kind != FrameKind::Question {
        return Err(broken("no question"));
    }
    match asked.value()? {
        LinkQuestion::Log(query) => match node.logs.read(query).await {
            Ok(log) => send_log(stream, log).await,
            Err(error) => head(&mut stream, &AnswerHead::Refused(error.into())).await,
        },
        LinkQuestion::Exec(query) => run(stream, node.streams.exec(query).await).await,
        LinkQuestion::Attach(query) => run(stream, node.streams.attach(query).await).await,
        LinkQuestion::Connect { pod, port } => match node.streams.connect(pod, port).await {
            Ok(connection) => join(stream, connection).await,
            Err(error) => head(&mut stream, &AnswerHead::Refused(error.into())).await,
        },
        LinkQuestion::Get(question) => match node.nodes.get(question).await {
            Ok(answer) => {
                let (code, content_type) = (answer.code.as_u16(), answer.content_type.to_owned());
                head(&mut stream, &AnswerHead::Answer { code, content_type }).await?;
                frame::write(&mut stream, &LinkFrame::new(FrameKind::Data, answer.body)).await
            }
            Err(error) => head(&mut stream, &refused(error.0)).await,
        },
        LinkQuestion::Figures => match node.nodes.figures().await {
            Ok(figures) => head(&mut stream, &AnswerHead::Figures(figures)).await,
            Err(error) => head(&mut stream, &refused(error.0)).await,
        },
    }
}

fn refused(text: String) -> AnswerHead {
    AnswerHead::Refused(LinkRefusal::NoNode(text))
}

async fn head(stream: &mut UnixStream, head: &(impl Serialize + Sync)) -> io::Result<()> {
    frame::write(stream, &LinkFrame::json(FrameKind::Head, head)?).await
}

/// Until the log ends, or the API server wants no more of it.
async fn send_log(mut stream: UnixStream, mut log: LogStream) -> io::Result<()> {
    head(&mut stream, &AnswerHead::Log).await?;
    let (mut reader, mut writer) = stream.split();
    let send = async {
        while let Some(piece) = log.next().await {
            match piece {
                Ok(bytes) => {
                    frame::write(&mut writer, &LinkFrame::new(FrameKind::Data, bytes)).await?
                }
                Err(error) => {
                    let why = LinkFrame::new(FrameKind::Failed, error.to_string());
                    return frame::write(&mut writer, &why).await;
                }
            }
        }
        frame::write(&mut writer, &LinkFrame::new(FrameKind::End, Vec::new())).await
    };
    tokio::select! {
        sent = send => sent,
        // nothing more is asked: it has closed
        _ = reader.read_u8() => Ok(()),
    }
}

async fn run(
    mut stream: UnixStream,
    session: Result<ProcessSession, crate::NodeStreamError>,
) -> io::Result<()> {
    match session {
        Ok(session) => {
            let open = OpenFiles {
                stdin: session.stdin.is_some(),
                stdout: session.stdout.is_some(),
                stderr: session.stderr.is_some(),
                terminal: session.resize.is_some(),
            };
            head(&mut stream, &AnswerHead::Session(open)).await?;
            session::serve(stream, session).await;
            Ok(())
        }
        Err(error) => head(&mut stream, &AnswerHead::Refused(error.into())).await,
    }
}

/// Carries bytes both ways until both ends have said all, or one is gone.
async fn join(mut stream: UnixStream, connection: PortConnection) -> io::Result<()> {
    head(&mut stream, &AnswerHead::Connected).await?;
    let PortConnection { reader, writer } = connection;
    let (mut from, mut to) = stream.split();
    let there = copy(&mut from, writer);
    let back = async {
        copy(reader, &mut to).await?;
        to.shutdown().await
    };
    // what the pod sends last is passed on also when the client has ended its side
    tokio::try_join!(there, back).map(drop)
}

async fn copy(
    mut from: impl tokio::io::AsyncRead + Unpin,
    mut to: impl tokio::io::AsyncWrite + Unpin,
) -> io::Result<()> {
    let mut buffer = vec![0; PIECE_BYTES];
    loop {
        match from.read(&mut buffer).await? {
            0 => return to.shutdown().await,
            count => to.write_all(&buffer[..count]).await?,
        }
    }
}
