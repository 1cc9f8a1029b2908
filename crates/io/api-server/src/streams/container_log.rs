//! A container's log over a websocket, for clients such as browsers that have nothing else:
//! messages without channels. What the client sends is of no interest, only that it is there.

use bytes::Bytes;
use futures::{SinkExt, StreamExt};
use tokio::time::{interval, timeout};
use tokio_tungstenite::tungstenite::Message;

use super::channels::MessageCoding;
use super::outbox::PING_INTERVAL;
use super::{CLOSING, Socket, WebSocketIo, goodbye};
use crate::body::LogStream;

/// Sends the log to its end, or until the client goes.
pub(super) async fn run<S: WebSocketIo>(
    socket: Socket<S>,
    coding: MessageCoding,
    mut log: LogStream,
) {
    let (mut sink, mut source) = socket.split();
    let mut ping = interval(PING_INTERVAL);
    ping.reset();
    loop {
        let message = tokio::select! {
            piece = log.next() => match piece {
                Some(Ok(piece)) => coding.plain(piece),
                // as over HTTP, a log that cannot be read any more just ends
                Some(Err(_)) | None => break,
            },
            received = source.next() => match received {
                Some(Ok(Message::Close(_)) | Err(_)) | None => return,
                Some(Ok(_)) => continue,
            },
            _ = ping.tick() => Message::Ping(Bytes::new()),
        };
        if sink.send(message).await.is_err() {
            return;
        }
    }
    if sink.send(goodbye()).await.is_ok() {
        // a client answers our close with its own
        let _ = timeout(CLOSING, async { while let Some(Ok(_)) = source.next().await {} }).await;
    }
}
