//! What can go wrong between us and a registry. No text holds a credential, a token or a signed
//! query.

use std::time::Duration;

/// A pull that failed.
#[derive(Debug, thiserror::Error)]
pub enum RegistryError {
    /// The registry's address makes no URL.
    #[error("{url} is no URL that can be asked")]
    Address {
        /// Without its query.
        url: String,
    },
    /// TLS cannot be prepared.
    #[error("prepare TLS")]
    Tls {
        /// Why.
        #[source]
        source: std::io::Error,
    },
    /// Nobody answers, or not in a form that is HTTP.
    #[error("ask {host}: {problem}")]
    Unreachable {
        /// `host` or `host:port`.
        host: String,
        /// The whole chain of causes.
        problem: String,
    },
    /// The registry takes too long.
    #[error("{host} did not {doing} within {} s", limit.as_secs_f64())]
    Timeout {
        /// `host` or `host:port`.
        host: String,
        /// `answer`, `send the next bytes`.
        doing: &'static str,
        /// How long it had.
        limit: Duration,
    },
    /// The registry answers with an error.
    #[error("{host} answered {status} for {what}{}", told(message))]
    Status {
        /// `host` or `host:port`.
        host: String,
        /// The HTTP status.
        status: u16,
        /// What was asked for.
        what: String,
        /// What it says, cut short; may be empty.
        message: String,
    },
    /// It is not there.
    #[error("{what}: not found")]
    NotFound {
        /// What was asked for.
        what: String,
    },
    /// No login was good enough.
    #[error(
        "{what}: access denied: the repository does not exist or needs other credentials ({tried}){}",
        told(message)
    )]
    Denied {
        /// What was asked for.
        what: String,
        /// `none were given`, `2 logins were tried`.
        tried: String,
        /// What the registry says, cut short; may be empty.
        message: String,
    },
    /// It asks for credentials in a way that we do not have, or sends them where they must not go.
    #[error("{host} asks for credentials in a way that cannot be answered: {problem}")]
    Challenge {
        /// `host` or `host:port`.
        host: String,
        /// Why not.
        problem: String,
    },
    /// It sends us somewhere where we do not go.
    #[error("{host} redirects {what}: {problem}")]
    Redirect {
        /// `host` or `host:port`.
        host: String,
        /// What was asked for.
        what: String,
        /// Why we do not follow.
        problem: &'static str,
    },
    /// What came is not what was asked for.
    #[error("{what}: {problem}")]
    Content {
        /// Manifest, config or layer, with its digest or tag.
        what: String,
        /// What is wrong with it.
        problem: String,
    },
    /// The connection broke while something came, and could not be taken up again.
    #[error("{what} broke off after {received} of {size} bytes: {problem}")]
    BrokenOff {
        /// The layer.
        what: String,
        /// Bytes that came.
        received: u64,
        /// Bytes that were announced.
        size: u64,
        /// Why.
        problem: String,
    },
}

impl RegistryError {
    /// Whether trying again may help.
    pub(super) fn may_pass(&self) -> bool {
        match self {
            Self::Unreachable { .. } | Self::Timeout { .. } => true,
            Self::Status { status, .. } => matches!(status, 408 | 429 | 500 | 502 | 503 | 504),
            Self::Address { .. }
            | Self::Tls { .. }
            | Self::NotFound { .. }
            | Self::Denied { .. }
            | Self::Challenge { .. }
            | Self::Redirect { .. }
            | Self::Content { .. }
            | Self::BrokenOff { .. } => false,
        }
    }
}

fn told(message: &str) -> String {
    match message {
        "" => String::new(),
        message => format!(": {message}"),
    }
}
