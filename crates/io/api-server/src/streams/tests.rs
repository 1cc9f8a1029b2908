//! Clients of port forwarding that go while a pod does not read what they have sent.

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::Bytes;
use futures::future::BoxFuture;
use futures::{SinkExt, StreamExt};
use rekindle_api::node_query::{AttachQuery, ExecQuery, PodOnNode, PortForwardQuery};
use rekindle_types::PodUid;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, DuplexStream, ReadBuf, duplex};
use tokio::time::timeout;

use super::channels::MessageCoding;
use super::spdy::data;
use super::*;

/// Neither says anything nor reads.
struct Deaf;

impl AsyncRead for Deaf {
    fn poll_read(
        self: Pin<&mut Self>,
        _: &mut Context<'_>,
        _: &mut ReadBuf<'_>,
    ) -> Poll<std::io::Result<()>> {
        Poll::Pending
    }
}

impl AsyncWrite for Deaf {
    fn poll_write(
        self: Pin<&mut Self>,
        _: &mut Context<'_>,
        _: &[u8],
    ) -> Poll<std::io::Result<usize>> {
        Poll::Pending
    }

    fn poll_flush(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<std::io::Result<()>> {
        Poll::Pending
    }

    fn poll_shutdown(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<std::io::Result<()>> {
        Poll::Pending
    }
}

impl NodeStreams for Deaf {
    fn exec(
        &self,
        query: ExecQuery,
    ) -> BoxFuture<'static, Result<ProcessSession, NodeStreamError>> {
        panic!("nobody asks for it: {query:?}")
    }

    fn attach(
        &self,
        query: AttachQuery,
    ) -> BoxFuture<'static, Result<ProcessSession, NodeStreamError>> {
        panic!("nobody asks for it: {query:?}")
    }

    fn connect(
        &self,
        _: PodOnNode,
        _: u16,
    ) -> BoxFuture<'static, Result<PortConnection, NodeStreamError>> {
        let connection = PortConnection { reader: Box::pin(Deaf), writer: Box::pin(Deaf) };
        Box::pin(async { Ok(connection) })
    }
}

fn pod() -> PodOnNode {
    let [namespace, pod, node] = ["default", "web", "n1"].map(str::to_owned);
    PodOnNode { namespace, pod, uid: PodUid("uid".to_owned()), node }
}

async fn sockets() -> (Socket<DuplexStream>, Socket<DuplexStream>) {
    let (client, server) = duplex(64 * 1024);
    (
        WebSocketStream::from_raw_socket(client, Role::Client, None).await,
        WebSocketStream::from_raw_socket(server, Role::Server, Some(limits())).await,
    )
}

/// Sends until it is not taken any more.
async fn flood(client: &mut Socket<DuplexStream>, message: &Bytes) {
    let second = Duration::from_secs(1);
    while let Ok(sent) = timeout(second, client.send(Message::Binary(message.clone()))).await {
        sent.unwrap();
    }
}

/// SYN_STREAM with a block of headers as clients deflate them: for port 8080, request 0.
fn syn_stream(stream: u32, block: &str) -> Message {
    let digits: Vec<u8> = block.bytes().filter(u8::is_ascii_hexdigit).collect();
    let byte = |pair: &[u8]| u8::from_str_radix(std::str::from_utf8(pair).unwrap(), 16).unwrap();
    let block: Vec<u8> = digits.chunks(2).map(byte).collect();
    let content = [&stream.to_be_bytes()[..], &[0; 6], &block].concat();
    let length = u32::try_from(content.len()).unwrap().to_be_bytes();
    Message::Binary([&[0x80, 3, 0, 1, 0][..], &length[1..], &content].concat().into())
}

#[tokio::test(start_paused = true)]
async fn a_client_with_a_tunnel_that_goes_is_noticed_although_a_pod_does_not_read() {
    let (mut client, server) = sockets().await;
    let run = tokio::spawn(tunnel::run(server, pod(), Arc::new(Deaf)));
    for (stream, block) in [
        (1, include_str!("spdy/testdata/syn_error.hex")),
        (3, include_str!("spdy/testdata/syn_data.hex")),
    ] {
        client.send(syn_stream(stream, block)).await.unwrap();
    }
    flood(&mut client, &data(3, &[0; PIECE_BYTES])).await;
    assert!(!run.is_finished(), "the client is there");
    drop(client);
    timeout(Duration::from_secs(60), run).await.expect("the stream has ended").unwrap();
}

