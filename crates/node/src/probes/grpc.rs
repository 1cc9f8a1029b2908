//! grpc: the standard health service (`grpc.health.v1.Health/Check`) says SERVING. Its two messages have one field each, so they
//! are written and read by hand.

use std::net::{IpAddr, SocketAddr};
use std::pin::pin;
use std::time::Duration;

use bytes::{BufMut, Bytes, BytesMut};
use h2::client::SendRequest;
use http::{HeaderMap, Request};
use rekindle_pod::go_duration;
use rekindle_types::TickDuration;
use tokio::io::{AsyncRead, AsyncWrite};

use super::{Finding, OUTPUT_BYTES_MAX, tcp, tls};

/// `grpc-status` of a server that does not know the health service.
const UNIMPLEMENTED: &str = "12";

/// What the service says of itself (`HealthCheckResponse.ServingStatus`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Says {
    Unknown,
    Serving,
    NotServing,
    ServiceUnknown,
}

impl Says {
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
pub(super) struct Check {
    pub(super) ip: IpAddr,
    pub(super) port: u16,
    /// Empty is the server as a whole.
    pub(super) service: String,
    pub(super) mode: Mode,
}

/// `mode` of the action (KEP-4939).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Mode {
    Plaintext,
    /// Without a look at the certificate.
    Tls,
}

impl Mode {
    /// The API lets no other text in; without one, plaintext.
    pub(super) fn parse(text: Option<&str>) -> Self {
        match text {
            Some("TLS") => Self::Tls,
            Some(_) | None => Self::Plaintext,
        }
    }
}

pub(super) async fn probe(check: Check, timeout: Duration) -> Finding {
    match tokio::time::timeout(timeout, connect(&check, timeout)).await {
        Ok(finding) => finding,
        Err(_elapsed) => Finding::failure(format!(
            "timeout: health rpc did not complete within {}",
            go_duration(TickDuration::from_secs(timeout.as_secs()))
        )),
    }
}

async fn connect(check: &Check, timeout: Duration) -> Finding {
    let host = check.ip.to_string();
    let unreachable = |error: String| {
        let service = SocketAddr::new(check.ip, check.port);
        Finding::failure(format!("failed to connect service \"{service}\": {error}"))
    };
    let stream = match tcp::connect(&host, check.port, timeout).await {
        Ok(stream) => stream,
        Err(error) => return unreachable(error.to_string()),
    };
    let answered = match check.mode {
        Mode::Plaintext => call(stream, check).await,
        Mode::Tls => match tls::connect(&host, stream, tls::Speaks::Http2).await {
            Ok(stream) => call(stream, check).await,
            Err(error) => return unreachable(error.to_string()),
        },
    };
    match answered {
        Ok(answer) => answer.finding(),
        Err(error) => Finding::failure(format!("error: health rpc failed: {error}")),
    }
}

async fn call<S>(stream: S, check: &Check) -> Result<Answer, h2::Error>
where
    S: AsyncRead + AsyncWrite + Unpin,
{
    let (sender, connection) = h2::client::handshake(stream).await?;
    let answer = pin!(ask(sender, check));
    let connection = pin!(connection);
    tokio::select! {
        answered = answer => answered,
        closed = connection => Err(match closed {
            Ok(()) => h2::Error::from(h2::Reason::CANCEL),
            Err(error) => error,
        }),
    }
}

/// An answer before it is read.
struct Answer {
    /// `grpc-status`; absent is a broken server.
    status: Option<String>,
    message: String,
    body: BytesMut,
}

impl Answer {
    fn finding(&self) -> Finding {
        match self.status.as_deref() {
            Some("0") => match parse(&self.body) {
                Says::Serving => Finding::success("service healthy"),
                other => Finding::failure(format!(
                    "service unhealthy (responded with {:?})",
                    other.name()
                )),
            },
            Some(UNIMPLEMENTED) => Finding::failure(format!(
                "error: this server does not implement the grpc health protocol (grpc.health.v1.Health): {}",
                self.message
            )),
            Some(status) => Finding::failure(format!(
                "error: health rpc failed: code = {status} desc = {}",
                self.message
            )),
            None => Finding::failure("error: health rpc failed: no grpc-status in the answer"),
        }
    }
}

async fn ask(sender: SendRequest<Bytes>, check: &Check) -> Result<Answer, h2::Error> {
    let authority = SocketAddr::new(check.ip, check.port);
    let scheme = match check.mode {
        Mode::Plaintext => "http",
        Mode::Tls => "https",
    };
    let request = Request::post(format!("{scheme}://{authority}/grpc.health.v1.Health/Check"))
        .header("content-type", "application/grpc")
        .header("te", "trailers")
        .header("user-agent", super::USER_AGENT)
        .body(())
        .expect("all of it is plain ASCII");
    let mut sender = sender.ready().await?;
    let (response, mut body) = sender.send_request(request, false)?;
    body.send_data(encode(&check.service), true)?;
    let response = response.await?;
    let mut answer = Answer { status: None, message: String::new(), body: BytesMut::new() };
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

impl Answer {
    /// Status and message stand in the trailers, or in the headers of an answer without a body.
    fn note(&mut self, headers: &HeaderMap) {
        let text = |name: &str| headers.get(name).and_then(|value| value.to_str().ok());
        if let Some(status) = text("grpc-status") {
            self.status = Some(status.to_owned());
        }
        if let Some(message) = text("grpc-message") {
            self.message = message.to_owned();
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
fn parse(frame: &[u8]) -> Says {
    match frame {
        [0, _, _, _, _, 0x08, 1, ..] => Says::Serving,
        [0, _, _, _, _, 0x08, 2, ..] => Says::NotServing,
        [0, _, _, _, _, 0x08, 3, ..] => Says::ServiceUnknown,
        _ => Says::Unknown,
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
            (&[0, 0, 0, 0, 2, 8, 1][..], Says::Serving),
            (&[0, 0, 0, 0, 2, 8, 2], Says::NotServing),
            (&[0, 0, 0, 0, 2, 8, 3], Says::ServiceUnknown),
            (&[0, 0, 0, 0, 0], Says::Unknown),
            (&[1, 0, 0, 0, 2, 8, 1], Says::Unknown),
            (&[], Says::Unknown),
        ] {
            assert_eq!(parse(frame), serving, "{frame:?}");
        }
    }
}
