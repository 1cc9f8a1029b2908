//! tcpSocket: something takes the connection.

use std::io;
use std::time::Duration;

use tokio::net::TcpStream;

use super::ProbeFinding;

pub(super) async fn probe(host: &str, port: u16, timeout: Duration) -> ProbeFinding {
    match connect(host, port, timeout).await {
        Ok(_stream) => ProbeFinding::success(""),
        Err(error) => ProbeFinding::failure(error.to_string()),
    }
}

/// Why there is no connection, in the words of Go's dialer, which people look for.
#[derive(Debug, thiserror::Error)]
pub(crate) enum DialError {
    #[error("dial tcp {address}: i/o timeout")]
    TimedOut { address: String },
    #[error("dial tcp {address}: connect: {reason}")]
    Refused { address: String, reason: String },
}

/// A connection within the timeout.
pub(crate) async fn connect(
    host: &str,
    port: u16,
    timeout: Duration,
) -> Result<TcpStream, DialError> {
    let address =
        if host.contains(':') { format!("[{host}]:{port}") } else { format!("{host}:{port}") };
    match tokio::time::timeout(timeout, TcpStream::connect((host, port))).await {
        Ok(Ok(stream)) => Ok(stream),
        Ok(Err(error)) => Err(DialError::Refused { address, reason: reason(&error) }),
        Err(_elapsed) => Err(DialError::TimedOut { address }),
    }
}

fn reason(error: &io::Error) -> String {
    match error.kind() {
        io::ErrorKind::ConnectionRefused => "connection refused".to_owned(),
        io::ErrorKind::HostUnreachable => "no route to host".to_owned(),
        io::ErrorKind::NetworkUnreachable => "network is unreachable".to_owned(),
        io::ErrorKind::ConnectionReset => "connection reset by peer".to_owned(),
        _ => error.to_string(),
    }
}
