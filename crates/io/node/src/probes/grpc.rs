//! grpc: the standard health service (`grpc.health.v1.Health/Check`) says SERVING. Its two messages
//! have one field each, so they are written and read by hand.

use std::net::{IpAddr, SocketAddr};
use std::pin::pin;
use std::time::Duration;

use bytes::{BufMut, Bytes, BytesMut};
use h2::client::{Builder, Connection, ResponseFuture, SendRequest};
use http::{HeaderMap, Request};
use percent_encoding::percent_decode_str;
use rekindle_pod::go_duration;
use rekindle_types::TickDuration;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::time::{Instant, timeout_at};

use super::{OUTPUT_BYTES_MAX, ProbeFinding, tcp, tls};

/// `grpc-status` of a server that does not know the health service.
const UNIMPLEMENTED: &str = "12";
/// Of one that gave up for lack of time.
const DEADLINE_EXCEEDED: &str = "4";
/// The names of the codes, from 0 on [gRPC, status codes].
const CODES: [&str; 17] = [
    "OK",
    "Canceled",
    "Unknown",
    "InvalidArgument",
    "DeadlineExceeded",
    "NotFound",
    "AlreadyExists",
    "PermissionDenied",
    "ResourceExhausted",
    "FailedPrecondition",
    "Aborted",
    "OutOfRange",
    "Unimplemented",
    "Internal",
    "Unavailable",
    "DataLoss",
    "Unauthenticated",
];

/// Between two tries to connect, as the kubelet's client waits before its second one.
const TRY_AGAIN_AFTER: Duration = Duration::from_secs(1);

/// What nobody has given a name is Unknown.
fn code_name(status: &str) -> &'static str {
    let code: Option<usize> = status.parse().ok();
    code.and_then(|code| CODES.get(code)).copied().unwrap_or("Unknown")
}

/// What the service says of itself (`HealthCheckResponse.ServingStatus`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum GrpcServingStatus {
    Unknown,
    Serving,
    NotServing,
    ServiceUnknown,
}

impl GrpcServingStatus {
    const fn name(self) -> &'static str {
        match self {
            Self::Unknown => "UNKNOWN",
            Self::Serving => "SERVING",
            Self::NotServing => "NOT_SERVING",
            Self::ServiceUnknown => "SERVICE_UNKNOWN",
        }
    }
}

/// Whom to ask, and for what.
#[derive(Clone, Debug)]
pub(super) struct GrpcCheck {
    pub(super) ip: IpAddr,
    pub(super) port: u16,
    /// Empty is the server as a whole.
    pub(super) service: String,
    pub(super) mode: GrpcTransport,
}

/// `mode` of the action (KEP-4939).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum GrpcTransport {
    Plaintext,
    /// Without a look at the certificate.
    Tls,
}

impl GrpcTransport {
    /// The API lets no other text in; without one, plaintext.
    pub(super) fn parse(text: Option<&str>) -> Self {
        match text {
            Some("TLS") => Self::Tls,
            Some(_) | None => Self::Plaintext,
        }
    }
}

/// The kubelet's client waits for a server that speaks HTTP/2, for as long as the probe may take,
/// and asks it once.
pub(super) async fn probe(check: GrpcCheck, timeout: Duration) -> ProbeFinding {
    let until = Instant::now() + timeout;
    let within = go_duration(TickDuration::from_secs(timeout.as_secs()));
    let Ok(asked) = timeout_at(until, reach(&check, timeout)).await else {
        let service = SocketAddr::new(check.ip, check.port);
        return ProbeFinding::failure(format!(
            "timeout: failed to connect service \"{service}\" within {within}: context deadline exceeded"
        ));
    };
    match timeout_at(until, asked.answer()).await {
        Ok(Ok(answer)) => answer.finding(&within),
        Ok(Err(error)) => ProbeFinding::failure(rpc_failed("Unavailable", &error.to_string())),
        Err(_elapsed) => did_not_complete(&within),
    }
}

fn did_not_complete(within: &str) -> ProbeFinding {
    ProbeFinding::failure(format!("timeout: health rpc did not complete within {within}"))
}

