//! A client of the container runtime interface: unary gRPC over HTTP/2 on a unix socket.

pub mod messages;

use std::io;
use std::path::PathBuf;
use std::time::Duration;

use bytes::{Buf, BufMut, Bytes, BytesMut};
use h2::client::SendRequest;
use h2::{RecvStream, SendStream};
use http::{HeaderMap, Request};
use percent_encoding::percent_decode_str;
use prost::Message;
use tokio::net::UnixStream;
use tokio::sync::Mutex;
use tokio::time::timeout;

/// No answer of the calls that the agent makes is longer.
const ANSWER_BYTES_MAX: usize = 16 << 20;
/// A message begins with a byte that says whether it is compressed, and four that say its length.
const PREFIX_BYTES: usize = 5;

/// Why a call failed.
#[derive(Debug, thiserror::Error)]
pub enum CriError {
    /// The socket cannot be connected to.
    #[error("connect to {}: {source}", socket.display())]
    Connect {
        /// The socket.
        socket: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// The connection broke, or does not speak HTTP/2.
    #[error("{call}: {source}")]
    Connection {
        /// The call.
        call: &'static str,
        /// Why.
        source: h2::Error,
    },
    /// The runtime refused.
    #[error("{call}: {message} (code {code})")]
    Refused {
        /// The call.
        call: &'static str,
        /// The code of gRPC.
        code: u32,
        /// What the runtime says.
        message: String,
    },
    /// No answer came in time.
    #[error("{call}: no answer within {} s", limit.as_secs())]
    Deadline {
        /// The call.
        call: &'static str,
        /// How long was waited.
        limit: Duration,
    },
    /// The answer is none of gRPC.
    #[error("{call}: not understood: {what}")]
    Malformed {
        /// The call.
        call: &'static str,
        /// What is wrong.
        what: String,
    },
}

impl CriError {
    /// Whether the runtime does not know what the call was about.
    pub fn is_not_found(&self) -> bool {
        match self {
            CriError::Refused { code, .. } => *code == 5,
            CriError::Connect { .. }
            | CriError::Connection { .. }
            | CriError::Deadline { .. }
            | CriError::Malformed { .. } => false,
        }
    }
}

/// A client. It connects when it is first asked, and again when the connection has broken.
#[derive(Debug)]
pub struct CriClient {
    socket: PathBuf,
    connection: Mutex<Option<SendRequest<Bytes>>>,
}

impl CriClient {
    /// Of the runtime behind this socket.
    pub fn new(socket: PathBuf) -> Self {
        Self { socket, connection: Mutex::new(None) }
    }

    /// One call of the runtime's service, with its deadline.
    ///
    /// # Errors
    /// When there is no answer in time, or it is a refusal.
    pub async fn call<Response: Message + Default>(
        &self,
        call: &'static str,
        request: &impl Message,
        limit: Duration,
    ) -> Result<Response, CriError> {
        let answer = timeout(limit, self.ask(call, request, limit)).await;
        match answer {
            Ok(Err(error @ CriError::Connection { .. })) => {
                *self.connection.lock().await = None;
                Err(error)
            }
            Ok(answer) => answer,
            Err(_elapsed) => {
                // a connection that hangs is not used again
                *self.connection.lock().await = None;
                Err(CriError::Deadline { call, limit })
            }
        }
    }

    async fn ask<Response: Message + Default>(
        &self,
        call: &'static str,
        request: &impl Message,
        limit: Duration,
    ) -> Result<Response, CriError> {
        let broken = |source| CriError::Connection { call, source };
        let malformed = |what: String| CriError::Malformed { call, what };
        let sender = self.connected(call).await?;
        let head = Request::post(format!("http://localhost/runtime.v1.RuntimeService/{call}"))
            .header("content-type", "application/grpc")
            .header("te", "trailers")
            .header("grpc-timeout", format!("{}m", limit.as_millis().min(99_999_999)))
            .body(())
            .map_err(|error| malformed(error.to_string()))?;
        let mut sender = sender.ready().await.map_err(broken)?;
        let (response, body) = sender.send_request(head, false).map_err(broken)?;
        send(body, framed(request)).await.map_err(broken)?;
        let response = response.await.map_err(broken)?;
        let head = response.headers().clone();
        let mut body = response.into_body();
        let message = read(call, &mut body).await?;
        // a refusal without content has its status in the head
        let trailers = body.trailers().await.map_err(broken)?.unwrap_or(head);
        refused(call, &trailers)?;
        let message = message.ok_or_else(|| malformed("no message".to_owned()))?;
        Response::decode(message).map_err(|error| malformed(error.to_string()))
    }

