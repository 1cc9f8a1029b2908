//! Port forwarding as kubectl does it: SPDY/3.1 in the messages of a websocket (KEP-4006).
//!
//! For each connection the client opens a pair of streams with the same request id: one for errors,
//! one for data.
//! `SYN_STREAM error, SYN_STREAM data -> connect -> DATA both ways -> FIN on data, FIN on error`

use std::collections::BTreeMap;
use std::pin::pin;
use std::sync::Arc;

use bytes::Bytes;
use futures::StreamExt;
use rekindle_api::node_query::PodOnNode;
use rekindle_api::node_query::PortForwardQuery;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::sync::mpsc;
use tokio::task::{AbortHandle, JoinSet};
use tokio::time::timeout;
use tokio_tungstenite::tungstenite::Message;

use super::node::{NodeStreams, PortConnection, Reader, Writer};
use super::outbox::send_all;
use super::spdy::{self, BlockPosition, Headers, ResetReason, SpdyDecoder, SpdyError, SpdyFrame};
use super::{CLOSING, PIECE_BYTES, Socket, WebSocketIo};

/// Streams of one client that are open; two for each connection.
const STREAMS_MAX: usize = 1024;

/// Frames on their way to the client.
const UNSENT_MAX: usize = 16;

/// Pieces on their way to a pod's port. SPDY has no flow control here: when one port does not read,
/// all wait.
const UNWRITTEN_MAX: usize = 2;

/// Serves one client until it goes.
pub(super) async fn run<S: WebSocketIo>(
    socket: Socket<S>,
    pod: PodOnNode,
    node: Arc<dyn NodeStreams>,
) {
    let (sink, mut source) = socket.split();
    let (frames, unsent) = mpsc::channel::<Bytes>(UNSENT_MAX);
    let mut write = pin!(send_all(sink, unsent));
    let read = async {
        let mut tunnel = PortForwardTunnel::new(pod, node, frames);
        while let Some(Ok(message)) = source.next().await {
            let bytes = match message {
                Message::Binary(bytes) => bytes,
                Message::Text(text) => text.into(),
                Message::Close(_) => break,
                Message::Ping(_) | Message::Pong(_) | Message::Frame(_) => continue,
            };
            if let Err(error) = tunnel.take(&bytes).await {
                tracing::debug!(%error, "a client of port forwarding broke the protocol");
                break;
            }
        }
    };
    tokio::select! {
        // The client is gone. A connection whose pod does not read would hold up the reading for
        // ever.
        () = &mut write => {}
        () = read => {
            let _ = timeout(CLOSING, write).await;
        }
    }
}

/// One client's connection.
struct PortForwardTunnel {
    decoder: SpdyDecoder,
    pod: PodOnNode,
    node: Arc<dyn NodeStreams>,
    frames: mpsc::Sender<Bytes>,
    /// The highest number that the client has used.
    newest: u32,
    streams: BTreeMap<u32, TunnelStream>,
    /// Error streams without their data stream yet, by request id.
    waiting: BTreeMap<String, u32>,
    forwards: JoinSet<()>,
}

/// One stream of a client.
enum TunnelStream {
    /// Nothing comes over it from the client.
    Error,
    /// `None` when the client has nothing more to send.
    Data { input: Option<mpsc::Sender<Bytes>>, forward: AbortHandle },
}

impl PortForwardTunnel {
    fn new(pod: PodOnNode, node: Arc<dyn NodeStreams>, frames: mpsc::Sender<Bytes>) -> Self {
        Self {
            decoder: SpdyDecoder::new(),
            pod,
            node,
            frames,
            newest: 0,
            streams: BTreeMap::new(),
            waiting: BTreeMap::new(),
            forwards: JoinSet::new(),
        }
    }

    async fn take(&mut self, bytes: &[u8]) -> Result<(), SpdyError> {
        self.decoder.push(bytes);
        while let Some(frame) = self.decoder.take()? {
            self.handle(frame).await;
        }
        Ok(())
    }

    async fn handle(&mut self, frame: SpdyFrame) {
        // What ended has no use for its streams any more.
        while self.forwards.try_join_next().is_some() {
            self.streams.retain(|_, stream| match stream {
                TunnelStream::Error => true,
                TunnelStream::Data { forward, .. } => !forward.is_finished(),
            });
        }
        match frame {
            SpdyFrame::SynStream { stream, headers, is_last } => {
                self.open(stream, &headers, is_last).await;
            }
            SpdyFrame::Data { stream, bytes, is_last } => self.data(stream, bytes, is_last).await,
            SpdyFrame::Reset { stream } => match self.streams.remove(&stream) {
                Some(TunnelStream::Data { forward, .. }) => forward.abort(),
                Some(TunnelStream::Error) => self.waiting.retain(|_, waiting| *waiting != stream),
                None => {}
            },
            SpdyFrame::Ping { id } => self.send(spdy::ping(id)).await,
            SpdyFrame::GoAway | SpdyFrame::Other => {}
        }
    }

    async fn send(&self, frame: Bytes) {
        // When the client is gone the reading ends, too.
        let _ = self.frames.send(frame).await;
    }

