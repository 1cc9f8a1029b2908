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
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName};
use tokio::time::timeout;
use tokio_rustls::TlsConnector;

use crate::clock::Clock;
use crate::pki::{CertificateAuthority, IssuedCertificate, PkiError, RenewedCertificate};
use crate::pod_dialer::{PodConnection, PodDialer};
use crate::server_trust;
use crate::streams::{Slots, StreamSlot};

/// How long the connection and its handshake may take.
const CONNECT_WITHIN: Duration = Duration::from_secs(30);
/// Configurations of TLS that are kept, each with the sessions that it may resume.
const CONNECTORS_MAX: usize = 64;

/// Connects to other API servers. Cheap to clone.
#[derive(Clone, Default)]
pub(crate) struct ServerDialer {
    own: Option<Arc<RenewedCertificate<OwnCertificate>>>,
    connectors: Arc<Mutex<Connectors>>,
    /// The requests that are open. A server that is slow takes no place of other streams.
    slots: Slots,
}

/// What we show.
struct OwnCertificate {
    chain: Vec<CertificateDer<'static>>,
    key: PrivateKeyDer<'static>,
}

/// How servers are connected to, by what is trusted.
#[derive(Default)]
struct Connectors {
    /// What all of them show.
    own: Option<Arc<OwnCertificate>>,
    by_trust: BTreeMap<ServerTrust, TlsConnector>,
}

impl ServerDialer {
    /// Shows certificates of this authority to servers.
    pub(crate) fn new(authority: CertificateAuthority, clock: Clock) -> Result<Self, PkiError> {
        let own = RenewedCertificate::new(clock, move |now| {
            OwnCertificate::read(&authority.front_proxy_client(now)?)
        });
        Ok(Self { own: Some(Arc::new(own?)), ..Self::default() })
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
        let own = self.own.as_ref().map(|own| own.current());
        let mut known = self.connectors.lock().unwrap_or_else(PoisonError::into_inner);
        let is_same = match (&known.own, &own) {
            (Some(known), Some(own)) => Arc::ptr_eq(known, own),
            (known, own) => known.is_none() && own.is_none(),
        };
        if !is_same || known.by_trust.len() >= CONNECTORS_MAX {
            *known = Connectors { own: own.clone(), ..Connectors::default() };
        }
        if let Some(connector) = known.by_trust.get(trust) {
            return Ok(connector.clone());
        }
        let config = match trust {
            ServerTrust::Bundle(bundle) => server_trust::config_of_bundle(bundle)?,
            ServerTrust::Machine => server_trust::config_of_bundle(&[])?,
            ServerTrust::Anything => server_trust::config_of_anything()?,
        };
        let config = match own {
            Some(own) => config
                .with_client_auth_cert(own.chain.clone(), own.key.clone_key())
                .map_err(io::Error::other)?,
            None => config.with_no_client_auth(),
        };
        let connector = TlsConnector::from(Arc::new(config));
        known.by_trust.insert(trust.clone(), connector.clone());
        Ok(connector)
    }
}

impl OwnCertificate {
    fn read(issued: &IssuedCertificate) -> Result<Self, PkiError> {
        let failed =
            |source: rustls::pki_types::pem::Error| PkiError::Tls { source: source.into() };
        let chain = CertificateDer::pem_slice_iter(issued.certificate_pem.as_bytes());
        Ok(Self {
            chain: chain.collect::<Result<_, _>>().map_err(failed)?,
            key: PrivateKeyDer::from_pem_slice(issued.key_pem.as_bytes()).map_err(failed)?,
        })
    }
}