    async fn connected(&self, call: &'static str) -> Result<SendRequest<Bytes>, CriError> {
        let mut connection = self.connection.lock().await;
        if let Some(sender) = connection.as_ref() {
            return Ok(sender.clone());
        }
        let stream = UnixStream::connect(&self.socket)
            .await
            .map_err(|source| CriError::Connect { socket: self.socket.clone(), source })?;
        let handshake = h2::client::handshake(stream).await;
        let (sender, driven) = handshake.map_err(|source| CriError::Connection { call, source })?;
        tokio::spawn(async move {
            if let Err(error) = driven.await {
                tracing::debug!(%error, "the connection to the runtime ended");
            }
        });
        *connection = Some(sender.clone());
        Ok(sender)
    }
}

fn framed(message: &impl Message) -> Bytes {
    let length = message.encoded_len();
    let mut frame = BytesMut::with_capacity(PREFIX_BYTES + length);
    frame.put_u8(0);
    frame.put_u32(u32::try_from(length).unwrap_or(u32::MAX));
    frame.put(message.encode_to_vec().as_slice());
    frame.freeze()
}

/// Sends a message as the peer takes it.
async fn send(mut body: SendStream<Bytes>, mut message: Bytes) -> Result<(), h2::Error> {
    while message.has_remaining() {
        body.reserve_capacity(message.len());
        let granted = std::future::poll_fn(|context| body.poll_capacity(context)).await;
        let Some(granted) = granted.transpose()? else { break };
        let part = message.split_to(granted.min(message.len()));
        body.send_data(part, message.is_empty())?;
    }
    Ok(())
}

/// The message of an answer, if it has one.
async fn read(call: &'static str, body: &mut RecvStream) -> Result<Option<Bytes>, CriError> {
    let malformed = |what: &str| CriError::Malformed { call, what: what.to_owned() };
    let mut received = BytesMut::new();
    while let Some(part) = body.data().await {
        let part = part.map_err(|source| CriError::Connection { call, source })?;
        if received.len() + part.len() > ANSWER_BYTES_MAX {
            return Err(malformed("the answer is too long"));
        }
        let _the_stream_is_over = body.flow_control().release_capacity(part.len());
        received.extend_from_slice(&part);
    }
    if received.is_empty() {
        return Ok(None);
    }
    if received.len() < PREFIX_BYTES {
        return Err(malformed("the message is cut"));
    }
    let is_compressed = received.get_u8() != 0;
    let length = received.get_u32();
    if is_compressed {
        return Err(malformed("the message is compressed"));
    }
    if usize::try_from(length).is_ok_and(|length| length == received.len()) {
        Ok(Some(received.freeze()))
    } else {
        Err(malformed("the message is cut"))
    }
}

/// What the runtime says of a call that it refused.
fn refused(call: &'static str, trailers: &HeaderMap) -> Result<(), CriError> {
    let field = |name: &str| trailers.get(name).and_then(|value| value.to_str().ok());
    let code = field("grpc-status").and_then(|code| code.parse().ok());
    match code {
        Some(0) => Ok(()),
        Some(code) => {
            let message = field("grpc-message").unwrap_or_default();
            let message = percent_decode_str(message).decode_utf8_lossy().into_owned();
            Err(CriError::Refused { call, code, message })
        }
        None => Err(CriError::Malformed { call, what: "no grpc-status".to_owned() }),
    }
}
