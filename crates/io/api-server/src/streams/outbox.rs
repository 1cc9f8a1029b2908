//! What goes to a client of port forwarding, and how one that is gone is noticed.

use std::time::Duration;

use bytes::Bytes;
use futures::SinkExt;
use futures::stream::SplitSink;
use tokio::sync::mpsc;
use tokio::time::interval;
use tokio_tungstenite::tungstenite::Message;

use super::{Socket, WebSocketIo};

/// While a pod does not read what a client has sent, nothing more is read from the client either.
/// So only a ping shows that it is gone.
pub(super) const PING_INTERVAL: Duration = Duration::from_secs(30);

/// Sends until there is nothing to say any more, or the client is gone.
pub(super) async fn send_all<S: WebSocketIo, M: Into<Message>>(
    mut sink: SplitSink<Socket<S>, Message>,
    mut unsent: mpsc::Receiver<M>,
) {
    let mut ping = interval(PING_INTERVAL);
    ping.reset();
    loop {
        let message = tokio::select! {
            message = unsent.recv() => message.map(Into::into),
            _ = ping.tick() => Some(Message::Ping(Bytes::new())),
        };
        let Some(message) = message else { break };
        if sink.send(message).await.is_err() {
            return;
        }
    }
    let _ = sink.send(super::goodbye()).await;
}
