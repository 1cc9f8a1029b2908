//! exec and attach over a websocket: each message is a channel's number and what goes over it
//! (remotecommand v4 and v5).

use std::future::Future;
use std::time::Duration;

use bytes::Bytes;
use futures::stream::{SplitSink, SplitStream};
use futures::{SinkExt, StreamExt};
use serde::Deserialize;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::sync::{mpsc, watch};
use tokio::time::{interval, timeout};
use tokio_tungstenite::tungstenite::Message;

use super::channels::{Malformed, MessageCoding};
use super::negotiate::RemoteCommandProtocol;
use super::node::{NodeStreamError, ProcessSession, Reader, Writer};
use super::{CLOSING, PIECE_BYTES, Socket, WebSocketIo, status};

pub(crate) const STDIN: u8 = 0;
pub(crate) const STDOUT: u8 = 1;
pub(crate) const STDERR: u8 = 2;
pub(crate) const ERROR: u8 = 3;
pub(crate) const RESIZE: u8 = 4;
/// v5: the channel whose number follows has ended.
pub(crate) const CLOSE: u8 = 255;

/// Messages on their way to a client that reads slowly; then the process has to wait.
const UNSENT_MAX: usize = 8;

/// A process that ended may leave others behind that hold its output open; what is already written
/// is there at once.
const AFTER_END: Duration = Duration::from_millis(100);

/// Finds out that a client is gone although nothing is written.
const PING_INTERVAL: Duration = Duration::from_secs(30);

/// Runs a session over a socket to its end, or until the client goes.
pub(super) async fn run<S: WebSocketIo>(
    socket: Socket<S>,
    (protocol, coding): (RemoteCommandProtocol, MessageCoding),
    session: impl Future<Output = Result<ProcessSession, NodeStreamError>>,
) {
    let (sink, mut source) = socket.split();
    let (sender, unsent) = mpsc::channel(UNSENT_MAX);
    let talk = async {
        let end = match session.await {
            Ok(session) => converse(session, &mut source, &sender, (protocol, coding)).await,
            Err(error) => Some(Err(error)),
        };
        if let Some(end) = end {
            let status = match protocol {
                RemoteCommandProtocol::PreV4 => status::text_of_end(&end),
                RemoteCommandProtocol::V5
                | RemoteCommandProtocol::V4
                | RemoteCommandProtocol::SpdyTunnel => Some(status::status_of_end(&end)),
            };
            if let Some(status) = status {
                // A client that is gone wants no status.
                let _ = sender.send(coding.on_channel(ERROR, &status)).await;
            }
        }
        drop(sender);
    };
    tokio::join!(talk, write(sink, unsent));
    // A client answers our close with its own.
    let _ = timeout(CLOSING, async { while let Some(Ok(_)) = source.next().await {} }).await;
}

/// Sends until there is nothing to say any more, or the client is gone.
async fn write<S: WebSocketIo>(
    mut sink: SplitSink<Socket<S>, Message>,
    mut unsent: mpsc::Receiver<Message>,
) {
    while let Some(message) = unsent.recv().await {
        if sink.send(message).await.is_err() {
            return;
        }
    }
    let _ = sink.send(super::goodbye()).await;
}