/// What the client is sent until the connection ends.
async fn received(client: &mut Socket<DuplexStream>) -> Vec<Message> {
    let mut messages = Vec::new();
    while let Some(Ok(message)) = client.next().await {
        messages.push(message);
    }
    messages
}

#[tokio::test(start_paused = true)]
async fn a_session_in_base64_sends_text_and_ends_when_the_client_sends_none() {
    let cases = [("0Zm9vCg==", Some(&b"foo\n"[..])), ("0Zm9v!", None), ("\u{1}Zm9v", None)];
    for (sent, expected) in cases {
        let (mut client, server) = sockets().await;
        let (stdin, mut typed) = duplex(64);
        let session = ProcessSession {
            stdin: Some(Box::pin(stdin)),
            stdout: Some(Box::pin(&b"\n"[..])),
            stderr: None,
            resize: None,
            ended: Box::pin(std::future::pending()),
        };
        let protocol = (RemoteCommandProtocol::PreV4, MessageCoding::Base64);
        let session = std::future::ready(Ok(session));
        let run = tokio::spawn(remote_command::run(server, protocol, session));
        client.send(Message::Text(sent.into())).await.unwrap();
        match expected {
            Some(expected) => {
                let mut line = vec![0; expected.len()];
                typed.read_exact(&mut line).await.unwrap();
                assert_eq!(line, expected);
                assert_eq!(client.next().await.unwrap().unwrap(), Message::Text("1".into()));
                let output = client.next().await.unwrap().unwrap();
                assert_eq!(output, Message::Text("1Cg==".into()));
                assert!(!run.is_finished());
                drop(client);
            }
            None => {
                let said = received(&mut client).await;
                assert_eq!(said.last(), Some(&goodbye()), "{sent:?}: {said:?}");
            }
        }
        timeout(Duration::from_secs(60), run).await.expect("the session has ended").unwrap();
    }
}

#[tokio::test(start_paused = true)]
async fn a_log_goes_over_a_websocket_to_its_end_or_until_the_client_goes() {
    let line = || Ok(Bytes::from_static(b"\n"));
    let (mut client, server) = sockets().await;
    let log = futures::stream::iter([line(), line()]).boxed();
    let run = tokio::spawn(container_log::run(server, MessageCoding::Base64, log));
    let text = Message::Text("Cg==".into());
    assert_eq!(received(&mut client).await, [text.clone(), text, goodbye()]);
    timeout(Duration::from_secs(60), run).await.expect("the log has ended").unwrap();

    let (mut client, server) = sockets().await;
    let log = futures::stream::iter([line()]).chain(futures::stream::pending()).boxed();
    let run = tokio::spawn(container_log::run(server, MessageCoding::Binary, log));
    client.send(Message::Text("whatever".into())).await.unwrap();
    let first = client.next().await.unwrap().unwrap();
    assert_eq!(first, Message::Binary(Bytes::from_static(b"\n")));
    assert!(!run.is_finished());
    drop(client);
    timeout(Duration::from_secs(60), run).await.expect("the client is gone").unwrap();
}

#[tokio::test(start_paused = true)]
async fn a_client_with_channels_that_goes_is_noticed_although_a_pod_does_not_read() {
    let (mut client, server) = sockets().await;
    let query = PortForwardQuery { pod: pod(), ports: vec![8080] };
    let run = tokio::spawn(port_forward::run(server, MessageCoding::Binary, query, Arc::new(Deaf)));
    flood(&mut client, &Bytes::from(vec![0; PIECE_BYTES])).await;
    assert!(!run.is_finished(), "the client is there");
    drop(client);
    timeout(Duration::from_secs(60), run).await.expect("the stream has ended").unwrap();
}
