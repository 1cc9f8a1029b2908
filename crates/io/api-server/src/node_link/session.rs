//! A command's files over the line: remotecommand v5, as between kubectl and the API server,
//! without the handshake of HTTP.

use futures::stream::{SplitSink, SplitStream};
use futures::{FutureExt, SinkExt, StreamExt};
use serde_json::Value;
use tokio::io::{AsyncReadExt, AsyncWriteExt, DuplexStream, duplex};
use tokio::net::UnixStream;
use tokio::sync::{mpsc, oneshot};
use tokio::task::AbortHandle;
use tokio_tungstenite::WebSocketStream;
use tokio_tungstenite::tungstenite::Message;
use tokio_tungstenite::tungstenite::protocol::Role;

use super::frame::PIECE_BYTES;
use super::question::OpenFiles;
use crate::streams::channels::MessageCoding;
use crate::streams::remote_command::{CLOSE, ERROR, RESIZE, STDERR, STDIN, STDOUT};
use crate::streams::{self, NodeStreamError, ProcessSession};

type Line = WebSocketStream<UnixStream>;

/// The node's end: carries the session's files until its process has ended, or the other end is
/// closed.
pub(super) async fn serve(stream: UnixStream, session: ProcessSession) {
    let socket = Line::from_raw_socket(stream, Role::Server, Some(streams::limits())).await;
    streams::converse(socket, session).await;
}

/// The API server's end.
pub(super) async fn open(stream: UnixStream, files: OpenFiles, node: &str) -> ProcessSession {
    let socket = Line::from_raw_socket(stream, Role::Client, Some(streams::limits())).await;
    let (sink, source) = socket.split();
    let (stdin, input) = pipe(files.stdin);
    let (stdout, out) = pipe(files.stdout);
    let (stderr, err) = pipe(files.stderr);
    let (sizes, sized) = mpsc::unbounded_channel();
    let (end, ended) = oneshot::channel();
    let sending = tokio::spawn(send(sink, input, sized)).abort_handle();
    let receiving = tokio::spawn(receive(source, out, err, end)).abort_handle();
    let tasks = SessionTasks { sending, receiving: Some(receiving) };
    let node = node.to_owned();
    let ended = async move {
        // dropped before the end, they close the line, and the node ends the command
        let mut tasks = tasks;
        match ended.await {
            Ok(end) => {
                // what was written before the end is still on its way to who reads it
                tasks.receiving = None;
                end
            }
            Err(_) => Err(NodeStreamError(format!("node {node:?} went away"))),
        }
    };
    ProcessSession {
        stdin: stdin.map(|stdin| Box::pin(stdin) as _),
        stdout: stdout.map(|stdout| Box::pin(stdout) as _),
        stderr: stderr.map(|stderr| Box::pin(stderr) as _),
        resize: files.terminal.then(|| {
            Box::new(move |rows, columns| {
                // the line is closed: so is the terminal
                let _ = sizes.send((rows, columns));
            }) as _
        }),
        ended: ended.boxed(),
    }
}

/// Ends both when it is dropped.
struct SessionTasks {
    sending: AbortHandle,
    receiving: Option<AbortHandle>,
}

impl Drop for SessionTasks {
    fn drop(&mut self) {
        self.sending.abort();
        if let Some(receiving) = &self.receiving {
            receiving.abort();
        }
    }
}

/// The caller's end and ours, when the file is open.
fn pipe(is_open: bool) -> (Option<DuplexStream>, Option<DuplexStream>) {
    if is_open {
        let (theirs, ours) = duplex(PIECE_BYTES);
        (Some(theirs), Some(ours))
    } else {
        (None, None)
    }
}

/// Input and sizes of the terminal, until the line is closed. The end of the input is sent once.
async fn send(
    mut sink: SplitSink<Line, Message>,
    mut input: Option<DuplexStream>,
    mut sized: mpsc::UnboundedReceiver<(u16, u16)>,
) {
    let mut buffer = vec![0; PIECE_BYTES];
    loop {
        let said = tokio::select! {
            count = read(&mut input, &mut buffer) => match count {
                0 => {
                    input = None;
                    MessageCoding::Binary.on_channel(CLOSE, &[STDIN])
                }
                count => MessageCoding::Binary.on_channel(STDIN, &buffer[..count]),
            },
            Some((height, width)) = sized.recv() => {
                let size = serde_json::json!({ "Width": width, "Height": height });
                MessageCoding::Binary.on_channel(RESIZE, size.to_string().as_bytes())
            }
            else => return,
        };
        if sink.send(said).await.is_err() {
            return;
        }
    }
}

/// Never resolves without an input.
async fn read(input: &mut Option<DuplexStream>, buffer: &mut [u8]) -> usize {
    match input {
        Some(input) => input.read(buffer).await.unwrap_or(0),
        None => std::future::pending().await,
    }
}

/// Output and the end, until the line is closed.
async fn receive(
    mut source: SplitStream<Line>,
    mut out: Option<DuplexStream>,
    mut err: Option<DuplexStream>,
    end: oneshot::Sender<Result<i32, NodeStreamError>>,
) {
    let mut end = Some(end);
    while let Some(Ok(said)) = source.next().await {
        let Message::Binary(bytes) = said else { continue };
        match bytes.split_first() {
            Some((&STDOUT, piece)) => pass_on(&mut out, piece).await,
            Some((&STDERR, piece)) => pass_on(&mut err, piece).await,
            // the node greets on this channel when there is no output
            Some((&ERROR, piece)) if !piece.is_empty() => {
                // all output came before: its readers see that it is all
                (out, err) = (None, None);
                if let Some(end) = end.take() {
                    let _nobody_waits = end.send(how_it_ended(piece));
                }
            }
            Some(_) | None => {}
        }
    }
}

async fn pass_on(to: &mut Option<DuplexStream>, piece: &[u8]) {
    if let Some(open) = to
        && open.write_all(piece).await.is_err()
    {
        *to = None; // it is not read any more
    }
}

/// Reads the `Status` that says how a command went; see `streams::status`.
fn how_it_ended(status: &[u8]) -> Result<i32, NodeStreamError> {
    let status: Value = serde_json::from_slice(status)
        .map_err(|error| NodeStreamError(format!("read how the command ended: {error}")))?;
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    if status["status"] == "Success" {
        return Ok(0);
    }
    if status["reason"] == "NonZeroExitCode"
        && let Ok(code) = text(&status["details"]["causes"][0]["message"]).parse()
    {
        return Ok(code);
    }
    Err(NodeStreamError(text(&status["message"])))
}
