//! Port forwarding as client libraries do it: for port `i` of the request, channel `2 i` carries
//! data and `2 i + 1` errors. Each begins with the port's number (two bytes, little endian). One
//! connection for each port.

use std::sync::Arc;

use futures::{SinkExt, StreamExt};
use rekindle_api::node_query::PortForwardQuery;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::sync::mpsc;
use tokio_tungstenite::tungstenite::Message;

use super::channels::{Malformed, MessageCoding};
use super::node::{NodeStreams, Writer};
use super::outbox::send_all;
use super::{PIECE_BYTES, Socket, WebSocketIo};

/// Messages on their way to the client.
const UNSENT_MAX: usize = 16;

/// Serves one client until it goes, or until the last connection has ended.
pub(super) async fn run<S: WebSocketIo>(
    socket: Socket<S>,
    coding: MessageCoding,
    query: PortForwardQuery,
    node: Arc<dyn NodeStreams>,
) {
    let (mut sink, mut source) = socket.split();
    let (sender, unsent) = mpsc::channel::<Message>(UNSENT_MAX);
    let mut writers: Vec<Option<Writer>> = Vec::with_capacity(query.ports.len());
    let mut downs = tokio::task::JoinSet::new();
    let channels = (0u8..).step_by(2);
    for (channel, port) in channels.zip(&query.ports) {
        let head = [channel, channel + 1].map(|it| coding.on_channel(it, &port.to_le_bytes()));
        for head in head {
            if sink.send(head).await.is_err() {
                return;
            }
        }
        match node.connect(query.pod.clone(), *port).await {
            Ok(connection) => {
                writers.push(Some(connection.writer));
                downs.spawn(pump(connection.reader, (channel, coding), sender.clone()));
            }
            Err(error) => {
                writers.push(None);
                let text =
                    format!("error forwarding port {port} to pod {}: {error}", query.pod.pod);
                let problem = coding.on_channel(channel + 1, text.as_bytes());
                let _ = sink.send(problem).await; // noticed by reading
            }
        }
    }
    drop(sender);
    let read = async {
        while let Some(Ok(message)) = source.next().await {
            let bytes = match (message, coding) {
                (Message::Binary(bytes), _) => bytes,
                (Message::Text(text), MessageCoding::Base64) => text.into(),
                (Message::Close(_), _) => return,
                (Message::Text(_), MessageCoding::Binary)
                | (Message::Ping(_) | Message::Pong(_) | Message::Frame(_), _) => continue,
            };
            match coding.read(&bytes) {
                Ok(Some((channel, bytes))) => write_to(&mut writers, channel, &bytes).await,
                Ok(None) => {}
                Err(Malformed) => return,
            }
        }
    };
    tokio::select! {
        () = send_all(sink, unsent) => {}
        () = read => {}
    }
}

/// Ends when the pod has sent its last, or the client is gone.
async fn pump(
    mut reader: super::Reader,
    (channel, coding): (u8, MessageCoding),
    sender: mpsc::Sender<Message>,
) {
    let mut buffer = vec![0u8; PIECE_BYTES];
    while let Ok(count) = reader.read(&mut buffer).await {
        let message = coding.on_channel(channel, &buffer[..count]);
        if count == 0 || sender.send(message).await.is_err() {
            return;
        }
    }
}

async fn write_to(writers: &mut [Option<Writer>], channel: u8, bytes: &[u8]) {
    if channel % 2 == 1 {
        return; // nothing comes over the channels for errors
    }
    let Some(writer) = writers.get_mut(usize::from(channel / 2)) else { return };
    if let Some(open) = writer
        && open.write_all(bytes).await.is_err()
    {
        *writer = None;
    }
}
