//! Along which way a request comes.

use std::sync::Arc;

use rekindle_api::auth::Identity;

use super::connections::ConnectionSeat;

/// Who sends requests along one way.
#[derive(Clone)]
pub(super) enum Caller {
    /// A part of this process. Its requests are handled where it asks: they wait for no client's.
    InProcess(Identity),
    /// A client at the other end of a connection.
    Connected(Arc<ConnectedClient>),
}

/// The other end of a connection.
pub(super) struct ConnectedClient {
    /// Whom its certificate names.
    pub(super) identity: Identity,
    pub(super) seat: ConnectionSeat,
}

impl Caller {
    /// Who it is without a token.
    pub(super) fn identity(&self) -> &Identity {
        match self {
            Self::InProcess(identity) => identity,
            Self::Connected(client) => &client.identity,
        }
    }
}
