//! `pods/exec`, `pods/attach` and `pods/portforward`: the connection becomes a websocket, and the
//! node has the other end. So does a request for `pods/log` that asks for one.
//!
//! ```text
//! core: who may, which pod -> negotiate: which protocol -> 101 -> which stream -> NodeStreams
//!                             | or 400, and no node hears of it
//!
//! which stream: remote_command (v5, v4, v1), port_forward (SPDY tunnel, channels), container_log
//! channels: how bytes are in messages
//! ```

pub(crate) mod channels;
mod container_log;
mod negotiate;
mod node;
mod outbox;
mod port_forward;
pub(crate) mod remote_command;
mod slots;
mod spdy;
mod status;
#[cfg(test)]
mod tests;
mod tunnel;

pub use node::{
    NoStreams, NodeStreamError, NodeStreams, PortConnection, ProcessSession, Reader, Writer,
};

use std::sync::Arc;
use std::time::Duration;

use hyper::upgrade::{OnUpgrade, Upgraded};
use hyper_util::rt::TokioIo;
use rekindle_api::node_query::StreamQuery;
use rekindle_api::status::ApiError;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::sync::watch;
use tokio_tungstenite::WebSocketStream;
use tokio_tungstenite::tungstenite::protocol::frame::coding::CloseCode;
use tokio_tungstenite::tungstenite::protocol::{CloseFrame, Role, WebSocketConfig};
use tokio_tungstenite::tungstenite::{Message, Utf8Bytes};

use super::answer::AnswerContext;
use super::body::{FrontPhase, LogStream};
use channels::MessageCoding;
pub(super) use negotiate::asks_for_websocket;
use negotiate::{NegotiatedProtocol, RemoteCommandProtocol};
pub(super) use slots::{Slots, StreamSlot};

/// How long a client may take to close its side, or to take the last words, when all is said.
const CLOSING: Duration = Duration::from_secs(5);

/// Bytes of one message of a client. kubectl sends at most 32 KiB.
const MESSAGE_BYTES_MAX: usize = 1024 * 1024;

/// Bytes read from a process or a pod's port at a time.
const PIECE_BYTES: usize = 32 * 1024;

/// A websocket: a client's over HTTP, or the line to a node agent in another process.
type Socket<S = TokioIo<Upgraded>> = WebSocketStream<S>;

/// What a websocket runs over.
pub(crate) trait WebSocketIo: AsyncRead + AsyncWrite + Unpin {}

impl<S: AsyncRead + AsyncWrite + Unpin> WebSocketIo for S {}

/// Carries streams between clients and nodes. Cheap to clone.
#[derive(Clone)]
pub(super) struct StreamServer {
    node: Arc<dyn NodeStreams>,
    slots: Slots,
}

/// What an answer to a request for streams is made of.
pub(super) struct AcceptedStream {
    headers: http::HeaderMap,
    content: StreamContent,
    slot: StreamSlot,
}

/// What goes over it.
enum StreamContent {
    Node(StreamQuery, RemoteCommandProtocol, MessageCoding),
    Log(LogStream, MessageCoding),
}

impl StreamServer {
    pub(super) fn new(node: Arc<dyn NodeStreams>) -> Self {
        Self { node, slots: Slots::default() }
    }

    /// The place of a stream that is carried elsewhere.
    ///
    /// # Errors
    /// 429 when there is none.
    pub(super) fn take_slot(&self, user: &str) -> Result<StreamSlot, ApiError> {
        self.slots.take(user)
    }

    /// Looks whether the client and we have a protocol in common. Nothing has reached the node yet.
    pub(super) fn accept(
        &self,
        query: StreamQuery,
        asked: AnswerContext<'_>,
    ) -> Result<AcceptedStream, ApiError> {
        let agreed = negotiate::agree(&query, &asked.parts.headers, &asked.parts.method)?;
        let headers = agreed.headers();
        let NegotiatedProtocol { protocol, coding, .. } = agreed;
        let slot = self.slots.take(asked.user)?.ending(asked.trail);
        Ok(AcceptedStream { headers, content: StreamContent::Node(query, protocol, coding), slot })
    }

