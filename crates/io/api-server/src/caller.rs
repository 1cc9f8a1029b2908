//! Along which way a request comes.

use std::sync::Arc;

use rekindle_kinds::identity::ClientIdentity;

use super::connections::ConnectionSeat;

/// Who sends requests along one way.
#[derive(Clone)]
pub(super) enum RequestSource {
    /// A part of this process. Its requests are handled where it asks: they wait for no client's.
    InProcess(ClientIdentity),
    /// A client at the other end of a connection.
    Connected(Arc<ConnectedClient>),
}

/// The other end of a connection.
pub(super) struct ConnectedClient {
    /// The user that its certificate names, or anonymous.
    pub(super) identity: ClientIdentity,
    pub(super) seat: ConnectionSeat,
}

impl RequestSource {
    /// Who it is without a token.
    pub(super) fn identity(&self) -> &ClientIdentity {
        match self {
            Self::InProcess(identity) => identity,
            Self::Connected(client) => &client.identity,
        }
    }
}