/// In the words of the kubelet's client.
fn rpc_failed(code: &str, message: &str) -> String {
    format!("error: health rpc probe failed: rpc error: code = {code} desc = {message}")
}

/// Tries until a server is there and has been asked.
async fn reach(check: &GrpcCheck, timeout: Duration) -> GrpcCall {
    loop {
        if let Some(asked) = ask_once(check, timeout).await {
            return asked;
        }
        tokio::time::sleep(TRY_AGAIN_AFTER).await;
    }
}

/// Nothing when no server is there, or one that does not speak HTTP/2 (with TLS, if that is asked
/// for).
async fn ask_once(check: &GrpcCheck, timeout: Duration) -> Option<GrpcCall> {
    let host = check.ip.to_string();
    let stream = tcp::connect(&host, check.port, timeout).await.ok()?;
    let line: Box<dyn ByteStream> = match check.mode {
        GrpcTransport::Plaintext => Box::new(stream),
        GrpcTransport::Tls => {
            Box::new(tls::connect(&host, stream, tls::TlsProtocol::Http2).await.ok()?)
        }
    };
    GrpcCall::over(line, check).await.ok()
}

/// What is read from and written to.
trait ByteStream: AsyncRead + AsyncWrite + Send + Unpin {}

impl<L: AsyncRead + AsyncWrite + Send + Unpin> ByteStream for L {}

/// A server that was asked.
struct GrpcCall {
    connection: Connection<Box<dyn ByteStream>, Bytes>,
    /// The connection ends without it.
    _sender: SendRequest<Bytes>,
    response: ResponseFuture,
}

impl GrpcCall {
    async fn over(line: Box<dyn ByteStream>, check: &GrpcCheck) -> Result<Self, h2::Error> {
        // no stream is opened before the server's settings have come, which say that it speaks
        // HTTP/2
        let (mut sender, mut connection) =
            Builder::new().initial_max_send_streams(0).handshake(line).await?;
        let (response, mut body) = sender.send_request(request(check), false)?;
        body.send_data(encode(&check.service), true)?;
        let sender = tokio::select! {
            opened = sender.ready() => opened?,
            closed = &mut connection => return Err(why_closed(closed)),
        };
        Ok(Self { connection, _sender: sender, response })
    }

    async fn answer(self) -> Result<GrpcResponse, h2::Error> {
        let answer = pin!(read(self.response));
        tokio::select! {
            answered = answer => answered,
            closed = self.connection => Err(why_closed(closed)),
        }
    }
}

fn why_closed(closed: Result<(), h2::Error>) -> h2::Error {
    match closed {
        Ok(()) => h2::Error::from(h2::Reason::CANCEL),
        Err(error) => error,
    }
}

/// An answer before it is read.
struct GrpcResponse {
    /// `grpc-status`; absent is a broken server.
    status: Option<String>,
    message: String,
    body: BytesMut,
}

impl GrpcResponse {
    fn finding(&self, within: &str) -> ProbeFinding {
        match self.status.as_deref() {
            Some("0") => match parse(&self.body) {
                GrpcServingStatus::Serving => ProbeFinding::success("service healthy"),
                other => ProbeFinding::failure(format!(
                    "service unhealthy (responded with {:?})",
                    other.name()
                )),
            },
            Some(UNIMPLEMENTED) => ProbeFinding::failure(format!(
                "error: this server does not implement the grpc health protocol (grpc.health.v1.Health): {}",
                self.message
            )),
            Some(DEADLINE_EXCEEDED) => did_not_complete(within),
            Some(status) => ProbeFinding::failure(rpc_failed(code_name(status), &self.message)),
            None => {
                let problem = "server closed the stream without sending trailers";
                ProbeFinding::failure(rpc_failed("Internal", problem))
            }
        }
    }
}

fn request(check: &GrpcCheck) -> Request<()> {
    let authority = SocketAddr::new(check.ip, check.port);
    let scheme = match check.mode {
        GrpcTransport::Plaintext => "http",
        GrpcTransport::Tls => "https",
    };
    Request::post(format!("{scheme}://{authority}/grpc.health.v1.Health/Check"))
        .header("content-type", "application/grpc")
        .header("te", "trailers")
        .header("user-agent", super::USER_AGENT)
        .body(())
        .expect("all of it is plain ASCII")
}

