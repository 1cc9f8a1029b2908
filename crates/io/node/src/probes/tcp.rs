//! tcpSocket: something takes the connection.

use std::io;
use std::time::Duration;

use rekindle_pod::ProbeVerdict;
use tokio::net::{TcpStream, lookup_host};

use super::{ProbeFinding, source_port};

pub(super) async fn probe(host: &str, port: u16, timeout: Duration) -> ProbeFinding {
    match connect(host, port, timeout).await {
        Ok(_stream) => ProbeFinding::success(""),
        Err(error) => ProbeFinding { verdict: error.verdict(), output: error.to_string() },
    }
}

/// Why there is no connection, in the words of Go's dialer, which people look for.
#[derive(Debug, thiserror::Error)]
pub(crate) enum DialError {
    #[error("dial tcp {address}: i/o timeout")]
    TimedOut { address: String },
    #[error("dial tcp {address}: connect: connection refused")]
    NotListening { address: String },
    #[error("dial tcp {address}: connect: {reason}")]
    Refused { address: String, reason: String },
}

impl DialError {
    /// What a probe that ends with it says.
    pub(super) const fn verdict(&self) -> ProbeVerdict {
        match self {
            Self::NotListening { .. } => ProbeVerdict::NotListening,
            Self::Refused { .. } | Self::TimedOut { .. } => ProbeVerdict::Failure,
        }
    }
}

/// A connection within the timeout.
pub(crate) async fn connect(
    host: &str,
    port: u16,
    timeout: Duration,
) -> Result<TcpStream, DialError> {
    let address =
        if host.contains(':') { format!("[{host}]:{port}") } else { format!("{host}:{port}") };
    match tokio::time::timeout(timeout, dial(host, port)).await {
        Ok(Ok(stream)) => Ok(stream),
        Ok(Err(error)) if error.kind() == io::ErrorKind::ConnectionRefused => {
            Err(DialError::NotListening { address })
        }
        Ok(Err(error)) => Err(DialError::Refused { address, reason: reason(&error) }),
        Err(_elapsed) => Err(DialError::TimedOut { address }),
    }
}

/// A connection to the first address of the host that takes one.
async fn dial(host: &str, port: u16) -> io::Result<TcpStream> {
    let mut failed = io::Error::new(io::ErrorKind::NotFound, "no such host");
    for server in lookup_host((host, port)).await? {
        match source_port::connect(server).await {
            Ok(stream) => return Ok(stream),
            Err(error) => failed = error,
        }
    }
    Err(failed)
}

fn reason(error: &io::Error) -> String {
    match error.kind() {
        io::ErrorKind::HostUnreachable => "no route to host".to_owned(),
        io::ErrorKind::NetworkUnreachable => "network is unreachable".to_owned(),
        io::ErrorKind::ConnectionReset => "connection reset by peer".to_owned(),
        _ => error.to_string(),
    }
}