/// `None`: the client went away first. Dropping the session then ends the command.
async fn converse<S: WebSocketIo>(
    session: ProcessSession,
    source: &mut SplitStream<Socket<S>>,
    sender: &mpsc::Sender<Message>,
    (protocol, coding): (RemoteCommandProtocol, MessageCoding),
) -> Option<Result<i32, NodeStreamError>> {
    let ProcessSession { stdin, stdout, stderr, resize, ended } = session;
    // As the kubelet does, so that a client knows that it is connected.
    let first = if stdout.is_some() { STDOUT } else { ERROR };
    sender.send(coding.on_channel(first, b"")).await.ok()?;
    let (process_state, state) = watch::channel(RemoteProcessState::Runs);
    let outputs = async {
        let (out, err) = tokio::join!(
            pump(stdout, (STDOUT, coding), sender, state.clone()),
            pump(stderr, (STDERR, coding), sender, state.clone())
        );
        out.and(err)
    };
    let input = ClientInput { stdin, resize, protocol, coding };
    let mut ping = interval(PING_INTERVAL);
    ping.reset();
    let mut input = std::pin::pin!(input.run(source));
    let end = async {
        let end = ended.await;
        process_state.send_replace(RemoteProcessState::Ended);
        end
    };
    let mut process = std::pin::pin!(async {
        let (end, sent) = tokio::join!(end, outputs);
        sent.map(|()| end)
    });
    loop {
        tokio::select! {
            end = &mut process => return end,
            () = &mut input => return None,
            _ = ping.tick() => sender.send(Message::Ping(Bytes::new())).await.ok()?,
        }
    }
}

/// Whether a process writes still.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum RemoteProcessState {
    Runs,
    Ended,
}

/// Sends what a process writes; `None` when the client is gone. When the process has ended, only
/// what is there already.
async fn pump(
    reader: Option<Reader>,
    (channel, coding): (u8, MessageCoding),
    sender: &mpsc::Sender<Message>,
    mut state: watch::Receiver<RemoteProcessState>,
) -> Option<()> {
    let Some(mut reader) = reader else { return Some(()) };
    let mut buffer = vec![0u8; PIECE_BYTES];
    loop {
        let read = tokio::select! {
            biased;
            read = reader.read(&mut buffer) => Some(read),
            _ = state.wait_for(|state| *state == RemoteProcessState::Ended) => None,
        };
        let read = match read {
            Some(read) => read,
            None => match timeout(AFTER_END, reader.read(&mut buffer)).await {
                Ok(read) => read,
                Err(_quiet) => return Some(()),
            },
        };
        match read {
            Ok(0) | Err(_) => return Some(()),
            Ok(count) => sender.send(coding.on_channel(channel, &buffer[..count])).await.ok()?,
        }
    }
}

/// What the client says.
struct ClientInput {
    stdin: Option<Writer>,
    resize: Option<Box<dyn Fn(u16, u16) + Send + Sync>>,
    protocol: RemoteCommandProtocol,
    coding: MessageCoding,
}

/// As client-go writes it.
#[derive(Deserialize)]
struct ClientTerminalSize {
    #[serde(rename = "Width")]
    width: u16,
    #[serde(rename = "Height")]
    height: u16,
}

impl ClientInput {
    /// Comes back when the client is gone, or sends what cannot be read.
    async fn run<S: WebSocketIo>(mut self, source: &mut SplitStream<Socket<S>>) {
        while let Some(Ok(message)) = source.next().await {
            let bytes = match message {
                Message::Binary(bytes) => bytes,
                Message::Text(text) => text.into(),
                Message::Close(_) => return,
                Message::Ping(_) | Message::Pong(_) | Message::Frame(_) => continue,
            };
            match self.coding.read(&bytes) {
                Ok(Some((channel, bytes))) => self.take(channel, &bytes).await,
                Ok(None) => {}
                Err(Malformed) => return,
            }
        }
    }

    async fn take(&mut self, channel: u8, bytes: &[u8]) {
        match (channel, bytes) {
            (STDIN, bytes) => {
                if let Some(stdin) = &mut self.stdin
                    && stdin.write_all(bytes).await.is_err()
                {
                    self.stdin = None; // the process reads no more
                }
            }
            (RESIZE, bytes) => {
                if let (Some(resize), Ok(size)) = (&self.resize, serde_json::from_slice(bytes)) {
                    let ClientTerminalSize { width, height } = size;
                    resize(height, width);
                }
            }
            (CLOSE, [STDIN]) if self.protocol == RemoteCommandProtocol::V5 => self.stdin = None,
            // What a client has no business to write on, and what later versions may bring.
            (_, _) => {}
        }
    }
}