async fn read(response: ResponseFuture) -> Result<GrpcResponse, h2::Error> {
    let response = response.await?;
    let mut answer = GrpcResponse { status: None, message: String::new(), body: BytesMut::new() };
    answer.note(response.headers());
    let mut stream = response.into_body();
    while let Some(data) = stream.data().await {
        let data = data?;
        // what is not kept is taken from the window all the same, so that the trailers come
        let _freed = stream.flow_control().release_capacity(data.len());
        let room = OUTPUT_BYTES_MAX - answer.body.len();
        answer.body.extend_from_slice(&data[..data.len().min(room)]);
    }
    if let Some(trailers) = stream.trailers().await? {
        answer.note(&trailers);
    }
    Ok(answer)
}

impl GrpcResponse {
    /// Status and message stand in the trailers, or in the headers of an answer without a body. The
    /// message is percent-encoded (gRPC over HTTP2, `Percent-Encoded`).
    fn note(&mut self, headers: &HeaderMap) {
        let text = |name: &str| headers.get(name).and_then(|value| value.to_str().ok());
        if let Some(status) = text("grpc-status") {
            self.status = Some(status.to_owned());
        }
        if let Some(message) = text("grpc-message") {
            self.message = percent_decode_str(message).decode_utf8_lossy().into_owned();
        }
    }
}

/// `HealthCheckRequest{service: 1}` in a frame of gRPC: not compressed, length, message.
fn encode(service: &str) -> Bytes {
    let mut message = BytesMut::new();
    if !service.is_empty() {
        message.put_u8(0x0a);
        put_varint(&mut message, service.len());
        message.put_slice(service.as_bytes());
    }
    let mut frame = BytesMut::with_capacity(5 + message.len());
    frame.put_u8(0);
    frame.put_u32(u32::try_from(message.len()).unwrap_or(u32::MAX));
    frame.put_slice(&message);
    frame.freeze()
}

fn put_varint(to: &mut BytesMut, mut value: usize) {
    while value >= 0x80 {
        to.put_u8((value & 0x7f) as u8 | 0x80);
        value >>= 7;
    }
    to.put_u8((value & 0x7f) as u8);
}

/// `HealthCheckResponse{status: 1}`. An absent field is 0.
fn parse(frame: &[u8]) -> GrpcServingStatus {
    match frame {
        [0, _, _, _, _, 0x08, 1, ..] => GrpcServingStatus::Serving,
        [0, _, _, _, _, 0x08, 2, ..] => GrpcServingStatus::NotServing,
        [0, _, _, _, _, 0x08, 3, ..] => GrpcServingStatus::ServiceUnknown,
        _ => GrpcServingStatus::Unknown,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_request_names_the_service_if_there_is_one() {
        assert_eq!(encode("").as_ref(), [0, 0, 0, 0, 0]);
        assert_eq!(encode("shop").as_ref(), [0, 0, 0, 0, 6, 0x0a, 4, b's', b'h', b'o', b'p']);
        let long = encode(&"x".repeat(300));
        assert_eq!(long[..8], [0, 0, 0, 1, 0x2f, 0x0a, 0xac, 2]);
    }

    #[test]
    fn an_answer_is_read_as_the_protocol_says() {
        for (frame, serving) in [
            (&[0, 0, 0, 0, 2, 8, 1][..], GrpcServingStatus::Serving),
            (&[0, 0, 0, 0, 2, 8, 2], GrpcServingStatus::NotServing),
            (&[0, 0, 0, 0, 2, 8, 3], GrpcServingStatus::ServiceUnknown),
            (&[0, 0, 0, 0, 0], GrpcServingStatus::Unknown),
            (&[1, 0, 0, 0, 2, 8, 1], GrpcServingStatus::Unknown),
            (&[], GrpcServingStatus::Unknown),
        ] {
            assert_eq!(parse(frame), serving, "{frame:?}");
        }
    }
}
