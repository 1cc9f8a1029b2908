//! Connections to other API servers: over TLS, with what their APIService trusts, and with our own
//! certificate.

use std::collections::BTreeMap;
use std::io;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use rekindle_api::aggregated_request::{AggregatedServer, ServerTrust};
use rekindle_api::proxy_request::ProxyScheme;
use rekindle_api::status::ApiError;
use rustls::pki_types::ServerName;
use tokio::time::timeout;
use tokio_rustls::TlsConnector;

use crate::clock::Clock;
use crate::pki::{CertificateAuthority, PkiError};
use crate::pod_dialer::{PodConnection, PodDialer};
use crate::server_trust;
use crate::shown_certificate::ShownCertificate;
use crate::streams::{Slots, StreamSlot};

/// How long the connection and its handshake may take.
const CONNECT_WITHIN: Duration = Duration::from_secs(30);
/// Configurations of TLS that are kept, each with the sessions that it may resume.
const CONNECTORS_MAX: usize = 64;

/// Connects to other API servers. Cheap to clone.
#[derive(Clone, Default)]
pub(crate) struct ServerDialer {
    /// What we show.
    own: Option<Arc<ShownCertificate>>,
    connectors: Arc<Mutex<BTreeMap<ServerTrust, TlsConnector>>>,
    /// The requests that are open. A server that is slow takes no place of other streams.
    slots: Slots,
}

impl ServerDialer {
    /// Shows certificates of this authority to servers.
    pub(crate) fn new(authority: CertificateAuthority, clock: Clock) -> Result<Self, PkiError> {
        let own = ShownCertificate::new(clock, move |now| authority.front_proxy_client(now))?;
        Ok(Self { own: Some(Arc::new(own)), ..Self::default() })
    }

    /// The place of a request of this user.
    ///
    /// # Errors
    /// 429 when there is none.
    pub(crate) fn take_slot(&self, user: &str) -> Result<StreamSlot, ApiError> {
        self.slots.take(user)
    }

    /// A connection to a server.
    ///
    /// # Errors
    /// It cannot be reached, or is not trusted.
    pub(crate) async fn connect(
        &self,
        pods: &Arc<dyn PodDialer>,
        server: &AggregatedServer,
        address: SocketAddr,
    ) -> io::Result<Box<dyn PodConnection>> {
        let connector = self.connector(&server.trust)?;
        let name = ServerName::try_from(server.host.clone()).map_err(io::Error::other)?;
        let connect = async {
            let stream = pods.connect(address, ProxyScheme::Http).await?;
            connector.connect(name, stream).await
        };
        let stream = timeout(CONNECT_WITHIN, connect).await;
        let stream = stream.map_err(|_| io::Error::from(io::ErrorKind::TimedOut))?;
        let stream = stream.map_err(|error| {
            io::Error::new(error.kind(), format!("connect to {address}: {error}"))
        })?;
        Ok(Box::new(stream))
    }

    fn connector(&self, trust: &ServerTrust) -> io::Result<TlsConnector> {
        let mut known = self.connectors.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(connector) = known.get(trust) {
            return Ok(connector.clone());
        }
        let config = match trust {
            ServerTrust::Bundle(bundle) => server_trust::config_of_bundle(bundle)?,
            ServerTrust::Machine => server_trust::config_of_bundle(&[])?,
            ServerTrust::Anything => server_trust::config_of_anything()?,
        };
        let config = match &self.own {
            Some(own) => config.with_client_cert_resolver(own.clone()),
            None => config.with_no_client_auth(),
        };
        if known.len() >= CONNECTORS_MAX {
            known.clear();
        }
        let connector = TlsConnector::from(Arc::new(config));
        known.insert(trust.clone(), connector.clone());
        Ok(connector)
    }
}