    async fn open(&mut self, stream: u32, headers: &Headers, is_last: bool) {
        let value = |name: &str| headers.get(name).map(String::as_str).unwrap_or_default();
        let known =
            (value("streamtype"), PortForwardQuery::parse_port(value("port")), value("requestid"));
        let (kind, port, id) = match known {
            (kind, Ok(port), id) if stream % 2 == 1 && stream > self.newest => (kind, port, id),
            _ => return self.send(spdy::reset(stream, ResetReason::ProtocolError)).await,
        };
        if self.streams.len() >= STREAMS_MAX {
            return self.send(spdy::reset(stream, ResetReason::RefusedStream)).await;
        }
        let position = if self.newest == 0 { BlockPosition::First } else { BlockPosition::Later };
        let error = match kind {
            "error" => {
                self.streams.insert(stream, TunnelStream::Error);
                self.waiting.insert(id.to_owned(), stream);
                None
            }
            "data" => match self.waiting.remove(id) {
                Some(error) => Some(error),
                None => return self.send(spdy::reset(stream, ResetReason::ProtocolError)).await,
            },
            _ => return self.send(spdy::reset(stream, ResetReason::ProtocolError)).await,
        };
        self.newest = stream;
        self.send(spdy::syn_reply(stream, position)).await;
        if let Some(error) = error {
            self.forward(stream, error, port, is_last);
        }
    }

    fn forward(&mut self, data: u32, error: u32, port: u16, is_last: bool) {
        let (input, unwritten) = mpsc::channel(UNWRITTEN_MAX);
        let forward = ForwardedPort { data, error, frames: self.frames.clone() };
        let connection = self.node.connect(self.pod.clone(), port);
        let pod = self.pod.pod.clone();
        let forward = self.forwards.spawn(async move {
            let problem = match connection.await {
                Ok(connection) => forward.carry(connection, unwritten).await.err(),
                Err(problem) => Some(problem.to_string()),
            };
            let problem = problem
                .map(|problem| format!("error forwarding port {port} to pod {pod}: {problem}"));
            forward.end(problem.as_deref().unwrap_or_default()).await;
        });
        // Its place is taken by the data stream from now on.
        self.streams.remove(&error);
        let input = (!is_last).then_some(input);
        self.streams.insert(data, TunnelStream::Data { input, forward });
    }

    async fn data(&mut self, stream: u32, bytes: Bytes, is_last: bool) {
        // Content for what has ended, and on error streams, is dropped.
        let Some(TunnelStream::Data { input, .. }) = self.streams.get_mut(&stream) else { return };
        if let Some(sender) = input
            && !bytes.is_empty()
            && sender.send(bytes).await.is_err()
        {
            *input = None;
        }
        if is_last {
            *input = None;
        }
    }
}

/// One connection.
struct ForwardedPort {
    data: u32,
    error: u32,
    frames: mpsc::Sender<Bytes>,
}

impl ForwardedPort {
    /// Until the pod has sent its last. A client that is done sending may still read.
    async fn carry(
        &self,
        connection: PortConnection,
        unwritten: mpsc::Receiver<Bytes>,
    ) -> Result<(), String> {
        let PortConnection { reader, writer } = connection;
        let mut up = pin!(write_all(writer, unwritten));
        let mut down = pin!(self.read_all(reader));
        let mut sending = true;
        loop {
            tokio::select! {
                result = &mut down => return result,
                result = &mut up, if sending => {
                    // What the pod does not read any more it may have answered already.
                    let _ = result;
                    sending = false;
                }
            }
        }
    }

    async fn read_all(&self, mut reader: Reader) -> Result<(), String> {
        let mut buffer = vec![0u8; PIECE_BYTES];
        loop {
            match reader.read(&mut buffer).await {
                Ok(0) => return Ok(()),
                Ok(count) => {
                    let frame = spdy::data(self.data, &buffer[..count]);
                    if self.frames.send(frame).await.is_err() {
                        return Ok(()); // the client is gone
                    }
                }
                Err(error) => return Err(format!("read from the pod: {error}")),
            }
        }
    }

    /// The client waits for the ends of both streams.
    async fn end(&self, problem: &str) {
        let frames =
            [spdy::last_data(self.data, b""), spdy::last_data(self.error, problem.as_bytes())];
        for frame in frames {
            let _ = self.frames.send(frame).await; // the client is gone
        }
    }
}

async fn write_all(
    mut writer: Writer,
    mut unwritten: mpsc::Receiver<Bytes>,
) -> std::io::Result<()> {
    while let Some(bytes) = unwritten.recv().await {
        writer.write_all(&bytes).await?;
    }
    writer.shutdown().await
}

#[cfg(test)]
mod tests {
    use super::super::NoStreams;
    use super::*;

    #[tokio::test]
    async fn an_error_stream_that_is_reset_waits_for_nothing() {
        let text = |text: &str| text.to_owned();
        let pod = PodOnNode {
            namespace: text("default"),
            pod: text("web"),
            uid: rekindle_types::PodUid(text("uid")),
            node: text("n1"),
        };
        let (frames, _unsent) = mpsc::channel(UNSENT_MAX);
        let mut tunnel = PortForwardTunnel::new(pod, Arc::new(NoStreams), frames);
        for (stream, id) in [(1, "0"), (3, "1")] {
            let headers = [("streamtype", "error"), ("port", "80"), ("requestid", id)];
            let headers = headers.map(|(name, value)| (text(name), text(value))).into();
            tunnel.handle(SpdyFrame::SynStream { stream, headers, is_last: false }).await;
        }
        tunnel.handle(SpdyFrame::Reset { stream: 1 }).await;
        assert_eq!(tunnel.waiting.keys().collect::<Vec<_>>(), ["1"]);
    }
}