    /// The same for a log that is there.
    pub(super) fn accept_log(
        &self,
        log: LogStream,
        asked: AnswerContext<'_>,
    ) -> Result<AcceptedStream, ApiError> {
        let agreed = negotiate::agree_for_log(&asked.parts.headers, &asked.parts.method)?;
        let slot = self.slots.take(asked.user)?.ending(asked.trail);
        let content = StreamContent::Log(log, agreed.coding);
        Ok(AcceptedStream { headers: agreed.headers(), content, slot })
    }

    /// Serves the stream once the connection has been upgraded, in the background.
    pub(super) fn serve(
        &self,
        accepted: AcceptedStream,
        upgrade: OnUpgrade,
        mut phase: watch::Receiver<FrontPhase>,
    ) -> http::HeaderMap {
        let AcceptedStream { headers, content, slot } = accepted;
        let node = Arc::clone(&self.node);
        tokio::spawn(async move {
            let _slot = slot;
            let upgraded = match upgrade.await {
                Ok(upgraded) => upgraded,
                Err(error) => return tracing::debug!(%error, "upgrade a connection"),
            };
            let socket = websocket(upgraded).await;
            let streams = run(socket, content, node);
            tokio::select! {
                () = streams => {}
                // An error means that the front is gone, which is the same.
                _ = phase.wait_for(|phase| *phase == FrontPhase::Stopping) => {}
            }
        });
        headers
    }
}

async fn websocket(upgraded: Upgraded) -> Socket {
    let socket = TokioIo::new(upgraded);
    WebSocketStream::from_raw_socket(socket, Role::Server, Some(limits())).await
}

/// Carries a session's files over the line to the API server, until its process has ended or the
/// line is closed.
pub(crate) async fn converse<S: WebSocketIo>(socket: Socket<S>, session: ProcessSession) {
    let protocol = (RemoteCommandProtocol::V5, MessageCoding::Binary);
    remote_command::run(socket, protocol, std::future::ready(Ok(session))).await;
}

/// What a websocket may hold.
pub(crate) fn limits() -> WebSocketConfig {
    WebSocketConfig::default()
        .read_buffer_size(16 * 1024)
        .write_buffer_size(0)
        .max_write_buffer_size(4 * MESSAGE_BYTES_MAX)
        .max_message_size(Some(MESSAGE_BYTES_MAX))
        .max_frame_size(Some(MESSAGE_BYTES_MAX))
}

/// The end of a stream that went as it should; clients take any other for a failure.
fn goodbye() -> Message {
    Message::Close(Some(CloseFrame { code: CloseCode::Normal, reason: Utf8Bytes::default() }))
}

async fn run(socket: Socket, content: StreamContent, node: Arc<dyn NodeStreams>) {
    let (query, protocol, coding) = match content {
        StreamContent::Node(query, protocol, coding) => (query, protocol, coding),
        StreamContent::Log(log, coding) => return container_log::run(socket, coding, log).await,
    };
    match (query, protocol) {
        (StreamQuery::Exec(query), protocol) => {
            remote_command::run(socket, (protocol, coding), node.exec(query)).await;
        }
        (StreamQuery::Attach(query), protocol) => {
            remote_command::run(socket, (protocol, coding), node.attach(query)).await;
        }
        (StreamQuery::PortForward(query), RemoteCommandProtocol::SpdyTunnel) => {
            tunnel::run(socket, query.pod, node).await;
        }
        (
            StreamQuery::PortForward(query),
            RemoteCommandProtocol::V5 | RemoteCommandProtocol::V4 | RemoteCommandProtocol::PreV4,
        ) => {
            port_forward::run(socket, coding, query, node).await;
        }
    }
}
